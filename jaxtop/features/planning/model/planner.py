"""The plan: today's layout and the candidates with all that is predicted for them."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

from jaxtop.base.units import in_bytes
from jaxtop.features.planning.model.array_kinds import RunArrays
from jaxtop.features.planning.model.candidates import meshes
from jaxtop.features.planning.model.memory import in_words, memory_of
from jaxtop.features.planning.model.moves import moves
from jaxtop.features.planning.model.plan import (
    DEVICE_SECONDS,
    JOULES,
    Basis,
    Candidate,
    Goal,
    Interval,
    Plan,
)
from jaxtop.features.planning.model.roles import axes_in
from jaxtop.features.planning.model.sharding import if_divided, state_bytes
from jaxtop.features.planning.model.temporaries import is_as_today
from jaxtop.features.planning.model.times.timing import error_of_today, time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import (
        CompiledCandidate,
        PlacedArray,
        PlanRequest,
        ShardingRule,
        Today,
    )

# The number of candidates in a plan; what is left out is counted in its notes.
MAX_CANDIDATES = 64
# The first array of a kind, and how many there are.
_Alike = tuple["PlacedArray", int]
SAME_WORK = "the same arrays and the same global batch as today"


def plan(
    today: Today,
    asked: PlanRequest,
    compiled: Mapping[tuple[Axes, tuple[ShardingRule, ...]], CompiledCandidate] | None = None,
) -> Plan:
    """Return the plan for what is asked; `compiled` has what real compilations gave, by mesh and rules.

    Raises:
        CannotPlan: What is asked cannot be planned.
    """
    arrays = RunArrays(today)
    choices = meshes(arrays, asked)
    limit = today.limit_bytes if asked.limit_bytes is None else asked.limit_bytes
    first, *rest = [
        predict(arrays, axes, rules, limit, (compiled or {}).get((axes, rules)))
        for axes, rules in choices[:MAX_CANDIDATES]
    ]
    notes = list(today.unknown)
    if (left_out := len(choices) - MAX_CANDIDATES) > 0:
        notes.append(f"{left_out} more meshes are left out; name one with --mesh")
    if compiled is None and (undecided := sum(_is_undecided(each, limit) for each in rest)):
        notes.append(
            f"the limit lies within the memory of {undecided} candidate{'s' * (undecided > 1)}:"
            " --compile PROGRAM decides whether such a one fits, --peaks narrows its bounds"
        )
    return Plan(
        run=today.run,
        goal=asked.goal,
        limit_bytes=limit,
        is_limit_simulated=today.is_limit_simulated and asked.limit_bytes is None,
        candidates=(first, *sorted(rest, key=lambda each: _order(each, asked.goal))),
        moves=moves(today, lambda axes, rules: predict(arrays, axes, rules, limit), limit),
        error_of_today=error_of_today(arrays.layout(today.axes).today),
        notes=tuple(notes),
        name=today.name,
        energy_unit=DEVICE_SECONDS if today.watts_per_device is None else JOULES,
        step_ms_today=None if today.step is None else today.step.step_ms,
    )


def predict(
    arrays: RunArrays,
    axes: Axes,
    rules: tuple[ShardingRule, ...] = (),
    limit: int | None = None,
    compiled: CompiledCandidate | None = None,
) -> Candidate:
    """Return what is predicted for a mesh with these rules.

    Raises:
        CannotPlan: A rule matches no array, or names an axis that the mesh lacks.
    """
    layout = arrays.layout(axes, rules)
    today, placed = layout.today, layout.placed
    is_today = axes == today.axes and is_as_today(today, axes, placed)
    divided = if_divided(placed)
    held, least = state_bytes(today, axes, placed), state_bytes(today, axes, divided)
    memory = memory_of(today, axes, placed, layout.uses, compiled)
    timed = time_of(today, axes, placed, compiled)
    step = timed.step
    if step is not None and divided != placed:
        other = time_of(today, axes, divided, compiled).step or step
        step = Interval(min(step.low, other.low), max(step.high, other.high))
    bases = [
        Basis("state", in_words(least, held), "the shards of all named arrays on the fullest device"),
        *memory.bases,
    ]
    if memory.interval is not None:
        bases.append(Basis("memory", in_words(*memory.interval), "the sum of these parts"))
    if limit is not None:
        is_asked = limit != today.limit_bytes
        bases.append(
            Basis("limit", in_bytes(limit), "as asked" if is_asked else "the allocator of the fullest device")
        )
    return Candidate(
        axes=axes,
        is_today=is_today,
        fits=_fits(limit, least, memory.interval),
        state_bytes_per_device=held,
        memory_bytes=memory.interval,
        step_ms=step,
        communication_ms=timed.communication_ms,
        changes=tuple(_changes(today, axes, list(layout.firsts()))),
        assumptions=tuple(
            dict.fromkeys([*([] if is_today else [SAME_WORK]), *memory.assumptions, *timed.assumptions])
        ),
        basis=(*bases, *timed.bases),
        placed=layout.all_placed,
        rules=rules,
        energy=timed.energy,
        state_least_bytes=least,
    )


def _fits(limit: int | None, least: int, memory: Interval | None) -> bool | None:
    """Return whether a candidate fits for certain, or for certain does not; None where neither is."""
    if limit is None:
        return None
    if least > limit or (memory is not None and memory.low > limit):
        return False
    return True if memory is not None and memory.high <= limit else None


def _is_undecided(each: Candidate, limit: int | None) -> bool:
    memory = each.memory_bytes
    return limit is not None and memory is not None and memory.low <= limit < memory.high


def _order(each: Candidate, goal: Goal) -> tuple[bool, float, float]:
    step, memory = each.step_ms, each.memory_bytes
    wanted = {
        Goal.THROUGHPUT: None if step is None else step.middle,
        Goal.LATENCY: None if step is None else step.high,
        Goal.ENERGY: each.energy,
    }[goal]
    held = each.state_bytes_per_device if memory is None else memory.middle
    return each.fits is False, inf if wanted is None else wanted, held


def _changes(today: Today, axes: Axes, placed: Sequence[_Alike]) -> Iterator[str]:
    """Yield what is different from today, a line each; `placed` has the first of each kind of array."""
    old, new = dict(today.axes), dict(axes)
    before, after = len(today.device_ids), prod(new.values())
    if before != after:
        yield f"{after} device{'s' * (after > 1)} instead of {before}"
    used = {axis for each, _ in placed for axis in axes_in(each.parts)}
    hidden = {axis for each, _ in placed if each.divided for axis in axes_in(each.divided.parts)} - used
    for axis, size in axes:
        if axis in hidden:
            yield (
                f"axis {axis} has size 1 today, and shardings do not show such axes: from all arrays divided"
                " by it to each replicated"
            )
        elif size > 1 and axis not in used:
            yield f"axis {axis} divides no array that was counted: each is replicated over it"
    for axis, size in today.axes:
        if size > 1 and axis not in new:
            yield f"axis {axis} is gone: what it divided is whole"
    moved = [(each, alike) for each, alike in placed if each.parts is not None and _lies_otherwise(each)]
    if moved:
        freed = sum(
            (each.tensor.bytes_per_device - each.bytes_per_device) * each.tensor.count * alike
            for each, alike in moved
        )
        less = "less" if freed > 0 else "more"
        what = f"{in_bytes(abs(freed))} {less} on a device" if freed else "as many bytes on a device"
        yield f"{_several(moved)} divided otherwise: {what}"
    notes: dict[str, list[_Alike]] = {}
    for each, alike in placed:
        if each.note and each.tensor.name is not None:
            notes.setdefault(each.note, []).append((each, alike))
    for note, members in notes.items():
        yield f"{_several(members)}: {note}"
    yield from (f"axis {axis} is new" for axis in new if axis not in old and new[axis] > 1 and axis in used)


def _lies_otherwise(each: PlacedArray) -> bool:
    """Return whether other axes divide an array than today, whatever their sizes."""

    def axes_of(parts: Sequence[Sequence[str]] | None) -> set[tuple[int, str]]:
        return {(i, axis) for i, part in enumerate(parts or ()) for axis in part}

    return not axes_of(each.parts) <= axes_of(each.tensor.parts)


def _several(listed: Sequence[_Alike]) -> str:
    """Return the largest of these arrays by name, and how many others there are."""
    largest, _ = max(listed, key=lambda each: each[0].bytes_per_device * each[0].tensor.count)
    name = largest.tensor.name or "an array without a name"
    number = sum(alike for _, alike in listed)
    return f"{name} and {number - 1} more" if number > 1 else name
