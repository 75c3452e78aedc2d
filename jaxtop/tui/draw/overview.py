"""The panels of the overview: steps, where a step goes, memory, mesh and hosts, for any size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.base.names import shorten
from jaxtop.model.host import SIMULATED
from jaxtop.tui.core import text
from jaxtop.tui.draw import stacked
from jaxtop.tui.draw.mesh.panel import MeshMap, mesh_height, mesh_panel
from jaxtop.tui.draw.panel import FRAME_HEIGHT, FRAME_WIDTH, beside, panel
from jaxtop.tui.draw.sparkline import area, bar, sparkline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import MemoryView, State
    from jaxtop.tui.draw.ink import Ink

# From this width on there are two columns; the right one is at most so wide.
TWO_COLUMNS, MOST_RIGHT = 100, 90
# The panel of the steps has at least the first height. It has more than the second where no other panel
# needs the room.
LEAST_STEP, FULL_STEP = 8, 16
# The least height of the panels that only large terminals have.
LEAST_MORE = 6
# The least height of a panel of a narrow terminal.
LEAST_PANEL = 4
# In less than this width or height there are no frames.
FRAMED = (58, 12)
_LABEL = 6


@dataclass(frozen=True)
class HostLine:
    """A host of the overview: its figures and the worst finding about it."""

    state: State
    label: str
    step_s: float | None
    past: Sequence[float | None]
    cpu: float | None
    memory: float | None
    note: str = ""


@dataclass(frozen=True)
class StepPart:
    """A part of a step, as a share of its wall time."""

    name: str
    share: float | None


@dataclass(frozen=True)
class Overview:
    """Everything that the panels show; None where unknown."""

    step_s: float | None = None
    per_second: float | None = None
    steps: Sequence[float | None] = ()
    still: str = ""
    parts: Sequence[StepPart] = ()
    accounted: float | None = None
    about_parts: str = ""
    why_no_parts: str = ""
    memory: MemoryView | None = None
    memory_label: str = ""
    grows: str = ""
    mesh: MeshMap | None = None
    hosts: Sequence[HostLine] = ()
    host_count: int = 0
    # The word for several of them.
    nouns: str = "processes"
    live: int = 0
    devices: int = 0
    # The times, texts and colours of the last events, the newest first.
    events: Sequence[tuple[str, str, str | None]] = ()
    # Rows of cells; the first row has the titles. Large terminals show them.
    collectives: Sequence[Sequence[str]] = ()
    programs: Sequence[Sequence[str]] = ()


def draw(shown: Overview, ink: Ink, width: int, height: int) -> Text:
    """Return the panels for this size; in a small one, the most important figures as plain lines."""
    if width < FRAMED[0] or height < FRAMED[1]:
        lines = _plain(shown, ink, width)[:height]
    elif width < TWO_COLUMNS:
        lines = [line for each in _narrow(shown, ink, width, height) for line in each][:height]
    else:
        lines = _wide(shown, ink, width, height)
    return Text("\n").join(lines)


def _wide(shown: Overview, ink: Ink, width: int, height: int) -> list[Text]:
    """Return two columns: steps, memory and hosts; where a step goes, the mesh and the last events.

    If there is room, collectives and programs follow, as high as their rows need. The steps and the events
    get the rest.
    """
    right = min(MOST_RIGHT, width * 2 // 5)
    rest = width - right
    memory = min(FRAME_HEIGHT + max(1, len(_parts_of_memory(shown, ink, rest - FRAME_WIDTH))), height // 3)
    hosts = min(shown.host_count + FRAME_HEIGHT, max(4, height - memory - LEAST_STEP))
    step = height - memory - hosts
    more = _of_rows(shown.collectives, step - FULL_STEP)
    step -= more
    first = [
        *_step(shown, ink, rest, step),
        *_memory(shown, ink, rest, memory),
        *_hosts(shown, ink, rest, hosts),
    ]
    if more:
        lines = _grid(shown.collectives[: more - FRAME_HEIGHT], ink)
        first += panel("Collectives", lines, (rest, more), ink, "6 lists all")
    where = min(max(len(shown.parts), 1) + FRAME_HEIGHT, height // 2)
    mesh = min(mesh_height(shown.mesh, right, height - where), height - where)
    events = height - where - mesh
    programs = _of_rows(shown.programs, events - max(LEAST_MORE, len(shown.events) + FRAME_HEIGHT))
    if events <= FRAME_HEIGHT:
        mesh, events = mesh + events, 0
    second = [*_where(shown, ink, right, where), *mesh_panel(shown.mesh, ink, right, mesh)]
    if programs:
        lines = _grid(shown.programs[: programs - FRAME_HEIGHT], ink)
        second += panel("Programs", lines, (right, programs), ink, "7 lists all")
    if events:
        second += _events(shown, ink, right, events - programs)
    return beside([first, second])


def _of_rows(rows: Sequence[object], room: int) -> int:
    """Return the height of the panel of these rows; 0 where there are none, or too little room."""
    return min(room, len(rows) + FRAME_HEIGHT) if rows and room >= LEAST_MORE else 0


def _grid(rows: Sequence[Sequence[str]], ink: Ink) -> list[Text]:
    """Return rows of cells as lines: the first column is left-aligned, and the first row has the titles."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for i, row in enumerate(rows):
        cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append(Text("  ".join([f"{row[0]:<{widths[0]}}", *cells]), ink.muted if not i else ""))
    return lines


