"""The bar that shows the position in time: a line with the state and buttons, and below it the session."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rich.style import Style
from rich.text import Text

from jaxtop.base import units
from jaxtop.model.session.summary import SessionSummary
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import Mode
from jaxtop.tui.draw.sparkline import sparkline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model.state import LoggedEvent
    from jaxtop.tui.core.palette import Palette

PLAY, PAUSE, LOOP = "▶", "‖", "↻"
CURSOR_ABOVE, CURSOR_BELOW, MARK = "┃", "▲", "v"
UNKNOWN = "─"
# The marks of events on the track by rank, 0 where there is none. The cursor there is a triangle, too, so
# these are not severity signs.
_MARKS = ("", "·", "!", "×")
# The least width of the track of a live view.
MIN_TRACK = 8
# The most events that the tooltip of a place lists.
MAX_LISTED = 3


@dataclass(frozen=True)
class TimeBarState:
    """What the time bar draws: a session, and the position and state of the playback."""

    mode: str
    is_playing: bool
    position: float
    span: tuple[float, float]
    speed: float = 1.0
    is_looped: bool = False
    has_present: bool = False
    has_history: bool = True
    marked: float | None = None
    overview: SessionSummary = field(default_factory=SessionSummary, compare=False)

    @property
    def length(self) -> float:
        return self.span[1] - self.span[0]

    def column(self, at: float, width: int) -> int:
        if self.length <= 0:
            return 0
        return min(max(round((at - self.span[0]) / self.length * (width - 1)), 0), width - 1)

    def time_at(self, column: int, width: int) -> float:
        share = min(max(column / max(1, width - 1), 0.0), 1.0)
        return self.span[0] + share * self.length


class Button(NamedTuple):
    """A button: its key or sign, its label in a long and a short form, and its action."""

    sign: str
    labels: tuple[str, str]
    action: str
    is_on: bool = False


def buttons(state: TimeBarState) -> list[Button]:
    """Return the buttons of the playback, ordered from the past to the future where that applies."""
    end = "live" if state.has_present else "end"
    pause = Button(*((PAUSE, ("pause", "")) if state.is_playing else (PLAY, ("play ", ""))), "pause")
    mark = Button("v", ("mark" if state.marked is None else "diff", ""), "mark")
    if not state.has_history:
        return [pause, mark, Button("⇥", (end, end), "to_end")]
    return [
        Button("⇤", ("start", ""), "to_start"),
        Button("{", ("1 min", "1m"), "skip(-60)"),
        Button("[", ("sample", ""), "step(-1)"),
        pause,
        Button("]", ("sample", ""), "step(1)"),
        Button("}", ("1 min", "1m"), "skip(60)"),
        Button("N", ("", ""), "event(-1)"),
        Button("n", ("event", "event"), "event(1)"),
        Button("-", ("", ""), "faster(-1)"),
        Button("+", ("speed", "speed"), "faster(1)"),
        *(() if state.has_present else (Button("L", ("loop", "loop"), "loop", state.is_looped),)),
        Button("b", ("go to", ""), "go_to"),
        mark,
        Button("⇥", (end, end), "to_end"),
    ]


def clock(at: float, span: tuple[float, float]) -> str:
    """Return the time of day, with the date if the session spans several days."""
    days = {time.localtime(each)[:3] for each in span}
    form = "%m-%d %H:%M:%S" if len(days) > 1 else "%H:%M:%S"
    return time.strftime(form, time.localtime(at))


def controls(state: TimeBarState, width: int, palette: Palette) -> Text:
    """Return the line with the state on the left and the buttons on the right, with the labels that fit."""
    shown = buttons(state)
    line = Text()
    for labels, apart, detail in ((0, 2, 2), (1, 2, 2), (2, 2, 2), (2, 2, 1), (2, 1, 1), (2, 1, 0)):
        left, right = _status(state, palette, detail), _buttons(shown, labels, apart, palette)
        line = Text.assemble(left, " " * max(1, width - left.cell_len - right.cell_len), right)
        if line.cell_len <= width:
            break
    line.no_wrap, line.end = True, ""
    line.truncate(width)
    return line


def _status(state: TimeBarState, palette: Palette, detail: int) -> Text:
    """Return the state. Each part is as wide as the session can make it, so nothing moves during playback."""
    line = Text()
    line.append(
        f" {state.mode} ", f"bold reverse {palette.good if state.mode == Mode.LIVE else palette.warning}"
    )
    line.append(f" {PLAY if state.is_playing else PAUSE} ")
    line.append(clock(state.position, state.span), Style(bold=True, meta={"press": "go_to"}))
    whole = units.length(state.length)
    if detail and state.has_history:
        line.append(f"  {units.length(state.position - state.span[0]):>{len(whole)}} / {whole}")
    if state.has_history:
        looped = LOOP if state.is_looped and not state.has_present else " "
        line.append(f" {f'{state.speed:g}×':>5}{looped}")
    if detail > 1:
        at = clock(state.position if state.marked is None else state.marked, state.span)
        mark = f" {MARK} {at}"
        line.append(mark if state.marked is not None else " " * len(mark), palette.accent)
    return line


def _buttons(shown: Sequence[Button], labels: int, apart: int, palette: Palette) -> Text:
    line = Text()
    for button in shown:
        press = Style(meta={"press": button.action})
        chosen = Style(reverse=button.is_on)
        line.append(" " * (apart // 2), press)
        line.append(button.sign, Style(bold=True, color=palette.accent) + chosen + press)
        words = button.labels[labels] if labels < len(button.labels) else ""
        if words:
            line.append(f" {words}", chosen + press)
        line.append(" " * ((apart + 1) // 2), press)
    return line


def live_line(state: TimeBarState, width: int, palette: Palette) -> Text:
    """Return the line of a live view: since when one can go back, warnings since then, and how to go back."""
    verbs = _buttons([Button("[", ("rewind", ""), "step(-1)"), *buttons(state)[3:4]], 0, 2, palette)
    more = _buttons(
        [Button("{", ("1 min", ""), "skip(-60)"), Button("v", ("compare", ""), "mark")], 0, 2, palette
    )
    start, now = Text(f" {clock(state.span[0], state.span)} ", palette.muted), Text(" now ", palette.muted)
    ends = start.cell_len + now.cell_len
    if width >= ends + verbs.cell_len + more.cell_len + MIN_TRACK:
        verbs.append_text(more)
    room = width - ends - verbs.cell_len
    if room < MIN_TRACK:
        verbs.truncate(width)
        return verbs
    marks = _marks(glance(state, room), palette)
    line = Text.assemble(start, _text([mark or (UNKNOWN, Style(color=palette.muted)) for mark in marks]))
    return Text.assemble(line, now, verbs, no_wrap=True, end="")


class Glance(NamedTuple):
    """Per column: the most memory, the rank of the worst event, and whether hosts were missing."""

    used: tuple[float | None, ...] = ()
    ranks: tuple[int, ...] = ()
    missing: tuple[bool, ...] = ()


def glance(state: TimeBarState, width: int) -> Glance:
    used: list[float | None] = [None] * width
    ranks, missing = [0] * width, [False] * width
    if not width:
        return Glance()
    for each in state.overview.bins:
        if each.until < state.span[0] or each.at > state.span[1]:
            continue
        for x in range(state.column(each.at, width), state.column(each.until, width) + 1):
            if each.used_bytes is not None:
                used[x] = max(used[x] or 0, each.used_bytes)
            missing[x] = missing[x] or each.live < each.expected
    for event in state.overview.events:
        if state.span[0] <= event.at <= state.span[1]:
            x = state.column(event.at, width)
            ranks[x] = max(ranks[x], event.rank + 1)
    return Glance(tuple(used), tuple(ranks), tuple(missing))


def track(state: TimeBarState, found: Glance, rows: int, palette: Palette) -> Text:
    """Draw the whole session: memory, events, the mark and the current position.

    If there is only one row, events replace the memory at their columns.
    """
    width = len(found.used)
    if not width or rows < 1:
        return Text(end="")
    at = state.column(state.position, width)
    marked = None if state.marked is None else state.column(state.marked, width)
    curve = _curve(found, palette)
    marks = _marks(found, palette)
    accent = Style(bold=True, color=palette.accent)
    line = marks if rows > 1 else [mark or memory for mark, memory in zip(marks, curve, strict=True)]
    if marked is not None:
        line[marked] = MARK, accent
    if rows > 1:
        curve[at] = CURSOR_ABOVE, accent
        if at != marked and not found.ranks[at]:
            line[at] = CURSOR_BELOW, accent
        return Text("\n", no_wrap=True, end="").join([_text(curve), _text(line)])
    line[at] = CURSOR_ABOVE, accent
    return _text(line)


_Cell = tuple[str, Style]


def _curve(found: Glance, palette: Palette) -> list[_Cell | None]:
    heights = sparkline(found.used)
    full, short, none = (Style(color=each) for each in (palette.trend, palette.bad, palette.muted))
    return [
        (UNKNOWN, none) if used is None else (height, short if missing else full)
        for height, used, missing in zip(heights, found.used, found.missing, strict=True)
    ]


def _marks(found: Glance, palette: Palette) -> list[_Cell | None]:
    colours = (palette.muted, palette.muted, palette.warning, palette.bad)
    styles = [Style(color=colour, bold=rank > 1) for rank, colour in enumerate(colours)]
    return [(_MARKS[rank], styles[rank]) if rank else None for rank in found.ranks]


def _text(cells: Sequence[_Cell | None]) -> Text:
    """Return the cells as a line; each piece of one style costs the terminal a code."""
    line = Text(no_wrap=True, end="")
    for style, alike in groupby((cell or (" ", None) for cell in cells), key=itemgetter(1)):
        line.append("".join(character for character, _ in alike), style)
    return line


def events_at(state: TimeBarState, column: int, width: int) -> list[LoggedEvent]:
    """Return the events at a column, the most severe first; of equal ones, the latest first."""
    found = [
        event
        for event in state.overview.events
        if state.span[0] <= event.at <= state.span[1] and state.column(event.at, width) == column
    ]
    return sorted(found, key=lambda event: (-event.rank, -event.at))


def tip(state: TimeBarState, column: int, width: int) -> str:
    """Return the tooltip of a column: its time, the most memory on a device, and the events there."""
    at = state.time_at(column, width)
    lines = [clock(at, state.span)]
    used = next((each.used_bytes for each in state.overview.bins if each.at <= at < each.until), None)
    if used is not None:
        lines[0] += f"  {units.size(used)} on the fullest device"
    found = events_at(state, column, width)
    for event in found[:MAX_LISTED]:
        sign = event.sign
        lines.append(text.printable(f"{sign} {clock(event.at, state.span)} {event.text}"))
    if len(found) > MAX_LISTED:
        lines.append(f"and {len(found) - MAX_LISTED:,} more")
    return "\n".join(lines)
