"""The process that the device libraries single out while all processes stand at the same place.

Two witnesses: NCCL counts the operations that each rank has launched, and the TPU runtime says where each
core stands.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import shorten
from jaxtop.model.finding import Evidence
from jaxtop.model.liveness import OF_STOP, is_current
from jaxtop.model.naming.sentences import host_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from jaxtop.model.host import Host
    from jaxtop.wire import Nccl, NcclCommunicator, NcclCount, NcclRank, TpuCore

LONGEST_PLACE = 60
NCCL, RUNTIME = "NCCL RAS", "TPU runtime"


class Witness(NamedTuple):
    """The processes that stand out, a clause that says how, and the figures behind it.

    `odd` is empty where the process is not one that reports to this viewer. `is_moving` says that it is slow
    and not stuck.
    """

    odd: tuple[Host, ...]
    text: str
    evidence: tuple[Evidence, ...]
    is_moving: bool = False


def named_by_devices(hosts: Sequence[Host], for_ms: int) -> Witness | None:
    """Return what the libraries of the devices say, if nothing in it has moved for `for_ms`."""
    return named_by_nccl(hosts, for_ms) or named_by_cores(hosts, for_ms)


# NCCL


def named_by_nccl(hosts: Sequence[Host], for_ms: int) -> Witness | None:
    """Return the processes of the ranks that launched fewer operations than most, or that do not answer."""
    answers = [
        host.nccl
        for host in hosts
        if is_current(host, host.nccl.at_ms, OF_STOP)
        and host.nccl.same_ms > 0
        and host.nccl.same_ms >= for_ms
    ]
    last = max(answers, key=lambda each: each.at_ms, default=None)
    if last is None:
        return None
    by_size = sorted(last.differing, key=lambda each: -each.size)
    unresponsive = (_unresponsive(each, last, hosts) for each in by_size if each.unresponsive)
    behind = (_behind(each, last, hosts) for each in by_size if each.counts)
    return next((each for found in (unresponsive, behind) for each in found if each is not None), None)


def _unresponsive(communicator: NcclCommunicator, answer: Nccl, hosts: Sequence[Host]) -> Witness | None:
    if len(communicator.unresponsive) * 2 > communicator.size:
        return None
    found = _hosts(communicator.unresponsive, hosts)
    who, which = _named(communicator.unresponsive, found)
    do = "do" if _are_many(communicator.unresponsive, found) else "does"
    evidence = Evidence(
        "silent NCCL ranks", len(communicator.unresponsive), source=NCCL, at=answer.at_ms / 1000
    )
    return Witness(found, f"{who} {do} not answer NCCL{which}", (evidence,))


def _behind(communicator: NcclCommunicator, answer: Nccl, hosts: Sequence[Host]) -> Witness | None:
    most = max(communicator.counts, key=lambda each: (each.count, each.launched))
    late = [each for each in communicator.counts if each.launched < most.launched]
    ranks = [rank for each in late for rank in each.ranks]
    if not ranks or sum(each.count for each in late) * 2 > communicator.size:
        return None
    found = _hosts(ranks, hosts)
    if found and len(found) == len(hosts):
        return None
    who, which = _named(ranks, found)
    launched = {each.launched for each in late}
    operations = f"{communicator.operation or 'NCCL'} operations"
    if len(launched) == 1:
        text = f"{who} launched {max(launched):,} {operations}, the others {most.launched:,}{which}"
    else:
        are, fewer = "are" if _are_many(ranks, found) else "is", most.launched - max(launched)
        what = operations.removesuffix("s") if fewer == 1 else operations
        text = f"{who} {are} at least {fewer:,} {what} behind the others, which launched {most.launched:,}"
    return Witness(found, text, tuple(_counted(communicator, answer, launched, most, ranks)))


def _counted(
    communicator: NcclCommunicator,
    answer: Nccl,
    launched: Collection[int],
    most: NcclCount,
    ranks: Sequence[NcclRank],
) -> Iterator[Evidence]:
    operations, at = f"{communicator.operation or 'NCCL'} operations", answer.at_ms / 1000
    if len(launched) == 1:
        yield Evidence(f"{operations} launched", max(launched), source=NCCL, at=at)
    else:
        yield Evidence(f"{operations} launched, at most", max(launched), source=NCCL, at=at)
    yield Evidence(f"{operations} launched by most ranks", most.launched, source=NCCL, at=at)
    yield Evidence("ranks behind", ", ".join(str(each.rank) for each in ranks[:8]), source=NCCL, at=at)
    yield Evidence("unchanged for", answer.same_ms / 1000, "seconds", NCCL, at)


def _hosts(ranks: Sequence[NcclRank], hosts: Sequence[Host]) -> tuple[Host, ...]:
    """Return the processes behind these ranks; none if that of any rank is unknown."""
    found = [_host(each, hosts) for each in ranks]
    sure = {host.agent: host for host in found if host is not None}
    return () if None in found else tuple(sure.values())


def _host(rank: NcclRank, hosts: Sequence[Host]) -> Host | None:
    """Return the process with this number; in containers, where many have the same, that at this address."""
    same = [host for host in hosts if host.pid == rank.pid]
    if len(same) > 1:
        same = [host for host in same if _address(host) == rank.host]
    return same[0] if len(same) == 1 else None


def _address(host: Host) -> str:
    facts = host.hello or host.peer
    return facts.telemetry.rpartition(":")[0].strip("[]") if facts is not None else ""


def _are_many(ranks: Sequence[NcclRank], found: Sequence[Host]) -> bool:
    """Return whether the text of `_named` is a plural."""
    return len(found or ranks) > 1


def _named(ranks: Sequence[NcclRank], found: Sequence[Host]) -> tuple[str, str]:
    """Return who these ranks are, and which rank and device if it is one."""
    first = ranks[0]
    if not found:
        more = f" and {len(ranks) - 1} more" if len(ranks) > 1 else ""
        return f"NCCL rank {first.rank} (pid {first.pid} on {first.host}){more}", ""
    if len(ranks) > 1:
        return host_names(found), ""
    own = [each for each in found[0].devices if each.local_id is not None]
    known = [each.id for each in own if each.local_id == first.device]
    device = f", device {known[0]}" if len(known) == 1 else ""
    return host_names(found), f" (NCCL rank {first.rank}{device})"


# TPUs


class _Stand(NamedTuple):
    """What cores at the same place share; a core without a program has neither."""

    program: str = ""
    place: str = ""

    @property
    def is_idle(self) -> bool:
        return not self.place


def named_by_cores(hosts: Sequence[Host], for_ms: int) -> Witness | None:
    """Return the processes whose tensor cores report an error, or stand elsewhere than most cores."""
    cores = [
        (host, core)
        for host in hosts
        if is_current(host, host.cores.at_ms, OF_STOP)
        for core in host.cores.cores
        if core.is_tensor_core
    ]
    failed = [(host, core) for host, core in cores if core.error]
    if failed and len(failed) * 2 <= len(cores):
        host, core = failed[0]
        text = f"{host_names([host])} reports of TPU core {core.core}: {shorten(core.error, LONGEST_PLACE)}"
        return Witness((host,), text, tuple(_facts(host, core, _stand(core))))
    settled = [
        (host, core) for host, core in cores if host.cores.same_ms > 0 and host.cores.same_ms >= for_ms
    ]
    if len(settled) < 2 or len(settled) < len(cores):
        return None
    stands = Counter(_stand(core) for _, core in settled)
    usual = max(stands, key=lambda each: (stands[each], not each.is_idle))
    apart = [(host, core) for host, core in settled if _stand(core) != usual]
    is_even = len(apart) * 2 == len(settled) and all(_stand(core).is_idle for _, core in apart)
    if not apart or (len(apart) * 2 >= len(settled) and not is_even):
        return None
    odd = tuple({host.agent: host for host, _ in apart}.values())
    if len(odd) == len(hosts):
        return None
    return _standing_apart(odd, apart[0], usual)


def _standing_apart(odd: tuple[Host, ...], first: tuple[Host, TpuCore], usual: _Stand) -> Witness:
    host, core = first
    stand, others = _stand(core), _text(usual)
    device = f", device {core.device}" if core.device is not None else ""
    which, is_one = f"TPU core {core.core}{device}", len(odd) == 1
    if stand.is_idle:
        programs = f"{core.queued} program{'s' * (core.queued > 1)} queued"
        queued = f", with {programs}" if core.queued else ", and nothing is queued"
        do = f"runs nothing on {which}" if is_one else f"run nothing on cores such as {which}"
        text = f"{host_names(odd)} {do}{queued}; the others stand at {others}"
    else:
        stands, such = ("stands", "") if is_one else ("stand", "for example ")
        where = "in another program" if stand.program != usual.program else f"at {_text(stand)}"
        at = "run nothing" if usual.is_idle else f"stand at {others}"
        text = f"{host_names(odd)} {stands} {where} ({such}{which}, pc {core.pc:#x}); the others {at}"
    return Witness(odd, text, tuple(_facts(host, core, usual)))


def _facts(host: Host, core: TpuCore, usual: _Stand) -> Iterator[Evidence]:
    at = host.cores.at_ms / 1000
    yield Evidence("program counter", core.pc, source=RUNTIME, at=at)
    yield Evidence("place in the HLO", core.location or None, source=RUNTIME, at=at)
    yield Evidence("place of most cores", usual.place or None, source=RUNTIME, at=at)
    yield Evidence("queued programs", core.queued, source=RUNTIME, at=at)
    yield Evidence("TPU core", core.core, source=RUNTIME, at=at)


def _stand(core: TpuCore) -> _Stand:
    return _Stand(core.program, core.location or f"pc {core.pc:#x}") if core.pc else _Stand()


def _text(stand: _Stand) -> str:
    return shorten(stand.place, LONGEST_PLACE)
