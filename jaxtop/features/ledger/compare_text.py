"""A comparison as text and as JSON: the verdict first, then where the difference is, then what differs."""

from __future__ import annotations

import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import __version__
from jaxtop.base import units
from jaxtop.base.names import legible
from jaxtop.base.times import timestamp
from jaxtop.cli.text.words import aligned
from jaxtop.features.ledger.compare import BYTES, FINGERPRINT, LAUNCHES, MIN_DIFFERENCE_SHARE, Kind
from jaxtop.features.ledger.model import WORDS
from jaxtop.model.wall_time.time_spent import PRODUCTIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.features.ledger.compare import ComparedRun, Comparison, RunDifference, Shift, Value

SCHEMA = 1
# The most differences of one kind that are listed.
MAX_OF_A_KIND = 12
# Parts that take less than this share of a step in both runs are left out.
MIN_SHARE = 0.01
PARTS = {
    "compute": "compute",
    "communication": "communication",
    "waiting": "waiting for others",
    "host gap": "host gap",
    "unknown": "unknown",
}
HEADS = {
    Kind.LATE: "LATE",
    Kind.DEVICES: "PROCESSES AND DEVICES",
    Kind.FLAG: "FLAGS AND SETTINGS",
    Kind.VERSION: "VERSIONS",
    Kind.MESH: "MESHES",
    Kind.PROGRAM: "PROGRAMS",
    Kind.ARRAY: "LARGEST ARRAYS",
    Kind.FINDING: "FINDINGS",
}
_BYTES = frozenset({BYTES, "argument bytes", "temporary bytes"})
# From this factor on, the text says how many times as slow the slower one is.
TIMES_AS_SLOW = 2
# How much of a fingerprint is shown.
FINGERPRINT_DIGITS = 8


def verdict(found: Comparison) -> str:
    """Return in one sentence which is slower, by how much, and how much both waver."""
    a, b = found.a.took.usual, found.b.took.usual
    if found.noise is None:
        few = [name for name, side in _sides(found) if side.took.waver is None]
        show = f"{' and '.join(few)} show{'s' * (len(few) == 1)} too little"
        return f"A took {_ms(a)} a step and B {_ms(b)}; {show} to say whether that is noise"
    if not found.is_real:
        is_small = abs(found.gap) > found.noise
        small = f", and a difference below {_rounded(MIN_DIFFERENCE_SHARE)} is not judged" if is_small else ""
        return f"no difference beyond the noise: {_both_text(a, b)} a step, {_wavers(found)}{small}"
    slower, faster = max(a, b), min(a, b)
    return (
        f"{found.slower} is {_slower(found.share)}: "
        f"{_ms(slower)} a step instead of {_ms(faster)} ({_wavers(found)})"
    )


def _sides(found: Comparison) -> tuple[tuple[str, ComparedRun], tuple[str, ComparedRun]]:
    return ("A", found.a), ("B", found.b)


def _slower(share: float) -> str:
    if share >= TIMES_AS_SLOW - 1:
        return f"{share + 1:.2g} times as slow" if share < 99 else f"{share + 1:,.0f} times as slow"
    return f"{share * 100:.{1 if share < 0.0995 else 0}f} % slower"


def _ms(seconds: float) -> str:
    return units.in_ms(seconds * 1000)


def _both_text(a: float, b: float) -> str:
    one, other = _ms(a), _ms(b)
    if one == other:
        return f"both {one}"
    number, unit = one.rsplit(" ", 1)
    return f"{number} and {other}" if other.endswith(f" {unit}") else f"{one} and {other}"


def _wavers(found: Comparison) -> str:
    a, b = (_rounded(side.took.waver or 0.0) for _, side in _sides(found))
    return f"each wavers by {a}" if a == b else f"A wavers by {a}, B by {b}"


