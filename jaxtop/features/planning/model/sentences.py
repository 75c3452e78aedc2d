"""Parts of a plan in words, for the screen and for printed plans."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jaxtop.features.planning.model.arguments import mesh_in_words, rule_as_typed, spec_in_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.features.planning.model.plan import Candidate, Goal, Move, PlacedArray, Plan, Tensor

UNKNOWN = "n/a"
# Axes that take less of a candidate's communication are left out.
SMALL_SHARE = 0.001
# A number and its unit.
_AMOUNT = re.compile(r"([\d.,]+)( ?[A-Za-z]*)")
ORDER: dict[Goal | str, str] = {
    "throughput": "by the mid-range step time",
    "latency": "by the upper bound of the step time",
    "energy": "by the energy of a step",
}


def label(candidate: Candidate) -> str:
    """Return the mesh, with what distinguishes a candidate from others on it."""
    added = "".join(f" + {rule_as_typed(rule)}" for rule in candidate.rules)
    return f"{mesh_in_words(candidate.axes)}{' (today)' * candidate.is_today}{added}"


def fits(candidate: Candidate, plan: Plan) -> str:
    """Return whether a candidate fits into the memory of a device."""
    if candidate.fits is not None:
        return "yes" if candidate.fits else "no"
    return UNKNOWN if plan.limit_bytes is None or candidate.memory_bytes is None else "perhaps"


def between(low: str, high: str) -> str:
    """Return two amounts as an interval, with the unit once if both have it: 3.1–3.6G, 12–15 ms."""
    if low == high:
        return low
    one, other = _AMOUNT.fullmatch(low), _AMOUNT.fullmatch(high)
    return f"{one[1] if one and other and one[2] == other[2] else low}–{high}"


def spec(placed: PlacedArray) -> str:
    """Return how an array is divided on the mesh of a candidate."""
    return "as it is" if placed.parts is None else spec_in_words(placed.parts, len(placed.tensor.shape))


def gains(move: Move, in_bytes: Callable[[float], str], in_milliseconds: Callable[[float], str]) -> str:
    """Return what a move saves, or costs, of memory and time."""
    found = []
    if move.saves_bytes:
        found.append(f"{in_bytes(abs(move.saves_bytes))} {_less(move.saves_bytes)} on each device")
    if move.saves_ms:
        found.append(f"~{in_milliseconds(abs(move.saves_ms))} {_less(move.saves_ms)} a step")
    return ", ".join(found) or "what it saves is not known"


def _less(saved: float) -> str:
    return "less" if saved > 0 else "more"


def communication(candidate: Candidate) -> dict[str, float] | None:
    """Return the milliseconds of communication by axis, without small ones; None if it is unknown."""
    if candidate.step_ms is None and not candidate.communication_ms:
        return None
    least = SMALL_SHARE * sum(candidate.communication_ms.values())
    return {axis: taken for axis, taken in candidate.communication_ms.items() if taken >= least}


def largest(candidate: Candidate) -> list[PlacedArray]:
    """Return the named arrays of a candidate, those that take most of a device first."""
    named = [placed for placed in candidate.placed if placed.tensor.name is not None]
    return sorted(named, key=lambda placed: -placed.bytes_per_device * placed.tensor.count)


def shape(tensor: Tensor) -> str:
    """Return the shape of an array, and how many such arrays there are."""
    of_one = "×".join(map(str, tensor.shape)) or "scalar"
    return f"{of_one} ×{tensor.count}" if tensor.count > 1 else of_one
