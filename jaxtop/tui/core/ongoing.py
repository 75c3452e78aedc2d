"""The events whose subject still lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model import RULES_BY_NAME, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.finding import FindingKey
    from jaxtop.model.state import LoggedEvent
    from jaxtop.tui.core.moment import Moment

# The kind of the events of compilations.
COMPILE = "compile"


def ongoing_events(moment: Moment) -> set[LoggedEvent]:
    """Return the newest event of each finding, straggler, stall and state that still lasts."""
    causes = list(_causes(moment))
    if not causes:
        return set()
    found = set()
    for event in reversed(moment.cluster.events):
        if event.severity == Severity.INFO:
            continue
        for cause in causes:
            if (event.kind, event.agent, event.key) == cause:
                found.add(event)
                causes.remove(cause)
                break
        if not causes:
            break
    return found


def _causes(moment: Moment) -> Iterator[tuple[str, str, FindingKey | None]]:
    """Yield the kind and the agent of the events of what goes on now, and the key if it is a finding."""
    for key, each in moment.cluster.findings.ongoing.items():
        rule = RULES_BY_NAME.get(each.finding.rule)
        if each.is_reported and rule is not None and rule.makes_event(each.finding):
            yield "finding", each.finding.subject.agent, key
    for agent in moment.late:  # one of a collective has events of its own
        yield "straggler", agent, None
    for stall in moment.cluster.stalls.values():
        if stall.reported is not None:
            yield "stalled", stall.reported.about, None
    for agent, state in moment.states.items():
        if state.is_silent and not state.has_exited:
            yield state.value, agent, None
