"""Rows of the log: what is still going on, runs of compilations as one row, and the columns."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import units
from jaxtop.model.naming.sentences import counted
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import name_of
from jaxtop.tui.core.ongoing import COMPILE, ongoing_events
from jaxtop.tui.draw.table import Column, muted, words_column
from jaxtop.tui.draw.table_lines import lay_out

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from jaxtop.model import Host
    from jaxtop.model.state import LoggedEvent
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette

# Kinds that have another name on screen. JSON keeps the old ones.
_KINDS = {"goes on": "resumed", "back": "live again"}
ONGOING = "(ongoing) "
# More compilations than this in a row are one row.
MAX_COMPILES = 3


class EventRow(NamedTuple):
    """An event with its host and the name of its run, or several compilations; `event` is the newest."""

    event: LoggedEvent
    host: Host | None
    run: str | None
    is_ongoing: bool = False
    # The compilations of a folded row, the newest first.
    folded: Sequence[LoggedEvent] = ()

    @property
    def key(self) -> Hashable:
        """All fields of the event, because events have no id; of a folded row, those of the oldest."""
        return (COMPILE, tuple(self.folded[-1])) if self.folded else tuple(self.event)

    @property
    def culprit(self) -> str:
        agents = {each.agent for each in self.folded}
        if len(agents) > 1:
            return counted(len(agents), [self.host] if self.host else [])
        return units.NA if self.host is None else name_of(self.host)

    @property
    def words(self) -> str:
        if self.folded:
            seconds = self.folded[0].at - self.folded[-1].at
            return f"{len(self.folded)} compilations in {units.age(seconds)}: ⏎ lists them"
        return (ONGOING if self.is_ongoing else "") + self._happened

    @property
    def _happened(self) -> str:
        # Events from before the process index was known start with the hostname alone.
        for name in (*self.host.labels.values(), self.host.hostname) if self.host else ():
            for end in (": ", " "):
                if name and self.event.text.startswith(name + end):
                    return self.event.text[len(name + end) :]
        return self.event.text


def rows(moment: Moment, *, unfolded: Collection[Hashable] = (), folds: bool = True) -> list[EventRow]:
    """Return the rows of the log, the newest first; runs of compilations are folded unless listed."""
    ongoing = ongoing_events(moment)
    found: list[EventRow] = []
    for is_compile, group in groupby(reversed(moment.cluster.events), lambda event: event.kind == COMPILE):
        events = list(group)
        if folds and is_compile and len(events) > MAX_COMPILES:
            folded = _row(events[0], moment)._replace(folded=events)
            if folded.key not in unfolded:
                found.append(folded)
                continue
        found += [_row(event, moment, is_ongoing=event in ongoing) for event in events]
    return found


def _row(event: LoggedEvent, moment: Moment, *, is_ongoing: bool = False) -> EventRow:
    host = moment.cluster.hosts.get(event.agent)
    run = None if host is None else moment.run_names.get(moment.run_of(host))
    return EventRow(event, host, run, is_ongoing)


def _clock(row: EventRow) -> str:
    return text.time_of_day(row.event.at)


def _rank(row: EventRow) -> int:
    return row.event.rank


def _severity(row: EventRow) -> str:
    return f"{row.event.sign} {row.event.severity}"


def _text_colour(row: EventRow, palette: Palette) -> str | None:
    return palette.bad if row.event.severity == "critical" else None


def columns_for(moment: Moment, width: int) -> tuple[Column[EventRow], ...]:
    """Return the columns, with the run of each event if there are several runs.

    In a width that does not fit all, the text comes before the less important columns.
    """
    first: tuple[Column[EventRow], ...] = (
        Column("time", "time", 8, "left", lambda row: row.event.at, _clock, muted, largest_first=True),
        Column(
            "severity",
            "severity",
            11,
            "left",
            _rank,
            _severity,
            lambda row, palette: palette.severity_colour(row.event.rank),
            largest_first=True,
        ),
    )
    kind: Column[EventRow] = words_column(
        "kind", "kind", 11, lambda row: _KINDS.get(row.event.kind, row.event.kind)
    )
    hosts: tuple[Column[EventRow], ...] = (
        *((words_column("run", "run", 12, lambda row: row.run),) if len(moment.runs) > 1 else ()),
        words_column("host", "about", 12, lambda row: row.culprit),
    )
    happened = words_column("text", "what happened", 20, lambda row: row.words, _text_colour, flexible=True)
    whole = (*first, kind, *hosts, happened)
    return (*first, happened, *hosts, kind) if lay_out(whole, width).after else whole
