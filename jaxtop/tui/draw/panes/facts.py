"""Lines of facts with their names, and columns of such lines side by side."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.tui.core import text
from jaxtop.tui.draw.legend import printable
from jaxtop.tui.draw.panel import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
            line.append(f"{name} ", ink.note)
        line.append(value)
    return line


def heading(name: str, rest: str, ink: Ink) -> Text:
    """Return the name of what a pane shows, and what it belongs to."""
    return Text.assemble((name, ink.figure), (f"  {rest}", ink.note), no_wrap=True, end="")


def first_fitting(variants: Sequence[Sequence[str]], width: int, style: str) -> Text:
    """Return the parts of the first variant that fits in this width as a line, else the last variant, cut."""
    written = [text.printable(" · ".join(filter(None, parts))) for parts in variants]
    line = Text(next((each for each in written if len(each) <= width), written[-1]), style)
    line.truncate(width, overflow="ellipsis")
    return line


def side_by_side(columns: Sequence[tuple[int, Sequence[Text]]], height: int) -> list[Text]:
    lines = []
    for row in list(zip_longest(*(part for _, part in columns)))[:height]:
        line = Text(no_wrap=True, end="")
        for i, ((width, _), cell) in enumerate(zip(columns, row, strict=True)):
            piece = Text() if cell is None else printable(cell.copy())
            cut(piece, width, pad=i < len(columns) - 1)
            if i:
                line.append(" " * GAP)
            line.append_text(piece)
        lines.append(line)
    return lines


def joined(lines: Iterable[Text]) -> Text:
    """Return the lines as one text that does not wrap."""
    return Text("\n", no_wrap=True, end="").join(lines)


def fitted(lines: Sequence[Text], width: int, height: int) -> list[Text]:
    fitting = list(lines[:height])
    for line in fitting:
        cut(printable(line), width)
    return fitting
