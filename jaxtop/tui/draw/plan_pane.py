"""Plans as text: bars of memory and of step times, what changes, moves, and where each figure comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.model.planning import words
from jaxtop.tui.core import text
from jaxtop.tui.draw.facts import pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.planning.plan import Candidate, Interval, Move, Placed, Plan
    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.ink import Ink
    from jaxtop.tui.draw.stacked import Segment

SURE, POSSIBLE, LIMIT = "█", "▒", "│"
STEP, EXACT = "━", "◆"
# Of the arrays of a candidate the largest are listed.
MOST_ARRAYS = 200


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
        return [(text.NA, palette.muted, None)]
    low, high = (_place(bound, scale.bytes, width) for bound in interval)
    bar = SURE * low + POSSIBLE * (high - low) + " " * (width - high)
    if scale.limit is None:
        return [(bar, palette.trend(has_limit=False), None)]
    at = min(width - 1, _place(scale.limit, scale.bytes, width))
    return [(bar[:at], colour, None), (LIMIT, palette.foreground, None), (bar[at + 1 :], colour, None)]


def step_bar(interval: Interval | None, scale: Scales, width: int, palette: Palette) -> list[Segment]:
    """Draw the interval of a step from 0 to the longest one, with a mark at today's."""
    if interval is None or not scale.ms:
        return [(text.NA, palette.muted, None)]
    low, high = (min(width - 1, _place(bound, scale.ms, width)) for bound in interval)
    inner = EXACT if low == high else STEP * (high - low + 1)
    bar = " " * low + inner + " " * (width - low - len(inner))
    colour = palette.trend()
    if scale.today_ms is None:
        return [(bar, colour, None)]
    at = min(width - 1, _place(scale.today_ms, scale.ms, width))
    mark = LIMIT if bar[at] == " " else "┿" if inner != EXACT else EXACT
    return [(bar[:at], colour, None), (mark, palette.foreground, None), (bar[at + 1 :], colour, None)]


def _place(value: float, end: float, width: int) -> int:
    return min(width, max(0, round(value / end * width)))


def size(interval: Interval | None) -> str:
    return text.NA if interval is None else words.between(*map(text.size, interval))


def milliseconds(value: float) -> str:
    return text.micros(value * 1000)


def step(interval: Interval | None) -> str:
    return text.NA if interval is None else words.between(*map(milliseconds, interval))


def communication(candidate: Candidate) -> str:
    """Return the time of communication by axis, the longest first."""
    found = words.communication(candidate)
    if found is None:
        return text.NA
    longest = sorted(found.items(), key=lambda each: -each[1])
    return ", ".join(f"{axis} {milliseconds(taken)}" for axis, taken in longest) or "none"


def summary(plan: Plan, ink: Ink, *, is_planning: bool, run: str = "") -> Text:
    """Return what the candidates are sorted by, the limit, and how wrong the formulas are today."""
    errors = [f"{name} {abs(error):.0%}" for name, error in plan.error_of_today.items()]
    facts = [
        *([("", text.printable(run))] if run else []),
        ("for", f"{plan.goal.value}, {words.ORDER[plan.goal]}"),
        ("limit", "unknown" if plan.limit_bytes is None else text.size(plan.limit_bytes)),
        *([("errors today", ", ".join(errors))] if errors else []),
        *([("", "planning…")] if is_planning else []),
    ]
    return pairs(facts, ink)


def below(candidate: Candidate, plan: Plan, ink: Ink, height: int) -> list[Text]:
    """Return the changes of a candidate, what is unknown, and the moves worth making."""
    changes = candidate.changes or (("nothing changes: this is today's layout",) * candidate.is_today)
    lines = [_titled("Changes", ink), *(_line(each) for each in changes)]
    if plan.notes:
        lines += [_titled("Unknown", ink), *(_line(each, ink) for each in plan.notes)]
    moves = [_titled("Moves worth making", ink)] if plan.moves else []
    for number, move in enumerate(plan.moves, 1):
        moves += _move(number, move, ink)
    # The moves come last, and the changes give way to them.
    room = max(height // 2, height - len(moves))
    if len(lines) > room:
        rest = len(lines) - room + 1
        lines = [*lines[: room - 1], _line(f"and {rest} more lines: press Enter", ink)]
    return [*lines, *moves][:height]


def _titled(title: str, ink: Ink) -> Text:
    return Text(title, ink.bold, no_wrap=True, end="")


def _line(line: str, ink: Ink | None = None) -> Text:
    return Text(f"  {text.printable(line)}", ink.muted if ink else "", no_wrap=True, end="")


def _move(number: int, move: Move, ink: Ink) -> list[Text]:
    first = Text(f"  {number}. {text.printable(move.title)}", no_wrap=True, end="")
    first.append(f"  {words.gains(move, text.size, milliseconds)}", ink.muted)
    return [first, Text(f"     {text.printable(move.change)}", ink.accent, no_wrap=True, end="")]


def explained(candidate: Candidate, plan: Plan, ink: Ink) -> Text:
    """Return where each figure of a candidate comes from; lines wrap where they are shown."""
    lines = [
        Text(
            text.printable(f"Where the figures of {words.label(candidate)} come from (Esc goes back)"),
            ink.bold,
        )
    ]
    for each in candidate.basis:
        line = Text("  ")
        line.append(text.printable(f"{each.figure} {each.value}"))
        line.append(text.printable(f"  {each.source}"), ink.muted)
        lines.append(line)
    lines += _section("Changes", candidate.changes, ink)
    lines += _section("Assumptions", candidate.assumptions, ink)
    lines += _section("Unknown", plan.notes, ink)
    if plan.moves:
        lines += [Text(), _titled("Moves worth making", ink)]
        for number, move in enumerate(plan.moves, 1):
            lines += [*_move(number, move, ink), Text(f"     {text.printable(move.why)}", ink.muted)]
    if words.largest(candidate):
        lines += [Text(), _titled("Named arrays on the fullest device", ink), *_arrays(candidate, ink)]
    return Text("\n").join(lines)


def _section(title: str, texts: tuple[str, ...], ink: Ink) -> list[Text]:
    return [Text(), _titled(title, ink), *(_line(each) for each in texts)] if texts else []


def _arrays(candidate: Candidate, ink: Ink) -> Iterator[Text]:
    largest = words.largest(candidate)
    for placed in largest[:MOST_ARRAYS]:
        yield _array(placed, ink)
    if rest := len(largest[MOST_ARRAYS:]):
        yield _line(f"and {rest:,} smaller ones", ink)


def _array(placed: Placed, ink: Ink) -> Text:
    tensor = placed.tensor
    both = tensor.bytes_per_device, placed.bytes_per_device
    before, after = (text.size(each * tensor.count) for each in both)
    held = after if before == after else f"{before} → {after}"
    kind = f"{tensor.dtype} {words.shape(tensor)}"
    line = Text(f"  {held:>15}  ")
    line.append(text.printable(tensor.name or text.NA))
    line.append(text.printable(f"  {kind}  {words.spec(placed)}"), ink.muted)
    if placed.note:
        line.append(f"  {text.printable(placed.note)}", ink.style(ink.palette.warning))
    return line
