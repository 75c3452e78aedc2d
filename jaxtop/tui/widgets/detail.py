"""The detail of the selected device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from jaxtop.tui.renderables.detail import Subject, detail
from jaxtop.tui.renderables.legend import printable

if TYPE_CHECKING:
    from jaxtop.tui.renderables.ink import Ink


class Detail(Widget):
    """Repainted only if it reads differently."""

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._subject: Subject | None = None
        self._ink: Ink | None = None
        self._nobody = ""
        self._shown = Text()

    def show(self, subject: Subject | None, ink: Ink, nobody: str) -> None:
        """Tell of this device; or say so, where there is none."""
        self._subject, self._ink, self._nobody = subject, ink, nobody
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        if self._ink is None:
            return
        width, height = self.content_size
        text = (
            printable(Text(self._nobody, self._ink.muted))
            if self._subject is None
            else detail(self._subject, self._ink, width, height)
        )
        if text.plain != self._shown.plain or text.spans != self._shown.spans:
            self._shown = text
            self.refresh()

    def render(self) -> Text:
        return self._shown
