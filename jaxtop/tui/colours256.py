"""Colours for terminals with 256 colours: each colour is replaced by the most similar one.

Rich maps dark colours of low saturation to black: the band of a header and the line between two panes would
not be visible against the background. Two roles must not meet: grey says that nothing is known, so no step of
a ramp looks like a line, and notes and lines, which are greys, get no hue.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter

from jaxtop.tui.core.palette import palette_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.color_triplet import ColorTriplet
    from textual.color import Color as TextualColor

    from jaxtop.tui.core.palette import Palette

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
_GREYS_OF_ALL = [number for number, parts in _TABLE.items() if len(set(parts)) == 1]


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
    """A filter that replaces true colours by numbered ones, which keep the roles of a palette apart."""

    def __init__(self, palette: Palette) -> None:
        super().__init__()
        self._numbers = _numbers_of(palette)
        self._of_style = lru_cache(maxsize=4096)(self._style)

    def restyled(self, style: Style) -> Style:
        return self._of_style(style)

    def _style(self, style: Style) -> Style:
        return style + Style(color=self._numbered(style.color), bgcolor=self._numbered(style.bgcolor))

    def _numbered(self, colour: Color | None) -> Color | None:
        triplet = true_colour(colour)
        if triplet is None:
            return colour
        number = self._numbers.get(triplet)
        return Color.from_ansi(nearest(*triplet) if number is None else number)


@lru_cache(maxsize=8)
def in_256_colours(theme: str) -> Colours256:
    return Colours256(palette_of(theme))


def _numbers_of(palette: Palette) -> dict[ColorTriplet, int]:
    """Return the numbers of notes and lines, and of steps of the ramp that would look like lines."""
    greys = _triplets((palette.muted, palette.frame, palette.divider, palette.track))
    found = {each: _nearest_of(_GREYS_OF_ALL, each) for each in greys}
    steps, categories = list(_triplets(palette.ramp)), _triplets(palette.categories)
    taken = {nearest(*each) for each in (*steps, *categories)}
    for step in steps:
        if nearest(*step) in found.values():
            others = (number for number in _TABLE if number not in taken and _has_hue(number, step))
            found[step] = _nearest_of(others, step)
            taken.add(found[step])
    return found


def _triplets(colours: Iterable[str]) -> Iterator[ColorTriplet]:
    return (Color.parse(each).get_truecolor() for each in colours)


def _has_hue(number: int, step: ColorTriplet) -> bool:
    """Whether the largest part of a numbered colour is that of another colour."""
    parts = _TABLE[number]
    largest = max(range(3), key=lambda i: step[i])
    return all(parts[largest] > part for i, part in enumerate(parts) if i != largest)


def true_colour(colour: Color | None) -> ColorTriplet | None:
    """Return red, green and blue; None for a colour of the terminal's own, and for none."""
    return colour.triplet if colour is not None and colour.type is ColorType.TRUECOLOR else None


@lru_cache(maxsize=4096)
def nearest(red: int, green: int, blue: int) -> int:
    return _nearest_of(_TABLE, (red, green, blue))


def _nearest_of(numbers: Iterable[int], parts: tuple[int, int, int]) -> int:
    return min(numbers, key=lambda number: distance(parts, _TABLE[number]))


def distance(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """Return how different two colours look: https://www.compuphase.com/cmetric.htm."""
    red, green, blue = (mine - others for mine, others in zip(one, other, strict=True))
    mean = (one[0] + other[0]) / 2 / 256
    return (2 + mean) * red**2 + 4 * green**2 + (3 - mean) * blue**2
