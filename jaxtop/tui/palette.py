"""The colours that carry meaning, for each theme. On screen each of them also has a sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.theme import Theme

from jaxtop.model import State

if TYPE_CHECKING:
    from jaxtop.model.thresholds import Level

# The sign before a figure past its threshold, so that it can be recognised without colour.
SIGN = "!"


@dataclass(frozen=True)
class Palette:
    """The colours of one theme: a ramp from low to high, and one colour for each kind of state."""

    theme: Theme
    ramp: tuple[str, ...]
    good: str
    warning: str
    bad: str
    muted: str

    def of_state(self, state: State) -> str:
        return getattr(self, _KIND[state])  # type: ignore[no-any-return]

    def of_level(self, level: Level) -> str | None:
        """Return the colour of a figure at this level; None if it needs no colour."""
        return (None, self.warning, self.bad)[level]

    def of_share(self, share: float) -> str:
        """Return the colour for a share of the scale, from 0 to 1."""
        return self.ramp[min(len(self.ramp) - 1, max(0, int(share * len(self.ramp))))]


_KIND = {
    State.CONNECTING: "muted",
    State.LIVE: "good",
    State.QUIET: "warning",
    State.BLOCKED: "bad",
    State.STOPPED: "bad",
    State.UNREACHABLE: "bad",
    State.REFUSED: "bad",
    State.ENDED: "muted",
    State.DIED: "bad",
    State.GONE: "bad",
}

DARK = Palette(
    Theme(
        name="jaxtop-dark",
        primary="#5fa8d3",
        secondary="#8d99ae",
        accent="#f2b84b",
        foreground="#e6e6e6",
        background="#101418",
        surface="#161b21",
        panel="#1f262e",
        success="#6cc070",
        warning="#f2b84b",
        error="#ff6b6b",
        dark=True,
    ),
    ramp=("#1d3557", "#24527a", "#2a6f97", "#2c8ea6", "#3fae9a", "#7cc576", "#c6d65b", "#f2b84b"),
    good="#6cc070",
    warning="#f2b84b",
    bad="#ff6b6b",
    muted="#8d99ae",
)

LIGHT = Palette(
    Theme(
        name="jaxtop-light",
        primary="#1b6ca8",
        secondary="#5c677d",
        accent="#b35c00",
        foreground="#1c1f23",
        background="#fafafa",
        surface="#f0f2f4",
        panel="#e2e6ea",
        success="#2f7d32",
        warning="#9a5b00",
        error="#c62828",
        dark=False,
    ),
    ramp=("#d7e8f4", "#b3d4ea", "#86b9dc", "#5a9bc9", "#3a7fb5", "#27659b", "#1b4b7d", "#12335a"),
    good="#2f7d32",
    warning="#9a5b00",
    bad="#c62828",
    muted="#5c677d",
)

HIGH_CONTRAST = Palette(
    Theme(
        name="jaxtop-high-contrast",
        primary="#00ffff",
        secondary="#ffffff",
        accent="#ffff00",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#1a1a1a",
        success="#00ff00",
        warning="#ffff00",
        error="#ff5555",
        dark=True,
    ),
    ramp=("#303030", "#4a4a4a", "#6a6a6a", "#8a8a8a", "#a8a8a8", "#c8c8c8", "#e4e4e4", "#ffffff"),
    good="#00ff00",
    warning="#ffff00",
    bad="#ff5555",
    muted="#c0c0c0",
)

# Similar to Cividis: dark blue to yellow, readable with red-green colour blindness.
COLOUR_BLIND = Palette(
    Theme(
        name="jaxtop-colour-blind",
        primary="#56b4e9",
        secondary="#999999",
        accent="#f0e442",
        foreground="#f0f0f0",
        background="#0e1116",
        surface="#151a21",
        panel="#1e252e",
        success="#56b4e9",
        warning="#f0e442",
        error="#e69f00",
        dark=True,
    ),
    ramp=("#00224e", "#1f3b6d", "#434e6c", "#61636d", "#7d7c78", "#a39774", "#cbb964", "#fee838"),
    good="#56b4e9",
    warning="#f0e442",
    bad="#e69f00",
    muted="#a0a0a0",
)

PALETTES = {each.theme.name: each for each in (DARK, LIGHT, HIGH_CONTRAST, COLOUR_BLIND)}


def palette_of(theme: str) -> Palette:
    """Return the palette of a theme; the dark one for a theme of others."""
    return PALETTES.get(theme, DARK)