def _events(shown: Overview, ink: Ink, width: int, height: int) -> list[Text]:
    lines = [
        Text.assemble((f"{clock} ", ink.muted), (words, ink.style(colour)))
        for clock, words, colour in shown.events
    ]
    return panel("Events", lines or [Text("none yet", ink.muted)], (width, height), ink)


def _narrow(shown: Overview, ink: Ink, width: int, height: int) -> list[list[Text]]:
    """Return panels below each other, the most important first.

    If there is too little room for the panel of the steps, the step is a line, and the memory gets the rest.
    """
    where = max(LEAST_PANEL, min(len(shown.parts), 5) + FRAME_HEIGHT)
    left = height - where
    memory = 5 if left >= 10 else LEAST_PANEL
    left -= memory
    hosts = min(left - 1, len(shown.hosts) + FRAME_HEIGHT)
    hosts = hosts if hosts > FRAME_HEIGHT else 0
    left -= hosts
    found: list[list[Text]] = []
    if left >= LEAST_PANEL:
        found.append(_step(shown, ink, width, left))
    else:
        found.append([_step_line(shown)])
        memory += left - 1
    found += [_where(shown, ink, width, where), _memory(shown, ink, width, memory)]
    if hosts:
        found.append(_hosts(shown, ink, width, hosts))
    return found


def _plain(shown: Overview, ink: Ink, width: int) -> list[Text]:
    lines = [
        _step_line(shown),
        Text(f"{shown.live} of {shown.host_count} {shown.nouns} live, {shown.devices} devices"),
    ]
    if shown.still:
        lines.insert(0, Text(shown.still, ink.muted))
    largest = max(shown.parts, key=lambda part: part.share or 0.0, default=None)
    if largest is not None:
        lines.append(Text(f"most of a step: {largest.name} {units.share(largest.share)}"))
    if shown.memory is not None:
        lines.append(Text(f"memory {_used(shown)}"))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _step_line(shown: Overview) -> Text:
    return Text(f"step {units.seconds(shown.step_s)}  {units.rate(shown.per_second)}")


