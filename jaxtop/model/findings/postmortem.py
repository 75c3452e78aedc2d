"""The last state of a process whose script failed or that died, from its reports until then."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.base import names
from jaxtop.model.arrays.groups import total
from jaxtop.model.arrays.growth import growers_of, without_indices
from jaxtop.model.arrays.memory import held_by_arrays
from jaxtop.model.findings.sentences import line_of
from jaxtop.model.findings.shortage import Shortage, Size, shortage_of
from jaxtop.model.hardware.allocators import free_bytes
from jaxtop.model.host import device_entry, run_of, still_of
from jaxtop.model.hosts import host_views
from jaxtop.model.liveness import State
from jaxtop.model.programs.views import adds_bytes, launched_lately
from jaxtop.model.stalls.crashes import ended_at
from jaxtop.model.stalls.stacks import line_text

if TYPE_CHECKING:
    from jaxtop.model.arrays.growth import Grower
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState, LoggedEvent

MAX_ARRAYS, MAX_EVENTS = 10, 10
# The events of this many seconds before the end are shown.
EVENTS_WITHIN = 120.0
_OF_THE_END = ("ended", "died", "finding")
# How the program is known.
RAISED, SAME_LINE = "its launch raised the exception", "the exception has its line"
RAN_LATELY = "of the programs that ran lately, it needs most"
COMPILED, COMPILING = "its compilation ended just before", "it was being compiled"
# A compilation is followed by the first launch, which asks for the memory of the program.
JUST_BEFORE = 2.0


class DeviceMemory(NamedTuple):
    """The memory of a device in the last report; `arrays_bytes` are those of the last census."""

    device_id: int
    used_bytes: int | None
    peak_bytes: int | None
    limit_bytes: int | None
    arrays_bytes: int | None


@dataclass(frozen=True)
class HeldArrays:
    """Arrays of the last census that are alike, apart from indices in their names; `group` is one of them.

    The bytes are those of all of them on a device.
    """

    group: wire.ArrayGroup
    name: str | None
    count: int
    bytes_per_device: int


class LastProgram(NamedTuple):
    """The program that ran, or was to run, at the end, and how this is known."""

    program: wire.Program
    basis: str

    @property
    def adds_bytes(self) -> int | None:
        """The bytes that its launch needs on a device in addition to its arguments."""
        return adds_bytes(self.program)


@dataclass(frozen=True)
class Postmortem:
    """A process at its end. Ages are seconds before the end; None where a figure was never reported."""

    host: Host
    state: State
    at: float
    # What the exception says about memory; None if it is about something else, or there is none.
    shortage: Shortage | None
    # The bytes that were free on the fullest device, and where this is from.
    free: Size | None
    free_source: str
    memory: tuple[DeviceMemory, ...]
    memory_age: float | None
    program: LastProgram | None
    # The largest arrays, how many there were, and the age of the census.
    arrays: tuple[HeldArrays, ...]
    array_count: int
    census_age: float | None
    growers: tuple[Grower, ...]
    events: tuple[LoggedEvent, ...]
    # The age of the launch counters.
    pulse_age: float | None = None
    # For how long nothing had been launched, in a lull or a stall, and the usual time between launches.
    still_s: float | None = None
    usual_s: float | None = None
    # What was reported of the stall of its run; empty if there was none.
    stall: str = ""
    # What the kernel says about a death, where a command found that.
    kernel: str = ""

    @property
    def step_age(self) -> float | None:
        """The age of the last step: an agent that reports a lull has counted none since that began."""
        return self.pulse_age if self.still_s is None else self.still_s

    @property
    def missing(self) -> Size | None:
        """The bytes that were asked for beyond what was free; not positive if it was in pieces too small."""
        asked = None if self.shortage is None else self.shortage.asked
        if asked is None or self.free is None:
            return None
        return Size(asked.bytes - self.free.bytes, asked.is_exact and self.free.is_exact)


def has_failed(host: Host, state: State) -> bool:
    """Return whether the script of a process ended with an exception, or the process died."""
    return state is State.DIED or (state is State.ENDED and host.error is not None)


def postmortems(cluster: ClusterState, now: float) -> list[Postmortem]:
    """Return the post-mortems of all processes that failed, the first one first."""
    found = [
        postmortem_of(cluster, view.host, view.state)
        for view in host_views(cluster, now)
        if has_failed(view.host, view.state)
    ]
    return sorted(found, key=lambda each: each.at)


def postmortem_of(cluster: ClusterState, host: Host, state: State) -> Postmortem:
    """Return what is known of the end of a process."""
    return cluster.derived.of(
        "post-mortems",
        host.agent,
        cluster.hosts,
        (host, state, cluster.stalls.get(run_of(host))),
        lambda: _postmortem(cluster, host, state),
    )


def _postmortem(cluster: ClusterState, host: Host, state: State) -> Postmortem:
    error, at = host.error, ended_at(host)
    says = None if error is None else shortage_of(error.type, error.message)
    free, source = _free(host, says)
    pulse, census, still = host.pulse, host.arrays, still_of(host)
    stall = cluster.stalls.get(run_of(host))
    counted = max(pulse.counted_ms or 0, census.at_ms)
    return Postmortem(
        host,
        state,
        at,
        says,
        free,
        source,
        memory=_memory(cluster, host),
        memory_age=_age(at, pulse.sampled_ms or pulse.at_ms),
        program=_program(host, at, may_be_new=says is not None or error is None),
        arrays=_largest(census),
        array_count=sum(census.counts),
        census_age=_age(at, counted),
        growers=tuple(growers_of(cluster, host)[:MAX_ARRAYS]),
        events=_events_before(cluster, host, at),
        pulse_age=_age(at, pulse.at_ms),
        still_s=None if still is None else _age(at, still.since_ms),
        usual_s=None if pulse.stall is None else pulse.stall.usual_ms / 1000,
        stall="" if stall is None or stall.reported is None else stall.reported.text,
    )


def _age(at: float, of_ms: int) -> float | None:
    return max(0.0, at - of_ms / 1000) if of_ms else None


def _free(host: Host, says: Shortage | None) -> tuple[Size | None, str]:
    """Return the bytes that were free on the fullest device, and the source of this."""
    if says is not None and says.free is not None:
        return says.free, "exception"
    if free := free_bytes(host.pulse):
        return Size(min(free)), host.limit_source
    machine = host.pulse.host
    if host.is_on_cpu and machine.memory_total_bytes is not None and machine.memory_used_bytes is not None:
        return Size(max(0, machine.memory_total_bytes - machine.memory_used_bytes)), "machine"
    return None, ""


def _memory(cluster: ClusterState, host: Host) -> tuple[DeviceMemory, ...]:
    sample = host.pulse.devices
    held = held_by_arrays(cluster, host) if host.arrays.at_ms else []
    return tuple(
        DeviceMemory(
            device.id,
            device_entry(sample.used_bytes, place),
            device_entry(sample.peak_bytes, place),
            device_entry(sample.limit_bytes, place),
            held[place] if place < len(held) else None,
        )
        for place, device in enumerate(host.devices)
    )


def _largest(census: wire.Arrays) -> tuple[HeldArrays, ...]:
    found: dict[tuple[object, ...], HeldArrays] = {}
    for group, count in zip(census.groups, census.counts, strict=True):
        if not count:
            continue
        stem = group.name and without_indices(group.name)
        key = stem, group.created, group.shape, group.dtype, group.sharding, group.groups > 1
        size = total(group.bytes_per_device, group, count)
        before = found.get(key)
        found[key] = (
            HeldArrays(group, group.name, count, size)
            if before is None
            else HeldArrays(group, stem, before.count + count, before.bytes_per_device + size)
        )
    return tuple(nlargest(MAX_ARRAYS, found.values(), key=lambda each: each.bytes_per_device))


def _program(host: Host, at: float, *, may_be_new: bool) -> LastProgram | None:
    """Return the program at the end: the one launched, else that of the line, else one that ran lately.

    Launches are counted by name, so of several programs with one name it is unknown which ran lately. Where
    memory ran out, or nothing shows why it ended, one compiled just before comes before those that ran.
    """
    error, loaded = host.error, host.programs.programs  # the newest first
    if error is not None and error.function:
        name = names.program_of(error.function)
        if found := next((each for each in loaded if each.name == name), None):
            return LastProgram(found, RAISED)
    new = _newest(host, at) if may_be_new else None
    if error is not None and new is not None and error.function == new[0]:
        return LastProgram(_named(host, new[0]), RAISED)
    if error is not None and error.place is not None:
        line = line_of(line_text(error.place))
        of_line = [each for each in loaded if each.created and line_of(each.created) == line]
        if of_line:
            return LastProgram(max(of_line, key=_needs), SAME_LINE)
    if new is not None:
        return LastProgram(_named(host, new[0]), new[1])
    lately = launched_lately(host)
    named = Counter(each.name for each in loaded)
    ran = [each for each in loaded if each.name in lately and named[each.name] == 1]
    return LastProgram(max(ran, key=_needs), RAN_LATELY) if ran else None


def _newest(host: Host, at: float) -> tuple[str, str] | None:
    """Return the function that was compiled, or whose compilation ended, just before the end; and which."""
    if host.bye is None and host.pulse.compiling:
        return max(host.pulse.compiling, key=lambda each: each.since_ms).function, COMPILING
    ended = [(each.at_ms, each.function) for each in host.programs.compilations]
    if host.compiled is not None:
        ended.append((host.compiled.at_ms, host.compiled.function))
    at_ms, function = max(ended, default=(0, ""))
    return (function, COMPILED) if function and at - at_ms / 1000 <= JUST_BEFORE else None


def _named(host: Host, function: str) -> wire.Program:
    """Return the newest program of a function; without figures if it was not reported any more."""
    name = names.program_of(function)
    found = (each for each in host.programs.programs if each.name == name)
    return next(found, None) or wire.Program(name, None)


def _needs(program: wire.Program) -> int:
    return (program.argument_bytes or 0) + (adds_bytes(program) or 0)


def _events_before(cluster: ClusterState, host: Host, at: float) -> tuple[LoggedEvent, ...]:
    """Return the last events about a process before its end, the newest last."""
    found = [
        event
        for event in cluster.events
        if event.agent == host.agent
        and event.severity != "info"
        and event.kind not in _OF_THE_END
        and at - EVENTS_WITHIN <= event.at <= at
    ]
    return tuple(found[-MAX_EVENTS:])
