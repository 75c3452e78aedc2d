"""Cells with a frame: the id, the value, its bar, and its recent past where there is room."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from textual.color import Color

from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.core.text import LATE, LATE_SIGN, printable
from jaxtop.tui.draw.ink import PEER, SELECTED, Ink
from jaxtop.tui.draw.mesh.texts import sign_of, texts
from jaxtop.tui.draw.reading import Scale, state_of_code
from jaxtop.tui.draw.sparkline import bar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.style import Style

    from jaxtop.tui.draw.mesh.grid_contents import GridContents
    from jaxtop.tui.draw.mesh.layouts import CellRun

# How strongly the colour of a value tints its cell.
_TINT = 0.16
# How much fainter the foot of a curve is than its top.
_FADE = 0.4
# The corners of a frame, and its lines across and down.
_THIN, _HEAVY, _DASHED = tuple("╭─╮│╰╯"), tuple("┏━┓┃┗┛"), tuple("╭╌╮│╰╯")


class _Face(NamedTuple):
    """The styles of a box."""

    frame: Style
    name: Style
    late: Style
    value: Style
    share: Style
    bar: Style
    inside: Style
    note: Style


@lru_cache(maxsize=512)
def _face(ink: Ink, code: int, *, chosen: bool, peer: bool, late: bool) -> _Face:
    colour, is_value = ink.colour(code), code < STEPS
    tint = ink.background.blend(colour, _TINT) if is_value else ink.background
    warning = ink.style(ink.palette.warning, bold=True)
    return _Face(
        frame=warning if late else ink.figure if chosen else ink.style(colour),
        name=ink.chosen if chosen else ink.style(bold=True, underline=peer),
        late=warning,
        value=ink.style(None if is_value else colour, tint, bold=is_value),
        share=ink.style(ink.foreground.blend(tint, 0.25), tint),
        bar=ink.style(colour, Color.parse(ink.palette.track)),
        inside=ink.style(None, tint),
        note=ink.note if is_value else ink.style(colour),
    )


@lru_cache(maxsize=512)
def _curve(ink: Ink, code: int, line: int, lines: int) -> Style:
    """Return the style of a line of a curve: the lower, the fainter."""
    colour = ink.colour(code)
    ground = ink.background.blend(colour, _TINT) if code < STEPS else ink.background
    return ink.style(colour.blend(ground, _FADE * line / lines), ground)


def box(contents: GridContents, run: CellRun, y: int) -> Iterable[Segment]:
    device, plan = run.devices[0], contents.plan
    marks, code = divmod(contents.codes[device], PEER)
    chosen, peer, late = marks * PEER >= SELECTED, marks == 1, device in contents.late
    face = _face(contents.ink, code, chosen=chosen, peer=peer, late=late)
    left, across, right, side, bottom_left, bottom_right = (
        _HEAVY if chosen or late else _DASHED if peer else _THIN
    )
    width, line = plan.tile.width, y - run.y
    if line == 0:
        name = f" {texts(contents, device, width)[0]} "
        end = _end(contents, device, code, width - 2 - len(name) - (2 + len(LATE) if late else 0))
        room = width - 2 - len(name) - len(end)
        mark = next((each for each in (f" {LATE} ", LATE_SIGN) if late and len(each) <= room), "")
        yield Segment(left, face.frame)
        yield Segment(name, face.name)
        yield Segment(mark, face.late)
        yield Segment(across * (room - len(mark)), face.frame)
        yield Segment(end, face.note)
        yield Segment(right, face.frame)
    elif line == plan.tile.height - 1:
        yield Segment(f"{bottom_left}{across * (width - 2)}{bottom_right}", face.frame)
    else:
        yield Segment(side, face.frame)
        yield from _inside(contents, device, code, face, line)
        yield Segment(side, face.frame)


def _end(contents: GridContents, device: int, code: int, room: int) -> str:
    """Return the sign of the state, or the longest note that fits."""
    sign = sign_of(code).strip()
    if sign:
        return f" {sign} "
    notes = map(printable, contents.notes(device) if device >= 0 else ())
    return next((f" {note} " for note in notes if note and len(note) + 2 <= room), "")


def _inside(contents: GridContents, device: int, code: int, face: _Face, line: int) -> Iterable[Segment]:
    width = contents.plan.tile.width - 2
    room = width - 2
    if line == 1:
        words = texts(contents, device, room)[1][:room]
        share = _share_text(contents, device, room - len(words) - 2)
        yield Segment(f" {words:{room - len(share)}}", face.value)
        yield Segment(f"{share} ", face.share)
        return
    if line > 2:
        lines = contents.trends[device] if 0 <= device < len(contents.trends) else ()
        at = line - 3
        style = (
            _curve(contents.ink, code, at, len(lines))
            if lines and "⠀" <= lines[at][-1] <= "⣿"
            else face.share
        )
        yield Segment(f" {lines[at]} " if lines else " " * width, style)
        return
    state = state_of_code(code)
    if state is not None:
        word = state.value if len(state.value) <= room else f"{state.value[: room - 1]}…"
        yield Segment(f" {word:{room}} ", face.value)
        return
    length = contents.reading.share(device) if device >= 0 else None
    if length is not None and not contents.reading.metric.is_amount:
        length = 1.0  # a length would suggest an amount
    yield Segment(" ", face.inside)
    yield Segment(bar(length, room), face.bar if length is not None else face.inside)
    yield Segment(" ", face.inside)


def _share_text(contents: GridContents, device: int, room: int) -> str:
    """Return how much of the limit the value is, if that is known and not the value itself."""
    reading = contents.reading
    share = reading.share(device) if device >= 0 else None
    if share is None or reading.scale is not Scale.LIMITED or reading.metric.write_cell is not None:
        return ""
    words = f"{share:.0%}"
    return "" if len(words) > room or reading.metric.write(share) == words else words
