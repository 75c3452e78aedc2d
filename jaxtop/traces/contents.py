"""The contents of one trace: its platform, and the launches of each program with the waits of each device.

Only the trace is asked, so devices have the numbers of this trace.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import traces
from jaxtop.base.protobuf import Malformed, read
from jaxtop.traces import gpu, tpu
from jaxtop.traces.executes import EXECUTE, HOST
from jaxtop.traces.parts import MOST_READ, DeviceLaunch, total_length
from jaxtop.traces.waits import LaunchWaits, TracedLaunch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jaxtop.traces import Op, TraceContents
    from jaxtop.traces.protos import ProfilePrograms
    from jaxtop.traces.xspace import Trace, Value, XPlane

# Where the plane of a TPU core has its id (`CoreDetails` of XProf's op_stats.proto).
_CORE, _GLOBAL_ID = "core_details", 6

# The event around the launch of a program on a GPU.
_RUNS = ":XLA GPU module"
# How XLA names the makers of GPUs, and JAX their platforms.
_VENDORS: dict[object, str] = {"AMD": "rocm", "Nvidia": "cuda"}


class TracedDevice(NamedTuple):
    """The facts about a device in its plane; None where the plane lacks them."""

    number: int
    kind: str | None


@dataclass(frozen=True)
class TracedProgram:
    """The launches of a program in order, and all devices on which the trace shows it.

    `host_runs` is how often the host ran it on a device, where the trace says so. It `is_shared` if devices
    of other processes run it, too.
    """

    name: str
    devices: tuple[int, ...]
    launches: tuple[TracedLaunch, ...]
    host_runs: int | None = None
    is_shared: bool = False


@dataclass(frozen=True)
class Contents:
    """The contents of a trace."""

    platform: str
    devices: tuple[TracedDevice, ...]
    programs: tuple[TracedProgram, ...]
    seen: TraceContents
    # What the profiler itself warned of: events that it dropped, above all.
    warnings: tuple[str, ...] = ()
    copies: int = 0  # the lines that are in the trace twice

    @property
    def cut(self) -> int:
        """The number of launches that the trace cuts off."""
        return sum(launch.is_cut for each in self.programs for launch in each.launches)

    @property
    def cut_ns(self) -> int:
        """The device time of launches that the trace cuts off, also of those that it shows in part only."""
        seen = self.seen
        of_work = (
            total_length(intervals)
            for launch, intervals in seen.busy.items()
            if (launch.module, launch.run) in seen.cut
        )
        of_ops = (op.end - op.start for op in seen.ops if (op.module, op.run) in seen.cut)
        return seen.cut_ns + sum(of_work) + sum(of_ops)

    @property
    def unknown(self) -> Counter[str]:
        """The number of collectives whose waits are unknown, by the reason."""
        found: Counter[str] = Counter()
        for each in self.programs:
            for launch in each.launches:
                found.update(launch.unknown)
        return found


def contents(trace: Trace, compiled: ProfilePrograms, most: int = MOST_READ) -> Contents:
    """Return the contents of a trace of at most this many events; readers raise what odd bytes raise."""
    platform, devices = platform_of(trace.planes)
    seen = traces.read(platform, trace, compiled.wanted, {}, has_names=True, most=most)
    host = _Host(trace.planes)
    id_of = _ids(platform, trace.planes)
    found = []
    for each in programs(seen, compiled, id_of):
        own_devices = compiled.devices.get(each.name)
        is_larger = bool(devices) and own_devices is not None and len(own_devices) > len(devices)
        is_shared = is_larger or each.name in host.shared
        found.append(replace(each, host_runs=host.runs.get(each.name), is_shared=is_shared))
    return Contents(platform, devices, tuple(found), seen, tuple(trace.warnings), trace.copies)


class _Host:
    """The host's events: the runs of each program on a GPU, and the programs that other processes run."""

    def __init__(self, planes: Iterable[XPlane]) -> None:
        self.runs: Counter[str] = Counter()
        self.shared: set[str] = set()
        for line in (line for plane in planes if plane.name == HOST for line in plane.lines):
            for event in line.events:
                if event.name.endswith(_RUNS):
                    self.runs[event.name.removesuffix(_RUNS)] += 1
                elif "Executable::Execute" in event.name and EXECUTE.fullmatch(event.name):
                    self._execute(dict(event.stats))

    def _execute(self, values: dict[str, Value]) -> None:
        name = values.get("name")
        replicas, partitions, own = (
            each if isinstance(each, int) else 0
            for each in map(values.get, ("num_replicas", "num_partitions", "num_addressable_devices"))
        )
        if isinstance(name, str) and replicas * partitions > own > 0:
            self.shared.add(name)


