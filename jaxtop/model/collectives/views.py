"""The collectives for display: the inventories of programs, joined with measurements from windows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Any

from jaxtop.model.collectives.kinds import busbw, kind_of
from jaxtop.model.collectives.launch_rates import sampled_rates
from jaxtop.model.collectives.layout import layouts
from jaxtop.model.collectives.nccl_inspector import NAME, SameTimes, inspected_ops
from jaxtop.model.collectives.present import first_windows, old_windows
from jaxtop.model.collectives.timing import DeviceWaits, duration_with, longest_wait
from jaxtop.model.collectives.verdict import is_enough, reported_by, still_late, straggler_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from jaxtop import wire
    from jaxtop.model.arrays.meshes import MeshView
    from jaxtop.model.collectives.launch_rates import SampledRate
    from jaxtop.model.collectives.layout import Layout
    from jaxtop.model.collectives.nccl_inspector import InspectedCollectives
    from jaxtop.model.programs.rates import UnsplitLaunches
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import ProgramKey, Straggler

# The run, program and fingerprint of a collective, and its op.
_Key = tuple[str, str, str | None, str]


@dataclass(frozen=True, slots=True)
class CollectiveView:
    """A collective operation of a program, over all processes that run it; None where unknown.

    `bytes` and `busbw` follow the definitions of nccl-tests. `samples` counts the instances that all
    participants of a group reported. `p50_us` and `p99_us` are taken over these, each as long as for the
    member that came first, which includes its wait; if they take longer in the group that waits most, the
    median is that of this group. `transfer_us` is the median of the time that remains
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
    per_second: float | None = None
    samples: int = 0
    p50_us: int | None = None
    p99_us: int | None = None
    transfer_us: int | None = None
    # Whether its groups leave what fast links join: a slice of TPUs, the GPUs that NVLink joins, else a host.
    uses_network: bool | None = None
    wait_us: int | None = None
    busbw_bytes_per_s: int | None = None
    straggler: Straggler | None = None
    is_enough: bool = False  # whether there are enough samples for a verdict
    # Whether its times are of the present steps, and an agent with the time of its last window.
    is_current: bool = True
    taken: tuple[str, int] | None = None
    waits_us: Mapping[int, int] = field(default_factory=dict)
    is_async: bool = False
    mesh: MeshView | None = None
    # False where lateness cannot be judged: the groups are unknown, or devices take turns on one CPU.
    is_judged: bool = True
    # Who timed it, where that was not a window.
    timed_by: str | None = None
    # Launches of all programs of this name together, where they cannot be split by program.
    unsplit: UnsplitLaunches | None = None
    listed: wire.Collective | None = None  # None if only windows have shown it
    # The collectives that share this row, if several do.
    folded: tuple[CollectiveView, ...] = ()

    @property
    def line(self) -> str:
        """Its line in the script, "train.py:12"; empty if unknown."""
        return self.listed.line if self.listed else ""

    @property
    def added(self) -> str:
        """Why the partitioner added it; empty if the script has it, or that is unknown."""
        return self.listed.added if self.listed else ""

    def untimed(self) -> CollectiveView:
        """Return it as if no window had timed it."""
        return replace(
            self,
            samples=0,
            p50_us=None,
            p99_us=None,
            transfer_us=None,
            wait_us=None,
            busbw_bytes_per_s=None,
            straggler=None,
            is_enough=False,
            waits_us={},
        )

    @property
    def key(self) -> tuple[Any, ...]:
        return self.run, self.program, self.fingerprint, self.op

    @property
    def us_per_second(self) -> float | None:
        """The time that it takes in each second, on the device that spends most time in it."""
        return None if self.p50_us is None or self.per_second is None else self.p50_us * self.per_second


