"""The time of a program by operation, over all hosts and devices, and the bound of each operation.

Times are those of the last window of each process that showed operations.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.model.programs.views import program_views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jaxtop import wire
    from jaxtop.model.host import Host
    from jaxtop.model.programs.views import ProgramView
    from jaxtop.model.state import ClusterState

COMPUTE, MEMORY, COMMUNICATION = "compute", "memory", "communication"
# The time in which no operation ran, and the kind of operations of which only the time is known.
IDLE, UNKNOWN = "idle", "unknown"
COLLECTIVE = "collective"
# Kinds that only move bytes. Others without flops may compute what XLA does not count, such as a tanh.
MOVING = frozenset({"copy", "gather or scatter"})
# Programs that no window showed for longer than this before the last one come last.
LATELY_MS = 100_000


class DeviceRates(NamedTuple):
    """What a device can do in a second, each with the source of the figure; None where that is unknown."""

    flops: float | None = None
    bytes: float | None = None
    flops_source: str = ""
    bytes_source: str = ""


class Roof(NamedTuple):
    """What bounds an operation. The bound takes `ratio` times as long as the other of compute and memory.

    `reached` is the share of its time that the operation would take at the rates of the device. Both are
    None if they are unknown.
    """

    bound: str
    ratio: float | None = None
    reached: float | None = None


@dataclass(frozen=True, slots=True)
class OperationView:
    """An operation of a program; its figures are those of one launch on one device, on average.

    `op` is None for the operations that are not listed, together, and for idle time. The shares of all
    operations of a program add up to 1.
    """

    op: str | None
    kind: str
    source: str | None
    time_share: float
    time_us: float
    runs: float | None = None
    flops: float | None = None
    bytes: float | None = None
    roof: Roof | None = None

    @property
    def bound(self) -> str | None:
        return None if self.roof is None else self.roof.bound


@dataclass(frozen=True, slots=True)
class ProgramTime:
    """Where the time of a program's launches goes.

    `launches` counts launches on each device, `rest` the operations that are not listed. `launch_us` is the
    mean time of a launch on a device, with operations that ran side by side counted in full.
    """

    run: str
    program: str
    fingerprint: str | None
    at_ms: int
    agents: tuple[str, ...]
    launches: int
    launch_us: float
    rest: int
    operations: tuple[OperationView, ...]
    rates: DeviceRates

    @property
    def key(self) -> tuple[str, str, str | None]:
        return self.run, self.program, self.fingerprint

    @property
    def total_us(self) -> float:
        return self.launch_us * self.launches

    @property
    def kinds(self) -> dict[str, float]:
        """The share of each kind, the largest first, and idle time last."""
        found: defaultdict[str, float] = defaultdict(float)
        for each in self.operations:
            found[each.kind] += each.time_share
        return dict(sorted(found.items(), key=lambda entry: (entry[0] == IDLE, -entry[1])))

    @property
    def bounds(self) -> dict[str, float]:
        """The share of each bound, the largest first; time with no known bound is left out."""
        found: defaultdict[str, float] = defaultdict(float)
        for each in self.operations:
            if each.bound is not None:
                found[each.bound] += each.time_share
        return dict(sorted(found.items(), key=lambda entry: -entry[1]))


class OperationRow(NamedTuple):
    """An operation, and where the time of its program goes."""

    time: ProgramTime
    view: OperationView

    @property
    def key(self) -> tuple[Any, ...]:
        return *self.time.key, self.view.op, self.view.kind


def program_times(
    cluster: ClusterState, now: float, rates_of: Callable[[Host], DeviceRates], basis: object = None
) -> list[ProgramTime]:
    """Return where the time of each program goes, those that took most time lately first.

    `basis` is what `rates_of` depends on.
    """
    hosts = cluster.hosts.values()
    inputs = [basis, *(host.operations for host in hosts), *(host.programs for host in hosts)]

    def derive() -> list[ProgramTime]:
        views = (program_time(cluster, view, rates_of) for view in program_views(cluster, now))
        found = [each for each in views if each is not None]
        lately = max((each.at_ms for each in found), default=0) - LATELY_MS
        return sorted(found, key=lambda each: (each.at_ms < lately, -each.total_us))

    return cluster.derived.get("program times", inputs, derive)


def program_time(
    cluster: ClusterState, view: ProgramView, rates_of: Callable[[Host], DeviceRates]
) -> ProgramTime | None:
    """Return where the time of a program goes; None if no window of a process showed it."""
    program = view.program
    reported: dict[str, wire.Operations] = {}
    for agent in view.agents:
        of_host = cluster.hosts[agent].operations
        # If a window cannot tell programs of one name apart, its figures are those of all of them.
        shown = of_host.get((program.name, program.fingerprint)) or of_host.get((program.name, None))
        if shown is not None:
            reported[agent] = shown
    if not reported:
        return None
    rates = rates_of(cluster.hosts[next(iter(reported))])
    total = sum(_time_us(each) for each in reported.values()) or 1
    launches = sum(each.launches for each in reported.values())
    rest, idle = _rest(reported.values()), sum(each.idle_us for each in reported.values())
    views = [
        *_listed(reported.values(), total, rates),
        *(
            OperationView(None, kind, None, us / total, us / launches, roof=roof(kind, us, None, None, rates))
            for kind, us in [*rest.items(), (IDLE, idle)]
            if us
        ),
    ]
    return ProgramTime(
        run=view.run,
        program=program.name,
        fingerprint=program.fingerprint,
        at_ms=max(each.at_ms for each in reported.values()),
        agents=tuple(reported),
        launches=launches,
        launch_us=total / launches,
        rest=max(each.rest for each in reported.values()),
        operations=tuple(views),
        rates=rates,
    )


def _time_us(shown: wire.Operations) -> int:
    return sum(each.time_us for each in shown.operations) + sum(shown.rest_us.values()) + shown.idle_us


def _rest(found: Iterable[wire.Operations]) -> Mapping[str, int]:
    rest: defaultdict[str, int] = defaultdict(int)
    for shown in found:
        for kind, us in shown.rest_us.items():
            rest[kind or UNKNOWN] += us
    return rest


class _Sums:
    """An operation over the processes that list it."""

    def __init__(self, first: wire.Operation) -> None:
        self.first = first
        self.time_us = self.launches = 0
        self.runs: int | None = 0

    def add(self, each: wire.Operation, launches: int) -> None:
        self.time_us += each.time_us
        self.launches += launches
        self.runs = None if self.runs is None or each.runs is None else self.runs + each.runs


def _listed(found: Iterable[wire.Operations], total: int, rates: DeviceRates) -> list[OperationView]:
    sums: dict[str, _Sums] = {}
    for shown in found:
        for each in shown.operations:
            of_op = sums.get(each.op)
            if of_op is None:
                of_op = sums[each.op] = _Sums(each)
            of_op.add(each, shown.launches)
    views = [_view(each, total, rates) for each in sums.values()]
    return sorted(views, key=lambda each: -each.time_share)


def _view(sums: _Sums, total: int, rates: DeviceRates) -> OperationView:
    one = sums.first
    runs = None if sums.runs is None else sums.runs / sums.launches
    flops = None if one.flops is None or runs is None else one.flops * runs
    touched = None if one.bytes is None or runs is None else one.bytes * runs
    time_us = sums.time_us / sums.launches
    return OperationView(
        op=one.op,
        kind=one.kind or UNKNOWN,
        source=one.source or None,
        time_share=sums.time_us / total,
        time_us=time_us,
        runs=runs,
        flops=flops,
        bytes=touched,
        roof=roof(one.kind, time_us, flops, touched, rates),
    )


def roof(
    kind: str, time_us: float, flops: float | None, touched: float | None, rates: DeviceRates
) -> Roof | None:
    """Return what bounds an operation with these figures; None if that is unknown."""
    if kind == COLLECTIVE:
        return Roof(COMMUNICATION)
    if flops is None or touched is None:
        return None
    computing = 0.0 if not flops else flops / rates.flops if rates.flops else None
    moving = 0.0 if not touched else touched / rates.bytes if rates.bytes else None
    if kind in MOVING and not flops and touched:  # whatever the rates are
        return Roof(MEMORY, None, _share(moving, time_us))
    if computing is None or moving is None or not computing:
        return None
    bound, longer, shorter = (
        (COMPUTE, computing, moving) if computing >= moving else (MEMORY, moving, computing)
    )
    return Roof(bound, longer / shorter if shorter else None, _share(longer, time_us))


def _share(seconds: float | None, time_us: float) -> float | None:
    return None if seconds is None or time_us <= 0 else seconds * 1e6 / time_us
