"""The mesh as lines: turns a plan, a reading and a palette into strips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from jaxtop.model import State
from jaxtop.model.liveness import worst
from jaxtop.tui.core import text
from jaxtop.tui.draw.mesh.boxes import box
from jaxtop.tui.draw.mesh.grid_contents import GridContents, label_inputs
from jaxtop.tui.draw.mesh.layouts import CellDetail, Label
from jaxtop.tui.draw.mesh.patches import characters, chip, fourths, halves, pair
from jaxtop.tui.draw.table import fit

if TYPE_CHECKING:
    from collections.abc import Iterable


def paint(contents: GridContents, y: int) -> Strip:
    segments: list[Segment] = []
    x = 0
    if not 0 <= y < contents.plan.height:
        return Strip(segments, 0)
    tile = contents.plan.tile
    draw = _RUNS[tile.level]
    for item in contents.plan.items[y]:
        if item.x > x:
            segments.append(Segment(" " * (item.x - x), contents.ink.blank))
        if isinstance(item, Label):
            segments.extend(_label(contents, item))
            x = item.x + item.width
        else:
            segments.extend(draw(contents, item, y))
            x = item.x + len(item.devices) * tile.width
    return Strip(segments, x)


def _label(contents: GridContents, label: Label) -> Iterable[Segment]:
    ink, width = contents.ink, label.width
    if label.role == "axis":
        yield Segment(fit(label.text, width), ink.style(ink.foreground, bold=True))
        return
    if label.role == "frame":
        yield Segment(label.text, ink.frame)
        return
    highlit, states, is_late = label_inputs(contents, label)
    style, state = ink.figure if highlit else ink.note, worst(states)
    sign, word, colour = "", "", ink.palette.warning
    if state is not State.LIVE:
        sign, word, colour = text.STATE_SIGNS[state], state.value, ink.palette.state_colour(state)
    elif is_late:
        sign, word = text.LATE.split()
    end = f" {sign}" if sign else ""
    if sign and label.last - label.first == 1 and len(label.text) + len(end) + 1 + len(word) <= width:
        end += f" {word}"
    name = fit(label.text, min(max(0, width - len(end)), len(label.text)))
    yield Segment(name, style)
    if end:
        yield Segment(end, ink.style(colour, bold=is_late))
    left = width - cell_len(name) - len(end)
    if label.role == "title" and left:
        yield Segment(f" {'─' * (left - 1)}", ink.frame)
    elif left > 0:
        yield Segment(" " * left, style)


_RUNS = {
    CellDetail.BOX: box,
    CellDetail.CHIP: chip,
    CellDetail.PAIR: pair,
    CellDetail.CHAR: characters,
    CellDetail.HALF: halves,
    CellDetail.QUARTER: fourths,
}
