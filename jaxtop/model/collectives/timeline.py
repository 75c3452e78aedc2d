"""The last windows of several processes on one time axis, and a count of all windows.

The clocks of machines differ. But a collective ends at about the same moment for all participants, so hosts
are shifted until these ends coincide. A host that began late is then visible as late.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.windows import LaunchId, launch_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop import wire
    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState

    # A launch, an op in it, and the round of that op.
    _RoundId = tuple[LaunchId, str, int]


class CollectiveSpan(NamedTuple):
    """A collective in a launch. Until `waited_us` it waited for others of its group on the shown hosts."""

    op: str
    start_us: int
    waited_us: int
    end_us: int


class LaunchBlock(NamedTuple):
    """A launch on one host."""

    id: LaunchId
    start_us: int
    end_us: int
    spans: tuple[CollectiveSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Strip:
    """The launches of one host; both shares are of the total duration of these launches."""

    agent: str
    blocks: tuple[LaunchBlock, ...]
    collective_share: float | None = None
    exposed_share: float | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The launches of several hosts, aligned.

    The axis runs from `start_us` to `end_us`. `aligned_by` is the op whose ends were aligned, "" if the hosts
    share none.
    """

    strips: tuple[Strip, ...] = ()
    start_us: int = 0
    end_us: int = 0
    aligned_by: str = ""


NO_TIMELINE = Timeline()


class WindowsSeen(NamedTuple):
    """The number of windows, and the host with the newest one."""

    windows: int
    newest: Host | None


class _WindowLaunch(NamedTuple):
    """A launch in a window, by what it is on all hosts."""

    id: LaunchId
    launch: wire.Launch

    @property
    def start_us(self) -> int:
        return self.launch.start_us

    @property
    def end_us(self) -> int:
        return self.launch.start_us + self.launch.duration_us


class _RoundOnHost(NamedTuple):
    """Start and end of a collective on a host, and the duration on each device with its group's number."""

    start_us: int
    end_us: int
    by_group: tuple[tuple[int, int], ...]


def windows_seen(cluster: ClusterState) -> WindowsSeen:
    """Count the windows of all runs together and find the newest one."""
    hosts = [host for host in cluster.hosts.values() if host.window.at_ms]
    count = max((each.last_number for each in cluster.windows.programs.values()), default=0)
    return WindowsSeen(
        max(count, int(bool(hosts))), max(hosts, key=lambda host: host.window.at_ms, default=None)
    )


def reporting_agents(cluster: ClusterState, view: CollectiveView) -> tuple[str, ...]:
    """Return the agents whose last window contains the program of this collective, in host order."""
    hosts = sorted(
        (host for host in cluster.hosts.values() if host.window.launches and _program(host.window, view)),
        key=lambda host: (host.process_index is None, host.process_index or 0, host.agent),
    )
    return tuple(host.agent for host in hosts)


def timeline_of(
    cluster: ClusterState, view: CollectiveView, anchors: Iterable[str], agents: Sequence[str], launches: int
) -> Timeline:
    """Return the latest launches of a collective's program on these hosts, at most as many as requested.

    `anchors` are ops in which these hosts meet, best first. The hosts are aligned by the first one that all
    of them timed.
    """
    windows = {agent: host.window for agent in agents if (host := cluster.hosts.get(agent))}
    chosen = {agent: _launches(agent, window, view) for agent, window in windows.items()}
    common = _common(chosen, launches)
    groups = {device_id: number for number, group in enumerate(view.groups) for device_id in group}
    times: dict[str, dict[_RoundId, _RoundOnHost]] = {}
    for agent, found in chosen.items():
        kept = {i: each for i, each in found.items() if each.id in common[agent]}
        chosen[agent] = kept
        hello = cluster.hosts[agent].hello
        local = [groups.get(device.id) for device in hello.devices] if hello else []
        times[agent] = _times(windows[agent], kept, view.op, local)
    reference = max(times, key=lambda agent: len(chosen[agent]), default=None)
    if reference is None or not chosen[reference]:
        return Timeline()
    anchor = _anchor(times, reference, anchors)
    least = _least_by_group(times.values())
    strips = []
    for agent in agents:
        if chosen.get(agent):
            shift = _shift(times[agent], times[reference], chosen[agent], chosen[reference], anchor)
            strips.append(_strip(agent, chosen[agent].values(), times[agent], least, shift))
    start = min(block.start_us for strip in strips for block in strip.blocks)
    end = max(block.end_us for strip in strips for block in strip.blocks)
    return Timeline(tuple(strips), start, end, anchor)


def _least_by_group(
    times: Iterable[Mapping[_RoundId, _RoundOnHost]],
) -> dict[tuple[_RoundId, int], int]:
    """Return the shortest time of each round in each group, which is that of its last member."""
    least: dict[tuple[_RoundId, int], int] = {}
    for of_agent in times:
        for instance, timed in of_agent.items():
            for number, took in timed.by_group:
                least[instance, number] = min(took, least.get((instance, number), took))
    return least


