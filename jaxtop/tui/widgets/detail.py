"""Widgets for text that are repainted only when the text or its styles change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.style import Style


def differs(text: Text, shown: Text) -> bool:
    return text.plain != shown.plain or text.spans != shown.spans or text.style != shown.style


class Words(Static):
    """A text whose height may change."""

    changes_height = True

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._text = Text()

    def set_text(self, text: Text) -> None:
        if differs(text, self._text):
            self._text = text
            self.update(text, layout=self.changes_height)


class Line(Words):
    """A text of one line."""

    changes_height = False


class Detail(Widget):
    """A text drawn for the size of the widget, of which only the lines that changed are drawn again."""

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._write: Callable[[int, int], Text | list[Text]] | None = None
        self._lines: list[Text] = []
        self._strips: dict[int, Strip] = {}
        self._style: Style | None = None

    def show(self, write: Callable[[int, int], Text | list[Text]]) -> None:
        """Set the function that writes the text for a width and a height, or its lines, which are cut."""
        self._write = write
        self._draw()

    def on_resize(self) -> None:
        self._strips.clear()
        self._draw()

    def _draw(self) -> None:
        if self._write is None or not self.display or not self.content_size.width:
            return
        width, height = self.content_size
        before, self._lines = self._lines, self._wrapped(self._write(width, height), width)
        for y in range(max(len(before), len(self._lines))):
            if y >= len(before) or y >= len(self._lines) or differs(self._lines[y], before[y]):
                self._strips.pop(y, None)
                self.refresh(Region(0, y, width, 1))

    def _wrapped(self, text: Text | list[Text], width: int) -> list[Text]:
        if isinstance(text, list):
            return text
        lines = text.split(allow_blank=True)
        if text.no_wrap:
            return list(lines)
        rows: list[Text] = []
        for line in lines:
            rows.extend([line] if line.cell_len <= width else line.wrap(self.app.console, width))
        return rows

    def render(self) -> Text:
        return Text("\n").join(self._lines)

    def render_line(self, y: int) -> Strip:
        if self._style is None:  # Textual derives it anew each time
            self._style = self.rich_style
        if y >= len(self._lines):
            return Strip.blank(self.content_size.width, self._style)
        strip = self._strips.get(y)
        if strip is None:
            line = Text.assemble(self._lines[y])  # `render` ignores the style of a whole line
            drawn = Strip(line.render(self.app.console)).apply_style(self._style)
            strip = drawn.adjust_cell_length(self.content_size.width, self._style)
            self._strips[y] = strip
        return strip

    def notify_style_update(self) -> None:
        """Discard the drawn lines: their colours belong to the old theme."""
        super().notify_style_update()
        self._strips.clear()
        self._style = None
