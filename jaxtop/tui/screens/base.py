"""What every screen is."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container
from textual.message import Message

from jaxtop.tui.moment import EMPTY, NOTHING, Moment, Selection

if TYPE_CHECKING:
    from textual.widget import Widget


class View(Container):
    """One screen: draws a moment, and knows what is selected in it.

    The app calls `show` at most four times a second, and `select` when another screen selected something.
    """

    KEY: ClassVar[str]
    TITLE: ClassVar[str]

    moment: Moment = EMPTY
    selection: Selection = NOTHING
    # The name of the figure that the person looks at here, if it is one: a plot begins with it.
    figure: str | None = None

    class Selected(Message):
        """The person selected something; other screens will follow."""

        def __init__(self, selection: Selection) -> None:
            super().__init__()
            self.selection = selection

    class Drilled(Message):
        """The person wants to see more of the selection: on the screen with this key."""

        def __init__(self, selection: Selection, key: str) -> None:
            super().__init__()
            self.selection = selection
            self.key = key

    def show(self, moment: Moment) -> None:
        """Draw this moment."""
        self.moment = moment

    def select(self, selection: Selection) -> None:
        """Move to what was selected elsewhere."""
        self.selection = selection

    def look_at(self, figure: str) -> None:
        """Begin with the figure that was looked at elsewhere."""

    @property
    def first_focus(self) -> Widget:
        """The widget that takes the keys when the screen opens."""
        raise NotImplementedError
