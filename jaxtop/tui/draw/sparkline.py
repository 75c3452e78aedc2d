"""Sparklines, bars and areas: values as block characters, or as the dots of braille characters."""

from __future__ import annotations

from operator import or_
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

HEIGHTS = "▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉"
# The dots of a braille character that are filled from below, in its left and its right column.
_LEFT, _RIGHT = (0, 0x40, 0x44, 0x46, 0x47), (0, 0x80, 0xA0, 0xB0, 0xB8)
# The same dots one by one, from below.
_DOTS = (0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)
_BRAILLE = "".join(chr(0x2800 + dots) for dots in range(256))
NO_DOTS = _BRAILLE[0]
# The range of an area is at least this share of its largest value.
MIN_SPAN = 0.1


def sparkline(values: Sequence[float | None]) -> str:
    """Return a character for each value, on a scale from 0 to the largest of them."""
    high = max((value for value in values if value is not None), default=0.0)
    heights = (
        None if value is None else max(1, round(value / high * 8)) if high > 0 else 1 for value in values
    )
    return "".join(" " if each is None else HEIGHTS[each - 1] for each in heights)


class Area(NamedTuple):
    """A curve with what is below it filled, from the highest line down, and the range of its scale."""

    lines: list[str]
    low: float
    high: float


def area(values: Sequence[float | None], width: int, height: int) -> Area:
    """Return the newest values as an area of dots, two values a character; unknown values are blank.

    The scale is the range of the values, but at least a tenth of the largest one, so that noise looks flat.
    """
    shown = list(values)[-2 * width :]
    known = [value for value in shown if value is not None]
    largest, least = max(known, default=0.0), min(known, default=0.0)
    span = max(largest - least, MIN_SPAN * largest) or 1.0
    high = largest + (span - (largest - least)) / 2
    low = max(0.0, high - span - span / (4 * height))  # the lowest value has a dot, too
    scale = 4 * height / (high - low)
    dots = [0 if value is None else max(1, round((value - low) * scale)) for value in shown]
    dots = [0] * (2 * width - len(dots)) + dots
    left, right = dots[::2], dots[1::2]
    return Area([_line(left, right, 4 * row) for row in reversed(range(height))], low, high)


def _line(left: Sequence[int], right: Sequence[int], above: int) -> str:
    """Return the characters of the dots that are above this number of dots, up to four."""
    lefts = [_LEFT[4 if each > above + 4 else max(each - above, 0)] for each in left]
    rights = [_RIGHT[4 if each > above + 4 else max(each - above, 0)] for each in right]
    return "".join(map(_BRAILLE.__getitem__, map(or_, lefts, rights)))


def bar(share: float | None, width: int) -> str:
    """Return a bar of this width, exact to an eighth of a character; blank if the share is unknown."""
    if share is None:
        return " " * width
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (EIGHTHS[rest] if rest else "")).ljust(width)


def braille(values: Sequence[float | None], drawn: Area, height: int) -> list[str]:
    """Return the newest values as single dots on the scale of an area; those beyond it are left out."""
    width = len(drawn.lines[0])
    cells = [[0] * width for _ in range(height)]
    span = drawn.high - drawn.low
    for i, value in enumerate(list(values)[-2 * width :], start=2 * width - min(2 * width, len(values))):
        if value is None or not drawn.low <= value <= drawn.high or not span:
            continue
        dot = min(4 * height - 1, int((value - drawn.low) / span * 4 * height))
        cells[height - 1 - dot // 4][i // 2] |= _DOTS[i % 2][dot % 4]
    return ["".join(chr(0x2800 + each) for each in row) for row in cells]