def collective_views(cluster: ClusterState, now: float) -> list[CollectiveView]:
    """Return the collectives of all runs, by time spent. Those without timings follow, by bytes."""
    windows, of_programs = cluster.windows, layouts(cluster)
    names = {key[:2] for key in of_programs}
    keys = [*of_programs]
    keys += [
        key
        for key in windows.programs
        if key not in of_programs and not (key[:2] in names and _is_settled(cluster, key))
    ]
    launched = sampled_rates(cluster, keys, now)
    times = cluster.derived.same("inspected collectives", inspected_ops(cluster, now))
    old = old_windows(cluster, now)
    inputs = windows.changes, cluster.layout_changes, launched, times, first_windows(cluster), old
    return cluster.derived.get("collectives", inputs, lambda: _collectives(cluster, launched, times, old))


def _collectives(
    cluster: ClusterState,
    launched: Mapping[ProgramKey, SampledRate],
    times: Mapping[SameTimes, InspectedCollectives],
    old: frozenset[ProgramKey],
) -> list[CollectiveView]:
    of_programs = layouts(cluster)
    ops = {key: _ops(cluster, key) for key in launched}
    members = {(*key, op) for key, of_key in ops.items() for op in of_key}
    views = []
    for key, of_key in ops.items():
        for op in of_key:
            layout = of_programs.get(key) or _common(of_programs, key, op)
            view = _cached_view(cluster, layout, (*key, op), members, is_old=key in old)
            views.append(_with_times(_with_rate(view, launched[key]), times))
    views.sort(key=_order)
    return views


def _ops(cluster: ClusterState, key: ProgramKey) -> Iterable[str]:
    """Return the ops of a program that its inventory lists or that windows timed."""
    layout, windows = layouts(cluster).get(key), cluster.windows.programs.get(key)
    return {**(layout.of_op if layout else {}), **(windows.timings if windows else {})}


def _order(view: CollectiveView) -> tuple[float, float, int, str, str, str]:
    """Return a sort key: by time spent, then by bytes. The fingerprint may be None."""
    names = view.program, view.fingerprint or "", view.op
    return -(view.us_per_second or 0), -(view.p50_us or 0), -(view.bytes or 0), *names


def _is_settled(cluster: ClusterState, key: ProgramKey) -> bool:
    """Return whether windows have since told apart the programs that they once reported as one."""
    _, name, fingerprint = key
    launched = [
        host.launches_in_windows.get(name)
        for agent in cluster.windows.programs[key].last_number_of_agent
        if (host := cluster.hosts.get(agent))
    ]
    return fingerprint is None and not any(each is not None and None in each.counts for each in launched)


def _common(of_programs: Mapping[ProgramKey, Layout], key: ProgramKey, op: str) -> Layout | None:
    """Return a program of this name if the collective is the same in all programs of the name, else None."""
    same = [layout for other, layout in of_programs.items() if other[:2] == key[:2] and op in layout.of_op]
    if not same or key[2] is not None:
        return None
    return same[0] if all(_facts(each, op) == _facts(same[0], op) for each in same) else None


def _facts(layout: Layout, op: str) -> object:
    listed, grouped = layout.of_op[op], layout.groups_of(op)
    return listed.kind, listed.bytes, listed.times, grouped and (grouped.device_ids, grouped.axes)


def _cached_view(
    cluster: ClusterState, layout: Layout | None, key: _Key, members: Collection[_Key], *, is_old: bool
) -> CollectiveView:
    """Return a collective as measured, without its rate; `members` are all collectives that there are."""
    windows = cluster.windows.programs.get(key[:3])
    timings = windows.timings.get(key[3], ()) if windows else ()
    late = windows.late.get(key[3], ()) if windows else ()
    first = first_windows(cluster).get(key[:3], 0)
    hosts = [cluster.hosts.get(each.unit.agent) for each in late]
    inputs = (
        timings,
        late,
        first,
        is_old,
        *((layout.inventory, layout.groups_of(key[3]), layout.mesh) if layout else ()),
        *(host and host.hello for host in hosts),
    )

    def view() -> CollectiveView:
        untimed = _untimed_view(layout, key)
        return _with_timings(untimed, cluster, layout, first, is_old=is_old) if timings else untimed

    return cluster.derived.of("collective", key, members, inputs, view)


