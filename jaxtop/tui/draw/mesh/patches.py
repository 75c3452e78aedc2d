"""Cells without a frame: a patch of the colour of its value, with the id and the value if there is room."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.color import Color

from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.core.text import LATE_SIGN
from jaxtop.tui.draw.ink import HALVES, PEER, SELECTED, Ink
from jaxtop.tui.draw.mesh.quarters import quarters
from jaxtop.tui.draw.mesh.texts import sign_of, texts
from jaxtop.tui.draw.reading import CellCode, Scale

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.style import Style

    from jaxtop.tui.draw.mesh.grid_contents import GridContents
    from jaxtop.tui.draw.mesh.layouts import CellRun

# The lowest eighth of a patch separates it from the one below.
_EDGE = "▁"


@lru_cache(maxsize=512)
def _patch(ink: Ink, code: int, *, underline: bool = False, edge: bool = False) -> Style:
    if code in (CellCode.ABSENT, CellCode.EMPTY):
        return ink.note
    if code >= STEPS:
        back = ink.panel
        return ink.style(ink.background if edge else ink.colour(code), back, underline=underline)
    back = ink.ramp(code)
    front = ink.background if edge else back.get_contrast_text(1.0)
    return ink.style(front, back, underline=underline, bold=underline)


def chip(contents: GridContents, run: CellRun, y: int) -> Iterable[Segment]:
    device, tile = run.devices[0], contents.plan.tile
    marks, code = divmod(contents.codes[device], PEER)
    chosen, late = marks * PEER >= SELECTED, device in contents.late
    lines = _lines(contents, device, code, chosen=chosen)
    first = (tile.height - len(lines)) // 2
    at = y - run.y - first
    ink = contents.ink
    if 0 <= at < len(lines):
        words, style = lines[at], ink.chosen if chosen else _patch(ink, code)
        if at == 0 and not chosen and (late or marks == 1) and len(lines[0].split()) > 0:
            # The id of a late device, with its sign, or that of a peer.
            name = words.split()[0]
            start = words.index(name)
            yield Segment(words[:start], style)
            yield Segment(name, _late(ink) if late else _patch(ink, code, underline=True))
            words = words[start + len(name) :]
        yield Segment(words, style)
    elif at == tile.height - 1 - first and not ink.plain:
        yield Segment(_EDGE * tile.width, _patch(ink, code, edge=True))
    else:
        yield Segment(" " * tile.width, _patch(ink, code))


@lru_cache(maxsize=32)
def _late(ink: Ink) -> Style:
    """Return the style of what marks a late device: the warning colour as its background."""
    return ink.style(ink.background, Color.parse(ink.palette.warning), bold=True, reverse=ink.plain)


def _lines(contents: GridContents, device: int, code: int, *, chosen: bool) -> tuple[str, ...]:
    """Return the id and the value in one line or in two; in a small patch the value alone."""
    tile, wide = contents.plan.tile, contents.id_width
    room = tile.width - 3 - wide
    name, value = texts(contents, device, max(room, tile.width - 2))
    sign = LATE_SIGN if device in contents.late and code < STEPS else sign_of(code)
    opened, closed = "[]" if chosen else "  "
    if room >= len(value):
        return (f"{opened}{name:>{wide}}{sign}{value:>{room}}{closed}",)
    inner = tile.width - 2
    if tile.height > 1:
        return f"{opened}{f'{name}{sign}'.strip():^{inner}.{inner}}{closed}", f" {value:^{inner}.{inner}} "
    return (f"{'[' if chosen else sign}{value:>{tile.width - 1}.{tile.width - 1}}",)


@lru_cache(maxsize=512)
def _whole(ink: Ink, code: int) -> tuple[str, Style]:
    """Return a patch of a character: of one colour if it means an amount and there are colours."""
    if code < STEPS and not ink.plain and ink.scale is not Scale.CATEGORY:
        return "█", ink.style(ink.ramp(code), ink.ramp(code))
    return ink.whole(code)


def pair(contents: GridContents, run: CellRun, y: int) -> Iterable[Segment]:
    tile, code = contents.plan.tile, contents.codes[run.devices[0]]
    if code >= SELECTED:
        yield Segment(f"[{' ' * (tile.width - 2)}]", contents.ink.whole(code)[1])
    elif tile.height > 1 and y == run.y + tile.height - 1 and code < STEPS and not contents.ink.plain:
        yield Segment(_EDGE * tile.width, _patch(contents.ink, code, edge=True))
    else:
        glyph, style = _whole(contents.ink, code)
        yield Segment(glyph * tile.width, style)


def characters(contents: GridContents, run: CellRun, _y: int) -> Iterable[Segment]:
    codes, ink, width = contents.codes, contents.ink, contents.plan.tile.width
    for code, alike in groupby([codes[device] for device in run.devices]):
        glyph, style = _whole(ink, code)
        yield Segment(glyph * (width * len(list(alike))), style)


def halves(contents: GridContents, run: CellRun, _y: int) -> Iterable[Segment]:
    codes, ink, width = contents.codes, contents.ink, contents.plan.tile.width
    keys = [codes[upper] * HALVES + codes[lower] for upper, lower in zip(run.devices, run.lower, strict=True)]
    for key, alike in groupby(keys):
        glyph, style = ink.halves(key)
        yield Segment(glyph * (width * len(list(alike))), style)


def fourths(contents: GridContents, run: CellRun, _y: int) -> Iterable[Segment]:
    codes, ink = contents.codes, contents.ink
    parts = zip(run.devices, run.lower, run.right, run.lower_right, strict=True)
    keys = [(codes[a], codes[b], codes[c], codes[d]) for a, b, c, d in parts]
    for key, alike in groupby(keys):
        glyph, style = quarters(ink, key)
        yield Segment(glyph * len(list(alike)), style)
