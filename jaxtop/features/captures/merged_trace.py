"""One trace of all hosts for Perfetto: a process per host, a track per device, arrows between collectives."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import traces
from jaxtop.features.captures import perfetto
from jaxtop.features.captures.clocks import AlignedMachine, Instance, Machine, aligned
from jaxtop.features.captures.perfetto import Slice, lanes
from jaxtop.traces.parts import no_pause, rounds, with_pauses
from jaxtop.traces.xspace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from jaxtop.traces import TraceContents, WantedCollectives
    from jaxtop.traces.xspace import XEvent, XLine, XPlane

    # Returns the groups of device ids of a collective of a program; None where they are unknown.
    GroupsOf = Callable[[str, str], Sequence[Sequence[int]] | None]

DEVICE = re.compile(r"/device:(?P<kind>[^:]+):(?P<number>\d+)(?P<rest>.*)")
HOST = "/host:CPU"
# Events of the profiler itself.
_OF_THE_PROFILER = ("ThreadpoolListener::", "end: ")
# A trace with more events than this is in XProf's files only: to read it here would take minutes.
MAX_EVENTS = 3_000_000
# The collectives of each host that are used to align clocks.
MAX_INSTANCES = 20_000


@dataclass(frozen=True)
class TracedHost:
    """A host, its trace, and what is known of it: its collectives, and its devices by number in the trace.

    Hosts of one `machine` share its clock; `clock_offset_ns` is how far process 0's clock is ahead of it.
    """

    label: str
    path: Path
    platform: str
    machine: str
    wanted: WantedCollectives
    ordinals: dict[int, int] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)  # of devices, by id
    clock_offset_ns: int = 0


class Durations(NamedTuple):
    """Durations in nanoseconds: of launches by program, of collectives by program and operation.

    A collective has one in each round of each launch: the shortest on any device, which is that of the last
    to arrive. All others waited, too.
    """

    launches: dict[str, list[int]]
    collectives: dict[tuple[str, str], list[int]]


class MergedTrace(NamedTuple):
    """What was merged: the hosts on one time line, their durations, and what was left out.

    `too_large` has the labels of the hosts with too many events, `crossing` the number of events of other
    hosts that fit no track.
    """

    clocks: list[AlignedMachine]
    durations: Durations
    too_large: list[str]
    crossing: int = 0


def merge(
    hosts: Sequence[TracedHost],
    groups_of: GroupsOf,
    file: BinaryIO,
    progress: Callable[[float], object] = lambda _: None,
    pause: Callable[[], object] = no_pause,
) -> MergedTrace:
    """Write one trace of these hosts; raises `Malformed` if the trace of a host is none."""
    durations = Durations({}, {})
    shortest: dict[_Round, int] = {}
    began: list[int] = []
    machines: dict[str, Machine] = {}
    too_large: list[str] = []
    crossing = 0
    with tempfile.TemporaryFile() as body:
        places = []
        for number, host in enumerate(hosts):
            trace = Trace(host.path.read_bytes())
            seen = traces.read(host.platform, trace, host.wanted, host.ordinals, most=MAX_EVENTS, pause=pause)
            if seen.is_too_large:
                too_large.append(host.label)
            instances = _instances(seen, groups_of, number + 1)
            _note(durations.launches, shortest, seen, number + 1)
            start = body.tell()
            if not seen.is_too_large:
                writer = _Host(perfetto.Sequence(body, number + 1), host, instances, pause)
                writer.write(trace, number)
                crossing += writer.crossing
            places.append((start, body.tell()))
            began.append(trace.started_ns)
            ends = _ends(instances, trace.started_ns)
            others = machines.get(host.machine, Machine({}))
            earliest = {instance: min(end, others.ends.get(instance, end)) for instance, end in ends.items()}
            machines[host.machine] = Machine({**others.ends, **earliest}, host.clock_offset_ns)
            progress((number + 1) / len(hosts))
        for (module, _, op, _), lasted in shortest.items():
            durations.collectives.setdefault((module, op), []).append(lasted)
        by_machine = dict(zip(machines, aligned([*machines.values()]), strict=True))
        clocks = [by_machine[host.machine] for host in hosts]
        for number, (start, end) in enumerate(places):
            file.write(perfetto.header(number + 1, began[number] + clocks[number].shift_ns))
            body.seek(start)
            _copy(body, file, end - start)
    return MergedTrace(clocks, durations, too_large, crossing)


def _copy(source: BinaryIO, file: BinaryIO, count: int) -> None:
    while count:
        piece = source.read(min(count, 1 << 20))
        file.write(piece)
        count -= len(piece)


# A round of a collective: program, launch, operation, and its number.
_Round = tuple[str, tuple[int, int], str, int]


class _Place(NamedTuple):
    """A collective of one launch on one device."""

    instance: Instance | None  # None where its group is unknown
    op: traces.Op


def _instances(seen: TraceContents, groups_of: GroupsOf, host: int) -> dict[tuple[int, int], _Place]:
    """Return the collectives by device and start; `host` is the number of the host from 1 on."""
    rounds: Counter[tuple[str, int, int, str]] = Counter()
    group_of: dict[tuple[str, str], dict[int, int]] = {}
    found: dict[tuple[int, int], _Place] = {}
    for op in sorted(seen.ops, key=lambda each: each.start):
        key = op.module, op.run, op.device, op.name
        number = rounds[key]
        rounds[key] += 1
        if (op.module, op.name) not in group_of:
            groups = groups_of(op.module, op.name) or ()
            group_of[op.module, op.name] = {
                device: number for number, group in enumerate(groups) if len(group) > 1 for device in group
            }
        group = group_of[op.module, op.name].get(op.device)
        launch = _launch(seen, op.module, op.run, host)
        instance = None if group is None else (op.module, launch, op.name, number, group)
        found[op.device, op.start] = _Place(instance, op)
    return found


def _launch(seen: TraceContents, module: str, run: int, host: int) -> tuple[int, int]:
    """Return the number that all hosts give a launch, or one that only this host gives it."""
    if seen.is_shared:
        return 0, run
    number = seen.numbers.get((module, run))
    return (host, run) if number is None else (0, number)


def _ends(instances: Mapping[tuple[int, int], _Place], began: int) -> dict[Instance, int]:
    """Return when each collective ended on this host: for the member that left it first.

    A launch that the trace begins within may lack rounds of a loop, so only launches count whose collectives
    are the most that any launch of the program has.
    """
    ends: dict[Instance, int] = {}
    for place in instances.values():
        if place.instance is not None:
            end = began + place.op.end
            ends[place.instance] = min(end, ends.get(place.instance, end))
    counts = Counter((instance[0], instance[1]) for instance in ends)
    most: dict[str, int] = {}
    for (module, _), count in counts.items():
        most[module] = max(count, most.get(module, 0))
    whole = [instance for instance in ends if counts[instance[0], instance[1]] == most[instance[0]]]
    return {instance: ends[instance] for instance in whole[:MAX_INSTANCES]}


def _note(found: dict[str, list[int]], shortest: dict[_Round, int], seen: TraceContents, host: int) -> None:
    """Note the launches that the trace has from beginning to end, as windows do."""
    launches: dict[tuple[str, int], int] = {}
    for span in seen.spans:
        key = span.module, span.run
        if key not in seen.cut:
            launches[key] = max(launches.get(key, 0), span.end - span.start)
    for (module, _), lasted in launches.items():
        found.setdefault(module, []).append(lasted)
    ops: dict[tuple[str, int], list[traces.Op]] = {}
    for op in seen.ops:
        if (op.module, op.run) in launches:
            ops.setdefault((op.module, op.run), []).append(op)
    for (module, run), ops_of_launch in ops.items():
        launch = _launch(seen, module, run, host)
        collectives, _ = rounds(ops_of_launch)
        for (name, number), by_device in collectives.items():
            place = module, launch, name, number
            known = [op.duration for op in by_device.values() if op.duration is not None]
            if known:
                shortest[place] = min(*known, shortest.get(place, known[0]))


def flow_of(instance: Instance) -> int:
    """Return the number of the flow between the members of a collective, the same on all hosts."""
    return int.from_bytes(blake2b(repr(instance).encode(), digest_size=8).digest(), "little") or 1


class _Host:
    """Writes the tracks of one host."""

    def __init__(
        self,
        sequence: perfetto.Sequence,
        host: TracedHost,
        instances: Mapping[tuple[int, int], _Place],
        pause: Callable[[], object],
    ) -> None:
        self._sequence = sequence
        self._pause = pause
        self._host = host
        self._instances = instances
        # Whether events of a name are operations of a device, on the threads of the host.
        self._are_operations: dict[str, bool] = {}
        self.crossing = 0

    def write(self, trace: Trace, number: int) -> None:
        process = self._sequence.process(number + 1, self._host.label)
        on_devices: dict[int, dict[str, list[Slice]]] = {}
        threads: list[tuple[str, list[Slice]]] = []
        for plane in trace.planes:
            match = DEVICE.fullmatch(plane.name)
            if match is not None:
                device = self._host.ordinals.get(int(match["number"]), int(match["number"]))
                self._device(plane, device, match["rest"], on_devices)
            elif plane.name == HOST:
                threads += [
                    (line.name or f"thread {line.number}", self._thread(line, on_devices))
                    for line in plane.lines
                ]
        for rank, device in enumerate(sorted(on_devices)):
            track = self._sequence.track(process, self._host.names.get(device, f"device {device}"), rank)
            for name, slices in on_devices[device].items():
                self._tracks(track, name, slices)
        for name, slices in threads:
            if slices:
                self._tracks(process, name, slices, len(on_devices))

    def _tracks(self, parent: int, name: str, slices: list[Slice], rank: int = 0) -> None:
        found, crossing = lanes(slices)
        self.crossing += crossing
        for lane in found:
            self._sequence.slices(self._sequence.track(parent, name, rank), lane)

    def _device(
        self, plane: XPlane, device: int, rest: str, on_devices: dict[int, dict[str, list[Slice]]]
    ) -> None:
        for line in plane.lines:
            name = f"{rest.strip()} {line.name}".strip()
            slices = on_devices.setdefault(device, {}).setdefault(name, [])
            slices += [self._slice(event, device) for event in with_pauses(line.events, self._pause)]

    def _thread(self, line: XLine, on_devices: dict[int, dict[str, list[Slice]]]) -> list[Slice]:
        """Return what a thread did; operations of a device that ran on it go to the device."""
        own: list[Slice] = []
        for event in with_pauses(line.events, self._pause):
            if event.name.startswith(_OF_THE_PROFILER):
                continue
            is_operation = self._are_operations.get(event.name)
            if is_operation is None:
                is_operation = self._are_operations[event.name] = "hlo_op" in dict(event.stats)
            stats = dict(event.stats) if is_operation else {}
            device = stats.get("device_ordinal")
            if isinstance(device, int):
                slices = on_devices.setdefault(device, {}).setdefault("operations", [])
                slices.append(
                    self._slice(event, device, str(stats.get("hlo_module", "")), stats.get("run_id"))
                )
            else:
                own.append(self._slice(event, None))
        return own

    def _slice(self, event: XEvent, device: int | None, program: str = "", run: object = None) -> Slice:
        start = event.start_ps // 1000
        end = None if event.duration_ps is None else (event.start_ps + event.duration_ps) // 1000
        flow = None
        place = self._instances.get((device, start)) if device is not None else None
        if place is not None:
            program, run = place.op.module, place.op.run
            flow = None if place.instance is None else flow_of(place.instance)
        return Slice(start, end, event.name, program, run if isinstance(run, int) else None, flow)
