"""What holds memory at the peak of a program: a line on the whole, and one for each large buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.tui.core import text

if TYPE_CHECKING:
    from jaxtop.model import Buffer, Peak
    from jaxtop.tui.core.palette import Palette

MOST_LINES = 8


def peak_lines(peak: Peak, palette: Palette) -> list[Text]:
    """Return the lines on the peak of a program."""
    if peak.why_not:
        return [Text(text.printable(f"its buffers are unknown: {peak.why_not}"), palette.muted)]
    where = " ".join(filter(None, (peak.op, peak.source)))
    sizes = (
        ("arguments", peak.argument_bytes),
        ("results", peak.result_bytes),
        ("constants", peak.constant_bytes),
        ("temporaries", peak.alive_bytes),
    )
    held = ", ".join(f"{name} {text.size(size)}" for name, size in sizes if size)
    spare = peak.temporary_bytes - peak.alive_bytes
    beyond = f" and {text.size(spare)} unused" if spare > peak.alive_bytes // 100 else ""
    head = Text(text.printable(f"at its peak{f' ({where})' if where else ''}: {held}{beyond}"))
    if peak.note:
        head.append(text.printable(f"; {peak.note}"), palette.muted)
    return [head, *(_buffer(each, palette) for each in peak.buffers[:MOST_LINES])]


def _buffer(buffer: Buffer, palette: Palette) -> Text:
    line = Text(text.printable(f"{text.size(buffer.bytes):>6} {buffer.kind:<9} "))
    line.append(text.printable(" ".join(filter(None, (buffer.shape, buffer.op, buffer.source)))))
    if buffer.name:
        line.append(f"  {text.printable(buffer.name)}", palette.muted)
    return line
