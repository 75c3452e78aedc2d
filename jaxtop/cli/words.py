"""Words of others on a terminal."""

from __future__ import annotations


def legible(text: str) -> str:
    """The text in one line, with escapes in place of whatever would steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
