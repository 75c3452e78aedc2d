"""The only place that names colours: one role for each meaning, for each theme.

There are four roles, and no colour has two of them: state (good, warning, bad), magnitude (one ramp),
category (parts of memory, slices, lines of a plot) and interaction (the accent: keys, the cursor, what is
selected). Grey means no data. On screen each meaning also has a sign.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from textual.color import Color
from textual.theme import Theme

from jaxtop.model import State
from jaxtop.tui.core.look import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jaxtop.model.figure_type import Level

# The sign before a figure past its threshold, so that it can be recognised without colour.
SIGN = "!"
# The steps of a ramp, and the number of categories.
STEPS = 8
# The step of a ramp that a curve or a bar of one colour has.
_TREND = 4


@dataclass(frozen=True)
class Palette:
    """The colours of one theme by role; `theme` hands them to Textual's own widgets."""

    theme: Theme
    accent: str
    foreground: str
    background: str
    panel: str
    good: str
    warning: str
    bad: str
    muted: str
    ramp: tuple[str, ...]
    categories: tuple[str, ...]

    def of_state(self, state: State) -> str:
        return getattr(self, _KIND.get(state, "bad"))  # type: ignore[no-any-return]

    def of_level(self, level: Level) -> str | None:
        """Return the colour of a figure at this level; None if it needs no colour."""
        return (None, self.warning, self.bad)[level]

    def of_severity(self, rank: int) -> str:
        """Return the colour of a finding or an event whose severity has this rank."""
        return (self.muted, self.warning, self.bad)[rank]

    def of_category(self, number: int) -> str:
        return self.categories[number % STEPS]

    @property
    def trend(self) -> str:
        """The colour of bars and curves."""
        return self.ramp[_TREND]

    def cursor(self, *, focused: bool) -> str:
        """Return the background of the row under the cursor."""
        return _blend(self.background, self.accent, 0.28 if focused else 0.12)


# States without an entry are bad.
_KIND = {State.CONNECTING: "muted", State.LIVE: "good", State.QUIET: "warning", State.ENDED: "muted"}
_COLOURS = """\
theme         accent  foreground background surface panel   good    warning bad     muted
dark          #c792ea #e6e6e6    #101418    #161b21 #1f262e #6cc070 #f2b84b #ff6b6b #8d99ae
light         #7a2fbf #1c1f23    #fafafa    #f0f2f4 #e2e6ea #2f7d32 #9a5b00 #c62828 #5c677d
high-contrast #ff66ff #ffffff    #000000    #000000 #1a1a1a #00ff00 #ffff00 #ff5555 #c0c0c0
colour-blind  #ff8fc7 #f0f0f0    #0e1116    #151a21 #1e252e #56b4e9 #f0e442 #e69f00 #a0a0a0
"""
# From low to high, one ramp per theme.
_RAMPS = """\
#15245c #144a72 #1f5f96 #2069a3 #3f83b5 #5d9ecb #86bbdf #b9dbf2
#cfe4ff #b3d4ea #86b9dc #5a9bc9 #3a7fb5 #1d68a8 #14497c #0c2460
#0a2a6b #123f96 #1c56c2 #2f72e6 #4f90ff #7cafff #a9cdff #d8eaff
#22125f #3d2a82 #503c9e #6a56a8 #8069b5 #9c88cb #bbabdf #d9ccff
"""
_CATEGORIES = """\
#3c9d93 #b08d6a #b5658f #8a9440 #6c6fc4 #46b8b8 #e0a3b8 #8a5a44
#3aa79b #c2a07a #c47ba6 #98a24a #8a8dd8 #62c4c4 #e8a9c0 #a06d52
#00b3a1 #c98f4e #c04a8f #8fa000 #7b6cff #00d7d7 #ffb3d1 #a8643c
#009e73 #8c6d46 #a04070 #7d8a2e #0072b2 #2bb5a8 #e3b5c6 #7a4420
"""


def _palettes() -> Iterator[Palette]:
    (_, *roles), *rows = map(str.split, _COLOURS.splitlines())
    scales = zip(map(str.split, _RAMPS.splitlines()), map(str.split, _CATEGORIES.splitlines()), strict=True)
    for (name, *colours), (ramp, categories) in zip(rows, scales, strict=True):
        of = dict(zip(roles, colours, strict=True))
        theme = _theme(name, of, of.pop("surface"), dark=name != "light")
        yield Palette(theme, **of, ramp=tuple(ramp), categories=tuple(categories))


def _theme(name: str, of: Mapping[str, str], surface: str | None, *, dark: bool) -> Theme:
    """Return the theme for Textual's own widgets; `of` has the colours by role."""
    return Theme(
        f"jaxtop-{name}",
        primary=of["accent"],
        secondary=of["muted"],
        success=of["good"],
        warning=of["warning"],
        error=of["bad"],
        surface=surface,
        dark=dark,
        accent=of["accent"],
        foreground=of["foreground"],
        background=of["background"],
        panel=of["panel"],
    )


@lru_cache(maxsize=32)
def _blend(ground: str, colour: str, share: float) -> str:
    return Color.parse(ground).blend(Color.parse(colour), share).hex


PALETTES = {each.theme.name: each for each in _palettes()}
DARK, LIGHT, *_ = PALETTES.values()


def add_own(base: str, colours: Mapping[str, str]) -> str:
    """Add the theme with the user's colours in place of those of another; return its name."""
    before = PALETTES[base]
    of = {**{role: getattr(before, role) for role in ROLES}, **colours}
    theme = _theme("own", of, before.theme.surface, dark=before.theme.dark)
    PALETTES[theme.name] = replace(before, theme=theme, **of)
    return theme.name


def palette_of(theme: str) -> Palette:
    return PALETTES.get(theme, DARK)
