"""Times as whole nanoseconds: what files and messages hold of them."""

from __future__ import annotations

NANOSECONDS = 1_000_000_000


def to_ns(at: float) -> int:
    """The time in nanoseconds; `to_seconds` gives exactly the same time back."""
    whole = int(at)
    return whole * NANOSECONDS + round((at - whole) * NANOSECONDS)


def to_seconds(ns: int) -> float:
    """The time in seconds since the epoch."""
    return ns / NANOSECONDS
