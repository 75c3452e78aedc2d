"""Plans as text: a table of the candidates with today's layout first, assumptions, and moves worth making."""

from __future__ import annotations

from itertools import zip_longest
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING

from jaxtop.base.names import legible
from jaxtop.base.units import in_bytes, in_ms
from jaxtop.features.planning.model import sentences
from jaxtop.features.planning.model.arguments import mesh_as_typed, rule_as_typed
from jaxtop.features.planning.model.plan import Goal
from jaxtop.features.planning.model.times.timing import OVERLAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtop.features.planning.model.plan import Candidate, Interval, Move, PlacedArray, Plan

MIN_WIDTH = 40
MAX_WIDTH = 250
# Of each candidate without --explain.
MAX_CHANGES = 3
# Of the arrays of a candidate with --explain, the largest.
MAX_ARRAYS = 12
# A space at which no line is broken.
_NO_BREAK_SPACE = "\u00a0"


def to_text(plan: Plan, width: int, *, explained: bool = False) -> str:
    """Return the plan in lines of at most this width; `explained` adds where each number comes from."""
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    simulated = "simulated " * plan.is_limit_simulated
    limit = "no limit known"
    if plan.limit_bytes is not None:
        limit = f"{simulated}limit {in_bytes(plan.limit_bytes)} a device"
    measured = f" ({in_ms(plan.step_ms_today)} a step)" if plan.step_ms_today is not None else ""
    head = f"{plan.name or plan.run}: today's layout{measured}, then {sentences.ORDER[plan.goal]}; {limit}"
    lines = [*_wrapped(head, width), "", *_candidates(plan, width)]
    if explained:
        for each in plan.candidates:
            lines += ["", *_wrapped(f"Where the figures of {_label(each)} come from", width)]
            lines += _explained(each, width)
    if plan.error_of_today:
        errors = ", ".join(f"{name} by {abs(error):.0%}" for name, error in plan.error_of_today.items())
        lines += ["", *_wrapped(f"The same formulas miss what was measured today: {errors}", width)]
    if any(each.step_ms is not None for each in plan.candidates):
        lines += ["", *_wrapped(f"STEP is {OVERLAP}", width)]
    lines += _section("Assumptions", _assumptions(plan), width)
    if plan.moves:
        lines += ["", "Moves worth making"]
        for number, move in enumerate(plan.moves, 1):
            lines += _move(number, move, width)
    lines += _section("Notes", plan.notes, width)
    return "\n".join(lines) + "\n"


def _candidates(plan: Plan, width: int) -> Iterator[str]:
    rows = [_facts(each, plan) for each in plan.candidates]
    titles = [title.upper() for title, _ in rows[0]]
    widths = _widths([titles, *([value for _, value in row] for row in rows)], width)
    if widths is not None:
        yield from _row(titles, widths)
    for candidate, row in zip(plan.candidates, rows, strict=True):
        if widths is not None:
            yield from _row([value for _, value in row], widths)
        else:
            yield from _block(row, width)
        shown = candidate.changes[:MAX_CHANGES]
        for change in shown:
            yield from _wrapped(change, width, 4)
        if rest := len(candidate.changes) - len(shown):
            yield from _wrapped(f"and {rest} more changes: --json lists all", width, 4)


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the widths of the columns; None if a table has no room, even with its long cells wrapped."""
    columns = list(zip(*rows, strict=True))
    found = [max(map(len, column)) for column in columns]
    # The first and the last column have texts, which may take several lines; the others have figures.
    for i in (-1, 0):
        least = max(len(word) for cell in columns[i] for word in cell.split(" "))
        found[i] = max(least, min(found[i], width - _taken(found) + found[i]))
    return found if _taken(found) <= width else None


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _row(values: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    cells = [wrap(value, room) for value, room in zip(values, widths, strict=True)]
    for line in zip_longest(*cells, fillvalue=""):
        yield "  ".join(map(str.ljust, line, widths)).replace(_NO_BREAK_SPACE, " ").rstrip()


def _block(row: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield the facts of a candidate on lines of their own, where a table has no room."""
    (_, label), *facts = row
    yield from _wrapped(label.replace(_NO_BREAK_SPACE, " "), width)
    titles = max(len(title) for title, _ in facts)
    for title, value in facts:
        first, *more = wrap(value, width - titles - 4)
        for line in (f"  {title:<{titles}}  {first}", *(" " * (titles + 4) + each for each in more)):
            yield line.replace(_NO_BREAK_SPACE, " ")


