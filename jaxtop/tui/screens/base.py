"""The base class of all screens."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container
from textual.message import Message

from jaxtop.tui.draw.ink import Ink, ink_of
from jaxtop.tui.moment import EMPTY, NOTHING, Moment, Selection
from jaxtop.tui.palette import Palette, palette_of

if TYPE_CHECKING:
    from textual.widget import Widget


class View(Container):
    """One screen. It draws a moment and holds the selection.

    The app calls `show` at most four times a second, and `select` when the selection changed elsewhere.
    """

    KEY: ClassVar[str]
    TITLE: ClassVar[str]

    moment: Moment = EMPTY
    selection: Selection = NOTHING
    # The name of the figure that this screen focuses on, if any. The plot starts with it.
    figure: str | None = None

    class Selected(Message):
        """Posted when the user selects something. Other screens follow."""

        def __init__(self, selection: Selection) -> None:
            super().__init__()
            self.selection = selection

    class Drilled(Message):
        """Posted when the user opens the selection on the screen with this key."""

        def __init__(self, selection: Selection, key: str) -> None:
            super().__init__()
            self.selection = selection
            self.key = key

    @property
    def palette(self) -> Palette:
        """The colours of the theme in use."""
        return palette_of(self.app.theme)

    @property
    def ink(self) -> Ink:
        """The glyphs and styles of the theme in use."""
        return ink_of(self.palette, plain=self.app.no_color)

    def show(self, moment: Moment) -> None:
        """Draw a moment."""
        self.moment = moment

    def select(self, selection: Selection) -> None:
        """Move to the selection made on another screen."""
        self.selection = selection

    def look_at(self, figure: str) -> None:
        """Start with the figure that another screen focused on."""

    @property
    def first_focus(self) -> Widget:
        """The widget that has the focus when the screen opens."""
        raise NotImplementedError
