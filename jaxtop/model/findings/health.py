"""The health of all runs in one sentence: the first thing that a person reads of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import units
from jaxtop.model.finding import Severity
from jaxtop.model.findings.coverage import HEALTHY, coverage_of
from jaxtop.model.naming.sentences import counted, host_names
from jaxtop.model.stalls.case import LOST
from jaxtop.model.wall_time.step_parts import too_little_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jaxtop.model.finding import Finding, FindingKey
    from jaxtop.model.liveness import HostView
    from jaxtop.model.state import ClusterState

# The verdict on a live run is provisional for this many seconds.
SETTLES_IN = 10.0


class Health(NamedTuple):
    """The sentence, and the role of its colour: good, muted while nothing can be said, warning or bad."""

    sentence: str
    role: str


def health_of(
    state: ClusterState,
    views: Sequence[HostView],
    findings: Sequence[Finding],
    *,
    now: float,
    since: float | None = None,
    muted: Collection[FindingKey] = (),
) -> Health:
    """Return the health of the runs; `since` is when the view of a live run began."""
    checked = coverage_of(state)
    why = " (i: why)" * bool(checked.unchecked)
    serious = [each for each in findings if each.severity is not Severity.INFO]
    shown = [each for each in serious if each.key not in muted]
    if not views:
        return Health("waiting for a run", "muted")
    if shown:
        critical = sum(each.severity is Severity.CRITICAL for each in shown)
        count = f"{len(shown)} finding{'s' * (len(shown) > 1)}"
        count += f", {critical} critical" if critical else ""
        cost = max((each.cost.share_of_step or 0.0 for each in shown), default=0.0)
        costs = f" · {units.share(cost)} of each step is lost" if cost else ""
        return Health(f"{count}{costs} · {checked.in_short}", "bad" if critical else "warning")
    if not any(view.current.pulse_at for view in views):
        return Health("connecting: no process has reported yet", "muted")
    lost = [view for view in views if view.state in LOST]
    if lost:
        return Health(f"{host_names([view.host for view in lost])} {lost[0].state.value}", "bad")
    facts = [f"{len(serious)} finding{'s' * (len(serious) > 1)} muted"] if serious else []
    if doubt := _too_early(views, now, since):
        words = [f"nothing wrong so far, {doubt}", checked.in_short + why, *facts]
        return Health(" · ".join(words), "muted")
    sentence = checked.after(HEALTHY, " · ", too_little_of(state, now))
    role = "good" if sentence.startswith(HEALTHY) else "muted"
    return Health(" · ".join([sentence[0].upper() + sentence[1:] + why, *facts]), role)


def _too_early(views: Sequence[HostView], now: float, since: float | None) -> str:
    """Return why a verdict is provisional; empty if it is not."""
    compiling = sum(bool(view.current.pulse.compiling) for view in views)
    if 2 * compiling > len(views):
        return f"{compiling} of {counted(len(views), [view.host for view in views])} compile"
    return "still measuring" if since is not None and now - since < SETTLES_IN else ""
