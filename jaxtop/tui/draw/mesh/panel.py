"""The mesh as a panel of the overview: a cell per device, larger where there is room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base.names import shorten
from jaxtop.tui.draw.panel import FRAME_HEIGHT, FRAME_WIDTH, panel
from jaxtop.tui.draw.reading import Scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.tui.draw.ink import Ink

# The width and the height of a cell of the mesh where there is room.
WIDE_CELL, TALL_CELL = 6, 2


@dataclass(frozen=True)
class MeshMap:
    """The devices as rows of codes, with the label of each row."""

    title: str
    rows: Sequence[tuple[str, Sequence[int]]]
    scale: Scale = Scale.LIMITED


def mesh_panel(mesh: MeshMap | None, ink: Ink, width: int, height: int) -> list[Text]:
    if mesh is None:
        return panel("Mesh", [Text("no mesh is known yet", ink.muted)], (width, height), ink)
    room, scaled = width - FRAME_WIDTH, ink.on(mesh.scale)
    label, size = _sizes(mesh, room)
    tall = height - FRAME_HEIGHT >= (TALL_CELL + 1) * len(mesh.rows) - 1 and size == WIDE_CELL
    lines: list[Text] = []
    for i, (name, codes) in enumerate(mesh.rows[: height - FRAME_HEIGHT]):
        line = Text(shorten(name, label).ljust(label + 1), ink.muted)
        for code in codes:
            glyph, style = scaled.whole(code)
            line.append(glyph * size, style)
            if size > 1:
                line.append(" ", ink.blank)
        if tall and i:
            lines.append(Text())
        lines.append(line)
        if tall:
            lines += [Text.assemble(" " * (label + 1), line[label + 1 :])] * (TALL_CELL - 1)
    if not tall and len(mesh.rows) > len(lines):
        lines[-1] = Text(f"{len(mesh.rows) - len(lines) + 1} more rows: press 2", ink.muted)
    return panel(f"Mesh  {mesh.title}", lines, (width, height), ink)


def _sizes(mesh: MeshMap, room: int) -> tuple[int, int]:
    """Return the width of the labels, and that of a cell."""
    label = min(max((len(name) for name, _ in mesh.rows), default=0), room // 3)
    count = max((len(codes) for _, codes in mesh.rows), default=0)
    return label, next((size for size in (WIDE_CELL, 2) if room - label - 1 >= (size + 1) * count), 1)


def mesh_height(mesh: MeshMap | None, width: int, most: int) -> int:
    """Return the height of the panel: with tall cells if half of the room is enough for these."""
    rows = 1 if mesh is None else len(mesh.rows)
    tall = (TALL_CELL + 1) * rows - 1 + FRAME_HEIGHT
    if mesh is not None and tall <= most // 2 and _sizes(mesh, width - FRAME_WIDTH)[1] == WIDE_CELL:
        return tall
    return max(1, rows) + FRAME_HEIGHT
