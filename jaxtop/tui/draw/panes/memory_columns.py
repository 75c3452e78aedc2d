"""The memory of the devices as columns: who holds it, what the next launch adds, and the limit as a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

from rich.text import Text
from textual.color import Color

from jaxtop.base import units
from jaxtop.model import PARTS, Part
from jaxtop.tui.draw.bars import columns
from jaxtop.tui.draw.panel import FRAME_HEIGHT, FRAME_WIDTH, Heading, panel
from jaxtop.tui.draw.stacked_bar import LETTERS, colour_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import MemoryView
    from jaxtop.tui.draw.ink import Ink

# The least lines of the panel.
MIN_HEIGHT = 5
# The width of the scale.
SCALE_WIDTH = 7
# The width of the widest column.
MAX_COLUMN_WIDTH = 24
# The space between wide columns.
WIDE_COLUMN_GAP = 3
# Below columns of this width stands what each device uses.
WITH_SIZE = 6
# What the next launch adds, and the limit.
ADDED, LIMIT = "▒", "╌"
# The share of the foreground in the colour of what a launch adds.
AMONG = 0.4


@dataclass(frozen=True)
class MemoryColumns:
    """What is drawn: the devices, what they use, what a launch of which program adds, and the limit."""

    views: Sequence[MemoryView]
    used: Sequence[int | None]
    adds: int
    function: str
    limit: int | None
    limit_words: str


def memory_columns(shown: MemoryColumns, ink: Ink, width: int, height: int) -> list[Text]:
    """Return the panel. Where there are more devices than columns, a column is the fullest of several."""
    room, count = width - FRAME_WIDTH - SCALE_WIDTH - 1, len(shown.views)
    if room < 1 or height < MIN_HEIGHT or all(each is None for each in shown.used):
        return []
    share = ceil(count / room)
    places: Sequence[int] = range(count)
    if share > 1:
        held = [each or 0 for each in shown.used]
        places = [
            max(range(first, min(count, first + share)), key=held.__getitem__)
            for first in range(0, count, share)
        ]
    picked = [shown.views[place] for place in places]
    # Where the allocator counts temporaries, those of the last launch are among what is held.
    is_held = any(view.bytes_of(Part.TEMPORARIES) for view in picked)
    added = shown.adds if shown.limit is not None and not is_held else 0
    adds = f"a launch of {shown.function} adds {units.size(shown.adds)}" if shown.adds else ""
    of_several = f"a column is the fullest of {share}" if share > 1 else ""
    notes = filter(None, (f"{ADDED} {adds}" if added else adds, of_several))
    return _drawn(
        Heading("Memory by device", shown.limit_words, "  ".join(notes)),
        tuple([view.device.id for view in picked]),
        tuple([view.bytes if any(view.bytes) else _unnamed(view) for view in picked]),
        tuple([shown.used[place] for place in places]),
        (added, shown.limit),
        ink=ink,
        size=(width, height),
    )


def _added(ink: Ink) -> str:
    """Return the colour of what is not held yet."""
    return ink.background.blend(Color.parse(ink.palette.label), AMONG).hex


def _unnamed(view: MemoryView) -> tuple[int, ...]:
    """Return memory in use of which no part is known."""
    return tuple((view.device.used_bytes or 0) * (part is Part.UNNAMED) for part in PARTS)


@lru_cache(maxsize=4)
def _drawn(
    heading: Heading,
    ids: tuple[int, ...],
    sizes: tuple[tuple[int, ...], ...],
    used: tuple[int | None, ...],
    beyond: tuple[int, int | None],
    *,
    ink: Ink,
    size: tuple[int, int],
) -> list[Text]:
    """Return the panel, cached: figures change less often than the screen is painted."""
    (adds, limit), rows = beyond, size[1] - FRAME_HEIGHT - 1
    wide = max(1, min(MAX_COLUMN_WIDTH, (size[0] - FRAME_WIDTH - SCALE_WIDTH - 1) // len(ids)))
    gap = int(wide >= WIDE_COLUMN_GAP)
    held = [sum(held_parts) - held_parts[PARTS.index(Part.FREE)] for held_parts in sizes]
    end = max([limit or 0, *(each + adds for each in held)]) or 1
    stacks = [
        None if known is None else [*(size * rows / end for size in held_parts[:-1]), adds * rows / end]
        for held_parts, known in zip(sizes, used, strict=True)
    ]
    colours = [*(colour_of(part, ink.palette) for part in PARTS[:-1]), _added(ink)]
    signs = "".join(LETTERS[part] for part in PARTS[:-1]) + ADDED
    drawn = columns(stacks, colours, signs, rows, ink, width=wide - gap, gap=gap)
    if limit is not None:
        at = min(rows - 1, max(0, rows - round(limit / end * rows)))
        _ruled(drawn[at], ink)
    marks = {0: units.size(end), rows // 2: units.size(end * (rows - rows // 2) / rows), rows - 1: "0"}
    lines = [
        Text.assemble(
            (f"{marks.get(i, ''):>{SCALE_WIDTH}}", ink.note), ("┤" if i in marks else "│", ink.divider), line
        )
        for i, line in enumerate(drawn)
    ]
    return panel(heading, [*lines, _device_labels(ids, used, ink, wide)], size, ink)


def _ruled(line: Text, ink: Ink) -> None:
    """Draw the limit through what is blank."""
    blanks = [found.span() for found in re.finditer(" +", line.plain)]
    line.plain = line.plain.replace(" ", LIMIT)
    for start, end in blanks:
        line.stylize(ink.style(ink.palette.bad), start, end)


def _device_labels(ids: Sequence[int], used: Sequence[int | None], ink: Ink, wide: int) -> Text:
    """Return the devices below their columns, with what they use where there is room."""
    line = Text(" " * (SCALE_WIDTH + 1), no_wrap=True)
    longest = max(len(str(each)) for each in ids)
    if longest + 1 > wide:  # only some of them
        line.append(f"{ids[0]} … {ids[-1]}" if len(ids) > 1 else f"{ids[0]}", ink.note)
        return line
    for name, size in zip(ids, used, strict=True):
        words = f"{name} {units.size(size)}" if longest + 1 + WITH_SIZE <= wide - 1 else f"{name}"
        line.append(words.center(wide - 1) + " ", ink.note)
    return line
