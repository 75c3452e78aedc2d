"""The collectives for display: the inventories of programs, joined with measurements from windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.model.collectives.instances import arrivals_of
from jaxtop.model.collectives.layout import layouts
from jaxtop.model.collectives.verdict import MISSING, is_enough
from jaxtop.model.rates import NO_RATES, Rates, Unsplit, rates

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from jaxtop import wire
    from jaxtop.model.collectives.instances import Named
    from jaxtop.model.collectives.layout import Grouped, Layout, ProgramKey
    from jaxtop.model.collectives.timing import Timing
    from jaxtop.model.fold import Cluster
    from jaxtop.model.views import MeshView

# The first words of an op's name in HLO. A kind that begins like another one comes first if it is longer.
KINDS = (
    "ragged-all-to-all",
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)
# How often the data of all other members crosses the bus. For other kinds the whole data crosses it once.
_TRIPS = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1, "ragged-all-to-all": 1}
# The number of processes of a program whose launch rates are read.
MOST_ASKED = 8


@dataclass(frozen=True, slots=True)
class Straggler:
    """The participant that came last: one of its devices, its share of the launches, and how late it was."""

    agent: str
    process_index: int | None
    device_id: int
    share: float
    late_us: int


@dataclass(frozen=True, slots=True)
class CollectiveView:
    """A collective operation of a program, over all processes that run it; None where unknown.

    `bytes` and `busbw` follow the definitions of nccl-tests. `samples` counts the instances that all
    participants of a group reported. `p50_us` and `p99_us` are taken over these, each as long as for the
    member that came first, which includes its wait. `transfer_us` is the median of the time that remains
    without waiting. `wait_us` is the median over launches of the longest wait in a group, for the group that
    waits most; in a loop, the round with the longest wait counts. `waits_us` is the median wait of each
    device.
    """

    run: str
    program: str
    fingerprint: str | None
    op: str
    kind: str
    source: str
    shape: str
    axes: tuple[str, ...] | None
    is_whole_axes: bool  # False where groups are only parts of these axes
    groups: tuple[tuple[int, ...], ...]  # device ids
    group_size: int | None
    crosses_hosts: bool | None
    bytes: int | None
    times: int | None
    per_second: float | None
    samples: int
    p50_us: int | None = None
    p99_us: int | None = None
    transfer_us: int | None = None
    wait_us: int | None = None
    busbw_bytes_per_s: int | None = None
    straggler: Straggler | None = None
    is_enough: bool = False  # whether there are enough samples for a verdict
    waits_us: Mapping[int, int] = field(default_factory=dict)
    is_async: bool = False
    mesh: MeshView | None = None
    # False where lateness cannot be judged: the groups are unknown, or devices take turns on one CPU.
    is_judged: bool = True
    # Launches of all programs of this name together, where they cannot be split by program.
    unsplit: Unsplit | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The identity of the collective: run, program, fingerprint and op."""
        return self.run, self.program, self.fingerprint, self.op

    @property
    def us_per_second(self) -> float | None:
        """The time that it takes in each second, on the device that spends most time in it."""
        return None if self.p50_us is None or self.per_second is None else self.p50_us * self.per_second


class _Measured(NamedTuple):
    """The measurements of a collective, derived from its timings."""

    named: tuple[Named, ...]
    samples: int
    p50: int | None
    p99: int | None
    transfer: int | None
    wait: int | None
    is_enough: bool
    waits: Mapping[int, int]


def collectives(cluster: Cluster) -> list[CollectiveView]:
    """Return the collectives of all runs, by time spent. Those without timings follow, by bytes."""
    joining, of_programs = cluster.joining, layouts(cluster)
    names = {key[:2] for key in of_programs}
    keys = [*of_programs]
    keys += [
        key
        for key in joining.seen
        if key not in of_programs and not (key[:2] in names and _is_settled(cluster, key))
    ]
    asked: dict[str, Rates] = {}
    launched = {key: _rate_of(cluster, key, asked) for key in keys}
    inputs = joining.changes, joining.facts, cluster.derived.same("launch rates", launched)
    return cluster.derived.get("collectives", inputs, lambda: _collectives(cluster, launched))


def _collectives(cluster: Cluster, launched: Mapping[ProgramKey, _Rate]) -> list[CollectiveView]:
    of_programs = layouts(cluster)
    ops = {key: _ops(cluster, key) for key in launched}
    members = {(*key, op) for key, of_key in ops.items() for op in of_key}
    views = []
    for key, of_key in ops.items():
        for op in of_key:
            layout = of_programs.get(key) or _common(of_programs, key, op)
            found = _measured(cluster, key, op, members)
            views.append(_view(cluster, layout, (*key, op), found, launched[key]))
    views.sort(key=_order)
    return views


