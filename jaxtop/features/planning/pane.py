"""Plans as text: bars of memory and of step times, what changes, moves, and where each figure comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich import get_console
from rich.text import Text

from jaxtop.base import units
from jaxtop.features.planning.model import sentences
from jaxtop.tui.core import text
from jaxtop.tui.draw.panes.facts import pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.style import Style

    from jaxtop.features.planning.model.plan import Candidate, Interval, Move, PlacedArray, Plan
    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.bars import Segment
    from jaxtop.tui.draw.ink import Ink

SURE, POSSIBLE, LIMIT = "█", "▒", "│"
STEP, EXACT = "━", "◆"
# Of the arrays of a candidate the largest are listed.
MAX_ARRAYS = 200
# A line wraps at this width at least.
MIN_WORDS = 10


class Scales(NamedTuple):
    """What the bars of all candidates have in common: their ends, the limit, and the time of today's step."""

    bytes: float
    limit: int | None
    ms: float
    today_ms: float | None


def scales(plan: Plan) -> Scales:
    memory = [each.memory_bytes.high for each in plan.candidates if each.memory_bytes is not None]
    steps = [each.step_ms.high for each in plan.candidates if each.step_ms is not None]
    today = next((each.step_ms for each in plan.candidates if each.is_today), None)
    return Scales(
        max([*memory, plan.limit_bytes or 0]),
        plan.limit_bytes,
        max(steps, default=0),
        None if today is None else today.middle,
    )


def memory_bar(
    interval: Interval | None, scale: Scales, width: int, colour: str, palette: Palette
) -> list[Segment]:
    """Draw what is surely needed, then what may be needed, with a mark at the limit."""
    if interval is None or not scale.bytes:
        return [(units.NA, palette.muted, None)]
    low, high = (_place(bound, scale.bytes, width) for bound in interval)
    bar = SURE * low + POSSIBLE * (high - low) + " " * (width - high)
    if scale.limit is None:
        return [(bar, palette.trend, None)]
    at = min(width - 1, _place(scale.limit, scale.bytes, width))
    return [(bar[:at], colour, None), (LIMIT, palette.foreground, None), (bar[at + 1 :], colour, None)]


def step_bar(interval: Interval | None, scale: Scales, width: int, palette: Palette) -> list[Segment]:
    """Draw the interval of a step from 0 to the longest one, with a mark at today's."""
    if interval is None or not scale.ms:
        return [(units.NA, palette.muted, None)]
    low, high = (min(width - 1, _place(bound, scale.ms, width)) for bound in interval)
    inner = EXACT if low == high else STEP * (high - low + 1)
    bar = " " * low + inner + " " * (width - low - len(inner))
    colour = palette.trend
    if scale.today_ms is None:
        return [(bar, colour, None)]
    at = min(width - 1, _place(scale.today_ms, scale.ms, width))
    mark = LIMIT if bar[at] == " " else "┿" if inner != EXACT else EXACT
    return [(bar[:at], colour, None), (mark, palette.foreground, None), (bar[at + 1 :], colour, None)]


def _place(value: float, end: float, width: int) -> int:
    return min(width, max(0, round(value / end * width)))


def size(interval: Interval | None) -> str:
    return units.NA if interval is None else sentences.between(*map(units.size, interval))


def milliseconds(value: float) -> str:
    return units.micros(value * 1000)


def step(interval: Interval | None) -> str:
    return units.NA if interval is None else sentences.between(*map(milliseconds, interval))


def communication(candidate: Candidate) -> str:
    """Return the time of communication by axis, the longest first."""
    found = sentences.communication(candidate)
    if found is None:
        return units.NA
    longest = sorted(found.items(), key=lambda each: -each[1])
    return ", ".join(f"{axis} {milliseconds(taken)}" for axis, taken in longest) or "none"


def _limit(plan: Plan) -> tuple[str, str]:
    if plan.limit_bytes is None:
        return "", "no limit known"
    return "simulated limit" if plan.is_limit_simulated else "limit", units.size(plan.limit_bytes)


def summary(plan: Plan, ink: Ink, *, is_planning: bool, run: str = "") -> Text:
    """Return what the candidates are sorted by, the limit, and how wrong the formulas are today."""
    errors = [f"{name} {abs(error):.0%}" for name, error in plan.error_of_today.items()]
    facts = [
        *([("", text.printable(run))] if run else []),
        ("for", f"{plan.goal.value}, {sentences.ORDER[plan.goal]}"),
        _limit(plan),
        *([("prediction error", ", ".join(errors))] if errors else []),
        *([("", "planning…")] if is_planning else []),
    ]
    return pairs(facts, ink)


