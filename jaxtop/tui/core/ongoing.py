"""Which events tell of something that still lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model import RULES_BY_NAME, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

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
            kind, agent, start = cause
            if (event.kind, event.agent) == (kind, agent) and event.text.startswith(start):
                found.add(event)
                causes.remove(cause)
                break
        if not causes:
            break
    return found


def _causes(moment: Moment) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the agent and the start of the text of the events of what goes on now."""
    for each in moment.cluster.findings.ongoing.values():
        rule = RULES_BY_NAME.get(each.finding.rule)
        if each.is_reported and rule is not None and rule.makes_event(each.finding):
            yield "finding", each.finding.subject.agent, f"{rule.title}: "
    for agent in moment.late:  # one of a collective has events of its own
        yield "straggler", agent, ""
    for stall in moment.cluster.stalls.values():
        if stall.reported is not None:
            yield "stalled", stall.reported.about, ""
    for agent, state in moment.states.items():
        if state.is_silent and not state.has_exited:
            yield state.value, agent, ""
