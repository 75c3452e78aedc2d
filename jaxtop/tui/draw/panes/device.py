"""The detail of one device, as a column beside the mesh or as a strip below it."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text
from textual.color import Color

from jaxtop.base import units
from jaxtop.base.feature import hooks
from jaxtop.base.names import shorten
from jaxtop.model import FIGURES, DeviceView, Host, MemoryView, pace_of
from jaxtop.model.host import SIMULATED
from jaxtop.model.steps.views import step_of
from jaxtop.tui.core import text
from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.draw import stacked_bar
from jaxtop.tui.draw.bars import bar_line
from jaxtop.tui.draw.mesh.axes import sizes_in_words
from jaxtop.tui.draw.panes.curves import shaded
from jaxtop.tui.draw.panes.facts import GAP, fitted, joined, pairs, side_by_side
from jaxtop.tui.draw.panes.hardware import device_lines, device_words
from jaxtop.tui.draw.sparkline import bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.store.probe_figures import Probe
    from jaxtop.tui.draw.ink import Ink
    from jaxtop.tui.draw.mesh.axes import Grid
    from jaxtop.tui.draw.panes.hardware import Trend

# From this width on, the sections are side by side.
SIDE_BY_SIDE_WIDTH = 56
# The share of the used memory whose holders must be known for a bar of them.
MIN_KNOWN_SHARE = 0.9
# The most lines of the curve of the memory.
MAX_CURVE_LINES = 6
# The most lines of the sentence about a late process.
MAX_LATE_LINES = 3
_SOURCES = {"allocator": "allocator", "arrays": "sum of live arrays"}


@dataclass(frozen=True)
class DeviceSubject:
    """A device and its host with their current figures, the meshes that contain it, and its history."""

    device: DeviceView
    host: Host
    host_label: str
    meshes: tuple[Grid, ...] = ()
    marked: tuple[Grid, int] | None = None
    history: tuple[float | None, ...] = ()
    seconds: float = 0.0
    # Returns the recent values of any other figure; called only if they are shown.
    trend: Trend = lambda _: ()
    probe: Probe | None = None
    # Who holds the memory; where the script is; and why the others wait for its process, if they do.
    memory: MemoryView | None = None
    script: str = ""
    late: str = ""


def detail(subject: DeviceSubject, ink: Ink, width: int, height: int) -> Text:
    pulse, position = subject.device.pulse, subject.device.position
    if width >= SIDE_BY_SIDE_WIDTH:
        third = (width - 2 * GAP) // 3
        last = width - 2 * (third + GAP)
        hardware = device_words(pulse, position, ink, third)
        middle = _meshes(subject, ink, third, max(2, height - len(hardware)))
        memory = _memory(subject, ink, last)
        columns = [
            (third, [*_identity(subject, ink, third), *_host(subject, ink, third)]),
            (third, [*middle, *hardware]),
            (last, memory.drawn(subject, ink, last, height - memory.height)),
        ]
        return joined(side_by_side(columns, height))
    identity = _identity(subject, ink, width)
    host = [_title("host", "", ink), *_host(subject, ink, width)]
    memory = _memory(subject, ink, width)
    hardware = device_lines(pulse, position, ink, width, subject.trend)
    if hardware:
        hardware.insert(0, _title("hardware", "", ink))
    spent = len(identity) + len(host) + memory.height + len(hardware) + 4
    meshes = _meshes(subject, ink, width, max(4, height - spent))
    drawn = memory.drawn(subject, ink, width, height - spent - len(meshes))
    sections = [each for each in (identity, meshes, drawn, hardware, host) if each]
    blank = sum(map(len, sections)) + len(sections) - 1 <= height
    lines: list[Text] = []
    for section in sections:
        if lines and blank:
            lines.append(Text())
        lines.extend(section)
    return joined(fitted(lines, width, height))


def _identity(subject: DeviceSubject, ink: Ink, width: int) -> list[Text]:
    device, host = subject.device, subject.host
    warning = ink.style(ink.palette.warning)
    late = [Text(line, warning) for line in wrap(text.printable(subject.late), width)[:MAX_LATE_LINES]]
    head = Text(f"device {device.id}", ink.figure)
    head.append(
        f"  {text.STATE_SIGNS[device.state]} {device.state.value}", ink.style(ink.colour_of(device.state))
    )
    kind = device.platform if device.kind.lower() == device.platform.lower() else device.kind
    platform = "" if kind == device.platform else f"{device.platform}, "
    local = "" if device.local_id is None else f", local id {device.local_id}"
    lines = [head, *late, Text(f"{platform}{kind}{local}"), Text(subject.host_label)]
    if device.coords is not None and device.platform != "gpu":  # there, its ordinal in the host
        lines.append(pairs([("coords", " ".join(map(str, device.coords)))], ink))
    step = step_of(host)
    computes = step.flops_per_second if step else None
    each = None if computes is None or host.hello is None else computes / len(host.hello.devices)
    at_least = step is not None and step.flops_at_least
    for lines_of in hooks("device_lines"):
        lines += lines_of(subject.probe, device, host, each, ink, at_least=at_least)
    return lines


def _meshes(subject: DeviceSubject, ink: Ink, width: int, room: int) -> list[Text]:
    """Return the coordinates of the device in each mesh, and the devices that share a group with it."""
    if not subject.meshes:
        return [_title("mesh", "none: no live array uses one", ink)]
    lines: list[Text] = []
    for shown, mesh in enumerate(subject.meshes):
        section = _mesh(subject, mesh, ink, width, room)
        if lines and len(lines) + len(section) > room:
            left = len(subject.meshes) - shown
            lines.append(Text(f"and in {left} more mesh{'es' if left > 1 else ''}", ink.note))
            break
        lines.extend(section)
    return lines


def _mesh(subject: DeviceSubject, mesh: Grid, ink: Ink, width: int, room: int) -> list[Text]:
    at = mesh.coordinates(subject.device.id)
    if at is None:
        return []
    words = sizes_in_words(mesh.axes)
    lines = [_title("mesh", words if len(words) + 5 <= width else words.replace(" × ", "×"), ink)]
    lines.append(pairs([(name, str(index)) for (name, _), index in zip(mesh.axes, at, strict=True)], ink))
    for axis, (name, size) in enumerate(mesh.axes):
        if size < 2:
            continue
        marked = subject.marked == (mesh, axis)
        style = ink.style(ink.foreground, underline=marked)
        start = f"{name} group: "
        group = mesh.group(subject.device.id, axis)
        wrapped = _wrapped(group, width, len(start))
        if len(lines) + len(wrapped) > room:
            wrapped = [_first_ids(group, width - len(start))]
        for i, ids in enumerate(wrapped):
            line = Text(" " if i else start, ink.note)
            line.append(ids, style)
            lines.append(line)
    return lines


def _memory(subject: DeviceSubject, ink: Ink, width: int) -> _Memory:
    device = subject.device.last
    source = _SOURCES.get(device.memory_source or "", device.memory_source or "")
    title = "last memory" if device.state.has_exited else "memory"
    lines = [_title(title + (":" if source else ""), source, ink)]
    lines.append(
        pairs([("used", units.size(device.used_bytes)), ("peak", units.size(device.peak_bytes))], ink)
    )
    share = device.used_share
    if device.limit_bytes is None:
        lines.append(Text("no limit known", ink.note))
    else:
        limit = units.size(device.limit_bytes)
        lines.append(pairs([("limit", limit), ("share", units.share(share))], ink))
        if device.limit_source == SIMULATED:
            lines.append(Text("the limit is simulated", ink.note))
    if device.reserved_bytes:  # it counts in the share
        lines.append(pairs([("reserved", units.size(device.reserved_bytes))], ink))
    lines += _held(subject, ink, width)
    shown = [value for value in subject.history[-2 * width :] if value is not None]
    if not shown:
        return _Memory(lines)
    low, high = units.size(min(shown)), units.size(max(shown))
    span = units.age(subject.seconds * min(1.0, 2 * width / max(1, len(subject.history))))
    ends = pairs([("min", low), ("max", high), ("in", span)], ink)
    return _Memory(lines, ends if ends.cell_len <= width else pairs([("min", low), ("max", high)], ink))


class _Memory(NamedTuple):
    """The lines about the memory, and the ends of its curve, if there is one between them."""

    lines: list[Text]
    ends: Text | None = None

    @property
    def height(self) -> int:
        """The height with a curve of one line."""
        return len(self.lines) + 2 * (self.ends is not None)

    def drawn(self, subject: DeviceSubject, ink: Ink, width: int, spare: int) -> list[Text]:
        """Return all lines, with a curve that takes the spare ones."""
        if self.ends is None:
            return self.lines
        tall = min(MAX_CURVE_LINES, 1 + max(0, spare))
        return [*self.lines, *shaded(subject.history, ink, width, tall), self.ends]


def _held(subject: DeviceSubject, ink: Ink, width: int) -> list[Text]:
    """Return the bar of the memory by what holds it, with a legend; without a census, the share in use."""
    device, view = subject.device, subject.memory
    held = 0 if view is None or not view.is_counted else sum(view.bytes[:-1])
    used = device.used_bytes or 0
    # A census that explains little of the memory would draw a bar that says little.
    if view is not None and held and held >= MIN_KNOWN_SHARE * used and not device.state.has_exited:
        end = max(device.limit_bytes or held, held)
        sizes = [*view.bytes[:-1], 0]  # what is free is the rest of the bar
        return [
            bar_line(stacked_bar.parts_of(sizes, ink.palette), end, width, ink),
            *stacked_bar.legend(sizes, width, ink),
        ]
    share = device.last.used_share
    if share is None:
        return []
    colour = ink.ramp(min(STEPS - 1, int(share * STEPS)))
    return [Text(bar(share, width), ink.style(colour, Color.parse(ink.palette.track)))]


def _host(subject: DeviceSubject, ink: Ink, width: int) -> list[Text]:
    device, host = subject.device, subject.host
    cpu, machine = (device.read(FIGURES[name]) for name in ("process_cpu_cores", "machine_cpu"))
    step = host.pulse.reported
    # Steps have numbers only if the script reports them.
    paces = [("step", units.number(step.index))] if step else []
    if (pace := pace_of(host)) is not None:
        paces.append(("" if step else "steps", units.rate(pace)))
    return [
        pairs([("CPU", units.share(cpu)), ("machine", units.share(machine))], ink),
        pairs([("launches", units.rate(device.launches_per_second))], ink),
        pairs(paces or [("step", units.NA)], ink),
        *(
            [pairs([("script", shorten(subject.script, width - len("script ")))], ink)]
            if subject.script
            else []
        ),
    ]


def _wrapped(ids: Sequence[int], width: int, start: int) -> list[str]:
    """Return all ids if they fit in two lines; otherwise an abbreviated list in one line."""
    words, lines, room = list(map(str, ids)), [""], width - start
    for word in words:
        if len(lines[-1]) + len(word) > room:
            lines.append("")
            room = width - 1
        lines[-1] += f"{word} "
    lines = [line.rstrip() for line in lines]
    return lines if len(lines) <= 2 else [ids_in_words(ids, max(8, width - start))]


def _first_ids(ids: Sequence[int], room: int) -> str:
    """Return all ids if they fit; otherwise the first ones that do, and an ellipsis."""
    fitting = " ".join(map(str, ids))
    while len(fitting) > room and " " in fitting:
        fitting = f"{fitting.removesuffix(' …').rpartition(' ')[0]} …".lstrip()
    return fitting


def ids_in_words(ids: Sequence[int], room: int) -> str:
    """Return all ids if they fit; otherwise the first ones, the last, and their number if that fits."""
    whole = " ".join(map(str, ids))
    if len(whole) <= room:
        return whole
    end = f"… {ids[-1]} ({len(ids):,} devices)"
    if len(end) + len(str(ids[0])) + 1 > room:
        end = f"… {ids[-1]}"
    start = ""
    for device_id in ids[:-1]:
        if len(start) + len(str(device_id)) + 1 + len(end) > room:
            break
        start += f"{device_id} "
    return start + end


def _title(name: str, words: str, ink: Ink) -> Text:
    line = Text(f"{name} ", ink.note)
    line.append(words, ink.note if name != "mesh" else ink.figure)
    return line