class _Line(NamedTuple):
    """A line with what stands before it. Where it wraps, it goes on some characters further in."""

    lead: str
    words: Text
    more: int = 2

    def whole(self) -> Text:
        return Text(self.lead, no_wrap=True, end="").append_text(self.words)

    def wrapped(self, width: int) -> Iterator[Text]:
        indent = len(self.lead) + self.more
        for number, row in enumerate(self.words.wrap(get_console(), max(MIN_WORDS, width - indent))):
            yield Text(" " * indent if number else self.lead).append_text(row)


_BLANK = _Line("", Text())


def below(candidate: Candidate, plan: Plan, ink: Ink, height: int) -> list[Text]:
    """Return the changes of a candidate, what is unknown, and the moves worth making."""
    changes = candidate.changes or (("nothing changes: this is today's layout",) * candidate.is_today)
    lines = [_titled("Changes", ink), *(_line(each) for each in changes)]
    if plan.notes:
        lines += [_titled("Unknown", ink), *(_line(each, ink.note) for each in plan.notes)]
    moves = [_titled("Moves worth making", ink)] if plan.moves else []
    for number, move in enumerate(plan.moves, 1):
        moves += _move(number, move, ink)
    # The moves come last, and the changes give way to them.
    room = max(height // 2, height - len(moves))
    if len(lines) > room:
        rest = len(lines) - room + 1
        lines = [*lines[: room - 1], _line(f"and {rest} more lines: press Enter", ink.note)]
    return [each.whole() for each in [*lines, *moves][:height]]


def _titled(title: str, ink: Ink) -> _Line:
    return _Line("", Text(text.printable(title), ink.figure))


def _line(line: str, style: str | Style = "", indent: int = 2) -> _Line:
    return _Line(" " * indent, Text(text.printable(line), style))


def _move(number: int, move: Move, ink: Ink) -> list[_Line]:
    title = Text(text.printable(move.title))
    title.append(f"  {sentences.gains(move, units.size, milliseconds)}", ink.note)
    return [_Line(f"  {number}. ", title), _line(move.change, ink.accent, 5)]


def explained(candidate: Candidate, plan: Plan, ink: Ink, width: int) -> Text:
    """Return where each figure of a candidate comes from, in lines of this width."""
    lines = [_titled(f"Where the figures of {sentences.label(candidate)} come from (Esc goes back)", ink)]
    for each in candidate.basis:
        line = _line(f"{each.figure} {each.value}")
        line.words.append(text.printable(f"  {each.source}"), ink.note)
        lines.append(line)
    lines += _section("Changes", candidate.changes, ink)
    lines += _section("Assumptions", candidate.assumptions, ink)
    lines += _section("Unknown", plan.notes, ink)
    if plan.moves:
        lines += [_BLANK, _titled("Moves worth making", ink)]
        for number, move in enumerate(plan.moves, 1):
            lines += [*_move(number, move, ink), _line(move.why, ink.note, 5)]
    if sentences.largest(candidate):
        lines += [_BLANK, _titled("Named arrays on the fullest device", ink), *_arrays(candidate, ink)]
    return Text("\n").join(row for line in lines for row in line.wrapped(width))


def _section(title: str, texts: tuple[str, ...], ink: Ink) -> list[_Line]:
    return [_BLANK, _titled(title, ink), *(_line(each) for each in texts)] if texts else []


def _arrays(candidate: Candidate, ink: Ink) -> Iterator[_Line]:
    largest = sentences.largest(candidate)
    for placed in largest[:MAX_ARRAYS]:
        yield _array(placed, ink)
    if rest := len(largest[MAX_ARRAYS:]):
        yield _line(f"and {rest:,} smaller ones", ink.note)


def _array(placed: PlacedArray, ink: Ink) -> _Line:
    tensor = placed.tensor
    both = tensor.bytes_per_device, placed.bytes_per_device
    before, after = (units.size(each * tensor.count) for each in both)
    held = after if before == after else f"{before} → {after}"
    kind = f"{tensor.dtype} {sentences.shape(tensor)}"
    line = Text(text.printable(tensor.name or units.NA))
    line.append(text.printable(f"  {kind}  {sentences.spec(placed)}"), ink.note)
    if placed.note:
        line.append(f"  {text.printable(placed.note)}", ink.style(ink.palette.warning))
    return _Line(f"  {held:>15}  ", line, 0)