def _facts(candidate: Candidate, plan: Plan) -> list[tuple[str, str]]:
    """Return the titles and values of a candidate's cells."""
    shown = sentences.communication(candidate)
    communication = [_together(f"{axis} ~{in_ms(taken)}") for axis, taken in (shown or {}).items()]
    found = [
        ("mesh", " + ".join(map(_together, _label(candidate).split(" + ")))),
        ("devices", f"{candidate.devices:,}"),
        ("state", memory_in_words(candidate.state_bytes)),
        ("memory", memory_in_words(candidate.memory_bytes)),
        ("fits", sentences.fits(candidate, plan)),
        ("step", step_in_words(candidate.step_ms)),
        ("communication", ", ".join(communication) or (sentences.UNKNOWN if shown is None else "none")),
    ]
    if plan.goal is Goal.ENERGY:
        energy = candidate.energy
        worded = sentences.UNKNOWN if energy is None else _together(f"~{energy:.3g} {plan.energy_unit}")
        found.insert(-1, ("energy", worded))
    return found


def _label(candidate: Candidate) -> str:
    return legible(sentences.label(candidate))


def _together(text: str) -> str:
    """Return the text so that no line ends within it."""
    return legible(text).replace(" ", _NO_BREAK_SPACE)


def memory_in_words(interval: Interval | None) -> str:
    """Return an interval of memory such as `3.1–3.6 GiB`."""
    return (
        sentences.UNKNOWN
        if interval is None
        else sentences.between(in_bytes(interval.low), in_bytes(interval.high))
    )


def step_in_words(interval: Interval | None) -> str:
    """Return an interval of times such as `12.1–15.3 ms`; a single value is an estimate."""
    if interval is None:
        return sentences.UNKNOWN
    low, high = map(in_ms, interval)
    return f"~{low}" if low == high else sentences.between(low, high)


def _explained(candidate: Candidate, width: int) -> Iterator[str]:
    for each in candidate.basis:
        yield from _wrapped(f"{each.figure} {each.value}: {each.source}", width, 2)
    largest = sentences.largest(candidate)
    for placed in largest[:MAX_ARRAYS]:
        yield from _wrapped(_placed(placed), width, 2)
    if rest := len(largest[MAX_ARRAYS:]):
        yield from _wrapped(f"and {rest} smaller ones: --explain --json lists all arrays", width, 2)


def _placed(placed: PlacedArray) -> str:
    tensor = placed.tensor
    held = in_bytes(placed.bytes_per_device * tensor.count)
    note = f" ({placed.note})" * bool(placed.note)
    return f"{tensor.name} {tensor.dtype} {sentences.shape(tensor)}: {sentences.spec(placed)}, {held}{note}"


def _assumptions(plan: Plan) -> Iterator[str]:
    """Yield each assumption once, with the candidates that it is made for unless it is made for all."""
    made: dict[str, list[str]] = {}
    others = [each for each in plan.candidates if not each.is_today] or plan.candidates
    for candidate in plan.candidates:
        for assumption in candidate.assumptions:
            made.setdefault(assumption, []).append(_label(candidate))
    every = {_label(each) for each in others}
    for assumption, labels in made.items():
        if every <= set(labels):
            yield assumption
        else:
            more = f" and {len(labels) - 2} more" * (len(labels) > 2)
            yield f"{'; '.join(labels[:2])}{more}: {assumption}"


def _move(number: int, move: Move, width: int) -> Iterator[str]:
    worth = sentences.gains(move, in_bytes, in_ms)
    indent = len(f"{number}. ")
    yield from _wrapped(f"{number}. {move.title}: {worth}", width, indent, hang=-indent)
    yield from _wrapped(move.change, width, indent)
    yield from _wrapped(move.why, width, indent)
    asked = [f"--shard {quote(rule_as_typed(rule))}" for rule in move.rules]
    if move.axes is not None:
        asked.append(f"--mesh {quote(mesh_as_typed(move.axes))}")
    if asked:
        yield from _wrapped(f"alone: jaxtop plan {' '.join(asked)}", width, indent)


def _section(title: str, texts: Iterable[str], width: int) -> list[str]:
    lines = [line for text in texts for line in _wrapped(f"- {text}", width, 2, hang=-2)]
    return ["", title, *lines] if lines else []


def _wrapped(text: str, width: int, indent: int = 0, hang: int = 0) -> list[str]:
    """Return the lines of a text, indented; the first line by `hang` characters more, or less if negative."""
    return wrap(
        legible(text),
        width,
        initial_indent=" " * (indent + hang),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
    )
