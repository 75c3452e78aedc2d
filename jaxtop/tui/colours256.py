"""Colours for terminals with 256 colours: each colour is replaced by the most similar one.

Rich maps dark colours of low saturation to black: the band of a header and the line between two panes would
not be visible against the background.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter

if TYPE_CHECKING:
    from textual.color import Color as TextualColor

# The levels of the 6 × 6 × 6 colour cube. The greys follow it; the first 16 colours belong to the terminal.
_LEVELS = (0, 95, 135, 175, 215, 255)
_CUBE, _GREYS = 16, 232
_TABLE = {
    **{
        _CUBE + 36 * i + 6 * j + k: (red, green, blue)
        for i, red in enumerate(_LEVELS)
        for j, green in enumerate(_LEVELS)
        for k, blue in enumerate(_LEVELS)
    },
    **{_GREYS + i: (8 + 10 * i,) * 3 for i in range(24)},
}


class Colours256(LineFilter):
    """A filter that replaces true colours by numbered ones, so that Rich does not convert them itself."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        return [
            Segment(text, None if style is None else _style(style), control)
            for text, style, control in segments
        ]


@lru_cache(maxsize=4096)
def _style(style: Style) -> Style:
    return style + Style(color=_numbered(style.color), bgcolor=_numbered(style.bgcolor))


def _numbered(colour: Color | None) -> Color | None:
    if colour is None or colour.type is not ColorType.TRUECOLOR or colour.triplet is None:
        return colour
    return Color.from_ansi(nearest(*colour.triplet))


@lru_cache(maxsize=4096)
def nearest(red: int, green: int, blue: int) -> int:
    def distance(number: int) -> float:
        # Weighted as human vision weights colours: https://www.compuphase.com/cmetric.htm
        r, g, b = _TABLE[number]
        mean = (red + r) / 2 / 256
        return (2 + mean) * (red - r) ** 2 + 4 * (green - g) ** 2 + (3 - mean) * (blue - b) ** 2

    return min(_TABLE, key=distance)
