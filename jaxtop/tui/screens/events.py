"""The events screen: all events, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.widgets import Static

from jaxtop.model.programs.compiles import latest_compiles
from jaxtop.tui.columns.events import EventRow, columns_for, rows
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import EMPTY, Moment, Selection
from jaxtop.tui.draw.table import fit
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.screens.tables import TablePane
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Hashable

    from textual import events
    from textual.app import ComposeResult


def _none(moment: Moment) -> str:
    """Return since when there are no events. Those from before a live view began are not listed.

    Agents keep their last compilations, so the Overview and Programs also list earlier ones.
    """
    if moment.since is None:
        return "no events yet: starts, ends and problems appear here"
    since = f"no events since {text.time_of_day(moment.since)}, when this view began"
    earlier = bool(latest_compiles(moment.cluster, moment.now))
    return f"{since}: " + (
        "earlier compilations are on Programs (7)" if earlier else "starts, ends and problems appear here"
    )


class EventsScreen(TablePane[Table[EventRow]]):
    """One line per event. New events appear at the top; a cursor further down stays on its event."""

    DEFAULT_CSS = """
    EventsScreen #whole { display: none; height: 3; padding: 0 2; background: $surface; }
    EventsScreen.cut #whole { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(
            Table(
                columns_for(EMPTY, 0),
                lambda row: row.key,
                noun="event",
                pinned=2,
                sort="time",
                follows_top=True,
            )
        )
        self._whole = Static(id="whole", markup=False)
        # The keys of the folded rows that the user opened.
        self._unfolded: set[Hashable] = set()

    def compose(self) -> ComposeResult:
        yield FilteredTable(self.table)
        yield self._whole

    def _prepare(self, moment: Moment) -> None:
        self._fit_columns()
        listed = rows(moment, unfolded=self._unfolded, folds=not self.table.words)
        self.table.update_rows(listed, _none(moment))

    def on_resize(self, _event: events.Resize) -> None:
        self._fit_columns()

    def _fit_columns(self) -> None:
        width = self.table.size.width or self.size.width
        self.table.update_columns(columns_for(self.moment, width))

    def _draw(self) -> None:
        """Show the full text of the event under the cursor below, if its line does not show all of it."""
        width, has_host = self.table.width_of("text"), self.table.width_of("host") > 0
        is_cut = not has_host or any(len(row.words) > width for row in self.table.shown)
        self.set_class(bool(self.table.shown) and is_cut, "cut")
        row = self.table.row
        words = "" if row is None else row.words if has_host or row.folded else row.event.text
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
        self.post_message(ScreenPane.Selected(self.selection))
        self._redraw()

    def _chosen(self, row: Any) -> None:
        if row.folded:
            self._unfolded.add(row.key)
            self.show(self.moment)
            return
        self.post_message(ScreenPane.Drilled(Selection(row.event.agent), "hosts"))
