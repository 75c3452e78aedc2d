"""Sparklines and bars: values as one line of block characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHTS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def sparkline(values: Sequence[float | None], width: int, limit: float | None = None) -> str:
    """Return the newest values on a scale from 0 to the limit, or else to the largest of them."""
    return columns(values, width, 1, limit)[0]


def columns(values: Sequence[float | None], width: int, height: int, limit: float | None = None) -> list[str]:
    """Return the newest values as columns that stand on 0, in this many lines; unknown values are blank.

    They end at the limit; if none is known, at the largest value.
    """
    shown = list(values)[-width:]
    high = limit or max((value for value in shown if value is not None), default=0.0)
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
