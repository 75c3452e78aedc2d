"""Panels: text in a frame whose title stands in the border, and panels side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base.names import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.tui.draw.ink import Ink

# The columns that a frame takes, and its lines.
FRAME_WIDTH, FRAME_HEIGHT = 4, 2


def panel(title: str, lines: Sequence[Text], size: tuple[int, int], ink: Ink, note: str = "") -> list[Text]:
    """Return a panel of exactly this width and height, with the note at the right of its border."""
    width, height = size
    room = width - FRAME_WIDTH
    if note and len(title) + len(note) + 4 > room:
        note = ""
    top = Text("╭ ", ink.faint, no_wrap=True)
    top.append(shorten(title, room - 1), ink.bold)
    top.append(" ")
    end = f" {note} ╮" if note else "╮"
    top.append("─" * (width - top.cell_len - len(end)) + end, ink.faint)
    framed = [top]
    for i in range(height - FRAME_HEIGHT):
        line = lines[i].copy() if i < len(lines) else Text()
        cut(line, room, pad=True)
        framed.append(Text.assemble(("│ ", ink.faint), line, (" │", ink.faint), no_wrap=True))
    framed.append(Text("╰" + "─" * (width - 2) + "╯", ink.faint, no_wrap=True))
    return framed


def beside(columns: Sequence[Sequence[Text]]) -> list[Text]:
    """Return columns of lines as one column; each column's lines are equally wide."""
    height = max(map(len, columns), default=0)
    widths = [column[0].cell_len if column else 0 for column in columns]
    lines = []
    for y in range(height):
        line = Text(no_wrap=True)
        for column, width in zip(columns, widths, strict=True):
            line.append_text(column[y] if y < len(column) else Text(" " * width))
        lines.append(line)
    return lines


def cut(line: Text, width: int, *, pad: bool = False) -> None:
    """Cut a line to this width: a plain name in its middle, a line of several facts at its end."""
    if line.cell_len > width and line.plain.isascii() and not line.spans:
        line.plain = shorten(line.plain, width)
    line.truncate(width, overflow="ellipsis", pad=pad)