def _rounded(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.0095 else "less than 1 %"


def where(found: Comparison) -> str:
    """Return in one sentence in which part of a step most of the difference is; empty if nothing shows it."""
    if not found.is_real:
        return ""
    faster, slower = ("A", "B") if found.slower == "B" else ("B", "A")
    words = []
    for shifts, names in ((found.parts, PARTS), (_other_than_steps(found), WORDS)):
        part = found.most_of_it(shifts)
        if part is not None:
            more, less = (part.b, part.a) if slower == "B" else (part.a, part.b)
            name = names.get(part.name, part.name)
            words.append(f"{name} ({_ms(more)} in {slower}, {_ms(less)} in {faster})")
    if not words:
        return "no part of a step has most of it" if found.parts else ""
    return f"most of it is {words[0]}" + "".join(f"; by the ledgers it is {each}" for each in words[1:])


def _other_than_steps(found: Comparison) -> list[Shift]:
    return [each for each in found.spent if each.name != PRODUCTIVE]


def to_text(found: Comparison) -> str:
    lines = [verdict(found)]
    if place := where(found):
        lines.append(place)
    lines += ["", *aligned([_side_cells(name, side) for name, side in _sides(found)])]
    if found.is_real:
        lines += _table("PART OF A STEP", found.parts, PARTS, found)
        lines += _table("SPENT ON", found.spent, WORDS, found)
    differences = found.differences()
    if not differences:
        lines += ["", "nothing else that is known differs"]
    for kind, listed in groupby(differences, key=lambda each: each.kind):
        lines += _listed(kind, list(listed))
    return "\n".join(map(legible, lines)) + "\n"


def _side_cells(name: str, side: ComparedRun) -> tuple[str, ...]:
    took = side.took
    at = "" if side.at is None else time.strftime("until %Y-%m-%d %H:%M:%S", time.localtime(side.at))
    processes = f"{side.processes} process{'es' * (side.processes != 1)}"
    steps = f"{took.steps:,} steps in {units.age(took.seconds)}"
    return f"{name}:", side.name, side.run, processes, steps, at


def _table(head: str, shifts: Sequence[Shift], names: dict[str, str], found: Comparison) -> Iterator[str]:
    least = MIN_SHARE * min(found.a.took.usual, found.b.took.usual)
    rows = [each for each in shifts if max(each.a, each.b) >= least]
    if not rows:
        return
    yield ""
    yield from _right_aligned(
        [
            (head, "A", "B", "B - A"),
            *(
                (names.get(each.name, each.name), _ms(each.a), _ms(each.b), _signed(each.b - each.a))
                for each in rows
            ),
        ]
    )


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else ''}{_ms(seconds)}"


def _right_aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))).rstrip() for row in rows
    ]


def _listed(kind: Kind, differences: Sequence[RunDifference]) -> Iterator[str]:
    yield ""
    shown, left = differences[:MAX_OF_A_KIND], len(differences) - MAX_OF_A_KIND
    rows = [
        (each.name, each.figure, _value(each.figure, each.a), _value(each.figure, each.b))
        for each in shown
        if each.a is not None and each.b is not None
    ]
    if rows:
        has_figures = any(row[1] for row in rows)
        table = [(HEADS[kind], "", "A", "B"), *rows]
        yield from aligned(table if has_figures else [(row[0], *row[2:]) for row in table])
    else:
        yield HEADS[kind]
    for each in shown:
        if each.a is None or each.b is None:
            yield _only(each)
    if left > 0:
        yield f"and {left} more"


def _only(each: RunDifference) -> str:
    """Return what only one of the runs has, and what is to say about it."""
    which, about = ("B", each.b) if each.a is None else ("A", each.a)
    if each.kind is Kind.LATE:
        return f"only in {which}: {about or each.name}"
    joined = "=" if each.kind is Kind.FLAG else ": "
    return f"only in {which}: {each.name}" + (f"{joined}{about}" if about != "" else "")


def _value(figure: str, value: Value) -> str:
    if isinstance(value, str):
        return value[:FINGERPRINT_DIGITS] if figure == FINGERPRINT else value
    if figure in _BYTES:
        return units.in_bytes(value)
    if figure == "flops":
        return units.amount(value)
    return f"{value:.3g}" if figure == LAUNCHES else f"{value:,}"


def to_json(found: Comparison) -> str:
    document = {
        "schema": SCHEMA,
        "jaxtop": __version__,
        "verdict": verdict(found),
        "where": where(found) or None,
        "slower": found.slower.lower() or None,
        "is_beyond_noise": None if found.noise is None else found.is_real,
        "difference_ms": round(found.gap * 1000, 3),
        "difference_share": round(found.share, 4),
        "a": _as_value(found.a),
        "b": _as_value(found.b),
        "parts": [_shift(each) for each in found.parts],
        "spent": [_shift(each) for each in found.spent],
        "differences": [_difference(each) for each in found.differences()],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _as_value(side: ComparedRun) -> dict[str, Any]:
    took = side.took
    return {
        "name": side.name,
        "run": side.run or None,
        "at": None if side.at is None else timestamp(side.at),
        "processes": side.processes,
        "steps": took.steps,
        "seconds": round(took.seconds, 3),
        "step_ms": round(took.usual * 1000, 3),
        "wavers": None if took.waver is None else round(took.waver, 4),
        "samples_ms": [round(each * 1000, 3) for each in took.samples],
    }


def _shift(each: Shift) -> dict[str, Any]:
    return {
        "name": each.name.replace(" ", "_"),
        "a_ms": round(each.a * 1000, 3),
        "b_ms": round(each.b * 1000, 3),
    }


def _difference(each: RunDifference) -> dict[str, Any]:
    return {
        "kind": each.kind.value,
        "name": each.name,
        "figure": each.figure or None,
        "a": each.a,
        "b": each.b,
    }
