"""The slices of the state, encoded as they are, and the reducer that puts them back.

The last messages of an agent are slices of their own: a keyframe has them as messages. Results from windows
of the profiler are left out: a recording points to the last windows instead.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate, chain, compress, groupby, pairwise, repeat
from operator import ne
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec
from msgspec import Struct

from jaxtop import wire
from jaxtop.model.arrays.changes import interned
from jaxtop.model.finding import Findings
from jaxtop.model.host import EMPTY_HOST, KEPT, Host
from jaxtop.model.shares import PastSteps  # noqa: TC001 - msgspec reads the annotations
from jaxtop.model.state import (
    HISTORY,
    MAX_EVENTS,
    PAST_ARRAYS,
    DroppedProcesses,
    LoggedEvent,
    PulseSample,
    RunStall,
)
from jaxtop.wire.bounds import LATEST_S, MAX_GROUPS, NANOSECONDS, Count, TimeMs, to_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jaxtop.model.state import ClusterState

# The most changed groups of arrays in one message.
MAX_CHANGED_GROUPS = 2_000
# The most bytes of events in one message, with room to spare.
MAX_EVENT_BYTES = wire.MAX_PAYLOAD // 2
MAX_LAUNCHES = 1 << 62
# The fields of a host that are messages, or have messages by key, in the order in which they are folded.
MESSAGES = (
    "link", "hello", "programs", "compiled", "inventories", "operations", "peaks", "arrays", "stacks", "nccl",
    "nccl_times", "cores", "activity", "scalars", "curves", "ledger", "pulse", "bye",
)  # fmt: skip


class PastSamples(Struct, frozen=True, array_like=True):
    """The samples of a host, in columns: most values repeat from one pulse to the next.

    Times (in nanoseconds) and launches have the first value, then the differences. Bytes in use are listed
    where they change, with the number of the sample.
    """

    at_ns: tuple[int, ...] = ()
    launches: tuple[int, ...] = ()
    used_bytes: tuple[tuple[int, tuple[int | None, ...] | None], ...] = ()

    @classmethod
    def of(cls, samples: Iterable[PulseSample]) -> PastSamples:
        times, launches, used, last = [], [], [], None
        for i, sample in enumerate(samples):
            times.append(to_ns(sample.at))
            launches.append(sample.launches)
            if not i or sample.used_bytes is not last:  # the fold makes equal tuples one object
                used.append((i, sample.used_bytes))
            last = sample.used_bytes
        return cls(_gaps(times), _gaps(launches), tuple(used))

    def samples(self) -> deque[PulseSample]:
        used, changed = None, dict(self.used_bytes)
        times = [each / NANOSECONDS for each in accumulate(self.at_ns)]
        used_bytes = [used := changed.get(i, used) for i in range(len(times))]
        return deque(map(PulseSample, times, used_bytes, accumulate(self.launches)), maxlen=HISTORY)


def _gaps(counts: list[int]) -> tuple[int, ...]:
    return *counts[:1], *(later - earlier for earlier, later in pairwise(counts))


# What a host keeps of earlier messages. `arrays_since` is in runs: a time, and how many arrays have it.
_TYPES = get_type_hints(Host, include_extras=True)
Past: Any = msgspec.defstruct(
    "Past",
    [
        ("history", PastSamples, PastSamples()),
        ("arrays_since", tuple[tuple[TimeMs, Count], ...], ()),
        *((name, _TYPES[name], getattr(EMPTY_HOST, name)) for name in KEPT),
    ],
    frozen=True,
    array_like=True,
    tag="past",
)


class PastArrays(Struct, frozen=True, array_like=True, tag="past_arrays"):
    """The censuses of one host up to the moment: the oldest in full, then the changes."""

    first: wire.Arrays
    changes: tuple[wire.ArraysChange, ...] = ()


class PastEvents(Struct, frozen=True, array_like=True, tag="past_events"):
    """The slices of the cluster: events, stalls by run, dropped processes, findings, past steps by run."""

    events: tuple[LoggedEvent, ...] = ()
    stalls: dict[str, RunStall] = {}
    dropped: DroppedProcesses = msgspec.field(default_factory=DroppedProcesses)
    findings: Findings = msgspec.field(default_factory=Findings)
    past_steps: dict[str, PastSteps] = {}


# What changes the state. `Past` is made at run time, so type checkers know it as anything.
Message = wire.Message | PastArrays | PastEvents


# From the model to frames


def frames(cluster: ClusterState, at: float, *, has_windows: bool = False) -> Iterator[wire.Frame]:
    """Yield a cluster at that time as frames; with `has_windows`, the last windows too."""
    for unmet in cluster.unmet.values():
        yield wire.local_frame(unmet.link_at, "", unmet.link)
    for host in cluster.hosts.values():
        yield from _host_frames(cluster, host, at)
    if has_windows:
        # By time, because the windows of all hosts are joined, and after what tells how their devices lie.
        windows = chain.from_iterable(cluster.past_windows.values())
        yield from sorted(windows, key=lambda frame: frame.at)
    slices = _last_events(cluster), cluster.stalls, cluster.dropped, cluster.findings, cluster.past_steps
    yield frame_of(at, "", PastEvents(*slices))


def _host_frames(cluster: ClusterState, host: Host, at: float) -> Iterator[wire.Frame]:
    agent, heard_at = host.agent, host.heard_at or at
    times = {"link": host.link_at, "pulse": host.pulse_at or heard_at}
    if host.peer is not None:
        roster = wire.Roster(agent, (host.peer,), host.run, host.run_name, host.process_count)
        yield wire.local_frame(heard_at, agent, roster)
    for name in MESSAGES:
        value: Any = getattr(host, name)
        if value is not getattr(EMPTY_HOST, name):
            messages: Iterable[Any] = (value,) if isinstance(value, Struct) else value.values()
            for message in messages:
                yield wire.local_frame(times.get(name, heard_at), agent, message)
    past = _past_arrays(host, cluster.past_arrays.get(agent, ()))
    if past is not None:
        yield frame_of(heard_at, agent, past)
    if host.heard_at is not None:  # the frame has that time
        since = tuple((since, len(list(alike))) for since, alike in groupby(host.arrays_since))
        history = PastSamples.of(cluster.past_pulses.get(agent, ()))
        yield frame_of(heard_at, agent, Past(history, since, *(getattr(host, name) for name in KEPT)))


def frame_of(at: float, agent: str, content: Struct) -> wire.Frame:
    """Return the frame of a slice."""
    kind = str(content.__struct_config__.tag)
    return wire.Frame(at, agent, kind, wire.LOCAL_SEQUENCE, _ENCODER.encode(content))


_ENCODER = msgspec.msgpack.Encoder(enc_hook=dict)  # of read-only mappings


def _past_arrays(host: Host, past: Iterable[wire.Arrays]) -> PastArrays | None:
    """Return the censuses of the table in use, the only ones from which growth is derived."""
    alike = [each for each in past if each.serial == host.arrays.serial]
    if not alike:
        return None
    changes: list[wire.ArraysChange] = []
    first = 0
    for i, (before, after) in enumerate(pairwise(alike), start=1):
        change = _change(before, after)
        if change is None or len(change.groups) > MAX_CHANGED_GROUPS:
            first, changes = i, []
        else:
            changes.append(change)
    is_the_present = not changes and alike[first] == host.arrays
    return None if is_the_present else PastArrays(alike[first], tuple(changes))


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


def _last_events(cluster: ClusterState) -> tuple[LoggedEvent, ...]:
    events = list(cluster.events)
    size = sum(len(each.text) for each in events)
    while size > MAX_EVENT_BYTES:
        size -= len(events.pop(0).text)
    return tuple(events)


# From frames to the model


def decode(kind: str, raw: bytes) -> Any:
    """Return the slice of this kind in these bytes; raise `wire.Unreadable` if it is invalid."""
    found = wire.decode_with(_DECODERS[kind], raw)
    _CHECKS[kind](found)
    return found


def is_slice(message: Message) -> bool:
    """Return whether it is from a keyframe, not from an agent."""
    return type(message) in _SLICES


def reduce(state: ClusterState, agent: str, message: Message, at: float) -> list[LoggedEvent]:
    """Put a slice of a keyframe in place of what the preceding messages left."""
    if not is_slice(message):  # most messages are from agents
        return []
    match message:
        case Past():
            _put_past(state, state.hosts.get(agent) or Host(agent), message, at)
        case PastArrays():
            _put_arrays(state, state.hosts.get(agent) or Host(agent), message)
        case PastEvents():
            _put_events(state, message)
    return []


def _put_past(state: ClusterState, host: Host, past: Any, at: float) -> None:
    samples = past.history.samples()
    if samples:
        state.past_pulses[host.agent] = samples
    since = tuple(chain.from_iterable(repeat(*each) for each in past.arrays_since))
    kept = {name: getattr(past, name) for name in KEPT}
    kept = {name: MappingProxyType(each) if isinstance(each, dict) else each for name, each in kept.items()}
    is_whole = len(since) == len(host.arrays.counts)
    state.hosts[host.agent] = host.but(
        heard_at=at, arrays_since=since if is_whole else host.arrays_since, **kept
    )


def _put_arrays(state: ClusterState, host: Host, past: PastArrays) -> None:
    # Lists that equal the host's become the same object: views look for changes by identity.
    groups = host.arrays.groups if past.first.groups == host.arrays.groups else past.first.groups
    first = msgspec.structs.replace(past.first, meshes=interned(state, past.first.meshes), groups=groups)
    censuses = deque([first], maxlen=PAST_ARRAYS)
    for change in past.changes:
        censuses.append(wire.changed_census(censuses[-1], change, interned(state, change.meshes)))
    state.past_arrays[host.agent] = censuses


def _put_events(state: ClusterState, past: PastEvents) -> None:
    state.events = deque(past.events, maxlen=MAX_EVENTS)
    state.stalls = past.stalls
    state.findings = past.findings
    state.past_steps = past.past_steps
    if past.dropped.count:
        state.dropped = past.dropped


def _check_past(past: Any) -> None:
    if any(not 0 <= at <= LATEST_S * NANOSECONDS for at in accumulate(past.history.at_ns)):
        raise wire.Unreadable("a time that is no date")
    if any(not -MAX_LAUNCHES <= count <= MAX_LAUNCHES for count in accumulate(past.history.launches)):
        raise wire.Unreadable("more launches than anybody counts")
    if sum(count for _, count in past.arrays_since) > MAX_GROUPS:
        raise wire.Unreadable("more groups of arrays than any agent lists")
    alive = len(past.rises.alive)
    if any(rise is not None and rise.alive is not None and rise.alive >= alive for rise in past.rises.peaks):
        raise wire.Unreadable("a peak at an unknown census")


def _check_past_arrays(past: PastArrays) -> None:
    for census in (past.first, *past.changes):
        wire.check(census)


def _check_events(past: PastEvents) -> None:
    if any(key != each.finding.key for key, each in past.findings.ongoing.items()):
        raise wire.Unreadable("a finding under another's name")
    if not all(each.is_valid for each in past.past_steps.values()):
        raise wire.Unreadable("past steps that are none")


_SLICES = frozenset({Past, PastArrays, PastEvents})
_DECODERS: dict[str, msgspec.msgpack.Decoder[Any]] = {
    str(each.__struct_config__.tag): msgspec.msgpack.Decoder(each) for each in _SLICES
}
_CHECKS: dict[str, Callable[[Any], None]] = {
    "past": _check_past,
    "past_arrays": _check_past_arrays,
    "past_events": _check_events,
}
KINDS = frozenset(_DECODERS)
