"""The events on the time axis of a plot, as signs with words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model import RULES_BY_NAME, Severity
from jaxtop.tui.core.ongoing import COMPILE, ongoing_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.style import Style

    from jaxtop.model.state import LoggedEvent
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

    Cells = list[tuple[str, Style]]

# The kinds of events that say that a problem has ended.
_ENDS = frozenset({"back", "goes on"})


class Mark(NamedTuple):
    """Something that happened: when, how bad it is, and a word for it."""

    at: float
    severity: Severity
    word: str


def ongoing_marks(moment: Moment) -> list[Mark]:
    """Return where the findings that last began."""
    return [
        Mark(each.finding.since, each.finding.severity, RULES_BY_NAME[each.finding.rule].title.lower())
        for each in moment.cluster.findings.ongoing.values()
        if each.is_reported
        and each.finding.severity is not Severity.INFO
        and each.finding.rule in RULES_BY_NAME
    ]


def compile_marks(moment: Moment) -> list[Mark]:
    """Return when functions were compiled."""
    compiled = (event for event in moment.cluster.events if event.kind == COMPILE)
    return [Mark(event.at, Severity.INFO, "compile") for event in compiled]


def all_marks(moment: Moment) -> tuple[Mark, ...]:
    """Return the marks of ongoing trouble, and of past trouble where it began and where it ended."""
    lasting = ongoing_events(moment)
    past = [
        Mark(event.at, Severity.of(event.severity), _word(event))
        for event in moment.cluster.events
        if event.kind in _ENDS or (event.severity != Severity.INFO and event not in lasting)
    ]
    return tuple(sorted([*ongoing_marks(moment), *compile_marks(moment), *past]))


def _word(event: LoggedEvent) -> str:
    title = event.text.partition(": ")[0]
    return title.lower() if event.kind == "finding" else event.kind


def put(cells: Cells, at: int, words: str, style: Style) -> None:
    """Write words over cells; what is outside of them is left out."""
    for i, letter in enumerate(words):
        if 0 <= at + i < len(cells):
            cells[at + i] = letter, style


def put_marks(
    cells: Cells, marks: Iterable[Mark], column: Callable[[float], int], ends: tuple[int, int], ink: Ink
) -> None:
    """Write marks between two columns, with their words where these cover no other."""
    free, last = ends
    for mark in marks:
        at = min(column(mark.at), last - 1)
        if at < free:
            continue
        rank, sign = mark.severity.rank, mark.severity.sign
        colour = ink.palette.severity_colour(rank) if rank else ink.palette.label
        word = sign + mark.word
        if rank and at + len(word) > last:
            at = max(free, last - len(word))
            word = mark.word + sign
        words = word if at + len(word) <= last else sign
        put(cells, at, words, ink.style(colour))
        free = at + len(words) + 1
