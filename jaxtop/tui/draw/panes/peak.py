"""The arrays at the peak of a program or a device: a line on all of them, one for each large part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.tui.core import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model import ArraysAtPeak, Buffer, DevicePeak, Peak
    from jaxtop.tui.core.palette import Palette

MAX_LINES = 8


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
    held = ", ".join(f"{name} {units.size(size)}" for name, size in sizes if size)
    spare = peak.temporary_bytes - peak.alive_bytes
    beyond = f" and {units.size(spare)} unused" if spare > peak.alive_bytes // 100 else ""
    head = Text(text.printable(f"at its peak{f' ({where})' if where else ''}: {held}{beyond}"))
    if peak.note:
        head.append(text.printable(f"; {peak.note}"), palette.muted)
    return [head, *(_buffer(each, palette) for each in peak.buffers[:MAX_LINES])]


def _buffer(buffer: Buffer, palette: Palette) -> Text:
    line = Text(text.printable(f"{units.size(buffer.bytes):>6} {buffer.kind:<9} "))
    line.append(text.printable(" ".join(filter(None, (buffer.shape, buffer.op, buffer.source)))))
    if buffer.name:
        line.append(f"  {text.printable(buffer.name)}", palette.muted)
    return line


def device_peak_lines(
    label: str, peak: DevicePeak | None, ago: Callable[[int], float], palette: Palette
) -> list[Text]:
    """Return the lines on the peak of a device. `ago` converts a time of its agent to seconds ago."""
    if peak is None:
        return [Text(f"the peak of {label} is unknown: no allocator counts its memory", palette.muted)]
    if peak.at_ms is None or peak.census_ms is None:
        head = f"the peak of {label} is {units.size(peak.peak_bytes)}"
        return [Text(head), Text(peak.why_not, palette.muted)]
    apart = (peak.census_ms - peak.at_ms) / 1000
    when = f"counted {abs(apart):.1f} s {'after' if apart > 0 else 'before'}"
    risen, held = units.age(ago(peak.at_ms)), units.size(peak.array_bytes)
    words = f"the peak of {label}, {units.size(peak.peak_bytes)}, last rose {risen} ago: {held} in arrays"
    whole = Text(f"{words} ({when}), {units.size(peak.other_bytes)} in temporaries and fragments")
    lines = [whole, *(_held(each, palette) for each in peak.arrays)]
    if peak.rest:
        lines.append(Text(f"{units.size(peak.rest_bytes):>6} in {peak.rest:,} more groups", palette.muted))
    return lines


def _held(held: ArraysAtPeak, palette: Palette) -> Text:
    age = units.NA if held.age_s is None else f"≥ {units.age(held.age_s)}"
    state = {True: "alive", False: "gone", None: units.NA}[held.is_alive]
    line = Text(f"{units.size(held.bytes):>6}  {age:>8}  ", no_wrap=True, end="")
    line.append(f"{state:<5}  ", palette.muted if held.is_alive is False else "")
    count = f"{held.count} × " if held.count > 1 else ""
    shape = text.shape(held.shape, held.groups)
    line.append(text.printable(f"{held.name or 'unnamed'}  {count}{held.dtype} {shape} {held.sharding}"))
    line.append(text.printable(f"  {held.created or ''}"), palette.muted)
    return line
