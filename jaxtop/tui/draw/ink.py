"""The glyph and style of a cell of one or two characters: both show its value."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style
from textual.color import Color

from jaxtop.tui.core import text
from jaxtop.tui.core.palette import PALETTES, STEPS, Palette
from jaxtop.tui.core.slices import SIGNS
from jaxtop.tui.draw.reading import CellCode, Scale, state_of_code

if TYPE_CHECKING:
    from jaxtop.model import State

GLYPHS = "░▒▓█"
NO_VALUE, NOT_MET, STANDS_OUT = "╌", "·", "!"
# Added to the code of a device that shares a group with the selected one, and of the selected one.
PEER, SELECTED = 1000, 2000
# Two codes in one number: the code of the upper half times this, plus that of the lower half.
HALVES = 10_000

# Marks for the halves of a character that are peers: the upper, the lower, both.
_PEERS = {(1, 0): "˙", (0, 1): ".", (1, 1): ":"}
# The dots of a braille character, in the order in which they fill each half.
_UPPER_DOTS, _LOWER_DOTS = (0x02, 0x10, 0x01, 0x08), (0x40, 0x80, 0x04, 0x20)


class Ink:
    """The glyphs and styles of a palette on one kind of scale; `plain` uses no colours."""

    def __init__(self, palette: Palette, scale: Scale = Scale.LIMITED, *, plain: bool) -> None:
        self.palette = palette
        self.plain = plain
        self.scale = scale
        self.background = Color.parse(palette.background)
        self.foreground = Color.parse(palette.foreground)
        self.panel = Color.parse(palette.panel)
        colours = palette.categories if scale is Scale.CATEGORY else palette.ramp
        self._ramp = [Color.parse(colour) for colour in colours]
        self._whole: dict[int, tuple[str, Style]] = {}
        self._halves: dict[int, tuple[str, Style]] = {}
        self.blank = self.style()
        # The three weights of text: a figure or a title, what names it, and what is said beside it.
        self.figure = self.style(self.foreground, bold=True)
        self.label = self.style(palette.label)
        self.note = self.style(palette.muted)
        # The two kinds of line: around panels, and inside them.
        self.frame = self.style(palette.frame)
        self.divider = self.style(palette.divider)
        self.track = self.style(palette.track)
        self.accent = self.style(palette.accent, bold=True)
        self.chosen = self.style(self.background, self.foreground, bold=True, reverse=plain)

    def style(
        self,
        colour: Color | str | None = None,
        back: Color | None = None,
        *,
        bold: bool | None = None,
        underline: bool | None = None,
        reverse: bool | None = None,
    ) -> Style:
        """Return a style; a plain ink drops its colours."""
        if isinstance(colour, str):
            colour = Color.parse(colour)
        return Style(
            color=None if self.plain else (colour or self.foreground).rich_color,
            bgcolor=None if self.plain else (back or self.background).rich_color,
            bold=bold or None,
            underline=underline or None,
            reverse=reverse or None,
        )

    def on(self, scale: Scale) -> Ink:
        """Return the ink of the same palette for another kind of scale."""
        return _ink(self.palette.theme.name, scale, self.plain)

    @property
    def trend(self) -> Style:
        """The style of bars and curves."""
        return self.style(self.palette.trend)

    def by_height(self, share: float) -> Style:
        """Return the style of a part of an area at this share of its height: the higher, the brighter."""
        first = STEPS // 2
        return self.style(self.palette.ramp[min(STEPS - 1, first + int(share * (STEPS - 1 - first)))])

    def category(self, number: int) -> Style:
        """Return the style of a category: a slice, a line of a plot, a part of memory."""
        return self.style(self.palette.category_colour(number))

    def ramp(self, code: int) -> Color:
        return self._ramp[code]

    def colour(self, code: int) -> Color:
        if code < STEPS:
            return self.ramp(code)
        state = state_of_code(code)
        if state is None:
            return Color.parse(self.palette.warning if code == CellCode.MARKED else self.palette.muted)
        return self.colour_of(state)

    def colour_of(self, state: State) -> Color:
        return Color.parse(self.palette.state_colour(state))

    def whole(self, code: int) -> tuple[str, Style]:
        if code not in self._whole:
            self._whole[code] = self._draw_whole(code)
        return self._whole[code]

    def halves(self, key: int) -> tuple[str, Style]:
        if key not in self._halves:
            self._halves[key] = self._draw_halves(*divmod(key, HALVES))
        return self._halves[key]

    def _draw_whole(self, marked: int) -> tuple[str, Style]:
        marks, code = divmod(marked, PEER)
        if marks >= SELECTED // PEER:
            return "◆", self.chosen
        colour, peer = self.colour(code), marks == 1
        if code < STEPS and self.scale is Scale.CATEGORY:
            return SIGNS[code], self.style(colour.get_contrast_text(1.0), colour, underline=peer)
        if code < STEPS:
            return GLYPHS[code * len(GLYPHS) // STEPS], self.style(
                colour.blend(self.foreground, 0.6) if peer else colour,
                self.background.blend(colour, 0.6),
                underline=peer,
            )
        return sign(code), self.style(colour, None if code == CellCode.ABSENT else self.panel, underline=peer)

    def _draw_halves(self, upper: int, lower: int) -> tuple[str, Style]:
        (marks, upper), (lower_marks, lower) = divmod(upper, PEER), divmod(lower, PEER)
        chosen = SELECTED // PEER
        if marks >= chosen or lower_marks >= chosen:
            return ("▲" if marks >= chosen else "▼"), self.chosen
        peer = bool(marks or lower_marks)
        if upper == lower and upper >= STEPS:
            return self._draw_whole(upper + peer * PEER)
        for code, other in ((upper, lower), (lower, upper)):
            if code == CellCode.MARKED or state_of_code(code) is not None:
                back = self.ramp(other) if other < STEPS else self.panel
                return sign(code), self.style(self.colour(code), back, underline=peer)
        if self.plain:
            return _dots(upper, lower), self.style(underline=peer)
        above, below = self._half(upper), self._half(lower)
        if peer:
            # Dots mark peers: an underline has the colour of the upper half and would be invisible.
            back = above.blend(below, 0.5)
            return _PEERS[marks, lower_marks], self.style(back.get_contrast_text(1.0), back, bold=True)
        return "▀", self.style(above, below)

    def _half(self, code: int) -> Color:
        if code < STEPS:
            return self.ramp(code)
        return self.background if code in (CellCode.EMPTY, CellCode.ABSENT) else self.panel


_SIGNS_OF_CODES: dict[int, str] = {
    CellCode.UNKNOWN: NO_VALUE,
    CellCode.ABSENT: NOT_MET,
    CellCode.MARKED: STANDS_OUT,
}


def sign(code: int) -> str:
    state = state_of_code(code)
    if state is not None:
        return text.STATE_SIGNS[state]
    return _SIGNS_OF_CODES.get(code, " ")


def _dots(upper: int, lower: int) -> str:
    """Return a braille character that shows two devices without colours, with up to four dots each."""
    dots = 0
    for code, order in ((upper, _UPPER_DOTS), (lower, _LOWER_DOTS)):
        if code < STEPS:
            dots += sum(order[: code * len(order) // STEPS + 1])
    return chr(0x2800 + dots)


@lru_cache(maxsize=32)
def _ink(theme: str, scale: Scale, plain: bool) -> Ink:
    return Ink(PALETTES[theme], scale, plain=plain)


def ink_of(palette: Palette, *, plain: bool) -> Ink:
    return _ink(palette.theme.name, Scale.LIMITED, plain)
