"""Errors of bytes that are not valid messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter


class Unreadable(Exception):
    """Bytes that are not a valid message; the text says why."""


class NewerVersion(Unreadable):
    """A message of a newer jaxtop."""


# A bound on distinct reasons: a peer that sends ever new errors must not fill the memory with their counts.
MOST_REASONS = 100


def tally(rejected: Counter[str], reason: str) -> None:
    """Count a rejected message by its reason."""
    reason = reason[:200]
    rejected[reason if reason in rejected or len(rejected) < MOST_REASONS else "for other reasons"] += 1