def _step(shown: Overview, ink: Ink, width: int, height: int) -> list[Text]:
    title = f"Step {units.seconds(shown.step_s)}"
    if shown.per_second is not None:
        title += f"  {units.rate(shown.per_second)}"
    if shown.accounted is not None:
        title += f"  wall time accounted {units.share(shown.accounted)}"
    rows, room = height - FRAME_HEIGHT, width - FRAME_WIDTH - _LABEL - 1
    known = [value for value in shown.steps if value is not None]
    if not known or rows < 2:
        words = shown.still or ("no step was found yet" if shown.step_s is None else "")
        return panel(title, [Text(words, ink.muted)], (width, height), ink)
    drawn = area(shown.steps, room, rows)
    labels = [units.seconds(drawn.high), *[""] * (rows - 2), units.seconds(drawn.low)]
    lines = [
        Text.assemble(
            (label.rjust(_LABEL), ink.muted),
            ("┤" if label else "│", ink.faint),
            (line, ink.by_height((rows - i) / rows)),
        )
        for i, (label, line) in enumerate(zip(labels, drawn.lines, strict=True))
    ]
    return panel(title, lines, (width, height), ink, shown.still)


def _where(shown: Overview, ink: Ink, width: int, height: int) -> list[Text]:
    room = width - FRAME_WIDTH
    name = max((len(part.name) for part in shown.parts), default=0)
    lines = [
        Text.assemble(
            part.name.ljust(name + 1),
            (bar(part.share, max(0, room - name - 7)), ink.trend),
            units.share(part.share).rjust(6),
        )
        for part in shown.parts
    ]
    why_none = Text(shown.why_no_parts, ink.muted)
    return panel("Where a step goes", lines or [why_none], (width, height), ink, shown.about_parts)


def _used(shown: Overview) -> str:
    device = shown.memory.device if shown.memory else None
    if device is None or device.used_bytes is None:
        return units.NA
    limit = device.limit_bytes
    simulated = " (simulated)" if device.limit_source == SIMULATED else ""
    of = f" of {units.size(limit)}{simulated}" if limit else ", no limit known"
    return f"{units.size(device.used_bytes)}{of} on {shown.memory_label}"


def _memory(shown: Overview, ink: Ink, width: int, height: int) -> list[Text]:
    lines = _parts_of_memory(shown, ink, width - FRAME_WIDTH)
    return panel(f"Memory {_used(shown)}", lines, (width, height), ink)


def _parts_of_memory(shown: Overview, ink: Ink, room: int) -> list[Text]:
    view = shown.memory
    lines: list[Text] = []
    if view is not None and view.device.used_bytes is not None:
        end = view.device.limit_bytes or view.device.used_bytes
        if ink.plain:
            lines = [Text(stacked.bar(view.bytes, end, room, ink.palette).plain)]
        else:
            lines = [stacked.solid(view.bytes, end, room, ink.palette)]
        lines += stacked.legend(view.bytes, room, ink.palette, letters=ink.plain)
    if shown.grows:
        lines.insert(1, Text(shown.grows, ink.palette.warning if not ink.plain else ""))
    return lines


def _hosts(shown: Overview, ink: Ink, width: int, height: int) -> list[Text]:
    room, rows = width - FRAME_WIDTH, height - FRAME_HEIGHT
    hosts = shown.hosts[: max(0, rows)]
    name = min(max((len(each.label) for each in hosts), default=0), max(8, room // 4))
    lines = [_host(each, ink, room, name) for each in hosts]
    title = f"{shown.nouns.capitalize()}  {shown.live} of {shown.host_count} live"
    hidden = shown.host_count - len(hosts)
    return panel(title, lines, (width, height), ink, f"{hidden} more: 3 lists all" if hidden else "")


def _host(host: HostLine, ink: Ink, room: int, name: int) -> Text:
    sign = text.STATE_SIGNS[host.state], ink.style(ink.colour_of(host.state))
    line = Text.assemble(sign, " ", shorten(host.label, name).ljust(name))
    line.append(f" {units.seconds(host.step_s):>6}")
    trend = 8 if room >= 56 else 0
    if trend:
        line.append(" ")
        line.append(sparkline(host.past, trend), ink.trend)
    for label, value in (("cpu", host.cpu), ("mem", host.memory)):
        words = f"  {label} {units.share(value):>4}"
        if line.cell_len + len(words) <= room - (12 if host.note else 0):
            line.append(words)
    if host.note:
        line.append(f"  {host.note}", ink.style(bold=True))
    return line
