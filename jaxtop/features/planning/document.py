"""Plans as JSON. Fields may be added; none is renamed or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import __version__
from jaxtop.base.times import timestamp
from jaxtop.features.planning.model.arguments import rule_as_typed, spec_in_words

if TYPE_CHECKING:
    from jaxtop.features.planning.model.plan import Candidate, Move, PlacedArray, Plan

SCHEMA = 1
# Decimals of milliseconds and joules: a thousandth of a microsecond is below every measurement.
_DECIMALS = 6


def to_json(plan: Plan, at: float, *, with_arrays: bool = False) -> str:
    """Return a plan made of a run at this time; `with_arrays` adds the arrays of each candidate."""
    document = {
        "schema": SCHEMA,
        "jaxtop": __version__,
        "at": timestamp(at),
        "run": plan.run,
        "name": plan.name,
        "goal": plan.goal.value,
        "limit_bytes": plan.limit_bytes,
        "energy_unit": plan.energy_unit,
        "candidates": [_candidate(each, with_arrays=with_arrays) for each in plan.candidates],
        "moves": [_move(each) for each in plan.moves],
        "step_ms_today": _rounded(plan.step_ms_today),
        "error_of_today": {name: round(error, _DECIMALS) for name, error in plan.error_of_today.items()},
        "notes": plan.notes,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _candidate(candidate: Candidate, *, with_arrays: bool) -> dict[str, Any]:
    memory, step = candidate.memory_bytes, candidate.step_ms
    return {
        "mesh": dict(candidate.axes),
        "devices": candidate.devices,
        "today": candidate.is_today,
        "shard": [rule_as_typed(rule) for rule in candidate.rules],
        "fits": candidate.fits,
        "state_bytes_per_device": candidate.state_bytes_per_device,
        "state_bytes_bounds": [candidate.state_bytes.low, candidate.state_bytes.high],
        "memory_bytes_per_device": None if memory is None else [round(memory.low), round(memory.high)],
        "step_ms": None if step is None else [round(bound, _DECIMALS) for bound in step],
        "communication_ms": {
            axis: round(taken, _DECIMALS) for axis, taken in candidate.communication_ms.items()
        },
        "energy": _rounded(candidate.energy),
        "changes": candidate.changes,
        "assumptions": candidate.assumptions,
        "basis": [each._asdict() for each in candidate.basis],
        **({"arrays": [_array(each) for each in candidate.placed]} if with_arrays else {}),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)


def _array(placed: PlacedArray) -> dict[str, Any]:
    tensor = placed.tensor
    return {
        "name": tensor.name,
        "role": tensor.role,
        "shape": tensor.shape,
        "dtype": tensor.dtype,
        "count": tensor.count,
        "spec_today": _spec(tensor.parts, tensor.shape),
        "spec": _spec(placed.parts, tensor.shape),
        "bytes_per_device": placed.bytes_per_device,
        "least_bytes_per_device": placed.divided.bytes_per_device
        if placed.divided
        else placed.bytes_per_device,
        "note": placed.note or None,
    }


def _spec(parts: tuple[tuple[str, ...], ...] | None, shape: tuple[int, ...]) -> str | None:
    return None if parts is None else spec_in_words(parts, len(shape))


def _move(move: Move) -> dict[str, Any]:
    return {
        "title": move.title,
        "change": move.change,
        "saves_bytes_per_device": move.saves_bytes,
        "saves_ms": _rounded(move.saves_ms),
        "why": move.why,
        "shard": [rule_as_typed(rule) for rule in move.rules],
        "mesh": None if move.axes is None else dict(move.axes),
    }
