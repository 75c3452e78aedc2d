"""A bar of several parts, each with a letter and a colour, and its legend."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.model import PARTS, Part
from jaxtop.tui.core.palette import PALETTES, Palette
from jaxtop.tui.draw.bars import BarPart, legend_entry, owners, segments
from jaxtop.tui.draw.panel import flowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from jaxtop.tui.draw.bars import Segment
    from jaxtop.tui.draw.ink import Ink

# In the order of the parts.
LETTERS = dict(zip(PARTS, "POGBNUT?/·", strict=True))
# Names in the legend that differ from the part's own; estimates are marked as such.
NAMES = {Part.TEMPORARIES: "temporaries (estimate)", Part.RESERVED: "reserved or fragmented"}
# The parts that are categories.
_COLOURED: list[Part] = [part for part in PARTS[:-1] if part not in (Part.UNNAMED, Part.RESERVED)]


@lru_cache(maxsize=512)
def stacked(sizes: tuple[int, ...], end: int, width: int, theme: str, *, plain: bool) -> list[Segment]:
    """Return the segments of the bar of a device, for a cell of a table."""
    palette = PALETTES[theme]
    parts = parts_of(sizes, palette)
    eighths = owners([each.size for each in parts], end, 8 * width)
    return segments(eighths, parts, palette.track, LETTERS[Part.FREE], plain=plain)


def parts_of(sizes: Sequence[int], palette: Palette) -> list[BarPart]:
    """Return the parts of a bar; what is free is the rest of the bar."""
    return [
        BarPart(size, colour_of(part, palette), LETTERS[part])
        for part, size in zip(PARTS, sizes, strict=True)
        if part is not Part.FREE
    ]


def legend(sizes: Sequence[int], width: int, ink: Ink) -> list[Text]:
    """Return the names and sizes of the parts that there are, in lines of this width."""
    found = zip(PARTS, sizes, strict=True)
    return flowed((entry(part, size, ink) for part, size in found if size), width, 3)


def entry(part: Part, size: int, ink: Ink) -> Text:
    """Return a part of memory for a legend, with its size."""
    name = NAMES.get(part, part)
    return legend_entry(LETTERS[part], colour_of(part, ink.palette), name, units.size(size), ink)


@lru_cache(maxsize=128)
def _colour_of(part: Part, theme: str) -> str:
    palette = PALETTES[theme]
    other = {Part.UNNAMED: palette.muted, Part.RESERVED: palette.frame, Part.FREE: palette.track}
    return other.get(part) or palette.category_colour(_COLOURED.index(part))


def colour_of(part: Part, palette: Palette) -> str:
    """Return the colour of a part of memory."""
    return _colour_of(part, palette.theme.name)
