"""Made ledgers of processes: what they spend their time on is planted."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from jaxtop import wire
from tests import builders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def in_order(spent: Mapping[str, float]) -> tuple[int, ...]:
    return tuple(round(spent.get(kind, 0.0) * 1000) for kind in wire.SPENT_ON)


def ledger(parts: Sequence[tuple[str, float]], until: float = builders.NOW, **more: Any) -> wire.Ledger:
    """Return the ledger of a process that did these parts one after the other, the last until `until`."""
    whole = sum(seconds for _, seconds in parts)
    started, spent = until - whole, dict[str, float]()
    points = []
    for (kind, seconds), end in zip(parts, accumulate(each for _, each in parts), strict=True):
        spent[kind] = spent.get(kind, 0.0) + seconds
        points.append(wire.LedgerPoint(round((started + end) * 1000), in_order(spent)))
    last = points.pop()
    return wire.Ledger(
        last.at_ms, round(started * 1000), last.spent_ms, past=tuple(points), **{"steps": 300, **more}
    )


SAVED = wire.Save(
    round((builders.NOW - 500) * 1000), 20_000, round((builders.NOW - 480) * 1000), 200, "orbax"
)
USUAL = (
    ("starting", 20.0), ("restoring", 12.0), ("compiling", 48.0), ("stepping", 600.0), ("saving", 20.0),
    ("evaluating", 60.0), ("stepping", 600.0), ("input", 90.0), ("stepping", 300.0),
)  # fmt: skip


def run(*each: Sequence[tuple[str, float]], **more: Any) -> list[wire.Frame]:
    """Return the frames of a run whose processes did these parts."""
    found = list(builders.well())
    for index, parts in enumerate(each or (USUAL, USUAL)):
        found.append(builders.frame(builders.agent_id(index), ledger(parts, **more)))
    return found
