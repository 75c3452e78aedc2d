"""The processes that have read, written or received much less than their peers before the first steps.

A process that restores a checkpoint launches nothing for a long time, and its peers wait for it. The bytes
that it moves show whether it hangs or is slow.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.units import in_bytes
from jaxtop.model.finding import Evidence
from jaxtop.model.naming.sentences import host_names
from jaxtop.model.stalls.lulls import WAITING_PERMILLE
from jaxtop.model.stalls.witnesses import Witness

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jaxtop.model.host import Host

# A process is behind if it moved less than this share of the median of all processes.
BEHIND_SHARE = 0.5
# A process that is behind moved at least this many bytes less.
MIN_BEHIND_BYTES = 100 << 20
# A process that moves fewer bytes per second is done, or stuck.
MOVES = 1 << 20


class _TransferKind(NamedTuple):
    """A kind of transfer: the fields of `Moved` with its total, which is also a participle, and its rate."""

    total: str
    rate: str


_KINDS = (
    _TransferKind("read", "read_per_s"),
    _TransferKind("written", "written_per_s"),
    _TransferKind("received", "received_per_s"),
)


class _Amount(NamedTuple):
    host: Host
    total: int
    per_s: int

    @property
    def moves(self) -> bool:
        return self.per_s >= MOVES


def behind(hosts: Sequence[Host]) -> Witness | None:
    """Return a minority that has moved far less than the others, which are done; None if there is none.

    The others neither move bytes nor compute. With two processes, the one that has less counts if it still
    moves.
    """
    for kind in _KINDS:
        amounts = _amounts(hosts, kind)
        if len(amounts) < 2 or len(amounts) < len(hosts):
            continue
        late = _late(amounts)
        others = [each for each in amounts if each not in late]
        if not late or any(each.moves or not _is_idle(each.host) for each in others):
            continue
        do_all_move = all(each.moves for each in late)
        if len(late) * 2 < len(amounts) or (len(late) * 2 == len(amounts) and do_all_move):
            return _witness(kind, late, others)
    return None


def compared(odd: Sequence[Host], hosts: Sequence[Host]) -> Witness | None:
    """Return how much these processes have moved compared with the others, if that is far less."""
    agents = {host.agent for host in odd}
    for kind in _KINDS:
        amounts = _amounts(hosts, kind)
        late = [each for each in _late(amounts) if each.host.agent in agents]
        others = [each for each in amounts if each.host.agent not in agents]
        if others and late and len(late) == len(odd):
            return _witness(kind, late, others)
    return None


def _amounts(hosts: Sequence[Host], kind: _TransferKind) -> list[_Amount]:
    """Return what each process has moved; the network is that of a machine, so machines must differ."""
    if kind.total == "received" and len({host.hostname for host in hosts}) < len(hosts):
        return []
    found = []
    for host in hosts:
        moved = host.pulse.lull.moved if host.pulse.lull is not None else None
        total = None if moved is None else getattr(moved, kind.total)
        if total is not None:
            found.append(_Amount(host, total, getattr(moved, kind.rate) or 0))
    return found


def _late(amounts: Sequence[_Amount]) -> list[_Amount]:
    """Return those far behind the median; of two, the one far behind the other."""
    if len(amounts) < 2:
        return []
    usual = (
        max(each.total for each in amounts) if len(amounts) == 2 else median(each.total for each in amounts)
    )
    return [
        each
        for each in amounts
        if each.total < BEHIND_SHARE * usual and usual - each.total >= MIN_BEHIND_BYTES
    ]


def _is_idle(host: Host) -> bool:
    """Return whether a process neither reads nor writes nor computes."""
    used, lull = host.pulse.host.process_cpu_permille, host.pulse.lull
    rates = () if lull is None else (lull.moved.read_per_s, lull.moved.written_per_s)
    return used is not None and used < WAITING_PERMILLE and all((each or 0) < MOVES for each in rates)


def _witness(kind: _TransferKind, late: Sequence[_Amount], others: Collection[_Amount]) -> Witness:
    total, usual = sum(each.total for each in late) / len(late), median(each.total for each in others)
    per_s = sum(each.per_s for each in late) / len(late)
    who, what, is_one = host_names([each.host for each in late]), kind.total, len(late) == 1
    is_moving = all(each.moves for each in late)
    has, go, each_has = ("has", "it goes", "") if is_one else ("have", "they go", " on average")
    pace = f"{go} on at {in_bytes(per_s)}/s{each_has}: slow, not stuck" if is_moving else "nothing moves now"
    text = f"{who} {has} {what} {in_bytes(total)}{each_has}, the others {in_bytes(usual)}; {pace}"
    at = max((each.host.pulse_at or 0.0) for each in late)
    evidence = (
        Evidence(f"bytes {what}", total, "bytes", "kernel", at),
        Evidence(f"bytes {what} by the others, median", usual, "bytes", "kernel", at),
        Evidence(f"bytes {what} per second", per_s, "bytes_per_second", "kernel", at),
    )
    return Witness(tuple(each.host for each in late), text, evidence, is_moving)
