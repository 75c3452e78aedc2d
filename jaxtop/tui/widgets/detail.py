"""Widgets for text that are repainted only when the text or its styles change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget
from textual.widgets import Static

if TYPE_CHECKING:
    from collections.abc import Callable


def differs(text: Text, shown: Text) -> bool:
    return text.plain != shown.plain or text.spans != shown.spans or text.style != shown.style


class Words(Static):
    """A text whose height may change."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._text = Text()

    def read(self, text: Text) -> None:
        if differs(text, self._text):
            self._text = text
            self.update(text, layout=not isinstance(self, Line))


class Line(Words):
    """A text of one line."""


class Detail(Widget):
    """A text drawn for the size of the widget, and refreshed only when it changes."""

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._write: Callable[[int, int], Text] | None = None
        self._shown = Text()

    def show(self, write: Callable[[int, int], Text]) -> None:
        """Set the function that writes the text for a width and a height."""
        self._write = write
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._write is None or not self.display or not self.content_size.width:
            return
        text = self._write(*self.content_size)
        if differs(text, self._shown):
            self._shown = text
            self.refresh()

    def render(self) -> Text:
        return self._shown
