"""The memory of a device on the mesh of a candidate: what the step's program needs, and other arrays."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.units import in_bytes
from jaxtop.features.planning.model.plan import Basis, Interval
from jaxtop.features.planning.model.sharding import if_divided, on_fullest
from jaxtop.features.planning.model.temporaries import scaled, temporaries
from jaxtop.model.arrays.tree import path_parts as steps_of_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import CompiledCandidate, PlacedArray, Today

# Variables that may be arguments are tried in all combinations, the largest of them only.
MAX_VARIABLES = 12
# The results of a program include a table of them, and single numbers such as a loss.
TABLE_BYTES = 16
NO_TEMPORARIES = "the compiler reports no temporaries, and no process has sent its buffers"
# Results are explained by arrays that differ from them by at most this share.
SIZE_TOLERANCE = 0.05


class PredictedMemory(NamedTuple):
    """What is predicted for a candidate's memory; the interval is None where the compiler reports nothing."""

    interval: Interval | None
    bases: tuple[Basis, ...]
    assumptions: tuple[str, ...]


class ExplainedBytes(NamedTuple):
    """The arrays that make up a number of bytes of today, by position, their variables, and what is left."""

    members: frozenset[int] = frozenset()
    variables: tuple[str, ...] = ()
    rest: int = 0


class Uses(NamedTuple):
    """The arrays that the step's program takes, and those that are its results and reuse none of these.

    None where the program or its sizes are unknown.
    """

    arguments: ExplainedBytes | None
    results: ExplainedBytes | None


class _Part(NamedTuple):
    """A part of the memory of a device: its bounds, and how it was computed."""

    figure: str
    low: float
    high: float
    source: str


def memory_of(
    today: Today,
    axes: Axes,
    placed: Sequence[PlacedArray],
    uses: Uses,
    compiled: CompiledCandidate | None = None,
) -> PredictedMemory:
    """Return the bytes on the fullest device while the step runs.

    They are the arguments, results and temporaries of its program, less the results that reuse arguments, and
    the named arrays that are not arguments. Where arrays have hidden axes, the interval reaches from all of
    them divided to none.
    """
    arguments = uses.arguments
    if arguments is None:
        is_unknown = today.program is None
        what = "the program of the step is not known" if is_unknown else "the compiler reports no sizes"
        return PredictedMemory(None, (), (f"no memory of a launch: {what}",))
    parts = _parts(today, axes, placed, uses, compiled)
    if parts is None:
        return PredictedMemory(None, (), (f"no memory of a launch: {NO_TEMPORARIES}",))
    if any(each.divided for each in placed):
        is_whole = compiled is not None and compiled.unnamed
        other = _parts(today, axes, if_divided(placed), uses, None if is_whole else compiled)
        parts = [_united(*pair) for pair in zip(parts, other or parts, strict=True)]
    interval = Interval(round(sum(part.low for part in parts)), round(sum(part.high for part in parts)))
    bases = (Basis(part.figure, in_words(part.low, part.high), part.source) for part in parts)
    return PredictedMemory(interval, tuple(bases), tuple(_assumptions(today, arguments, compiled)))


def _parts(
    today: Today, axes: Axes, placed: Sequence[PlacedArray], uses: Uses, compiled: CompiledCandidate | None
) -> list[_Part] | None:
    """Return the parts of the memory of a device; None where results or temporaries are unknown."""
    found = _compiled(compiled) if compiled is not None and not compiled.why_not else None
    if found is None:
        found = _predicted(today, axes, placed, uses)
    if found is None:
        return None
    taken = uses.arguments.members if uses.arguments is not None else ()
    others = [each for i, each in enumerate(placed) if i not in taken and each.tensor.name is not None]
    held = on_fullest(today, axes, others)
    return [*found, _Part("other arrays", held, held, "named arrays that are no arguments of the program")]


def _united(one: _Part, other: _Part) -> _Part:
    return one._replace(low=min(one.low, other.low), high=max(one.high, other.high))


def in_words(low: float, high: float) -> str:
    least, most = in_bytes(low), in_bytes(high)
    return least if least == most else f"{least} to {most}"


def _compiled(compiled: CompiledCandidate) -> list[_Part]:
    source = "compiled for CPU, on this mesh"
    results = compiled.output_bytes - compiled.alias_bytes
    return [
        _Part("arguments", compiled.argument_bytes, compiled.argument_bytes, source),
        _Part("results", results, results, f"{source}, without those that reuse arguments"),
        _Part("temporaries", compiled.temp_bytes, compiled.temp_bytes, source),
    ]


def _predicted(today: Today, axes: Axes, placed: Sequence[PlacedArray], uses: Uses) -> list[_Part] | None:
    """Return the parts of a launch's memory; None where its results or temporaries are unknown today."""
    arguments, results = uses
    needed = temporaries(today, axes, placed)
    if needed is None or arguments is None or results is None:
        return None
    return [
        _rescaled("arguments", today, axes, placed, arguments),
        _rescaled("results", today, axes, placed, results),
        _Part("temporaries", needed.low, needed.high, needed.source),
    ]


