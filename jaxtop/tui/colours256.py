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
    from rich.color_triplet import ColorTriplet
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


class Restyling(LineFilter):
    """A filter that replaces the style of each segment, so that Rich does not convert its colours itself."""

    def restyled(self, style: Style) -> Style:
        raise NotImplementedError

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        return [
            Segment(text, None if style is None else self.restyled(style), control)
            for text, style, control in segments
        ]


class Colours256(Restyling):
    """A filter that replaces true colours by numbered ones."""

    def restyled(self, style: Style) -> Style:
        return _style(style)


@lru_cache(maxsize=4096)
def _style(style: Style) -> Style:
    return style + Style(color=_numbered(style.color), bgcolor=_numbered(style.bgcolor))


def _numbered(colour: Color | None) -> Color | None:
    triplet = true_colour(colour)
    return colour if triplet is None else Color.from_ansi(nearest(*triplet))


def true_colour(colour: Color | None) -> ColorTriplet | None:
    """Return red, green and blue; None for a colour of the terminal's own, and for none."""
    return colour.triplet if colour is not None and colour.type is ColorType.TRUECOLOR else None


@lru_cache(maxsize=4096)
def nearest(red: int, green: int, blue: int) -> int:
    return min(_TABLE, key=lambda number: distance((red, green, blue), _TABLE[number]))


def distance(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """Return how different two colours look: https://www.compuphase.com/cmetric.htm."""
    red, green, blue = (mine - others for mine, others in zip(one, other, strict=True))
    mean = (one[0] + other[0]) / 2 / 256
    return (2 + mean) * red**2 + 4 * green**2 + (3 - mean) * blue**2
