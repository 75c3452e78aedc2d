"""The tracks of slices that cross: on a track, each slice is inside of or after the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.export.captures.perfetto import Slice

# The tracks of a thread or stream whose events cross: an event that fits none of them is left out.
MOST_LANES = 64


def lanes(slices: Iterable[Slice]) -> tuple[list[list[Slice]], int]:
    """Distribute slices over as few tracks as it takes to have each inside of or after the others.

    Return the tracks, and the number of slices that fit none of `MOST_LANES` tracks.
    """
    found: list[list[Slice]] = []
    crossing = 0
    stacks: list[list[int]] = []
    for each in sorted(slices, key=lambda one: (one.start, -(one.end or one.start))):
        end = each.start if each.end is None else each.end
        number = next((i for i, stack in enumerate(stacks) if _fits(stack, each.start, end)), len(found))
        if number == MOST_LANES:
            crossing += 1
            continue
        if number == len(found):
            found.append([])
            stacks.append([])
        found[number].append(each)
        if each.end is not None:
            stacks[number].append(end)
    return found, crossing


def _fits(stack: list[int], start: int, end: int) -> bool:
    """Return whether a slice is inside of or after those that end at these times; drop those before it."""
    while stack and stack[-1] <= start:
        stack.pop()
    return not stack or end <= stack[-1]
