"""The model as messages, and the parts of the fold that build the same model from them.

Results from windows of the profiler are left out: a recording points to the last windows instead.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate, chain, compress, groupby, pairwise, repeat
from operator import ne
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from jaxtop import wire
from jaxtop.model.finding import Finding, Findings, Ongoing
from jaxtop.model.host import (
    NO_ACTIVITY,
    NO_ARRAYS,
    NO_CORES,
    NO_LINK,
    NO_NCCL,
    NO_NCCL_TIMES,
    NO_PROGRAMS,
    NO_STACKS,
    FunctionLaunches,
    LaunchCounts,
    ProgramLaunches,
)
from jaxtop.model.state import (
    HISTORY,
    MOST_EVENTS,
    Certainty,
    Diagnosis,
    Dropped,
    LoggedEvent,
    Place,
    RunStall,
    Sample,
)
from jaxtop.wire.bounds import NANOSECONDS, to_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState

# The bounds on the content of one message, with room to spare.
MOST_CHANGED_GROUPS, MOST_EVENT_BYTES = 2_000, wire.MAX_PAYLOAD // 2

# A message, with its time and its agent, or a frame as it came.
Message = tuple[float, str, wire.Message] | wire.Frame


def messages(cluster: ClusterState, at: float, *, has_windows: bool = False) -> Iterator[Message]:
    """Yield the messages of a cluster at that time; with `has_windows`, the last windows too."""
    for unmet in cluster.unmet.values():
        yield unmet.link_at, "", unmet.link
    for host in cluster.hosts.values():
        yield from _of_host(cluster, host, at)
        yield at, host.agent, _past(cluster, host)
    if has_windows:
        # By time, because the windows of all hosts are joined, and after what tells how their devices lie.
        windows = chain.from_iterable(cluster.past_windows.values())
        yield from sorted(windows, key=lambda frame: frame.at)
    yield at, "", _events(cluster)


def _of_host(cluster: ClusterState, host: Host, at: float) -> Iterator[Message]:
    agent, heard_at = host.agent, host.heard_at or at
    if host.peer is not None:
        yield heard_at, agent, wire.Roster(agent, (host.peer,), host.run, host.run_name, host.process_count)
    if host.link is not NO_LINK:
        yield host.link_at, agent, host.link
    if host.hello is not None:
        yield heard_at, agent, host.hello
    if host.programs is not NO_PROGRAMS:
        yield heard_at, agent, host.programs
    if host.compiled is not None:
        yield heard_at, agent, host.compiled
    of_programs: tuple[wire.Message, ...]
    of_programs = (*host.inventories.values(), *host.operations.values(), *host.peaks.values())
    yield from ((heard_at, agent, message) for message in of_programs)
    if host.arrays is not NO_ARRAYS:
        yield heard_at, agent, host.arrays
        past = _past_arrays(host, cluster.past_arrays.get(agent, ()))
        if past is not None:
            yield heard_at, agent, past
    for last, none in (
        (host.stacks, NO_STACKS),
        (host.nccl, NO_NCCL),
        (host.nccl_times, NO_NCCL_TIMES),
        (host.cores, NO_CORES),
        (host.activity, NO_ACTIVITY),
    ):
        if last is not none:
            yield heard_at, agent, last
    if host.pulse_at is not None:
        yield host.pulse_at, agent, host.pulse
    if host.bye is not None:
        yield heard_at, agent, host.bye


def _past(cluster: ClusterState, host: Host) -> wire.Past:
    return wire.Past(
        host.heard_at,
        _history(cluster.history.get(host.agent, ())),
        tuple(wire.PastLaunches(each.at_ms, dict(each.launches)) for each in host.past_launches),
        host.steps,
        dict(host.launches),
        host.launches_since,
        tuple(
            wire.PastLaunched(
                name,
                each.at_ms,
                tuple(each.counts.items()),
                tuple((fingerprint, *times[:3]) for fingerprint, times in each.times.items()),
                tuple(each.latest.items()),
                each.slot,
            )
            for name, each in host.launched.items()
        ),
        host.losses,
        host.best,
        tuple((since, len(list(alike))) for since, alike in groupby(host.arrays_since)),
        host.rises,
    )


def _history(samples: Iterable[Sample]) -> wire.PastSamples:
    times, launches, used, last = [], [], [], None
    for i, sample in enumerate(samples):
        times.append(to_ns(sample.at))
        launches.append(sample.launches)
        if not i or sample.used_bytes is not last:  # the fold makes equal tuples one object
            used.append((i, sample.used_bytes))
        last = sample.used_bytes
    return wire.PastSamples(_gaps(times), _gaps(launches), tuple(used))


def _gaps(counts: list[int]) -> tuple[int, ...]:
    return *counts[:1], *(later - earlier for earlier, later in pairwise(counts))


def _past_arrays(host: Host, past: Iterable[wire.Arrays]) -> wire.PastArrays | None:
    """Return the censuses of the table in use, the only ones from which growth is derived."""
    alike = [each for each in past if each.serial == host.arrays.serial]
    if not alike or alike == [host.arrays]:
        return None
    changes: list[wire.ArraysChange] = []
    first = 0
    for i, (before, after) in enumerate(pairwise(alike), start=1):
        change = _change(before, after)
        if change is None or len(change.groups) > MOST_CHANGED_GROUPS:
            first, changes = i, []
        else:
            changes.append(change)
    return wire.PastArrays(alike[first], tuple(changes))


def _change(before: wire.Arrays, after: wire.Arrays) -> wire.ArraysChange | None:
    """Return the change from the earlier census to the later one; None if the later one is shorter."""
    groups, had = after.groups, len(before.groups)
    meshes, shardings = len(before.meshes), len(before.shardings)
    if (
        len(groups) < had
        or after.meshes[:meshes] != before.meshes
        or after.shardings[:shardings] != before.shardings
    ):
        return None
    changed: tuple[int, ...] = ()
    if groups is not before.groups:
        changed = *compress(range(had), map(ne, before.groups, groups)), *range(had, len(groups))
    counts = *before.counts, *(0,) * (len(groups) - had)
    return wire.ArraysChange(
        after.at_ms,
        after.serial,
        after.number,
        tuple((i, after.counts[i]) for i in compress(range(len(counts)), map(ne, counts, after.counts))),
        tuple((i, groups[i]) for i in changed),
        after.meshes[meshes:],
        after.shardings[shardings:],
    )


def _events(cluster: ClusterState) -> wire.PastEvents:
    events = list(cluster.events)
    size = sum(len(each.text) for each in events)
    while size > MOST_EVENT_BYTES:
        size -= len(events.pop(0).text)
    return wire.PastEvents(
        tuple(wire.PastEvent(*each) for each in events),
        tuple(_standstill(run, stall) for run, stall in cluster.stalls.items()),
        cluster.dropped.count,
        tuple(wire.PastDropped(agent, *place) for agent, place in cluster.dropped.agents.items()),
        tuple(
            wire.PastStarts(place.run, place.process_index, count)
            for place, count in cluster.dropped.starts.items()
            if place.process_index is not None
        ),
        tuple(
            wire.PastFinding(
                msgspec.json.encode(each.finding).decode(),
                each.first_at,
                each.last_at,
                each.is_reported,
                each.severe_at,
            )
            for each in cluster.findings.ongoing.values()
        ),
        cluster.findings.checked_at,
        tuple(wire.PastUnchecked(*key, reason) for key, reason in cluster.findings.unchecked.items()),
    )


def _standstill(run: str, stall: RunStall) -> wire.PastStandstill:
    since, checked_at, reported = stall.since, stall.checked_at, stall.reported
    if reported is None:
        return wire.PastStandstill(run, since, checked_at)
    facts = reported.at_ms, reported.severity, reported.text, reported.odd, reported.waiting
    rest = int(reported.certainty), reported.began, reported.is_moving
    return wire.PastStandstill(run, since, checked_at, stall.reported_at, *facts, *rest)


# From messages to the model


def fold_past(state: ClusterState, host: Host, past: wire.Past) -> Host:
    """Replace the history that the preceding messages left for a host."""
    used, changed = None, dict(past.samples.used_bytes)
    times = [each / NANOSECONDS for each in accumulate(past.samples.at_ns)]
    used_bytes = [used := changed.get(i, used) for i in range(len(times))]
    samples = deque(map(Sample, times, used_bytes, accumulate(past.samples.launches)), maxlen=HISTORY)
    if samples:
        state.history[host.agent] = samples
    since = tuple(chain.from_iterable(repeat(*each) for each in past.arrays_since))
    return host.but(
        heard_at=past.heard_at,
        launches=MappingProxyType(past.counted) if past.counted else host.launches,
        launches_since=past.launches_since,
        past_launches=tuple(LaunchCounts(each.at_ms, each.launches) for each in past.launches),
        steps=past.steps,
        launched=MappingProxyType({each.name: _launched(each) for each in past.launched}),
        losses=past.losses,
        best=past.best,
        arrays_since=since if len(since) == len(host.arrays.counts) else host.arrays_since,
        rises=past.rises if past.rises.peaks else host.rises,
    )


def _launched(past: wire.PastLaunched) -> FunctionLaunches:
    times = {
        fingerprint: ProgramLaunches(count, us, exposed) for fingerprint, count, us, exposed in past.times
    }
    return FunctionLaunches(past.at_ms, dict(past.counts), times, dict(past.latest), past.slot)


def fold_events(state: ClusterState, past: wire.PastEvents) -> None:
    """Replace the events, stalls, findings and dropped processes."""
    events = (LoggedEvent(*msgspec.structs.astuple(each)) for each in past.events)
    state.events = deque(events, maxlen=MOST_EVENTS)
    state.stalls = {each.run: _stall(each) for each in past.standstills}
    state.findings = _findings(past)
    if past.dropped:
        state.dropped = Dropped(
            past.dropped,
            {each.agent: Place(each.run, each.process_index) for each in past.dropped_last},
            {Place(each.run, each.process_index): each.count for each in past.dropped_starts},
        )


def _findings(past: wire.PastEvents) -> Findings:
    unchecked = {(each.run, each.rule): each.reason for each in past.unchecked}
    found = Findings(checked_at=past.checked_at, unchecked=unchecked)
    for each in past.findings:
        try:
            finding = msgspec.json.decode(each.finding, type=Finding)
        except msgspec.MsgspecError as error:
            raise wire.Unreadable(f"a finding: {error}") from None
        found.ongoing[finding.key] = Ongoing(
            finding, each.first_at, each.last_at, each.is_reported, each.severe_at
        )
    return found


def _stall(past: wire.PastStandstill) -> RunStall:
    reported = None
    if past.at_ms is not None:
        try:
            certainty = Certainty(past.certainty)
        except ValueError as error:
            raise wire.Unreadable(str(error)) from None
        facts = past.at_ms, past.severity, past.text, past.odd, past.waiting
        began = past.since if past.began is None else past.began
        reported = Diagnosis(past.run, *facts, certainty, began, past.is_moving)
    return RunStall(past.since, past.looked_at, reported, past.told_at)
