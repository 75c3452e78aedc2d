"""What is wrong with bytes that are no message of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter


class Unreadable(Exception):
    """Bytes that are no message of ours; the text says what is wrong with them."""


class NewerVersion(Unreadable):
    """A message of a newer jaxtop."""


# A peer that sends nonsense of ever new kinds must not fill the memory with counts of it.
MOST_REASONS = 100


def tally(rejected: Counter[str], reason: str) -> None:
    """Count what was refused, by its reason."""
    reason = reason[:200]
    rejected[reason if reason in rejected or len(rejected) < MOST_REASONS else "for other reasons"] += 1
