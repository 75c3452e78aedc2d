"""Sparklines and bars: values as one line of block characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHTS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
# The least span of a sparkline, as a share of the largest value: small changes must look small.
SMALLEST_SPAN = 0.1


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Return the newest values, scaled from their minimum to their maximum; unknown values are blank."""
    shown = list(values)[-width:]
    known = [value for value in shown if value is not None]
    if not known:
        return " " * width
    low, high = min(known), max(known)
    margin = max(0.0, SMALLEST_SPAN * abs(high) - (high - low)) / 2
    low, high = low - margin, high + margin
    return "".join(_height(value, low, high) for value in shown).rjust(width)


def _height(value: float | None, low: float, high: float) -> str:
    if value is None:
        return " "
    if high <= low:
        return _HEIGHTS[0]
    return _HEIGHTS[min(7, int((value - low) / (high - low) * 8))]


def columns(values: Sequence[float | None], width: int, height: int) -> list[str]:
    """Return the newest values as columns that stand on 0, in this many lines; unknown values are blank."""
    shown = list(values)[-width:]
    high = max((value for value in shown if value is not None), default=0.0)
    eighths = [
        None if value is None else max(1, round(value / high * height * 8)) if high > 0 else 1
        for value in shown
    ]
    lines = []
    for row in reversed(range(height)):
        line = "".join(
            " " if each is None or each <= row * 8 else _HEIGHTS[min(8, each - row * 8) - 1]
            for each in eighths
        )
        lines.append(line.rjust(width))
    return lines


def bar(share: float | None, width: int) -> str:
    """Return a bar of this width, exact to an eighth of a character; blank if the share is unknown."""
    if share is None:
        return " " * width
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)