def _program(window: wire.Window, view: CollectiveView) -> frozenset[int]:
    """Return the indices of the collective's program in a window's list of programs."""
    return frozenset(
        i
        for i, (name, fingerprint) in enumerate(window.programs)
        if name == view.program
        and (fingerprint == view.fingerprint or None in (fingerprint, view.fingerprint))
    )


def _launches(agent: str, window: wire.Window, view: CollectiveView) -> dict[int, _WindowLaunch]:
    programs = _program(window, view)
    return {
        i: _WindowLaunch(launch_id(agent, window, i), launch)
        for i, launch in enumerate(window.launches)
        if launch.program in programs
    }


def _common(chosen: Mapping[str, Mapping[int, _WindowLaunch]], most: int) -> dict[str, frozenset[LaunchId]]:
    """Return the launches to show of each host: the latest that most hosts have, or else its own latest."""
    seen = Counter(launch.id for found in chosen.values() for launch in found.values())
    often = max(seen.values(), default=0)
    shared = frozenset([each for each, count in seen.items() if count == often][-most:])
    result = {}
    for agent, found in chosen.items():
        own = [launch.id for launch in sorted(found.values(), key=lambda each: each.start_us)]
        result[agent] = shared if often > 1 and shared.intersection(own) else frozenset(own[-most:])
    return result


def _times(
    window: wire.Window, launches: Mapping[int, _WindowLaunch], op: str, groups: Sequence[int | None]
) -> dict[_RoundId, _RoundOnHost]:
    """Return what a host timed; `groups` has the group of each of its devices in this op."""
    timed = {}
    for row in window.rounds:
        launch = launches.get(row.launch)
        known = [took for took in row.durations_us if took is not None]
        if launch is None or not known:
            continue
        name = window.ops[row.op]
        by_group = [
            (number, took)
            for number, took in zip(groups, row.durations_us, strict=False)
            if name == op and number is not None and took is not None
        ]
        # All participants end together, so the first device to arrive has the longest duration.
        end = row.start_us + max(known)
        timed[launch.id, name, row.round] = _RoundOnHost(row.start_us, end, tuple(by_group))
    return timed


def _anchor(
    times: Mapping[str, Mapping[_RoundId, _RoundOnHost]], reference: str, anchors: Iterable[str]
) -> str:
    """Return the first of the ops that all other hosts timed in the same launches; "" if there is none."""
    others = [agent for agent in times if agent != reference]
    for op in anchors:
        keys = {key for key in times[reference] if key[1] == op}
        if keys and others and all(not keys.isdisjoint(times[agent]) for agent in others if times[agent]):
            return op
    return ""


def _shift(
    own: Mapping[_RoundId, _RoundOnHost],
    reference: Mapping[_RoundId, _RoundOnHost],
    launches: Mapping[int, _WindowLaunch],
    of_reference: Mapping[int, _WindowLaunch],
    anchor: str,
) -> int:
    """Return the offset that aligns a host by its anchor ends, else by launch ends, else by first starts."""
    apart = [reference[key].end_us - own[key].end_us for key in own if key[1] == anchor and key in reference]
    if not apart:
        ends = {each.id: each.end_us for each in of_reference.values()}
        apart = [ends[each.id] - each.end_us for each in launches.values() if each.id in ends]
    if not apart:
        first = min(each.start_us for each in launches.values())
        return min(each.start_us for each in of_reference.values()) - first
    return round(median(apart))


def _strip(
    agent: str,
    launches: Iterable[_WindowLaunch],
    times: Mapping[_RoundId, _RoundOnHost],
    least: Mapping[tuple[_RoundId, int], int],
    shift: int,
) -> Strip:
    spans: dict[LaunchId, list[CollectiveSpan]] = {}
    for instance, (start, end, by_group) in times.items():
        wait = max((took - least[instance, number] for number, took in by_group), default=0)
        span = CollectiveSpan(instance[1], start + shift, min(start + wait, end) + shift, end + shift)
        spans.setdefault(instance[0], []).append(span)
    ordered = sorted(launches, key=lambda each: each.start_us)
    blocks = tuple(
        LaunchBlock(
            each.id,
            each.start_us + shift,
            each.end_us + shift,
            tuple(sorted(spans.get(each.id, ()), key=lambda span: span.start_us)),
        )
        for each in ordered
    )
    return Strip(
        agent,
        blocks,
        _share(ordered, [each.launch.collective_us for each in ordered]),
        _share(ordered, [each.launch.exposed_us for each in ordered]),
    )


def _share(launches: Sequence[_WindowLaunch], parts: Sequence[int | None]) -> float | None:
    total = sum(each.launch.duration_us for each in launches)
    known = [part for part in parts if part is not None]
    return sum(known) / total if total and len(known) == len(parts) else None
