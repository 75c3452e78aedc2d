"""A bar of several parts, each with a letter and a colour, and its legend."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual.color import Color

from jaxtop.base import units
from jaxtop.model import PARTS, Part
from jaxtop.tui.core.palette import PALETTES, Palette
from jaxtop.tui.draw.bars import BarPart, lengths
from jaxtop.tui.draw.panel import flowed

if TYPE_CHECKING:
    from collections.abc import Sequence


# In the order of the parts.
LETTERS = dict(zip(PARTS, "POGBNUT?/·", strict=True))
# Names in the legend that differ from the part's own; estimates are marked as such.
NAMES = {Part.TEMPORARIES: "temporaries (estimate)", Part.RESERVED: "reserved or fragmented"}
# The parts that are categories, and the one without a colour: free memory.
_BLANK = PARTS[-1:]
_COLOURED: list[Part] = [part for part in PARTS[:-1] if part not in (Part.UNNAMED, Part.RESERVED)]
# A text, its foreground and its background.
Segment = tuple[str, str | None, str | None]


def stacked(sizes: Sequence[int] | None, end: int, width: int, palette: Palette) -> list[Segment]:
    """Return the segments of the bar of a device, or of all devices; `n/a` if the parts are unknown."""
    if sizes is None:
        return [(units.NA[:width], palette.muted, None)]
    segments: list[Segment] = []
    for part, length in zip(PARTS, lengths(sizes, end, width), strict=True):
        if length:
            first, rest, back = _colours(part, palette.theme.name)
            segments.append((LETTERS[part], first, back))
            if length > 1:
                segments.append((LETTERS[part] * (length - 1), rest, back))
    return segments


def bar(sizes: Sequence[int], end: int, width: int, palette: Palette) -> Text:
    line = Text(no_wrap=True, end="")
    for words, fore, back in stacked(sizes, end, width, palette):
        line.append(words, Style(color=fore, bgcolor=back))
    return line


def parts_of(sizes: Sequence[int], palette: Palette) -> list[BarPart]:
    """Return the parts of a bar without letters; what is free is the rest of the bar."""
    return [
        BarPart(size, colour_of(part, palette), LETTERS[part])
        for part, size in zip(PARTS, sizes, strict=True)
        if part is not Part.FREE
    ]


def legend(sizes: Sequence[int], width: int, palette: Palette, *, letters: bool = True) -> list[Text]:
    """Return the names and sizes of the parts, each after its letter, or after a square of its colour."""
    entries = []
    for part, size in zip(PARTS, sizes, strict=True):
        if not size:
            continue
        first, _, back = _colours(part, palette.theme.name)
        if letters or back is None:
            sign = LETTERS[part], Style(color=first, bgcolor=back)
        else:
            sign = "■", Style(color=back)
        entries.append(Text.assemble(sign, f" {NAMES.get(part, part)} {units.size(size)}"))
    return flowed(entries, width)


def colour_of(part: Part, palette: Palette) -> str:
    """Return the colour of a part of memory."""
    return _colours(part, palette.theme.name)[2] or palette.track


@lru_cache(maxsize=128)
def _colours(part: Part, theme_name: str) -> tuple[str, str, str | None]:
    palette = PALETTES[theme_name]
    if part in _BLANK:
        return palette.muted, palette.muted, None
    of_other = {Part.UNNAMED: palette.muted, Part.RESERVED: palette.panel}
    back = of_other.get(part) or palette.of_category(_COLOURED.index(part))
    ground = Color.parse(back)
    first = ground.get_contrast_text(1.0)
    return first.hex, ground.blend(first, 0.35).hex, back
