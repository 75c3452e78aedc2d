"""Lines of facts with their names, and columns of such lines side by side."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.tui.draw.legend import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.tui.draw.ink import Ink

# The characters between two columns.
GAP = 2


def pairs(facts: Sequence[tuple[str, str]], ink: Ink) -> Text:
    """Return names and values in one line; the name is empty if a value needs none."""
    line = Text(no_wrap=True, end="")
    for name, value in facts:
        if line.cell_len:
            line.append("  ")
        if name:
            line.append(f"{name} ", ink.muted)
        line.append(value)
    return line


def side_by_side(columns: Sequence[tuple[int, Sequence[Text]]], height: int) -> list[Text]:
    """Join columns, each with its width, into lines."""
    lines = []
    for row in list(zip_longest(*(part for _, part in columns)))[:height]:
        line = Text(no_wrap=True, end="")
        for i, ((width, _), cell) in enumerate(zip(columns, row, strict=True)):
            piece = Text() if cell is None else printable(cell.copy())
            piece.truncate(width, overflow="ellipsis", pad=i < len(columns) - 1)
            if i:
                line.append(" " * GAP)
            line.append_text(piece)
        lines.append(line)
    return lines


def fitted(lines: Sequence[Text], width: int, height: int) -> list[Text]:
    """Return the lines that fit in the height, cut to the width."""
    fitting = list(lines[:height])
    for line in fitting:
        printable(line).truncate(width, overflow="ellipsis")
    return fitting
