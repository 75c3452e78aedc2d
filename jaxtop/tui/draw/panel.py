"""Panels: text in a frame whose title stands in the border, and panels side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

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
    top.append(_cut(title, room - 1), ink.bold)
    top.append(" ")
    end = f" {note} ╮" if note else "╮"
    top.append("─" * (width - top.cell_len - len(end)) + end, ink.faint)
    framed = [top]
    for i in range(height - FRAME_HEIGHT):
        line = lines[i].copy() if i < len(lines) else Text()
        line.truncate(room, overflow="ellipsis", pad=True)
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


def shorten_middle(words: str, width: int) -> str:
    """Return the words, shortened in the middle if they are longer: the end of a name tells it apart."""
    if len(words) <= width:
        return words
    if width < 3:
        return words[: max(0, width)]
    first = (width - 1) // 2
    return f"{words[:first]}…{words[len(words) - (width - 1 - first) :]}"


def _cut(words: str, width: int) -> str:
    return words if len(words) <= width else words[: max(0, width - 1)] + "…"
