"""The changes between two moments of a session: hosts, programs, arrays, memory, launches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from jaxtop.model.arrays.groups import array_views
from jaxtop.model.arrays.growth import without_indices
from jaxtop.model.arrays.memory import PARTS, Part, memory_views
from jaxtop.model.devices import device_views
from jaxtop.model.host import run_of
from jaxtop.model.hosts import host_views, newest_hosts
from jaxtop.model.programs.views import program_views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jaxtop.model.devices import DeviceView
    from jaxtop.model.host import Host
    from jaxtop.model.programs.views import ProgramView
    from jaxtop.model.state import ClusterState

Key = TypeVar("Key")
Value = TypeVar("Value")

UNKNOWN_BEFORE, UNKNOWN_AFTER = "unknown before", "unknown after"


class ChangeKind(StrEnum):
    """The subject of a change, in the order in which changes are listed."""

    HOST = "host"
    PROGRAM = "program"
    MEMORY = "memory"
    ARRAYS = "arrays"
    LAUNCHES = "launches"
    DEVICE = "device"


_ORDER = tuple(ChangeKind)


class PastCluster(NamedTuple):
    """A cluster at a time."""

    at: float
    cluster: ClusterState


@dataclass(frozen=True, slots=True)
class MomentChange:
    """A difference between two moments.

    `before` and `after` are numbers of launches if the change is about launches, and otherwise bytes on all
    devices together; None where unknown. For arrays, `counts` holds their numbers before and after.
    """

    kind: ChangeKind
    run: str
    name: str
    how: str
    before: int | None = None
    after: int | None = None
    counts: tuple[int, int] | None = None
    agent: str | None = None
    detail: str = ""

    @property
    def grown(self) -> int | None:
        if self.before is None or self.after is None:
            return None
        return self.after - self.before

    @property
    def weight(self) -> int:
        grown = self.grown
        return abs(grown) if grown is not None else max(self.before or 0, self.after or 0)


def difference_of(before: PastCluster, after: PastCluster) -> list[MomentChange]:
    """Return all changes, by kind and then by size, largest first."""
    found = [
        *_host_changes(before, after),
        *_program_changes(before, after),
        *_memory_changes(before, after),
        *_array_changes(before, after),
        *_launch_changes(before, after),
        *_device_changes(before, after),
    ]
    return sorted(found, key=lambda each: (_ORDER.index(each.kind), -each.weight, each.name))


# Hosts


def _host_changes(before: PastCluster, after: PastCluster) -> Iterator[MomentChange]:
    was = {view.host.agent: view for view in host_views(before.cluster, before.at)}
    # A process that was started again has another agent.
    by_place = {_place(view.host): view for view in was.values() if view.host.process_index is not None}
    met = set()
    for view in host_views(after.cluster, after.at):
        host, state = view.host, view.state
        earlier = was.get(host.agent) or by_place.get(_place(host))
        if earlier is None:
            yield _host_change(host, f"new: {state}")
            continue
        met.add(earlier.host.agent)
        if earlier.host.agent != host.agent:
            yield _host_change(host, f"restarted: {earlier.state} → {state}")
        elif earlier.state is not state:
            yield _host_change(host, f"{earlier.state} → {state}")
    for view in was.values():
        if view.host.agent not in met:
            yield _host_change(view.host, f"gone: was {view.state}")


def _host_change(host: Host, how: str) -> MomentChange:
    return MomentChange(ChangeKind.HOST, run_of(host), host.label, how, agent=host.agent)


def _place(host: Host) -> tuple[str, int | None]:
    return run_of(host), host.process_index


def _runs_without(then: PastCluster, has_reported: Callable[[Host], bool]) -> set[str]:
    """Return the runs that have hosts, none of which has reported this."""
    members = newest_hosts(then.cluster)
    return {run_of(host) for host in members} - {run_of(host) for host in members if has_reported(host)}


def _pairs(
    was: Mapping[Key, Value], now: Mapping[Key, Value]
) -> Iterator[tuple[Key, Value | None, Value | None]]:
    """Return each key of either mapping, with its values before and after."""
    return ((key, was.get(key), now.get(key)) for key in dict.fromkeys(chain(now, was)))


# Programs


def _program_changes(before: PastCluster, after: PastCluster) -> Iterator[MomentChange]:
    was, now = ({view.key: view for view in program_views(then.cluster, then.at)} for then in (before, after))
    without_before, without_after = (
        _runs_without(then, lambda host: host.programs.at_ms > 0) for then in (before, after)
    )
    for _, earlier, later in _pairs(was, now):
        if later is None and earlier is not None:
            how = UNKNOWN_AFTER if earlier.run in without_after else "gone"
            yield _program_change(earlier, how, before=earlier.needs_bytes)
        elif earlier is None and later is not None:
            how = UNKNOWN_BEFORE if later.run in without_before else "new"
            yield _program_change(later, how, after=later.needs_bytes)


def _program_change(
    view: ProgramView, how: str, before: int | None = None, after: int | None = None
) -> MomentChange:
    program = view.program
    return MomentChange(
        ChangeKind.PROGRAM, view.run, program.name, how, before, after, detail=program.created or ""
    )


# Memory


def _memory_changes(before: PastCluster, after: PastCluster) -> Iterator[MomentChange]:
    was, now = _parts(before), _parts(after)
    for run, earlier, later in _pairs(was, now):
        for part in PARTS:
            if part is not Part.FREE:  # free memory follows from the other parts
                held = (earlier or {}).get(part), (later or {}).get(part)
                if held[0] != held[1] and any(held):
                    yield MomentChange(
                        ChangeKind.MEMORY, run, part, _moved(*held, earlier is None, later is None), *held
                    )


def _parts(then: PastCluster) -> dict[str, dict[Part, int]]:
    """Return what the devices of each run hold, by parts; unknown parts are left out."""
    found: dict[str, dict[Part, int]] = {}
    for view in memory_views(then.cluster, _present(then)):
        sums = found.setdefault(view.device.run, {})
        for part in PARTS:
            held = view.bytes_of(part)
            if held is not None:
                sums[part] = sums.get(part, 0) + held
    return found


def _present(then: PastCluster) -> list[DeviceView]:
    # The memory of an exited process is free again.
    return [device for device in device_views(then.cluster, then.at) if not device.state.has_exited]


def _device_changes(before: PastCluster, after: PastCluster) -> Iterator[MomentChange]:
    was, now = ({(device.run, device.id): device for device in _present(then)} for then in (before, after))
    for (run, number), earlier, later in _pairs(was, now):
        first = None if earlier is None else earlier.used_bytes
        last = None if later is None else later.used_bytes
        either = later or earlier
        if first != last and either is not None:
            how = _moved(first, last, earlier is None, later is None)
            name, where = f"device {number}", either.hostname or ""
            yield MomentChange(
                ChangeKind.DEVICE, run, name, how, first, last, agent=either.agent, detail=where
            )


def _moved(before: int | None, after: int | None, is_new: bool = False, is_gone: bool = False) -> str:
    if before is None:
        return "new" if is_new else UNKNOWN_BEFORE
    if after is None:
        return "gone" if is_gone else UNKNOWN_AFTER
    return "grew" if after > before else "shrank"


# Arrays


class _ArrayTotal(NamedTuple):
    """The bytes and the number of arrays that differ only in the indices in their names."""

    bytes: int = 0
    number: int = 0


_NONE = _ArrayTotal()


def _array_changes(before: PastCluster, after: PastCluster) -> Iterator[MomentChange]:
    was, now = _held(before.cluster), _held(after.cluster)
    without_before, without_after = (
        _runs_without(then, lambda host: host.arrays.at_ms > 0) for then in (before, after)
    )
    for key, earlier, later in _pairs(was, now):
        if earlier == later:
            continue
        run, name, *facts = key
        change = MomentChange(
            ChangeKind.ARRAYS, run, name or "unnamed", "", detail=", ".join(filter(None, facts))
        )
        if earlier is None and run in without_before:
            yield replace(change, how=UNKNOWN_BEFORE, after=(later or _NONE).bytes)
        elif later is None and run in without_after:
            yield replace(change, how=UNKNOWN_AFTER, before=(earlier or _NONE).bytes)
        else:
            first, last = earlier or _NONE, later or _NONE
            how = "grew" if last > first else "shrank"
            how = "new" if earlier is None else "gone" if later is None else how
            counts = first.number, last.number
            yield replace(change, how=how, before=first.bytes, after=last.bytes, counts=counts)


def _held(cluster: ClusterState) -> dict[tuple[str, ...], _ArrayTotal]:
    found: dict[tuple[Any, ...], _ArrayTotal] = {}
    for view in array_views(cluster):
        name = view.name and without_indices(view.name)
        shape = "" if view.groups > 1 else f"{view.dtype}[{','.join(map(str, view.shape))}]"
        key = view.run, name, shape, view.sharding, view.memory_kind, None if name else view.created
        held = found.get(key, _NONE)
        size = view.held_bytes
        found[key] = _ArrayTotal(held.bytes + size, held.number + view.count)
    return found


# Launches


def _launch_changes(before: PastCluster, after: PastCluster) -> Iterator[MomentChange]:
    """Yield the launches of each function, from the process that launched it most: they launch together."""
    most: dict[tuple[str, str], MomentChange] = {}
    for host in newest_hosts(after.cluster):
        earlier = _launches(before, host)
        for function, count in host.launches.items():
            first = None if earlier is None else earlier.get(function, 0)
            change = MomentChange(
                ChangeKind.LAUNCHES, run_of(host), function, "launched", first, count, agent=host.agent
            )
            found = most.get((change.run, function))
            if count != first and (found is None or (found.grown or 0) < (change.grown or 0)):
                most[change.run, function] = change
    seconds = after.at - before.at
    for change in most.values():
        rate = "" if change.grown is None or seconds <= 0 else f"{change.grown / seconds:,.1f}/s"
        yield replace(change, detail=rate, how=UNKNOWN_BEFORE if change.before is None else change.how)


def _launches(then: PastCluster, host: Host) -> Mapping[str, int] | None:
    """Return the launch counts of a process at that time; None where unknown."""
    earlier = then.cluster.hosts.get(host.agent)
    if earlier is not None and earlier.pulse_at is not None:
        return earlier.launches
    is_younger = host.hello is not None and host.hello.started_ms / 1000 > then.at
    return {} if is_younger else None
