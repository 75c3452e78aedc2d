"""Parts of a plan in words, for the screen and for printed plans."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jaxtop.model.planning.asking import mesh_in_words, rule_as_typed, spec_in_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model.planning.plan import Candidate, Goal, Move, Placed, Plan, Tensor

UNKNOWN = "n/a"
# A number and its unit.
_AMOUNT = re.compile(r"([\d.,]+)( ?[A-Za-z]*)")
ORDER: dict[Goal | str, str] = {
    "throughput": "by the middle of the step time",
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


def spec(placed: Placed) -> str:
    """Return how an array is divided on the mesh of a candidate."""
    return "as it is" if placed.parts is None else spec_in_words(placed.parts, len(placed.tensor.shape))


def gains(move: Move, in_bytes: Callable[[float], str], in_milliseconds: Callable[[float], str]) -> str:
    """Return what a move saves, or costs, of memory and time."""
    found = [
        _gain(move.saves_bytes, in_bytes, "on each device"),
        _gain(move.saves_ms, in_milliseconds, "a step"),
    ]
    return ", ".join(filter(None, found)) or "what it saves is not known"


def _gain(value: float | None, in_words: Callable[[float], str], where: str) -> str:
    if not value:
        return ""
    return f"~{in_words(abs(value))} {'less' if value > 0 else 'more'} {where}"


def shape(tensor: Tensor) -> str:
    """Return the shape of an array, and how many such arrays there are."""
    of_one = "×".join(map(str, tensor.shape)) or "scalar"
    return f"{of_one} ×{tensor.count}" if tensor.count > 1 else of_one