def _untimed_view(layout: Layout | None, key: _Key) -> CollectiveView:
    """Return what the program says about a collective."""
    run, program, fingerprint, op = key
    listed: wire.Collective | None = layout.of_op.get(op) if layout else None
    grouped = layout.groups_of(op) if layout else None
    axes = grouped.axes if grouped else None
    return CollectiveView(
        run=run,
        program=program,
        fingerprint=fingerprint,
        op=op,
        kind=listed.kind if listed else kind_of(op),
        source=listed.source if listed else "",
        listed=listed,
        shape=listed.shape if listed else "",
        axes=axes.names if axes else None,
        is_whole_axes=axes is not None and axes.is_whole,
        groups=grouped.device_ids if grouped else (),
        group_size=max(map(len, grouped.device_ids), default=None) if grouped else _size(layout, listed),
        crosses_hosts=grouped.crosses_hosts if grouped else None,
        uses_network=grouped.uses_network if grouped else None,
        bytes=listed.bytes if listed else None,
        times=listed.times if listed else None,
        is_async=listed is not None and listed.is_async,
        mesh=layout.mesh if layout else None,
        is_judged=grouped is not None and bool(grouped.teams),
    )


def _with_timings(
    view: CollectiveView, cluster: ClusterState, layout: Layout | None, first: int, *, is_old: bool
) -> CollectiveView:
    """Return a collective with what windows measured: those of the present rhythm, which begins with `first`.

    If there are none of these yet, it has the earlier ones.
    """
    windows = cluster.windows.programs[view.run, view.program, view.fingerprint]
    every = windows.timings[view.op]
    present = tuple(each for each in every if each.window_number >= first)
    timings = present or every
    late = windows.late.get(view.op, ())
    named = () if is_old else still_late(late, present, is_all=len(present) == len(every))
    longest = sorted(chain.from_iterable(each.longest for each in timings))
    shortest = list(chain.from_iterable(each.shortest for each in timings))
    transfer_us = round(median(shortest)) if shortest else None
    waits, wait_us = DeviceWaits(timings), longest_wait(timings)
    last = timings[-1]
    return replace(
        view,
        samples=sum(each.instances for each in timings),
        p50_us=max(longest[(len(longest) - 1) // 2], duration_with(timings, wait_us) or 0)
        if longest
        else None,
        p99_us=longest[-1 - len(longest) // 100] if longest else None,
        transfer_us=transfer_us,
        wait_us=wait_us,
        waits_us=waits,
        busbw_bytes_per_s=busbw(view.kind, view.bytes, view.group_size, transfer_us),
        straggler=straggler_of(cluster, layout.groups_of(view.op) if layout else None, named, waits),
        is_enough=bool(present and last.grouped and last.grouped.teams) and is_enough(reported_by(every, 0)),
        is_current=bool(present) and not is_old,
        taken=min(windows.taken_ms.get(last.window_number, {}).items(), default=None),
    )


def _with_rate(view: CollectiveView, rate: SampledRate) -> CollectiveView:
    launches = rate.own
    if view.fingerprint is None and rate.unsplit is not None:  # it is the same in all of these programs
        launches = rate.unsplit.per_second
    per_second = None if launches is None or view.times is None else launches * view.times
    return replace(view, per_second=per_second, unsplit=rate.unsplit)


def _with_times(view: CollectiveView, times: Mapping[SameTimes, InspectedCollectives]) -> CollectiveView:
    """Return a collective with the times of NCCL Inspector, if no window has timed it."""
    if not times or view.samples or view.group_size is None or view.bytes is None:
        return view
    found = times.get(SameTimes(view.run, view.kind, view.group_size, view.bytes))
    if found is None:
        return view
    # Each process times by itself: which of them came last is unknown.
    return replace(view, **found._asdict(), timed_by=NAME, is_judged=False)


def _size(layout: Layout | None, listed: wire.Collective | None) -> int | None:
    """Return the group size, which the program states even where the members are unknown."""
    if layout is None or layout.inventory is None or listed is None or listed.groups is None:
        return None
    return max(layout.inventory.groups[listed.groups].sizes, default=None)
