"""The dialog that asks for a time to go to."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from jaxtop.base import times

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType


class GoTo(ModalScreen[float | None]):
    """A dialog that returns the time to go to, or None if it was cancelled."""

    DEFAULT_CSS = """
    GoTo { align: center bottom; background: transparent; }
    GoTo #go-to { width: 64; max-width: 96%; height: auto; margin-bottom: 4; padding: 0 1;
                  background: $surface; border: round $primary; }
    GoTo Input, GoTo Input:focus { background: $surface; padding: 0; }
    GoTo #wrong { height: auto; color: $foreground-muted; }
    GoTo #wrong.wrong { color: $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss", "Leave")]

    def __init__(self, span: tuple[float, float]) -> None:
        super().__init__()
        self._span = span
        self._hint = Static(f"from {times.in_words(*span)}", id="wrong", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(id="go-to") as box:
            box.border_title = "Go to a time"
            yield Input(placeholder=times.FORMS, compact=True)
            yield self._hint

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        if not self.is_current:
            return  # a second Enter arrived before the dialog was removed
        if not message.value.strip():
            self.dismiss(None)
            return
        try:
            self.dismiss(times.parse(message.value, *self._span))
        except ValueError as error:
            self._hint.update(str(error))
            self._hint.add_class("wrong")

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.dismiss(None)
