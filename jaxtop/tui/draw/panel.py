"""Panels: text in a frame whose title stands in the border, and panels side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base.names import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.style import Style

    from jaxtop.tui.draw.ink import Ink

# The columns that a frame takes, and its lines.
FRAME_WIDTH, FRAME_HEIGHT = 4, 2


@dataclass(frozen=True)
class Heading:
    """What stands in the border of a panel: its name and figures on the left; on the right a note, and a key.

    `keys` are pairs of a key and what it opens, the most important first. What has no room is left out.
    """

    name: str
    figures: str = ""
    note: str = ""
    keys: tuple[tuple[str, str], ...] = ()


def panel(
    heading: Heading | str,
    lines: Sequence[Text],
    size: tuple[int, int],
    ink: Ink,
    *,
    frame: Style | None = None,
) -> list[Text]:
    """Return a panel of exactly this width and height."""
    width, height = size
    room, frame = width - FRAME_WIDTH, frame or ink.frame
    framed = [_border(Heading(heading) if isinstance(heading, str) else heading, width, ink, frame)]
    for i in range(height - FRAME_HEIGHT):
        line = lines[i].copy() if i < len(lines) else Text()
        cut(line, room, pad=True)
        framed.append(Text.assemble(("│ ", frame), line, (" │", frame), no_wrap=True))
    framed.append(Text("╰" + "─" * (width - 2) + "╯", frame, no_wrap=True))
    return framed


def _border(heading: Heading, width: int, ink: Ink, frame: Style) -> Text:
    room = width - FRAME_WIDTH
    top = Text("╭ ", frame, no_wrap=True)
    top.append(shorten(heading.name, max(1, room - 1)), ink.figure)
    if heading.figures and len(heading.name) + 3 + len(heading.figures) <= room:
        top.append(f"  {heading.figures}", ink.label)
    top.append(" ")
    end = next((each for each in _ends(heading, ink) if top.cell_len + each.cell_len + 3 <= width), Text())
    top.append("─" * max(0, width - top.cell_len - (end.cell_len + 3 if end else 1)), frame)
    if end:
        top.append(" ")
        top.append_text(end)
        top.append(" ")
    top.append("╮", frame)
    return top


def _ends(heading: Heading, ink: Ink) -> list[Text]:
    """Return what may stand at the right of a border, the longest first: keys go first, then their words."""
    note = Text(heading.note, ink.note)
    found = []
    for count in range(len(heading.keys), 0, -1):
        keys = [
            Text.assemble((key, ink.accent), (f" {what}", ink.note)) for key, what in heading.keys[:count]
        ]
        found.append(Text("  ").join([*([note] if note else []), *keys]))
        found.append(Text("  ").join(keys))
    if heading.keys:
        found.append(Text(heading.keys[0][0], ink.accent))
    elif note:
        found.append(note)
    return sorted(found, key=lambda each: -each.cell_len)


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
    """Cut a line to this width: a plain name in its middle, a line of several facts after a whole word."""
    if line.cell_len > width and line.plain.isascii() and not line.spans and " " not in line.plain:
        line.plain = shorten(line.plain, width)
    if line.cell_len > width > 0:
        is_in_word = line.plain[width - 1 : width] not in ("", " ")
        line.truncate(width - 1)
        end = line.plain.rfind(" ")
        if is_in_word and end > 2 * width // 3:
            line.right_crop(len(line.plain) - end)
        line.append("…")
    line.truncate(width, pad=pad)


def wrapped(words: str, width: int, most: int) -> list[str]:
    """Return the words in at most `most` lines of this width; an ellipsis where words are left out."""
    lines = [""]
    for word in words.split():
        fits = len(lines[-1]) + len(word) + bool(lines[-1]) <= width
        if fits:
            lines[-1] += (" " if lines[-1] else "") + word
        elif len(lines) < most:
            lines.append(word)
        else:
            if len(lines[-1]) > width - 2:
                lines[-1] = lines[-1].rpartition(" ")[0]
            lines[-1] = lines[-1].rstrip(" ,;:·") + " …"
            break
    return [each if len(each) <= width else shorten(each, width) for each in lines]


def flowed(entries: Iterable[Text], width: int, gap: int = 2) -> list[Text]:
    """Return the entries one after another, each whole, in as few lines of this width as they need."""
    lines: list[Text] = []
    for entry in entries:
        if lines and lines[-1].cell_len + gap + entry.cell_len <= width:
            lines[-1].append(" " * gap).append_text(entry)
        else:
            lines.append(Text.assemble(entry, no_wrap=True, end=""))
    return lines
