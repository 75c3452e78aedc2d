"""Bounded reads of small kernel files; None where a file is missing or malformed."""

from __future__ import annotations

import os

# The bytes that are read of a file, unless the caller needs more.
MAX_FILE_BYTES = 16 * 1024
# The bound of a number in a message. A container without a limit reports a number near it.
MAX_NUMBER = 1 << 62


def text(path: str, most: int = MAX_FILE_BYTES) -> str | None:
    """Return the content of the file, cut to whole lines if it is longer than `most`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    parts: list[bytes] = []
    try:
        while most > 0 and (part := os.read(file, most)):  # the kernel returns one page at a time
            parts.append(part)
            most -= len(part)
    except OSError:  # pressure files fail so where pressure is switched off
        return None
    finally:
        os.close(file)
    found = b"".join(parts).decode(errors="replace")
    return found if most > 0 else found.rpartition("\n")[0]


def number(content: str | None) -> int | None:
    """Return a natural number; None for -1 and `max`, which mean that there is no limit."""
    content = (content or "").strip()
    if not content.isascii() or not content.isdecimal() or len(content) > 19:
        return None
    value = int(content)
    return value if value < MAX_NUMBER else None


def numbers(content: str | None, between: str = " ") -> dict[str, int]:
    """Parse lines of a name and a number."""
    pairs = (line.partition(between) for line in (content or "").splitlines())
    found = ((name, number(value)) for name, _, value in pairs)
    return {name: value for name, value in found if value is not None}


def count(content: str | None) -> int | None:
    """Return the number of items in a list such as `0-3,8`."""
    total = 0
    for part in (content or "").strip().split(","):
        first, dash, last = part.partition("-")
        start, end = number(first), number(last) if dash else number(first)
        if start is None or end is None or end < start:
            return None
        total += end - start + 1
    return total
