"""What is wrong with bytes that are no message of ours."""

from __future__ import annotations


class Unreadable(Exception):
    """Bytes that are no message of ours; the text says what is wrong with them."""


class NewerVersion(Unreadable):
    """A message of a newer jaxtop."""
