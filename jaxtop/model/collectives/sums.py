"""Totals over collectives: by program, by mesh axes, by host and by device."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from jaxtop.model.collectives.present import first_windows, of_present_rhythm
from jaxtop.model.collectives.verdict import last_of, reported_by, wait_for_last
from jaxtop.model.collectives.views import collective_views
from jaxtop.model.host import run_of
from jaxtop.model.hosts import host_views

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.programs.rates import UnsplitLaunches
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import ProgramKey


@dataclass(frozen=True, slots=True)
class StepShare:
    """The shares of a program's launch time that are spent in collectives and in exposed collectives."""

    run: str
    program: str
    fingerprint: str | None
    launches: int
    share: float | None
    exposed_share: float | None


@dataclass(frozen=True, slots=True)
class AxisTraffic:
    """The traffic along some axes of a mesh, each second and for each device; None where unknown.

    `axes` is None for collectives whose axes are unknown. With `at_least`, the bytes are a lower bound: those
    of some collectives are unknown, or it is unknown which of several programs of a function is launched.
    """

    run: str
    axes: tuple[str, ...] | None
    crosses_hosts: bool | None
    collectives: int
    bytes_per_second: float | None
    us_per_second: float | None
    at_least: bool = False
    uses_network: bool | None = None


@dataclass(frozen=True, slots=True)
class LastArrivals:
    """How often a process came last where it met others, and the median time that the others waited then."""

    run: str
    agent: str
    last: int
    instances: int
    late_us: int | None


def step_shares(cluster: ClusterState) -> list[StepShare]:
    """Return the shares of each program that windows saw, most launches first."""
    found = []
    firsts = first_windows(cluster)
    for key, windows in cluster.windows.programs.items():
        shares = of_present_rhythm(windows.shares, firsts.get(key, 0))
        duration = sum(each.duration_us for each in shares)
        exposed = [each for each in shares if each.exposed_us is not None]
        of_exposed = sum(each.duration_us for each in exposed)
        found.append(
            StepShare(
                *key,
                launches=len(shares),
                share=sum(each.collective_us for each in shares) / duration if duration else None,
                exposed_share=sum(each.exposed_us or 0 for each in exposed) / of_exposed
                if of_exposed
                else None,
            )
        )
    return sorted(found, key=lambda each: (-each.launches, each.program))


def axis_traffic(views: Iterable[CollectiveView]) -> list[AxisTraffic]:
    """Return the collectives grouped by axes, those that take most time first."""
    groups: dict[tuple[str, tuple[str, ...] | None], list[CollectiveView]] = defaultdict(list)
    variants: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for view in views:
        groups[view.run, view.axes].append(view)
        variants[view.run, view.program].add(view.fingerprint)
    found = []
    for (run, axes), members in groups.items():
        sizes, at_least = _sizes(members, variants)
        times = [each.us_per_second for each in members if each.us_per_second is not None]
        found.append(
            AxisTraffic(
                run,
                axes,
                _any(each.crosses_hosts for each in members),
                len(members),
                sum(sizes) if sizes else None,
                sum(times) if times else None,
                bool(sizes) and at_least,
                _any(each.uses_network for each in members),
            )
        )
    return sorted(found, key=lambda each: (-(each.us_per_second or 0), -(each.bytes_per_second or 0)))


def _any(values: Iterable[bool | None]) -> bool | None:
    """Return whether any is true; None where none is, but some are unknown."""
    found = set(values)
    return True if True in found else None if None in found else False


def _sizes(
    members: list[CollectiveView], variants: Mapping[tuple[str, str], set[str | None]]
) -> tuple[list[float], bool]:
    """Return the bytes a second of these collectives along one axis, and whether they are a lower bound.

    Where it is unknown which of several programs is launched, the program that moves least counts.
    """
    sizes: list[float] = []
    at_least = False
    unsplit: dict[tuple[str, str], UnsplitLaunches] = {}
    moved: dict[tuple[str, str], dict[str | None, int]] = defaultdict(dict)
    for each in members:
        name = each.run, each.program
        if each.fingerprint is None and variants[name] != {None}:
            continue  # its bytes are already counted in one of the other programs
        if each.per_second is not None and each.bytes is not None:
            sizes.append(each.bytes * each.per_second)
        elif each.unsplit is None or each.bytes is None or each.times is None:
            at_least = True
        else:
            unsplit[name] = each.unsplit
            of_program = moved[name]
            of_program[each.fingerprint] = of_program.get(each.fingerprint, 0) + each.bytes * each.times
    for name, (rate, programs) in unsplit.items():
        of_each = sorted(moved[name].values())
        least = of_each[0] if len(of_each) >= programs else 0
        at_least |= least < of_each[-1]
        if least:
            sizes.append(rate * least)
    return sizes, at_least


def last_arrivals(cluster: ClusterState) -> list[LastArrivals]:
    """Return how often each process came last where it met others, the most often last first."""
    last: dict[tuple[str, str], list[int]] = defaultdict(list)
    instances: dict[tuple[str, str], int] = defaultdict(int)
    for (run, *_), windows in cluster.windows.programs.items():
        for timings in windows.timings.values():
            grouped = timings[-1].grouped
            for number, team in enumerate(grouped.teams if grouped else ()):
                if team.units[0].device_id is not None:
                    continue
                launches = [each.arrivals[number] for each in reported_by(timings, number)]
                for unit in team.units:
                    instances[run, unit.agent] += len(launches)
                for waits in launches:
                    last[run, team.units[last_of(waits)].agent].append(wait_for_last(waits))
    found = []
    for (run, agent), count in instances.items():
        late = last.get((run, agent), [])
        found.append(LastArrivals(run, agent, len(late), count, round(median(late)) if late else None))
    return sorted(found, key=lambda each: (-each.last, each.run, each.agent))


def waits_by_device(cluster: ClusterState, now: float) -> Mapping[tuple[str, int], int]:
    """Return how long each device waits in a launch, by run and id: the sum of its median waits.

    The sum is taken over the collectives of a program. If a device takes part in several programs, the one in
    which it waits longest counts. Devices of exited processes have none.
    """
    of_program, exited = program_waits(cluster, now), _exited_devices(cluster, now)
    inputs = [cluster.derived.same("exited devices", exited), of_program]
    return cluster.derived.get("waits", inputs, lambda: _waits(of_program, exited))


def _exited_devices(cluster: ClusterState, now: float) -> frozenset[tuple[str, int]]:
    exited = (view.host for view in host_views(cluster, now) if view.state.has_exited)
    return frozenset((run_of(host), device.id) for host in exited for device in host.devices)


def program_waits(cluster: ClusterState, now: float) -> Mapping[ProgramKey, Mapping[int, int]]:
    """Return how long each device waits in a launch of each program: the sum of its median waits."""
    views = collective_views(cluster, now)
    return cluster.derived.get(
        "waits of programs", [view.waits_us for view in views], lambda: _program_waits(views)
    )


def _program_waits(views: Iterable[CollectiveView]) -> dict[ProgramKey, dict[int, int]]:
    found: dict[ProgramKey, dict[int, int]] = defaultdict(dict)
    for view in views:
        total = found[view.run, view.program, view.fingerprint]
        for device_id, wait in view.waits_us.items():
            total[device_id] = total.get(device_id, 0) + wait
    return dict(found)


def _waits(
    of_program: Mapping[ProgramKey, Mapping[int, int]], exited: frozenset[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for (run, *_), total in of_program.items():
        for device_id, wait in total.items():
            if (run, device_id) not in exited:
                found[run, device_id] = max(wait, found.get((run, device_id), 0))
    return found