def _ops(cluster: Cluster, key: ProgramKey) -> Iterable[str]:
    """Return the ops of a program that its inventory lists or that windows timed."""
    layout, seen = layouts(cluster).get(key), cluster.joining.seen.get(key)
    return {**(layout.of_op if layout else {}), **(seen.timings if seen else {})}


def _order(view: CollectiveView) -> tuple[float, float, int, str, str, str]:
    """Return a sort key: by time spent, then by bytes. The fingerprint may be None."""
    _, program, fingerprint, op = view.key
    return (
        -(view.us_per_second or 0),
        -(view.p50_us or 0),
        -(view.bytes or 0),
        program,
        fingerprint or "",
        op,
    )


class _Rate(NamedTuple):
    """The launches a second of one program, and those of all programs of its name together."""

    own: float | None
    unsplit: Unsplit | None


def _is_settled(cluster: Cluster, key: ProgramKey) -> bool:
    """Return whether windows have since told apart the programs that they once reported as one."""
    _, name, fingerprint = key
    told = [
        host.launched.get(name)
        for agent in cluster.joining.seen[key].told
        if (host := cluster.hosts.get(agent))
    ]
    return fingerprint is None and not any(each is not None and None in each.counts for each in told)


def _common(of_programs: Mapping[ProgramKey, Layout], key: ProgramKey, op: str) -> Layout | None:
    """Return a program of this name if the collective is the same in all programs of the name, else None."""
    same = [layout for other, layout in of_programs.items() if other[:2] == key[:2] and op in layout.of_op]
    if not same or key[2] is not None:
        return None
    first = same[0]
    is_alike = all(
        (each.of_op[op].kind, each.of_op[op].bytes, each.of_op[op].times)
        == (first.of_op[op].kind, first.of_op[op].bytes, first.of_op[op].times)
        and _device_ids(each, op) == _device_ids(first, op)
        for each in same
    )
    return first if is_alike else None


def _device_ids(layout: Layout, op: str) -> object:
    grouped = layout.groups_of(op)
    return grouped and (grouped.device_ids, grouped.axes)