def _rescaled(
    figure: str, today: Today, axes: Axes, placed: Sequence[PlacedArray], explained: ExplainedBytes
) -> _Part:
    """Return bytes of today that mostly belong to arrays, on a candidate."""
    held = sum(placed[i].bytes_per_device * placed[i].tensor.count for i in explained.members)
    is_scaled = explained.rest > TABLE_BYTES * (1 + sum(placed[i].tensor.count for i in explained.members))
    low, high = scaled(today, axes, placed, explained.rest) if is_scaled else (explained.rest, explained.rest)
    names = explained.variables
    source = (
        f"the arrays of {', '.join(names[:4])}{' and others' * (len(names) > 4)}"
        if names
        else "no named array"
    )
    if is_scaled:
        source += f"; {in_bytes(explained.rest)} of today have no name and are scaled"
    if figure == "results":
        source += "; results that reuse arguments are left out"
    return _Part(figure, max(0, held + low), max(0, held + high), source)


def _assumptions(
    today: Today, arguments: ExplainedBytes, compiled: CompiledCandidate | None
) -> Iterable[str]:
    program = today.program
    if program is not None and program.devices not in (None, len(today.device_ids)):
        yield f"the step's program runs on {program.devices} devices, the mesh has {len(today.device_ids)}"
    if compiled is not None and compiled.note:
        yield compiled.note
    if compiled is not None and not compiled.why_not:
        other = f"; the compiler for {today.platform} may need other temporaries"
        yield f"memory and collectives are compiled for CPU{other if today.platform != 'cpu' else ''}"
    if compiled is not None and compiled.why_not:
        yield f"not compiled: {compiled.why_not}"
    if program is not None and arguments.rest > SIZE_TOLERANCE * max(1, program.argument_bytes or 0):
        yield f"{in_bytes(arguments.rest)} of the program's arguments belong to no named array"
    nameless = [each for each in today.tensors if each.name is None and not each.is_on_host]
    held = sum(each.bytes_per_device * each.count for each in nameless)
    if held > SIZE_TOLERANCE * max(1, program.argument_bytes or 0 if program else 0):
        yield f"arrays without a name are left out: up to {in_bytes(held)} on a device today"


# Which arrays a program takes


def uses_of(today: Today) -> Uses:
    """Return the arrays that the step's program takes and returns, by their bytes on a device."""
    program, beyond = today.program, _new_results(today)
    if program is None or program.argument_bytes is None:
        return Uses(None, None)
    arguments = _explained(today, program.argument_bytes)
    if beyond is None:
        return Uses(arguments, None)
    results = _explained(today, beyond)
    return Uses(
        arguments, ExplainedBytes(rest=beyond) if abs(results.rest) > SIZE_TOLERANCE * beyond else results
    )


def _new_results(today: Today) -> int | None:
    """Return the bytes of results that do not reuse arguments; None where unknown."""
    program, peak = today.program, today.peak
    if program is not None and program.output_bytes is not None and program.alias_bytes is not None:
        return program.output_bytes - program.alias_bytes
    return peak.result_bytes if peak is not None and not peak.why_not else None


def _explained(today: Today, size: int) -> ExplainedBytes:
    """Return the named arrays whose bytes on a device come closest to this size.

    The arrays of a variable with one role belong together.
    """
    units: dict[tuple[str, str | None], list[int]] = {}
    for i, each in enumerate(today.tensors):
        if each.name is not None and not each.is_on_host:
            units.setdefault((steps_of_name(each.name)[0], each.role), []).append(i)
    sizes = [
        sum(today.tensors[i].bytes_per_device * today.tensors[i].count for i in members)
        for members in units.values()
    ]
    chosen = _closest(
        tuple((each, role is not None) for each, (_, role) in zip(sizes, units, strict=True)), size
    )
    taken = [each for number, each in enumerate(units.items()) if number in chosen]
    return ExplainedBytes(
        frozenset(i for _, members in taken for i in members),
        tuple(sorted({variable for (variable, _), _ in taken})),
        size - sum(sizes[number] for number in chosen),
    )


@lru_cache(maxsize=64)
def _closest(units: tuple[tuple[int, bool], ...], size: int) -> frozenset[int]:
    """Return the numbers that add up to the closest to this size.

    Among equal sums, the one with most of the marked numbers is taken, as a program takes arrays of known
    roles rather than copies of them.
    """
    order = sorted(range(len(units)), key=lambda number: -units[number][0])
    tried, small = order[:MAX_VARIABLES], order[MAX_VARIABLES:]
    best: tuple[int, int, int] | None = None
    chosen: list[int] = []
    for choice in range(1 << len(tried)):
        numbers = [number for i, number in enumerate(tried) if choice >> i & 1]
        total = sum(units[number][0] for number in numbers)
        rank = -abs(size - total), sum(units[number][0] for number in numbers if units[number][1]), -choice
        if best is None or rank > best:
            best, chosen = rank, numbers
    rest = size - sum(units[number][0] for number in chosen)
    for number in small:
        if 0 < units[number][0] <= rest:
            chosen = [*chosen, number]
            rest -= units[number][0]
    return frozenset(chosen)
