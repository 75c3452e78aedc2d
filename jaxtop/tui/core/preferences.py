"""The looks of the app that the user wants: theme, colours, keys, and the columns of the screens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

THEMES = ("dark", "light", "high-contrast", "colour-blind", "terminal")
ROLES = ("accent", "foreground", "background", "panel", "good", "warning", "bad", "muted")
# The screens with columns that can be chosen.
WITH_COLUMNS = ("hosts", "devices", "arrays", "memory", "collectives", "programs", "operations", "events")


@dataclass(frozen=True)
class Preferences:
    """The choices of the user; what is empty is as the app declares it."""

    theme: str = ""
    # By role, in place of those of the theme.
    colours: Mapping[str, str] = field(default_factory=dict)
    # By the user's key: the key that it stands for.
    keys: Mapping[str, str] = field(default_factory=dict)
    # The keys of the columns, by screen.
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Saves theme and columns; returns a sentence that says where, or why not. None if they cannot be saved.
    save: Callable[[str, Mapping[str, tuple[str, ...]]], str] | None = None


NO_PREFERENCES = Preferences()