def platform_of(planes: Iterable[XPlane]) -> tuple[str, tuple[TracedDevice, ...]]:
    """Return the platform of a trace, and its devices; on the CPU they have no planes."""
    found: dict[str, dict[int, str | None]] = {}
    for plane in planes:
        if (match := tpu.PLANE.fullmatch(plane.name)) is not None:
            device_type = plane.stats.get("device_type_string")
            platform, kind = "tpu", device_type if isinstance(device_type, str) else None
        elif (match := gpu.PLANE.fullmatch(plane.name)) is not None:
            platform, kind = _VENDORS.get(plane.stats.get("device_vendor"), "gpu"), _gpu(plane)
        else:
            continue
        kinds = found.setdefault(platform, {})
        kinds[int(match[1])] = kinds.get(int(match[1])) or kind
    if not found:
        return "cpu", ()
    platform, kinds = max(found.items(), key=lambda each: len(each[1]))
    return platform, tuple(TracedDevice(number, kinds[number]) for number in sorted(kinds))


def _gpu(plane: XPlane) -> str | None:
    """Return what is known of a GPU: newer planes of NVIDIA have the name of its model."""
    stats = plane.stats
    name = stats.get("gpu_device_name")
    if isinstance(name, str):
        return name
    vendor, major, cores = (stats.get(name) for name in ("device_vendor", "compute_cap_major", "core_count"))
    words = [vendor] if isinstance(vendor, str) else []
    if isinstance(major, int):
        words.append(f"compute capability {major}.{stats.get('compute_cap_minor', 0)!s}")
    if isinstance(cores, int):
        words.append(f"{cores} cores")
    return ", ".join(words) or None


def _ids(platform: str, planes: Iterable[XPlane]) -> Callable[[int], int | None]:
    """Return what gives the id of a device from its number in the trace, where the trace says it."""
    if platform == "cpu":
        return lambda number: number
    found: dict[int, int] = {}
    for plane in planes:
        match = tpu.PLANE.fullmatch(plane.name)
        details = plane.stats.get(_CORE) if match is not None else None
        if match is not None and isinstance(details, bytes):
            with suppress(Malformed):
                found[int(match[1])] = read(details).number(_GLOBAL_ID) or 0
    return found.get


def programs(
    seen: TraceContents, compiled: ProfilePrograms, id_of: Callable[[int], int | None]
) -> tuple[TracedProgram, ...]:
    """Return the programs of a trace by name."""
    of_module: defaultdict[str, dict[int, dict[int, int]]] = defaultdict(dict)
    for span in seen.spans:
        of_module[span.module].setdefault(span.run, {})[span.device] = span.start
    for launch, start in _cut_launches(seen):
        starts = of_module[launch.module].setdefault(launch.run, {})
        starts[launch.device] = min(start, starts.get(launch.device, start))
    ops: defaultdict[tuple[str, int], list[Op]] = defaultdict(list)
    for op in seen.ops:
        ops[op.module, op.run].append(op)
    found = []
    for module, runs in sorted(of_module.items()):
        devices = tuple(sorted({device for of_device in runs.values() for device in of_device}))
        waits = LaunchWaits(module, devices, compiled, id_of)
        launches = [
            TracedLaunch(min(of_device.values()), tuple(sorted(of_device)), is_cut=True)
            if (module, run) in seen.cut
            else waits.launch(of_device, ops.get((module, run), ()))
            for run, of_device in runs.items()
        ]
        found.append(TracedProgram(module, devices, tuple(sorted(launches, key=lambda each: each.start))))
    return tuple(found)


def _cut_launches(seen: TraceContents) -> Iterator[tuple[DeviceLaunch, int]]:
    """Yield where launches ran that are not whole, and since when as far as the trace shows."""
    for launch, intervals in seen.busy.items():
        if (launch.module, launch.run) in seen.cut:
            yield launch, min(intervals)[0]
    for op in seen.ops:
        if (op.module, op.run) in seen.cut:
            yield op.device_launch, op.start
