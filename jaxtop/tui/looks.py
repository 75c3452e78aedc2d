"""The user's own look of the app: theme, colours, keys, and the columns of the screens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import events
from textual.app import SystemCommand
from textual.binding import BindingsMap
from textual.keys import format_key, key_to_character
from textual.widgets import Input

from jaxtop.tui.core.look import AS_DECLARED, SCREENS, Look
from jaxtop.tui.core.palette import DARK, PALETTES, add_own
from jaxtop.tui.dialogs.columns import ColumnPicker
from jaxtop.tui.runs import RunApp
from jaxtop.tui.screens.tables import TableView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.binding import Binding

    from jaxtop.tui.ingest import Feed
    from jaxtop.tui.screens.base import View


class LookApp(RunApp):
    """An app with the look that the user chose; it can save what was changed."""

    # The name of the open screen.
    _open: str

    def __init__(
        self, feed: Feed | None, clock: Callable[[], float], *, look: Look = AS_DECLARED, **parts: Any
    ) -> None:
        super().__init__(feed, clock, **parts)
        self._look = look
        self._columns = dict(look.columns)
        self._own_keys = {_full_name(own): _full_name(key) for own, key in look.keys.items()}
        theme = f"jaxtop-{look.theme}" if look.theme else DARK.theme.name
        if look.colours:
            theme = add_own(theme, look.colours)
        for palette in PALETTES.values():
            self.register_theme(palette.theme)
        self.theme = theme

    @property
    def _view(self) -> View:
        """The open screen."""
        raise NotImplementedError

    def _dress(self, name: str, view: View) -> None:
        """Give a new screen the columns that the user chose."""
        if isinstance(view, TableView) and name in self._columns:
            view.table.choose_columns(self._columns[name])

    async def on_event(self, event: events.Event) -> None:
        """Take the keys of the user's settings for those that they stand for, except in typed text."""
        if isinstance(event, (events.InputEvent, events.Paste)) and not self.screen_stack:  # the app ends
            return
        if isinstance(event, events.Key) and not event.is_forwarded and not isinstance(self.focused, Input):
            key = self._own_keys.get(event.key)
            if key == "":
                return
            if key is not None:
                event = events.Key(key, key_to_character(key))
        await super().on_event(event)

    def get_key_display(self, binding: Binding) -> str:
        """Show the user's own key where there is one."""
        own = next((own for own, key in self._own_keys.items() if key == binding.key), None)
        return super().get_key_display(binding) if own is None else format_key(own)

    def action_theme(self) -> None:
        names = list(PALETTES)
        self.theme = names[(names.index(self.theme) + 1) % len(names)] if self.theme in names else names[0]
        self.notify(self.theme.removeprefix("jaxtop-").replace("-", " "), title="Theme", timeout=2)
        self._view.show(self.moment)
        self._paint()

    def _look_commands(self) -> Iterable[SystemCommand]:
        """Yield what the palette offers: to choose columns, and to save the look."""
        view = self._view
        if isinstance(view, TableView) and self._open in SCREENS:
            yield SystemCommand("Columns of this screen", "choose which are shown", self._choose_columns)
        if self._look.save is not None:
            yield SystemCommand("Save theme and columns", "for the next time", self._save_look)

    def _choose_columns(self) -> None:
        name, view = self._open, self._view
        assert isinstance(view, TableView)

        def chose(keys: tuple[str, ...] | None) -> None:
            self._columns[name] = keys or ()
            view.table.choose_columns(self._columns[name])

        self.push_screen(ColumnPicker(view.table), chose)

    def _save_look(self) -> None:
        if self._look.save is not None:
            columns = {name: keys for name, keys in self._columns.items() if keys}
            self.notify(self._look.save(self.theme.removeprefix("jaxtop-"), columns), title="Look")


def _full_name(key: str) -> str:
    """Return the name that Textual has for a key: `question_mark` for `?`."""
    return next(iter(BindingsMap([(key, "", "")]).key_to_bindings)) if key else ""
