"""The time of a process by kind, over time: each message adds a point to the earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jaxtop.wire import MOST_POINTS, SPENT_ON, Ledger, LedgerPoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.host import Host

# The kind of time that moves the training forward, and that in which a process waits for its input.
PRODUCTIVE, INPUT = "stepping", "input"
# About the time over which a share of the time is taken.
A_WHILE_MS = 45_000


def ledger_with(before: Ledger, message: Ledger) -> Ledger:
    """Return the ledger that a process sent, with the points that are known of it."""
    if message.past or not before.at_ms:
        return message
    points = [*before.past, LedgerPoint(before.at_ms, before.spent_ms)]
    return msgspec.structs.replace(message, past=tuple(_thinned(points)))


def _thinned(points: list[LedgerPoint]) -> Sequence[LedgerPoint]:
    """Return at most `MOST_POINTS` points: where there are more, every second one."""
    ordered = [each for i, each in enumerate(points) if not i or each.at_ms > points[i - 1].at_ms]
    return ordered if len(ordered) <= MOST_POINTS else ordered[len(ordered) % 2 :: 2]


def seconds_by_kind(spent_ms: Iterable[int]) -> dict[str, float]:
    """Return seconds by the kinds of `SPENT_ON`; kinds of newer agents are left out."""
    return {kind: ms / 1000 for kind, ms in zip(SPENT_ON, spent_ms, strict=False) if ms}


def _spent_since(point: LedgerPoint, ledger: Ledger) -> dict[str, float]:
    """Return the seconds by kind that a process has spent since an earlier point."""
    before = seconds_by_kind(point.spent_ms)
    after = seconds_by_kind(ledger.spent_ms)
    return {kind: seconds - before.get(kind, 0.0) for kind, seconds in after.items()}


def lately(host: Host) -> str:
    """Return what a process spent most of the last seconds on; empty if that is not known."""
    ledger = host.ledger
    if not ledger.past:
        return ""
    spent = _spent_since(ledger.past[-1], ledger)
    most = max(spent, key=spent.__getitem__, default="")
    return most if most and spent[most] > 0 else ""


def input_share(host: Host) -> float | None:
    """Return the share of about the last minute in which a process waited for its input; None if unknown."""
    ledger = host.ledger
    before = next((each for each in reversed(ledger.past) if ledger.at_ms - each.at_ms >= A_WHILE_MS), None)
    if before is None or ledger.at_ms - before.at_ms > 2 * A_WHILE_MS:
        return None
    waited_ms = 1000 * _spent_since(before, ledger).get(INPUT, 0.0)
    return min(1.0, max(0.0, waited_ms / (ledger.at_ms - before.at_ms)))


def goodput(hosts: Iterable[Host]) -> float | None:
    """Return the share of the device time of processes that went to steps; None before any is known."""
    spent = total = 0.0
    for host in hosts:
        by_kind, devices = seconds_by_kind(host.ledger.spent_ms), max(1, len(host.devices))
        spent += by_kind.get(PRODUCTIVE, 0.0) * devices
        total += sum(by_kind.values()) * devices
    return spent / total if total else None
