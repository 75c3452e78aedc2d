"""The looks of the app that the user wants: from the settings, and saved by the app."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jaxtop.base import keys, private
from jaxtop.base.names import reason
from jaxtop.cli.settings import FILE, SAVED
from jaxtop.tui.core.preferences import THEMES, Preferences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.cli.settings import UserSettings

_ABOUT = "# Written by the app (palette: Save theme and columns). config.toml precedes it.\n"


def preferences_of(loaded: UserSettings) -> Preferences:
    """Return the preferences that the settings describe."""
    tables: dict[str, dict[str, object]] = {"colours": {}, "columns": {}}
    for key, value in loaded.values.items():
        table, _, name = key.partition(".")
        if table in tables:
            tables[table][name] = value

    def save(theme: str, columns: Mapping[str, tuple[str, ...]]) -> str:
        return _save(loaded, theme, columns)

    return Preferences(
        theme=loaded.get("view.theme") or "",
        keys=loaded.get("keys") or {},
        save=save if loaded.path is not None else None,
        **tables,  # type: ignore[arg-type]  # each setting was parsed
    )


def _save(loaded: UserSettings, theme: str, columns: Mapping[str, tuple[str, ...]]) -> str:
    chosen: dict[str, object] = {f"columns.{name}": list(each) for name, each in columns.items()}
    if theme in THEMES:  # the theme with the user's own colours is in the file already
        chosen["view.theme"] = theme
    # JSON's texts and lists are TOML, too.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in chosen.items()]
    try:
        private.write(keys.config_dir(), SAVED, "".join([_ABOUT, *lines]).encode())
    except (OSError, keys.NoKey) as error:
        return f"not saved: {reason(error)}"
    preceded = [key for key in chosen if key in loaded.values and key not in loaded.saved]
    note = f"; {FILE} precedes it for {', '.join(preceded)}" if preceded else ""
    return f"saved in {SAVED}{note}"
