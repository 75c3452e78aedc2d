"""Many values in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHTS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
# A figure that moves by less than this share of itself is drawn as calm as it is.
SMALLEST_SPAN = 0.1


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The newest values, from the smallest of them to the largest; a gap where nobody knew."""
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


def bar(share: float | None, width: int) -> str:
    """A bar of eighths of a character, as wide as its track; blank if nobody knows the share."""
    if share is None:
        return " " * width
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)