def _rate_of(cluster: Cluster, key: ProgramKey, asked: dict[str, Rates]) -> _Rate:
    """Return how often a program is launched, from a sample of the processes that run it."""
    layout, seen = layouts(cluster).get(key), cluster.joining.seen.get(key)
    agents = layout.agents if layout else tuple(seen.told) if seen else ()
    own: list[float] = []
    unsplit: list[Unsplit] = []
    _, name, fingerprint = key
    for agent in agents[:: max(1, len(agents) // MOST_ASKED)]:
        if agent not in asked:
            asked[agent] = rates(cluster.hosts[agent]) if agent in cluster.hosts else NO_RATES
        told = asked[agent]
        if (rate := told.of(name, fingerprint)) is not None:
            own.append(rate)
        if name in told.unsplit:
            unsplit.append(told.unsplit[name])
    return _Rate(max(own, default=None), max(unsplit, default=None))


def _view(
    cluster: Cluster, layout: Layout | None, key: tuple[Any, ...], found: _Measured, rate: _Rate
) -> CollectiveView:
    run, program, fingerprint, op = key
    told: wire.Collective | None = layout.of_op.get(op) if layout else None
    grouped = layout.groups_of(op) if layout else None
    axes = grouped.axes if grouped else None
    size = max(map(len, grouped.device_ids), default=None) if grouped else _size(layout, told)
    kind = told.kind if told else kind_of(op)
    times = told.times if told else None
    launches = rate.own
    if fingerprint is None and rate.unsplit is not None:  # it is the same in all of these programs
        launches = rate.unsplit.per_second
    return CollectiveView(
        run=run,
        program=program,
        fingerprint=fingerprint,
        op=op,
        kind=kind,
        source=told.source if told else "",
        shape=told.shape if told else "",
        axes=axes.names if axes else None,
        is_whole_axes=axes is not None and axes.is_whole,
        groups=grouped.device_ids if grouped else (),
        group_size=size,
        crosses_hosts=grouped.crosses_hosts if grouped else None,
        bytes=told.bytes if told else None,
        times=times,
        per_second=None if launches is None or times is None else launches * times,
        samples=found.samples,
        p50_us=found.p50,
        p99_us=found.p99,
        transfer_us=found.transfer,
        wait_us=found.wait,
        busbw_bytes_per_s=busbw(kind, told.bytes if told else None, size, found.transfer),
        straggler=_straggler(cluster, grouped, found),
        is_enough=found.is_enough,
        waits_us=found.waits,
        is_async=told is not None and told.is_async,
        mesh=layout.mesh if layout else None,
        is_judged=grouped is not None and bool(grouped.teams),
        unsplit=rate.unsplit,
    )


def kind_of(op: str) -> str:
    """Return the kind of collective that an op's name begins with; "?" if it begins with none."""
    return next((kind for kind in KINDS if op.startswith(kind)), "?")


def busbw(kind: str, size: int | None, members: int | None, transfer_us: float | None) -> int | None:
    """Return the bus bandwidth in bytes per second, as nccl-tests defines it."""
    if size is None or not members or not transfer_us:
        return None
    times = _TRIPS.get(kind)
    factor = 1.0 if times is None else times * (members - 1) / members
    return round(size * factor * 1_000_000 / transfer_us)


def _size(layout: Layout | None, told: wire.Collective | None) -> int | None:
    """Return the group size, which the program states even where the members are unknown."""
    if layout is None or layout.inventory is None or told is None or told.groups is None:
        return None
    return max(layout.inventory.groups[told.groups].sizes, default=None)


def _measured(cluster: Cluster, key: ProgramKey, op: str, members: Collection[Any]) -> _Measured:
    seen = cluster.joining.seen.get(key)
    timings = seen.timings.get(op, ()) if seen else ()
    named = seen.named.get(op, ()) if seen else ()
    return cluster.derived.of(
        "measured", (*key, op), members, (timings, named), lambda: _measure(timings, named)
    )


def _measure(timings: tuple[Timing, ...], named: tuple[Named, ...]) -> _Measured:
    longest = sorted(chain.from_iterable(each.longest for each in timings))
    shortest = [each for timing in timings for each in timing.shortest]
    teams = timings[-1].grouped.teams if timings and timings[-1].grouped else ()
    return _Measured(
        named,
        sum(each.instances for each in timings),
        longest[(len(longest) - 1) // 2] if longest else None,
        longest[-1 - len(longest) // 100] if longest else None,
        round(median(shortest)) if shortest else None,
        _longest_wait(timings),
        bool(teams) and is_enough(arrivals_of(timings, 0)),
        Waits(timings),
    )


def _longest_wait(timings: Sequence[Timing]) -> int | None:
    """Return the largest, over all groups, of the median of the group's longest waits."""
    most = None
    for of_group in zip(*(each.waits for each in timings if each.grouped is not None), strict=True):
        known = [wait for wait in of_group if wait != MISSING]
        if known:
            wait = median(known)
            most = wait if most is None or wait > most else most
    return None if most is None else round(most)


class Waits(Mapping[int, int]):
    """The median wait of each device. It is derived on first access, as there may be thousands of devices."""

    __slots__ = ("_found", "_timings")

    def __init__(self, timings: Sequence[Timing]) -> None:
        self._timings = timings
        self._found: dict[int, int] | None = None

    def _all(self) -> dict[int, int]:
        if self._found is None:
            self._found = waits_of(self._timings)
        return self._found

    def __getitem__(self, device_id: int) -> int:
        return self._all()[device_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def waits_of(timings: Sequence[Timing]) -> dict[int, int]:
    """Return the median wait of each device, over the launches that keep waits by device."""
    grouped = timings[-1].grouped if timings else None
    if grouped is None:
        return {}
    columns = [each.by_device for each in timings if each.by_device is not None]
    found = {}
    for device_id, waits in zip(
        chain.from_iterable(grouped.device_ids), zip(*columns, strict=True), strict=True
    ):
        known = sorted(wait for wait in waits if wait != MISSING)
        if known:
            found[device_id] = known[(len(known) - 1) // 2]
    return found


def _straggler(cluster: Cluster, grouped: Grouped | None, found: _Measured) -> Straggler | None:
    """Return the latest of the named units. For a process, its device is the one that waits least."""
    if not found.named or grouped is None:
        return None
    late = max(found.named, key=lambda each: each.verdict.late_us)
    host = cluster.hosts.get(late.unit.agent)
    device_id = late.unit.device_id
    if device_id is None:
        own = {device.id for device in host.hello.devices} if host and host.hello else set()
        team = grouped.teams[late.team] if late.team < len(grouped.teams) else None
        members = [
            grouped.device_ids[number][place]
            for number, row in (team.rows if team else ())
            for place, unit in enumerate(row)
            if grouped.device_ids[number][place] in own and unit >= 0
        ]
        if not members:
            return None
        device_id = min(members, key=lambda each: found.waits.get(each, MISSING))
    share, late_us = late.verdict.share, late.verdict.late_us
    return Straggler(late.unit.agent, host.process_index if host else None, device_id, share, late_us)
