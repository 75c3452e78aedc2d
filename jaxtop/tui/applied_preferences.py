"""The user's preferences in the running app: theme, colours, keys, and the columns of the screens."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from textual import events
from textual.app import SystemCommand
from textual.binding import BindingsMap
from textual.keys import format_key, key_to_character

from jaxtop.tui.core.palette import DARK, PALETTES, add_own
from jaxtop.tui.core.preferences import WITH_COLUMNS
from jaxtop.tui.dialogs.columns import ColumnPicker
from jaxtop.tui.screens.tables import TablePane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from textual.app import App

    from jaxtop.tui.core.preferences import Preferences
    from jaxtop.tui.screens.base import ScreenPane
    from jaxtop.tui.widgets.table import Table


class AppliedPreferences:
    """The part of the app that applies the user's preferences, and can save what was changed."""

    def __init__(self, app: App[str], preferences: Preferences) -> None:
        """Give the app its theme."""
        self._app, self._preferences = app, preferences
        self._columns = dict(preferences.columns)
        self._own_keys = {_full_name(own): _full_name(key) for own, key in preferences.keys.items()}
        theme = f"jaxtop-{preferences.theme}" if preferences.theme else DARK.theme.name
        if preferences.colours:
            theme = add_own(theme, preferences.colours)
        for palette in PALETTES.values():
            app.register_theme(palette.theme)
        app.theme = theme

    def apply_to(self, name: str, view: ScreenPane) -> None:
        """Give a new screen the columns that the user chose."""
        if isinstance(view, TablePane) and name in self._columns:
            view.table.choose_columns(self._columns[name])

    def meant(self, event: events.Key) -> events.Key | None:
        """Return the key that the pressed one stands for by the user's settings; None if for nothing."""
        key = self._own_keys.get(event.key)
        if key is None:
            return event
        return events.Key(key, key_to_character(key)) if key else None

    def shown_key(self, key: str) -> str | None:
        """Return how the user's own key in place of this one is shown; None if there is none."""
        own = next((own for own, stands_for in self._own_keys.items() if stands_for == key), None)
        return None if own is None else format_key(own)

    def action_theme(self) -> None:
        app, names = self._app, list(PALETTES)
        app.theme = names[(names.index(app.theme) + 1) % len(names)] if app.theme in names else names[0]
        app.notify(app.theme.removeprefix("jaxtop-").replace("-", " "), title="Theme", timeout=2)

    def commands(self, name: str, view: ScreenPane) -> Iterator[SystemCommand]:
        """Yield what the palette offers: to choose columns of the open screen, and to save the choices."""
        if isinstance(view, TablePane) and name in WITH_COLUMNS:
            choose = partial(self._choose_columns, name, view.table)
            yield SystemCommand("Columns of this screen", "choose which are shown", choose)
        if self._preferences.save is not None:
            save = partial(self._save, self._preferences.save)
            yield SystemCommand("Save theme and columns", "for the next time", save)

    def _choose_columns(self, name: str, table: Table[Any]) -> None:
        def chose(keys: tuple[str, ...] | None) -> None:
            self._columns[name] = keys or ()
            table.choose_columns(self._columns[name])

        self._app.push_screen(ColumnPicker(table), chose)

    def _save(self, save: Callable[[str, Mapping[str, tuple[str, ...]]], str]) -> None:
        columns = {name: keys for name, keys in self._columns.items() if keys}
        self._app.notify(save(self._app.theme.removeprefix("jaxtop-"), columns), title="Preferences")


def _full_name(key: str) -> str:
    """Return the name that Textual has for a key: `question_mark` for `?`."""
    return next(iter(BindingsMap([(key, "", "")]).key_to_bindings)) if key else ""
