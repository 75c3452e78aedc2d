"""Make text of others safe for a terminal, print notes, and parse sizes and times."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from jaxtop.base.names import legible
from jaxtop.base.units import in_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["aligned", "amount", "duration", "legible", "note", "number"]

# The smallest size of a file that the user may set.
MIN_FILE_BYTES = 100_000


def note(line: str) -> None:
    """Print a note for the user on standard error, apart from the output."""
    print(legible(f"jaxtop: {line}"), file=sys.stderr, flush=True)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose columns are as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def number(words: str, least: float, most: float, units: str = "s") -> Callable[[str], float]:
    """Return a parser of numbers from `least` to `most`; its errors say that a text is not `words`."""

    def parse(text: str) -> float:
        try:
            value = float(text.rstrip(units))
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not {words}")
        return value

    return parse


def amount(text: str, least: int = MIN_FILE_BYTES) -> int:
    """Parse a number of bytes: 500k, 100M, 2G, in powers of 1,024."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    count = int(float(found[1]) * 1024 ** ("", *"kmgt").index(found[2])) if found else 0
    if count < least:
        raise argparse.ArgumentTypeError(
            f"{text} is not a size of at least {in_bytes(least)}, such as 100M or 2G"
        )
    return count


def duration(text: str) -> float:
    """Parse a duration in seconds: 90, 90s, 15m, 2h, 1d."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    seconds = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]] if found else 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a duration such as 90s, 15m or 2h")
    return seconds
