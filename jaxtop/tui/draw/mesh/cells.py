"""The mesh as lines: turns a plan, a reading and a palette into strips."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from jaxtop.base import units
from jaxtop.model import DeviceView, State
from jaxtop.model.liveness import worst
from jaxtop.tui.core import text
from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.draw.ink import HALVES, PEER, SELECTED, Ink
from jaxtop.tui.draw.mesh.layouts import TALL_BOX, CellDetail, CellRun, Label, MeshDrawing
from jaxtop.tui.draw.reading import ABSENT, EMPTY, MetricReading, state_of_code
from jaxtop.tui.draw.sparkline import bar, sparkline
from jaxtop.tui.draw.table import fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.style import Style


@dataclass(frozen=True)
class GridScene:
    """Everything that the lines depend on."""

    plan: MeshDrawing
    devices: Sequence[DeviceView]
    reading: MetricReading
    ink: Ink
    # The state of each row, if rows are hosts.
    states: Sequence[State] = ()
    selected: int | None = None
    peers: frozenset[int] = field(default_factory=frozenset)
    id_width: int = 2
    # The current note that a large cell shows for its device, and the current history of its memory.
    note: Callable[[int], str] = str
    history: Callable[[int], Sequence[int | None]] = lambda _: ()
    # The line with the history of each device, if the cells are tall enough for one.
    trends: tuple[str, ...] = ()

    @cached_property
    def codes(self) -> list[int]:
        """The codes of the reading, with the marks of the selected device and its peers."""
        codes = list(self.reading.codes)
        for peer in self.peers:
            codes[peer] += PEER
        if self.selected is not None:
            codes[self.selected] = codes[self.selected] % PEER + SELECTED
        return codes


def planned(scene: GridScene, plan: MeshDrawing) -> GridScene:
    trends: tuple[str, ...] = ()
    if plan.tile.height >= TALL_BOX:
        room = plan.tile.width - 4
        trends = tuple(_trend(scene, device, room) for device in range(len(scene.devices)))
    return replace(scene, plan=plan, trends=trends)


def _trend(scene: GridScene, device: int, room: int) -> str:
    """Return the history of the memory; beside another metric, the used memory precedes it as a label."""
    view = scene.devices[device]
    limit = view.limit_bytes
    if scene.reading.metric.name.startswith("memory"):
        return sparkline(scene.history(device), room, limit)
    used = units.size(view.used_bytes)
    return f"{used:<5} {sparkline(scene.history(device), room - 6, limit)}"


def paint(scene: GridScene, y: int) -> Strip:
    segments: list[Segment] = []
    x = 0
    if not 0 <= y < scene.plan.height:
        return Strip(segments, 0)
    tile = scene.plan.tile
    for item in scene.plan.items[y]:
        if item.x > x:
            segments.append(Segment(" " * (item.x - x), scene.ink.blank))
        if isinstance(item, Label):
            segments.extend(_label(scene, item))
            x = item.x + item.width
        else:
            segments.extend(_RUNS[tile.level](scene, item, y))
            x = item.x + len(item.devices) * tile.width
    return Strip(segments, x)


def changed_lines(before: GridScene, after: GridScene) -> set[int] | None:
    plan, fine = after.plan, after.plan.tile.level <= CellDetail.CHIP
    if before.plan is not plan or before.ink is not after.ink:
        return None
    if fine and (before.reading.metric, before.reading.end) != (after.reading.metric, after.reading.end):
        return None
    devices = _differing(before.codes, after.codes)
    if fine:
        devices |= _differing(before.reading.values, after.reading.values)
        devices |= _differing(before.trends, after.trends)
    lines = {line for device in devices for line in plan.lines_of(device)}
    if before.states != after.states or before.selected != after.selected:
        lines.update(label.y for label in plan.labels if _of_label(before, label) != _of_label(after, label))
    return lines


def _differing(before: Sequence[object], after: Sequence[object]) -> set[int]:
    if before == after:
        return set()
    return {i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}


def _of_label(scene: GridScene, label: Label) -> tuple[bool, Sequence[State]]:
    """Return what a label depends on: whether the selected device is in its row or column, and the states."""
    cell = scene.plan.by_device.get(scene.selected) if scene.selected is not None else None
    at = None if cell is None else (cell.row if label.role == "row" else cell.column)
    highlit = label.role != "axis" and at is not None and label.first <= at < label.last
    return highlit, scene.states[label.first : label.last] if label.role == "row" else ()


def _halves(scene: GridScene, run: CellRun, _y: int) -> Iterable[Segment]:
    codes, ink = scene.codes, scene.ink
    keys = [codes[upper] * HALVES + codes[lower] for upper, lower in zip(run.devices, run.lower, strict=True)]
    for key, alike in groupby(keys):
        glyph, style = ink.halves(key)
        yield Segment(glyph * len(list(alike)), style)


def _characters(scene: GridScene, run: CellRun, _y: int) -> Iterable[Segment]:
    codes, ink = scene.codes, scene.ink
    for code, alike in groupby([codes[device] for device in run.devices]):
        glyph, style = ink.whole(code)
        yield Segment(glyph * len(list(alike)), style)


def _pair(scene: GridScene, run: CellRun, _y: int) -> Iterable[Segment]:
    code = scene.codes[run.devices[0]]
    glyph, style = scene.ink.whole(code)
    yield Segment("[]" if code >= SELECTED else glyph * 2, style)


def _chip(scene: GridScene, run: CellRun, _y: int) -> Iterable[Segment]:
    device = run.devices[0]
    marks, code = divmod(scene.codes[device], PEER)
    room = scene.plan.tile.width - 3 - scene.id_width
    name, value = _texts(scene, device, room)
    sign = _sign(code)
    chosen = marks * PEER >= SELECTED
    opened, closed = "[]" if chosen else "  "
    line = f"{opened}{name:>{scene.id_width}}{sign}{value:>{room}.{room}}{closed}"
    if chosen:
        yield Segment(line, scene.ink.chosen)
    else:
        yield Segment(line, _on(scene.ink, code, underline=marks == 1))


def _box(scene: GridScene, run: CellRun, y: int) -> Iterable[Segment]:
    device, plan = run.devices[0], scene.plan
    marks, code = divmod(scene.codes[device], PEER)
    chosen, peer = marks * PEER >= SELECTED, marks == 1
    ink, room = scene.ink, plan.tile.width - 4
    line = y - run.y
    frame = ink.bold if chosen else ink.style(ink.colour(code))
    left, right, across = ("┃", "┃", "━") if chosen else ("│", "│", "╌" if peer else "─")
    if line == 0:
        name, sign = f" {_texts(scene, device, room)[0]} ", _sign(code).strip()
        end = f" {sign} " if sign else _fitting(scene.note(device), room - len(name)) if device >= 0 else ""
        yield Segment("┏" if chosen else "╭", frame)
        yield Segment(name, ink.chosen if chosen else ink.style(ink.foreground, bold=True, underline=peer))
        yield Segment(across * (room + 2 - len(name) - len(end)), frame)
        yield Segment(end, ink.muted if code < STEPS else frame)
        yield Segment("┓" if chosen else "╮", frame)
    elif line == plan.tile.height - 1:
        corners = "┗┛" if chosen else "╰╯"
        yield Segment(f"{corners[0]}{across * (room + 2)}{corners[1]}", frame)
    else:
        yield Segment(f"{left} ", frame)
        yield _inside(scene, device, code, line, room)
        yield Segment(f" {right}", frame)


def _fitting(note: str, room: int) -> str:
    return f" {note} " if note and len(note) + 2 <= room else ""


def _inside(scene: GridScene, device: int, code: int, line: int, room: int) -> Segment:
    ink = scene.ink
    if line == 1:
        words = _texts(scene, device, room)[1]
        return Segment(f"{words:{room}.{room}}", ink.bold if code < STEPS else ink.style(ink.colour(code)))
    if line == TALL_BOX - 2:
        return Segment(scene.trends[device] if 0 <= device < len(scene.trends) else " " * room, ink.faint)
    state = state_of_code(code)
    if state is not None:
        word = state.value if len(state.value) <= room else f"{state.value[: room - 1]}…"
        return Segment(word.ljust(room), ink.style(ink.colour(code)))
    share = scene.reading.share(device) if device >= 0 else None
    if share is not None and not scene.reading.metric.is_amount:
        share = 1.0  # a length would suggest an amount
    return Segment(bar(share, room), ink.style(ink.colour(code), ink.panel))


def _texts(scene: GridScene, device: int, room: int) -> tuple[str, str]:
    if device < 0:
        return ("?", "absent") if scene.reading.codes[device] == ABSENT else (" ", "")
    view = scene.devices[device]
    return str(view.id), scene.reading.metric.cell_text(view, scene.reading.values[device], room)


def _sign(code: int) -> str:
    state = state_of_code(code)
    return " " if state is None else text.STATE_SIGNS[state]


def _on(ink: Ink, code: int, *, underline: bool) -> Style:
    if code in (ABSENT, EMPTY):
        return ink.muted
    if code >= STEPS:
        return ink.style(ink.colour(code), ink.panel, underline=underline)
    back = ink.ramp(code)
    return ink.style(back.get_contrast_text(1.0), back, underline=underline, bold=underline)


def _label(scene: GridScene, label: Label) -> Iterable[Segment]:
    ink, width = scene.ink, label.width
    if label.role == "axis":
        yield Segment(fit(label.text, width), ink.style(ink.foreground, bold=True))
        return
    highlit, states = _of_label(scene, label)
    style, state = ink.bold if highlit else ink.muted, worst(states)
    if state is State.LIVE:
        yield Segment(fit(label.text, width), style)
        return
    sign = f" {text.STATE_SIGNS[state]}"
    if label.last - label.first == 1 and len(label.text) + len(sign) + 1 + len(state.value) <= width:
        sign += f" {state.value}"
    room = max(0, width - len(sign))
    name = fit(label.text, min(room, len(label.text)))
    yield Segment(name, style)
    yield Segment(sign.ljust(width - cell_len(name)), ink.style(ink.colour_of(state)))


_RUNS = {
    CellDetail.BOX: _box,
    CellDetail.CHIP: _chip,
    CellDetail.PAIR: _pair,
    CellDetail.CHAR: _characters,
    CellDetail.HALF: _halves,
}
