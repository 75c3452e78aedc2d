"""Times as integer nanoseconds, the form in files and messages."""

from __future__ import annotations

NANOSECONDS = 1_000_000_000


def to_ns(at: float) -> int:
    """Return the time in nanoseconds; `to_seconds` converts it back exactly."""
    whole = int(at)
    return whole * NANOSECONDS + round((at - whole) * NANOSECONDS)


def to_seconds(ns: int) -> float:
    return ns / NANOSECONDS
