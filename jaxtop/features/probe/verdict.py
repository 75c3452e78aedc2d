"""The result of a probe, from its processes' measurements: medians, bandwidths, and what is slow."""

from __future__ import annotations

from statistics import median, median_high
from typing import TYPE_CHECKING

from jaxtop.features.probe.figures import FIGURES
from jaxtop.features.probe.peers import AGREEING, MIN_ROUNDS, Share, compare, distance
from jaxtop.model.collectives.kinds import busbw
from jaxtop.model.naming.sentences import ranges
from jaxtop.wire.probing import (
    SCHEMA,
    FigureSummary,
    Probe,
    ProbedCollective,
    ProbedDevice,
    ProbedGroup,
    SlowDevices,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.wire.probing import CollectiveMeasurement, Meeting, ProbePlan, ProbeReport


GROUP_TOLERANCE = 0.4
# The settings of a plan that its result repeats.
_OF_PLAN = ("axes", "matrix_dtype", "matrix_size", "memory_bytes", "transfer_bytes")
# A process is late if the others wait for it for more than this share of a collective.
LATE_SHARE = 0.25


def result(plan: ProbePlan, reports: Sequence[ProbeReport], jaxtop: str, at_ms: int, seconds: float) -> Probe:
    devices = _devices(reports)
    measured = min(len(report.met) for report in reports)
    collectives = tuple(_collective(plan, number, reports) for number in range(measured))
    return Probe(
        schema=SCHEMA,
        jaxtop=jaxtop,
        jax=reports[0].here.jax,
        at_ms=at_ms,
        seconds=round(seconds, 1),
        platform=reports[0].here.devices[0].platform,
        processes=len(reports),
        **{name: getattr(plan, name) for name in _OF_PLAN},
        devices=devices,
        collectives=collectives,
        slow=(*_slow_devices(devices), *_slow_groups(devices, collectives)),
        left_out=len(plan.meetings) - len(collectives),
    )


def _devices(reports: Sequence[ProbeReport]) -> tuple[ProbedDevice, ...]:
    owned = [
        (report, place, device) for report in reports for place, device in enumerate(report.here.devices)
    ]
    figures: list[dict[str, FigureSummary]] = [{} for _ in owned]
    kinds = {device.kind for _, _, device in owned}
    for name in FIGURES:
        for kind in kinds:
            members = [
                number
                for number, (report, _, device) in enumerate(owned)
                if device.kind == kind and name in report.rounds
            ]
            rounds = [owned[number][0].rounds[name][owned[number][1]] for number in members]
            owners = [owned[number][0].here.process for number in members]
            for number, measured in zip(members, _compared(name, rounds, owners), strict=True):
                figures[number][name] = measured
    return tuple(
        ProbedDevice(
            id=device.id,
            local_id=device.local_id,
            process=report.here.process,
            hostname=report.here.hostname,
            platform=device.platform,
            kind=device.kind,
            uuid=device.uuid,
            figures=figures[number],
        )
        for number, (report, _, device) in enumerate(owned)
    )


def _compared(name: str, rounds: Sequence[Sequence[float]], owners: Sequence[int]) -> list[FigureSummary]:
    figure = FIGURES[name]
    speeds = [[figure.speed(value) for value in each] for each in rounds]
    found = compare(speeds, figure.tolerance)
    late = _slow_processes(speeds, owners, figure.tolerance)
    medians = [median(each) for each in rounds]
    if not found:
        return [
            FigureSummary(middle, distance(each), len(each))
            for middle, each in zip(medians, rounds, strict=True)
        ]
    peers = figure.speed(median_high(figure.speed(middle) for middle in medians))  # speed inverts itself
    return [
        FigureSummary(
            middle,
            distance(each),
            len(each),
            peers,
            share.share,
            share.is_slow or (owner in late and share.share < 1 - figure.tolerance),
        )
        for middle, each, share, owner in zip(medians, rounds, found, owners, strict=True)
    ]


def _slow_processes(speeds: Sequence[Sequence[float]], owners: Sequence[int], tolerance: float) -> set[int]:
    """Return the processes whose devices are slow together.

    Several devices of a process prove it where the difference of each alone would be noise.
    """
    processes = sorted(set(owners))
    typical = []
    for process in processes:
        own = [each for each, owner in zip(speeds, owners, strict=True) if owner == process]
        typical.append([median(each) for each in zip(*own, strict=True)])
    found = compare(typical, tolerance)
    return {process for process, share in zip(processes, found, strict=False) if share.is_slow}


def _collective(plan: ProbePlan, number: int, reports: Sequence[ProbeReport]) -> ProbedCollective:
    meeting = plan.meetings[number]
    met = {report.here.process: report.met[number] for report in reports}
    launches = list(zip(*(each.whole for each in met.values()), strict=True))
    longest = [max(each) for each in launches]
    middle = median(longest)
    late = _late(list(met), launches, middle) if _spans(meeting, reports) else (None, None)
    return ProbedCollective(
        axis=meeting.axis,
        kind=meeting.kind,
        bytes=meeting.bytes,
        group_size=len(meeting.groups[0]),
        launches=len(launches),
        time_s=middle,
        spread_s=distance(longest),
        algbw_bytes_per_s=meeting.bytes / middle,
        busbw_bytes_per_s=busbw(meeting.kind, meeting.bytes, len(meeting.groups[0]), middle * 1e6),
        groups=_groups(meeting, reports, met),
        late_process=late[0],
        late_s=late[1],
    )


def _spans(meeting: Meeting, reports: Sequence[ProbeReport]) -> bool:
    owner = {device.id: report.here.process for report in reports for device in report.here.devices}
    return all(len({owner[each] for each in group}) == len(reports) > 1 for group in meeting.groups)


def _late(
    processes: Sequence[int], launches: Sequence[Sequence[float]], middle: float
) -> tuple[int | None, float | None]:
    """Return the process that came last, and its lateness; None for both without a clear one.

    The last process measures the shortest launch: the others have begun before and waited.
    """
    waits = [
        [sorted(each)[1] - each[i] for each in launches] for i in range(len(processes))
    ]  # above 0 for the process that came last, else 0 or less
    for process, each in zip(processes, waits, strict=True):
        if median(each) > LATE_SHARE * middle and sum(wait > 0 for wait in each) >= AGREEING * len(each):
            return process, median(each)
    return None, None


def _groups(
    meeting: Meeting, reports: Sequence[ProbeReport], met: Mapping[int, CollectiveMeasurement]
) -> tuple[ProbedGroup, ...]:
    """Return the time of each group: that of its slowest device, in launches that waited for it first."""
    firsts: dict[int, list[float]] = {}
    for report in reports:
        ids = sorted(device.id for device in report.here.devices)
        for place, device in enumerate(ids):
            firsts[device] = list(met[report.here.process].first[place :: len(ids)])
    rounds = min(map(len, firsts.values()))
    times = [
        [max(firsts[device][number] for device in group) for number in range(rounds)]
        for group in meeting.groups
    ]
    judged: list[Share] = []
    if rounds >= MIN_ROUNDS and meeting.kind == "all-reduce" and _are_apart(meeting, reports):
        judged = compare([[1 / time for time in each] for each in times], GROUP_TOLERANCE)
    shares = judged or [Share(1.0, is_slow=False)] * len(times)
    return tuple(
        ProbedGroup(group, median(each), share.share if judged else None, share.is_slow)
        for group, each, share in zip(meeting.groups, times, shares, strict=True)
        if each
    )


def _are_apart(meeting: Meeting, reports: Sequence[ProbeReport]) -> bool:
    """Return whether no two groups use the same cores; groups of CPU devices on one machine do."""
    machine = {
        device.id: report.here.boot or report.here.hostname
        for report in reports
        for device in report.here.devices
        if device.platform == "cpu"
    }
    used = [
        each
        for group in meeting.groups
        for each in {machine[member] for member in group if member in machine}
    ]
    return len(used) == len(set(used))


def _slow_devices(devices: Sequence[ProbedDevice]) -> list[SlowDevices]:
    """Return devices that are slow in the same figures, grouped by process."""
    by_figures: dict[tuple[int, tuple[str, ...]], list[ProbedDevice]] = {}
    for device in devices:
        slow = tuple(name for name, measured in device.figures.items() if measured.is_slow)
        if slow:
            by_figures.setdefault((device.process, slow), []).append(device)
    found = []
    for (process, names), members in by_figures.items():
        shares = {name: median(each.figures[name].share or 0.0 for each in members) for name in names}
        ids = tuple(each.id for each in members)
        words = ", ".join(f"{FIGURES[name].title} {share:.2f}" for name, share in shares.items())
        one = len(ids) == 1
        text = (
            f"{'device' if one else 'devices'} {ranges(ids)} (process {process} on {members[0].hostname}) "
            f"{'is' if one else 'are'} slow: {words} of {'its' if one else 'their'} peers'"
        )
        found.append(SlowDevices(ids, (process,), shares, text))
    return found


def _slow_groups(
    devices: Sequence[ProbedDevice], collectives: Sequence[ProbedCollective]
) -> list[SlowDevices]:
    """Return groups that are slow in the largest size that was compared on their axis."""
    place = {device.id: (device.process, device.hostname) for device in devices}
    largest = {
        each.axis: each
        for each in sorted(collectives, key=lambda each: each.bytes)
        if any(group.share is not None for group in each.groups)
    }
    found = []
    for each in largest.values():
        for group in each.groups:
            if not group.is_slow or group.share is None:
                continue
            owners = sorted({place[device] for device in group.device_ids})
            processes = tuple(process for process, _ in owners)
            where = " and ".join(f"process {process} on {host}" for process, host in owners[:4])
            more = f" and {len(owners) - 4} more" if len(owners) > 4 else ""
            what = f"{each.kind} over {each.axis}"
            text = (
                f"the group of devices {ranges(group.device_ids)} ({where}{more}) is slow: "
                f"{what} {group.share:.2f} of its peers'"
            )
            found.append(SlowDevices(group.device_ids, processes, {what: group.share}, text))
    return found
