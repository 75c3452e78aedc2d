"""What a process has spent its time on, over time: each message adds a point to those of before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jaxtop.wire import MOST_POINTS, Ledger, LedgerPoint

if TYPE_CHECKING:
    from collections.abc import Iterable


def ledger_with(before: Ledger, message: Ledger) -> Ledger:
    """Return the ledger that a process sent, with the points that are known of it."""
    if message.past or before.started_ms != message.started_ms:
        return message
    points = [*before.past, LedgerPoint(before.at_ms, before.spent_ms)]
    return msgspec.structs.replace(message, past=tuple(_thinned(points)))


def _thinned(points: list[LedgerPoint]) -> Iterable[LedgerPoint]:
    """Return at most `MOST_POINTS` points: where there are more, every second one."""
    ordered = [each for i, each in enumerate(points) if not i or each.at_ms > points[i - 1].at_ms]
    return ordered if len(ordered) <= MOST_POINTS else ordered[len(ordered) % 2 :: 2]
