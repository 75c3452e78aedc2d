"""The only place that names colours: one role for each meaning, for each theme.

There are four roles, and no colour has two of them: state (good, warning, bad), magnitude (one ramp),
category (parts of a step and of memory, slices, lines of a plot) and interaction (the accent: keys, the
cursor, what is selected). Grey means no data. On screen each meaning also has a sign.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from textual.color import Color
from textual.theme import Theme

from jaxtop.model import State
from jaxtop.tui.core.preferences import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jaxtop.model.figure_type import Level

# The sign before a figure past its threshold, so that it can be recognised without colour.
SIGN = "!"
# The steps of a ramp, and the number of categories.
STEPS = 8
# The step of a ramp that a curve or a bar of one colour has.
_TREND = 4
# The parts of a step, in the order of their categories; what else there is has no colour.
STEP_PARTS = ("compute", "communication", "waiting", "host gap", "input")
# Shares of the foreground in labels, of the muted colour in the lines of panels and in dividers, of the
# foreground in the track of a bar, and of the accent in the row under the cursor with and without focus.
_LABEL, _FRAME, _DIVIDER, _TRACK = 0.76, 0.5, 0.28, 0.13
_FOCUSED, _UNFOCUSED = 0.15, 0.07


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

    def state_colour(self, state: State) -> str:
        return getattr(self, _KIND.get(state, "bad"))  # type: ignore[no-any-return]

    def level_colour(self, level: Level) -> str | None:
        """Return the colour of a figure at this level; None if it needs no colour."""
        return (None, self.warning, self.bad)[level]

    def severity_colour(self, rank: int) -> str:
        """Return the colour of a finding or an event whose severity has this rank."""
        return (self.muted, self.warning, self.bad)[rank]

    def category_colour(self, number: int) -> str:
        return self.categories[number % STEPS]

    def step_part_colour(self, name: str) -> str:
        """Return the colour of a part of a step, on every screen the same; unknown time is grey."""
        return self.category_colour(STEP_PARTS.index(name)) if name in STEP_PARTS else self.divider

    @property
    def grounds(self) -> tuple[str, ...]:
        """The colours on which text stands, except in the row under the cursor."""
        return self.background, self.theme.surface or self.background, self.panel

    @property
    def trend(self) -> str:
        """The colour of bars and curves."""
        return self.ramp[_TREND]

    @property
    def label(self) -> str:
        """The colour of words that name a figure, between that of the figure and that of a note."""
        return _blend(self.background, self.foreground, _LABEL)

    @property
    def frame(self) -> str:
        """The colour of the lines around panels."""
        return _blend(self.background, self.muted, _FRAME)

    @property
    def divider(self) -> str:
        """The colour of lines inside panels, of axes, and of time that nothing explains."""
        return _blend(self.background, self.muted, _DIVIDER)

    @property
    def track(self) -> str:
        """The colour of the empty part of a bar."""
        return _blend(self.background, self.foreground, _TRACK)

    def cursor(self, *, focused: bool) -> str:
        """Return the background of the row under the cursor."""
        return _blend(self.background, self.accent, _FOCUSED if focused else _UNFOCUSED)


# States without an entry are bad.
_KIND = {State.CONNECTING: "muted", State.LIVE: "good", State.QUIET: "warning", State.ENDED: "muted"}
_COLOURS = """\
theme         accent  foreground background surface panel   good    warning bad     muted
dark          #cf96f1 #eceff3    #0f1318    #151a20 #1e252d #46d193 #fbd452 #fe5b61 #93a0b4
light         #8325bd #16191d    #fbfbfa    #f3f5f7 #e5eaec #046f4b #845a02 #8f0308 #4f596b
high-contrast #ea8dff #ffffff    #000000    #000000 #1a1a1a #0ef08c #fff12f #ff645f #c4c4c4
colour-blind  #f594c3 #f2f2f2    #0e1116    #151a21 #1e252e #56b4e9 #f7ec59 #f0803c #a6a6a6
"""
# From low to high, one ramp per theme; the steps of lightness in OKLab are even.
_RAMPS = """\
#283454 #294a84 #2264ad #1081ce #15a0e7 #42bef7 #7ddafe #c3f1fe
#c3e4f2 #86cdf1 #54b2e9 #3094d9 #2177c1 #225ba1 #244279 #212c4c
#293f77 #2155a7 #006fce #028ce4 #0baafa #5cc6fe #9adfff #d8f4fe
#323153 #494181 #6353aa #7f69cc #9b82e8 #b89efc #d2c0ff #ebe3fe
"""
# Found by a search for the largest least distance, as people with and without colour blindness see them.
_CATEGORIES = """\
#8980e0 #02d8e0 #ee79a2 #bc7e3b #aeb52f #86ffdb #95a3fe #ffac8a
#4c5dc4 #1f504d #934087 #733c02 #507406 #01362c #220249 #370500
#8777dd #30fef2 #e377b2 #feaf50 #c5f483 #3ddbbf #ad93fc #cb671e
#0bd3b3 #6797f6 #ed737b #ffcf6f #659d31 #32fffd #c66da7 #ffa166
"""


def _palettes() -> Iterator[Palette]:
    (_, *roles), *rows = map(str.split, _COLOURS.splitlines())
    scales = zip(map(str.split, _RAMPS.splitlines()), map(str.split, _CATEGORIES.splitlines()), strict=True)
    for (name, *colours), (ramp, categories) in zip(rows, scales, strict=True):
        by_role = dict(zip(roles, colours, strict=True))
        theme = _theme(name, by_role, by_role.pop("surface"), dark=name != "light")
        yield Palette(theme, **by_role, ramp=tuple(ramp), categories=tuple(categories))


def _theme(name: str, by_role: Mapping[str, str], surface: str | None, *, dark: bool) -> Theme:
    """Return the theme for Textual's own widgets; `by_role` has the colours by role."""
    return Theme(
        f"jaxtop-{name}",
        primary=by_role["accent"],
        secondary=by_role["muted"],
        success=by_role["good"],
        warning=by_role["warning"],
        error=by_role["bad"],
        surface=surface,
        dark=dark,
        accent=by_role["accent"],
        foreground=by_role["foreground"],
        background=by_role["background"],
        panel=by_role["panel"],
    )


@lru_cache(maxsize=32)
def _blend(ground: str, colour: str, share: float) -> str:
    return Color.parse(ground).blend(Color.parse(colour), share).hex


PALETTES = {each.theme.name: each for each in _palettes()}
DARK, LIGHT, *_ = PALETTES.values()
# What reaches the terminal are its own 16 colours (`colours16.py`).
TERMINAL = replace(DARK, theme=replace(DARK.theme, name="jaxtop-terminal"))
PALETTES[TERMINAL.theme.name] = TERMINAL


def add_own(base: str, colours: Mapping[str, str]) -> str:
    """Add the theme with the user's colours in place of those of another; return its name."""
    before = PALETTES[base]
    by_role = {**{role: getattr(before, role) for role in ROLES}, **colours}
    theme = _theme("own", by_role, before.theme.surface, dark=before.theme.dark)
    PALETTES[theme.name] = replace(before, theme=theme, **by_role)
    return theme.name


def palette_of(theme: str) -> Palette:
    return PALETTES.get(theme, DARK)
