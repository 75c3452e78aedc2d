"""The base class of all screens: it draws a moment and holds the selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from textual.containers import Container
from textual.message import Message

from jaxtop.tui.core.moment import EMPTY, NO_SELECTION, Moment, Selection
from jaxtop.tui.core.palette import Palette, palette_of
from jaxtop.tui.draw.ink import Ink, ink_of
from jaxtop.tui.widgets.filter import FilteredTable

if TYPE_CHECKING:
    from collections.abc import Hashable
    from collections.abc import Set as AbstractSet

    from textual import events
    from textual.widget import Widget

    from jaxtop.model import Finding
    from jaxtop.model.finding import FindingKey


class ScreenPane(Container):
    """One screen. It draws a moment and holds the selection.

    The app calls `show` at most four times a second, and `select` when the selection changed elsewhere.
    A screen overrides `_prepare` and `_draw`.
    """

    moment: Moment = EMPTY
    selection: Selection = NO_SELECTION
    # The name of the figure that this screen focuses on, if any. The plot starts with it.
    figure: str | None = None
    # The keys of the findings that the user muted: the app has one set, which all screens read.
    muted: AbstractSet[FindingKey] = frozenset()
    # The names of all screens, those of features too, which this one can lead to.
    screen_names: frozenset[str] = frozenset()

    @dataclass
    class Selected(Message):
        """Posted when the user selects something. Other screens follow."""

        selection: Selection

    @dataclass
    class Drilled(Message):
        """Posted when the user opens the selection on the screen of this name, with this filter.

        `row` is the key or the name of the row to select, where the selection does not name it. `finding` is
        the one that it proves.
        """

        selection: Selection
        screen: str
        filter: str = ""
        row: Hashable = ""
        finding: Finding | None = None

    @dataclass
    class Requested(Message):
        """Posted when the user requests something of one of these agents."""

        kind: Literal["peaks"]
        agents: tuple[str, ...]

    @dataclass
    class Muted(Message):
        """Posted when the user mutes a finding: no screen shows it any more."""

        finding: Finding

    @property
    def palette(self) -> Palette:
        return palette_of(self.app.theme)

    @property
    def ink(self) -> Ink:
        return ink_of(self.palette, plain=self.app.no_color)

    def on_mount(self) -> None:
        self.watch(self.app, "theme", self._redraw, init=False)

    def on_resize(self, _event: events.Resize) -> None:
        self.call_after_refresh(self._redraw)

    def show(self, moment: Moment) -> None:
        self.moment = moment
        self._prepare(moment)
        self._redraw()

    def _redraw(self) -> None:
        if self.is_mounted and self.is_attached and self.size.width:  # else a resize event follows
            self._draw()

    def _prepare(self, moment: Moment) -> None:
        """Take from a moment what does not depend on the size or the theme, such as rows and columns."""

    def _draw(self) -> None:
        """Draw what depends on the size or the theme."""

    def select(self, selection: Selection) -> None:
        self.selection = selection

    def filter_by(self, words: str) -> None:
        """Set the filter of the table, if this screen has one."""
        for filtered in self.query(FilteredTable):
            if filtered.table.words != words:
                filtered.set(words)

    def point_at(self, row: Hashable) -> None:
        """Put the cursor on the row that a finding or the palette names, if this screen has it."""

    def reveal(self, column: str) -> None:
        """Scroll the column with the figure of a finding into view, if this screen has it."""
        for filtered in self.query(FilteredTable):
            filtered.table.reveal(column)

    def start_with(self, figure: str) -> None:
        """Start with the figure that another screen focused on."""

    def count(self, tally: str) -> None:
        """Show how often each line of the main threads was seen, if this screen shows stacks."""

    @property
    def first_focus(self) -> Widget:
        """The widget that has the focus when the screen opens."""
        raise NotImplementedError
