"""The events screen: all events, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from textual.widgets import Static

from jaxtop.tui import text
from jaxtop.tui.draw.table import Column, fit, muted, words
from jaxtop.tui.draw.table_lines import lay_out
from jaxtop.tui.moment import EMPTY, Moment, Selection, name_of
from jaxtop.tui.screens.base import View
from jaxtop.tui.screens.tables import TableView
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from jaxtop.model import Host
    from jaxtop.model.state import LoggedEvent
    from jaxtop.tui.palette import Palette

# Kinds that have another name on screen. JSON keeps the old ones.
_KINDS = {"goes on": "resumed", "back": "live again"}
_SIGNS = {"info": " ·", "warning": " !", "critical": "!!"}


class EventRow(NamedTuple):
    """An event with its host and the name of its run."""

    event: LoggedEvent
    host: Host | None
    run: str | None

    @property
    def key(self) -> tuple[object, ...]:
        """All fields of the event, because events have no id."""
        return tuple(self.event)

    @property
    def who(self) -> str:
        return text.NA if self.host is None else name_of(self.host)

    @property
    def words(self) -> str:
        # Events from before the process index was known start with the hostname alone.
        for name in (self.host.label, self.host.hostname) if self.host else ():
            for end in (": ", " "):
                if name and self.event.text.startswith(name + end):
                    return self.event.text[len(name + end) :]
        return self.event.text


def _row(event: LoggedEvent, moment: Moment) -> EventRow:
    host = moment.cluster.hosts.get(event.agent)
    return EventRow(event, host, None if host is None else moment.run_names.get(moment.run_of(host)))


def _none(moment: Moment) -> str:
    """Return since when there are no events. Those from before a live view began are not listed."""
    if moment.since is None:
        return "no events yet"
    return f"no events since {text.time_of_day(moment.since)}, when this view began"


def _clock(row: EventRow) -> str:
    return text.time_of_day(row.event.at)


def _rank(row: EventRow) -> int:
    return row.event.rank


def _severity(row: EventRow) -> str:
    return f"{_SIGNS.get(row.event.severity, ' ·')} {row.event.severity}"


def _severity_colour(row: EventRow, palette: Palette) -> str:
    return (palette.muted, palette.warning, palette.bad)[_rank(row)]


def _text_colour(row: EventRow, palette: Palette) -> str | None:
    return palette.bad if row.event.severity == "critical" else None


def columns_for(moment: Moment, width: int) -> tuple[Column[EventRow], ...]:
    """Return the columns, with the run of each event if there are several runs.

    In a width that does not fit all, the text comes before the less important columns.
    """
    first: tuple[Column[EventRow], ...] = (
        Column("time", "time", 8, "left", lambda row: row.event.at, _clock, muted, largest_first=True),
        Column("severity", "severity", 11, "left", _rank, _severity, _severity_colour, largest_first=True),
    )
    kind: Column[EventRow] = words("kind", "kind", 11, lambda row: _KINDS.get(row.event.kind, row.event.kind))
    hosts: tuple[Column[EventRow], ...] = (
        *((words("run", "run", 12, lambda row: row.run),) if len(moment.runs) > 1 else ()),
        words("host", "host", 12, lambda row: row.who),
    )
    happened = words("text", "what happened", 20, lambda row: row.words, _text_colour, flexible=True)
    whole = (*first, kind, *hosts, happened)
    return (*first, happened, *hosts, kind) if lay_out(whole, width).after else whole


class EventsView(TableView):
    """One line per event. New events appear at the top; a cursor further down stays on its event."""

    DEFAULT_CSS = """
    EventsView #whole { display: none; height: 3; padding: 0 2; background: $surface; }
    EventsView.cut #whole { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._whole = Static(id="whole", markup=False)
        self.table: Table[EventRow] = Table(
            columns_for(EMPTY, 0), lambda row: row.key, noun="event", pinned=2, sort="time", follows_top=True
        )

    def compose(self) -> ComposeResult:
        yield FilteredTable(self.table)
        yield self._whole

    def show(self, moment: Moment) -> None:
        super().show(moment)
        self._fit_columns()
        rows = [_row(event, moment) for event in reversed(moment.cluster.events)]
        self.table.update_rows(rows, f"{_none(moment)}: starts, ends and problems appear here")
        self._draw()

    def on_resize(self, _event: events.Resize) -> None:
        self._fit_columns()

    def _fit_columns(self) -> None:
        moment, width = self.moment, self.table.size.width or self.size.width
        self._update_columns(lambda: columns_for(moment, width), len(moment.runs) > 1, width)

    def _draw(self) -> None:
        """Show the full text of the event under the cursor below, if its line does not show all of it."""
        width, has_host = self.table.width_of("text"), self.table.width_of("host") > 0
        is_cut = not has_host or any(len(row.words) > width for row in self.table.shown)
        self.set_class(bool(self.table.shown) and is_cut, "cut")
        row = self.table.row
        words = "" if row is None else row.words if has_host else row.event.text
        self._whole.update(fit(words, len(words)))

    def select(self, selection: Selection) -> None:
        super().select(selection)
        row = self.table.row
        if row is None or row.event.agent != selection.agent:
            events = reversed(self.moment.cluster.events)
            self.table.select(next((tuple(each) for each in events if each.agent == selection.agent), None))

    def _moved(self, row: Any) -> None:
        agent = row.event.agent
        if agent != self.selection.agent:
            self.selection = Selection(agent)
        self.post_message(View.Selected(self.selection))
        self._draw()

    def _chosen(self, row: Any) -> None:
        self.post_message(View.Drilled(Selection(row.event.agent), "hosts"))
