"""Parts of a document that fit into one answer: what is left out is counted."""

from __future__ import annotations

from typing import Any

import msgspec

# An assistant reads an answer whole: more than this would crowd out what it was asked.
MAX_BYTES = 24_000
LONGEST_TEXT = 600
# Lists inside a part keep fewer of their entries until the whole fits.
_KEPT = (200, 100, 50, 20, 10, 5, 3, 1, 0)
LEFT_OUT = "left_out"


def size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def fitted(value: Any, most: int = MAX_BYTES) -> Any:
    """Return a value whose text is no longer than `most`: lists end with how many entries were left out."""
    found = value
    for kept in _KEPT:
        if size(found) <= most:
            return found
        found = _cut(value, kept)
    return found if size(found) <= most else {LEFT_OUT: "all of it: it is too large for an answer"}


def _cut(value: Any, kept: int, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}…"
    if isinstance(value, list):
        rest = len(value) - kept
        head = [_cut(each, kept, depth + 1) for each in value[:kept]]
        return [*head, {LEFT_OUT: rest}] if rest > 0 else head
    if isinstance(value, dict):
        # The fields of a document have names of ours; a mapping by function or metric may be of any length.
        names = list(value) if depth < 2 else list(value)[: max(kept, 50)]
        found = {name: _cut(value[name], kept, depth + 1) for name in names}
        return found if len(names) == len(value) else {**found, LEFT_OUT: len(value) - len(names)}
    return value


def page(items: list[Any], offset: int, limit: int, most: int = MAX_BYTES) -> dict[str, Any]:
    """Return as many entries of a list as fit, how many there are, and where the next page begins."""
    chosen: list[Any] = []
    used = 0
    for each in items[offset : offset + limit]:
        one = fitted(each, most)
        used += size(one)
        if chosen and used > most:
            break
        chosen.append(one)
    end = offset + len(chosen)
    return {
        "total": len(items),
        "offset": offset,
        "items": chosen,
        "next_offset": end if end < len(items) else None,
    }
