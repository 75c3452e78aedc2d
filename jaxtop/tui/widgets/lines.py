from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.scroll_view import ScrollView

from jaxtop.tui.core.palette import Palette, palette_of

if TYPE_CHECKING:
    from textual.strip import Strip


class LineView(ScrollView):
    """A view that draws its visible lines only and refreshes those that changed.

    The first line is a header: it stays in place when the others scroll.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Strip] = []

    def draw_line(self, y: int, palette: Palette) -> Strip:
        raise NotImplementedError

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _page(self) -> int:
        return max(1, self._height - 1)

    @property
    def _palette(self) -> Palette:
        return palette_of(self.app.theme)

    def _is_visible(self, index: int) -> bool:
        return 0 <= index - self.scroll_offset.y < self._page

    def _scroll(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, force=True, immediate=True)

    def _scroll_to_line(self, index: int, count: int) -> None:
        top = self.scroll_offset.y
        wanted = max(index - self._page + 1, min(top, index))
        wanted = min(wanted, max(0, count - self._page))
        if wanted != top:
            self._scroll(wanted)

    def _repaint(self) -> None:
        if not self.is_attached:
            return
        before, palette = self._lines, self._palette
        self._lines = [self.draw_line(y, palette) for y in range(self._height)]
        for y, strip in enumerate(self._lines):
            if y >= len(before) or strip != before[y]:
                self.refresh(Region(0, y, self._width, 1))

    def render_line(self, y: int) -> Strip:
        return self._lines[y] if y < len(self._lines) else self.draw_line(y, self._palette)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self._repaint()

    def watch_has_focus(self, value: bool) -> None:
        super().watch_has_focus(value)
        self._repaint()

    def notify_style_update(self) -> None:
        """Discard the drawn lines: their colours belong to the old theme."""
        super().notify_style_update()
        self._lines = []
