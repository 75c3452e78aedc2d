"""The colours that carry meaning, for each theme. On screen each of them also has a sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.theme import Theme

from jaxtop.model import State

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        return getattr(self, _KIND.get(state, "bad"))  # type: ignore[no-any-return]

    def of_level(self, level: Level) -> str | None:
        """Return the colour of a figure at this level; None if it needs no colour."""
        return (None, self.warning, self.bad)[level]

    def of_share(self, share: float) -> str:
        return self.ramp[min(len(self.ramp) - 1, max(0, int(share * len(self.ramp))))]


# States without an entry are bad.
_KIND = {State.CONNECTING: "muted", State.LIVE: "good", State.QUIET: "warning", State.ENDED: "muted"}
_COLOURS = """\
theme         primary secondary accent  foreground background surface panel   good    warning bad     muted
dark          #5fa8d3 #8d99ae   #f2b84b #e6e6e6    #101418    #161b21 #1f262e #6cc070 #f2b84b #ff6b6b #8d99ae
light         #1b6ca8 #5c677d   #b35c00 #1c1f23    #fafafa    #f0f2f4 #e2e6ea #2f7d32 #9a5b00 #c62828 #5c677d
high-contrast #00ffff #ffffff   #ffff00 #ffffff    #000000    #000000 #1a1a1a #00ff00 #ffff00 #ff5555 #c0c0c0
colour-blind  #56b4e9 #999999   #f0e442 #f0f0f0    #0e1116    #151a21 #1e252e #56b4e9 #f0e442 #e69f00 #a0a0a0
"""
# One ramp per theme. The last is similar to Cividis: readable with red-green colour blindness.
_RAMPS = """\
#1d3557 #24527a #2a6f97 #2c8ea6 #3fae9a #7cc576 #c6d65b #f2b84b
#d7e8f4 #b3d4ea #86b9dc #5a9bc9 #3a7fb5 #27659b #1b4b7d #12335a
#303030 #4a4a4a #6a6a6a #8a8a8a #a8a8a8 #c8c8c8 #e4e4e4 #ffffff
#00224e #1f3b6d #434e6c #61636d #7d7c78 #a39774 #cbb964 #fee838
"""


def _palettes() -> Iterator[Palette]:
    (_, *roles), *rows = map(str.split, _COLOURS.splitlines())
    for (name, *colours), ramp in zip(rows, map(str.split, _RAMPS.splitlines()), strict=True):
        of: dict[str, Any] = dict(zip(roles, colours, strict=True))
        good, warning, bad, muted = (of.pop(role) for role in ("good", "warning", "bad", "muted"))
        theme = Theme(f"jaxtop-{name}", success=good, warning=warning, error=bad, dark=name != "light", **of)
        yield Palette(theme, tuple(ramp), good, warning, bad, muted)


PALETTES = {each.theme.name: each for each in _palettes()}
DARK, LIGHT, *_ = PALETTES.values()


def palette_of(theme: str) -> Palette:
    return PALETTES.get(theme, DARK)
