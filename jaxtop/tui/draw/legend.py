"""The line that explains the colours of the mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

from jaxtop.base import units
from jaxtop.model import DeviceView, State
from jaxtop.tui.core import text
from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.draw.ink import NO_VALUE, NOT_MET, Ink
from jaxtop.tui.draw.reading import CellCode, MetricReading, Scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# What is said where a scale ends at the largest value, the longest first.
NO_LIMIT = ("relative: no limit known", "relative")


def printable(line: Text) -> Text:
    if not line.plain.isprintable():
        line.plain = text.printable(line.plain)
    return line


def legend(
    reading: MetricReading,
    devices: Sequence[DeviceView],
    ink: Ink,
    width: int,
    *,
    states: Iterable[State] = (),
    pointed: int | None = None,
    absent: bool = False,
) -> Text:
    """Return the metric, its scale, the device with most or the one under the mouse, and the signs."""
    metric = reading.metric
    line = Text(" ", no_wrap=True, end="")
    line.append(metric.name, ink.figure + Style(meta={"press": "metric"}))
    if reading.end is None:
        line.append(f"  {units.NA}: no device reports {metric.name}", ink.note)
    elif reading.scale is Scale.CATEGORY:
        line.append("  ")
        for number in range(min(STEPS, int(reading.end) + 1)):
            line.append(*ink.whole(number))
    else:
        line.append(f"  {metric.write(0)} ", ink.note)
        line.append_text(ramp(ink))
        line.append(f" {metric.write(reading.end)}", ink.note)
    device_text = _pointed(reading, devices, pointed) if pointed is not None else _most(reading, devices)
    parts = [
        (device_text, ink.style(ink.foreground)),
        *_signs(reading, ink, set(states), absent=absent),
    ]
    left, fitting = width - line.cell_len, []
    for part, style in parts:
        if part and 3 + len(part) <= left:
            fitting.append((part, style))
            left -= 3 + len(part)
    if reading.scale is Scale.OPEN and reading.end is not None:
        line.append(next((f"  {words}" for words in NO_LIMIT if len(words) + 2 <= left), ""), ink.note)
    for part, style in fitting:
        line.append("   ")
        line.append(part, style)
    line.truncate(width, overflow="ellipsis")
    return printable(line)


def ramp(ink: Ink) -> Text:
    """Return the colours of a scale, or its glyphs without colours, from the lowest on."""
    line = Text(no_wrap=True, end="")
    for step in range(STEPS):
        line.append(*ink.whole(step) if ink.plain else ("█", ink.style(ink.ramp(step))))
    return line


def device_phrase(device: DeviceView) -> str:
    """Return the name of a device for a sentence, such as `device 3 on host 1`."""
    where = device.hostname if device.process_index is None else f"{device.noun} {device.process_index}"
    return f"device {device.id} on {where}"


def _most(reading: MetricReading, devices: Sequence[DeviceView]) -> str:
    if reading.most is None or not reading.metric.is_amount or reading.metric.note:
        return reading.metric.note
    value = reading.metric.write(reading.values[reading.most])
    others = reading.like_most() - 1
    more = f" (and {others:,} more)" if others else ""
    return f"most: {device_phrase(devices[reading.most])}, {value}{more}"


def _pointed(reading: MetricReading, devices: Sequence[DeviceView], pointed: int) -> str:
    device = devices[pointed]
    value = reading.metric.cell_text(device, reading.values[pointed])
    state = "" if device.state is State.LIVE else f", {device.state.value}"
    return f"here: {device_phrase(device)}, {value}{state}"


def _signs(
    reading: MetricReading, ink: Ink, states: set[State], *, absent: bool
) -> Iterable[tuple[str, Style]]:
    for state in State:
        if state in states and state is not State.LIVE:
            yield f"{text.STATE_SIGNS[state]} {state.value}", ink.style(ink.colour_of(state))
    if reading.end is not None and CellCode.UNKNOWN in reading.codes:
        yield f"{NO_VALUE} {units.NA}", ink.note
    if absent:
        yield f"{NOT_MET} absent", ink.note
