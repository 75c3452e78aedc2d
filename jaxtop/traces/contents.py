"""What one trace contains: its platform, and the launches of each program with the waits of each device.

Only the trace is asked, so devices have the numbers of this trace.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import traces
from jaxtop.traces import gpu, tpu
from jaxtop.traces.executes import EXECUTE, HOST
from jaxtop.traces.launches import CLOCKS_NS, meets
from jaxtop.traces.parts import MOST_READ

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.traces import Op, Seen, Wanted
    from jaxtop.traces.xspace import Plane, Trace, Value

# The event around the launch of a program on a GPU.
_RUNS = ":XLA GPU module"
# How XLA names the makers of GPUs, and JAX their platforms.
_VENDORS: dict[object, str] = {"AMD": "rocm", "Nvidia": "cuda"}


class Device(NamedTuple):
    """What the plane of a device says of it; None where it says nothing."""

    number: int
    kind: str | None


class Launch(NamedTuple):
    """A launch on some devices of its program.

    `waits` has for each device of the program how long it waited for the others, in nanoseconds, in the
    collective in which a device waited longest; None where that is unknown. `apart` is the longest time
    between the first and the last member's end of a collective.
    """

    start: int
    devices: tuple[int, ...]
    is_cut: bool
    collectives: int
    waits: tuple[int | None, ...] | None
    apart: int | None


@dataclass(frozen=True)
class Program:
    """The launches of a program in order, and all devices on which the trace shows it.

    `host_runs` is how often the host ran it on a device, where the trace says so. If it `is_shared` with
    other processes, only they show who came last, and waits are unknown.
    """

    name: str
    devices: tuple[int, ...]
    launches: tuple[Launch, ...]
    host_runs: int | None = None
    is_shared: bool = False


@dataclass(frozen=True)
class Contents:
    """What was read of a trace."""

    platform: str
    devices: tuple[Device, ...]
    programs: tuple[Program, ...]
    seen: Seen
    # What the profiler itself warned of: events that it dropped, above all.
    warnings: tuple[str, ...] = ()


def contents(trace: Trace, wanted: Wanted, most: int = MOST_READ) -> Contents:
    """Return the contents of a trace with at most so many events; the readers raise what odd bytes raise."""
    platform, devices = platform_of(trace.planes)
    seen = traces.read(platform, trace, wanted, {}, has_names=True, most=most)
    host = _Host(trace.planes)
    found = tuple(
        _of_several(each) if each.name in host.shared else each
        for each in (replace(each, host_runs=host.runs.get(each.name)) for each in programs(seen))
    )
    return Contents(platform, devices, found, seen, tuple(trace.warnings))


class _Host:
    """What the host says of programs: how often it ran each on a GPU, and which other processes run too."""

    def __init__(self, planes: Iterable[Plane]) -> None:
        self.runs: Counter[str] = Counter()
        self.shared: set[str] = set()
        for line in (line for plane in planes if plane.name == HOST for line in plane.lines):
            for event in line.events:
                if event.name.endswith(_RUNS):
                    self.runs[event.name.removesuffix(_RUNS)] += 1
                elif "Executable::Execute" in event.name and EXECUTE.fullmatch(event.name):
                    self._execute(dict(event.stats))

    def _execute(self, said: dict[str, Value]) -> None:
        name = said.get("name")
        replicas, partitions, own = (
            each if isinstance(each, int) else 0
            for each in map(said.get, ("num_replicas", "num_partitions", "num_addressable_devices"))
        )
        if isinstance(name, str) and replicas * partitions > own > 0:
            self.shared.add(name)


def _of_several(program: Program) -> Program:
    launches = tuple(each._replace(waits=None) for each in program.launches)
    return replace(program, launches=launches, is_shared=True)


def platform_of(planes: Iterable[Plane]) -> tuple[str, tuple[Device, ...]]:
    """Return the platform of a trace, and its devices; on the CPU they have no planes."""
    found: dict[str, list[Device]] = {}
    for plane in planes:
        if (match := tpu.PLANE.fullmatch(plane.name)) is not None:
            kind = plane.stats.get("device_type_string")
            device = Device(int(match[1]), kind if isinstance(kind, str) else None)
            found.setdefault("tpu", []).append(device)
        elif (match := gpu.PLANE.fullmatch(plane.name)) is not None:
            platform = _VENDORS.get(plane.stats.get("device_vendor"), "gpu")
            found.setdefault(platform, []).append(Device(int(match[1]), _gpu(plane)))
    if not found:
        return "cpu", ()
    platform, devices = max(found.items(), key=lambda each: len(each[1]))
    return platform, tuple(sorted(devices, key=lambda each: each.number))


def _gpu(plane: Plane) -> str | None:
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


def programs(seen: Seen) -> tuple[Program, ...]:
    """Return the programs of a trace by name."""
    of_module: defaultdict[str, dict[int, list[tuple[int, int]]]] = defaultdict(dict)
    for span in seen.spans:
        of_module[span.module].setdefault(span.run, []).append((span.start, span.device))
    ops: defaultdict[tuple[str, int], list[Op]] = defaultdict(list)
    for op in seen.ops:
        ops[op.module, op.run].append(op)
    found = []
    for module, runs in sorted(of_module.items()):
        devices = tuple(sorted({device for spans in runs.values() for _, device in spans}))
        launches = [
            _launch(spans, devices, ops.get((module, run), ()), is_cut=(module, run) in seen.cut)
            for run, spans in runs.items()
        ]
        found.append(Program(module, devices, tuple(sorted(launches, key=lambda each: each.start))))
    return tuple(found)


def _launch(
    spans: Sequence[tuple[int, int]], devices: Sequence[int], ops: Sequence[Op], *, is_cut: bool
) -> Launch:
    on = tuple(sorted({device for _, device in spans}))
    instances = _instances(ops)
    met = [group for instance in instances for group in _groups(instance)]
    apart = max((max(op.end for op in group) - min(op.end for op in group) for group in met), default=None)
    waits = None
    if met and not is_cut and len(on) == len(devices):
        waited = max((_waits(group) for group in met), key=lambda each: max(each.values()))
        waits = tuple(waited.get(device) for device in devices)
    return Launch(min(start for start, _ in spans), on, is_cut, len(instances), waits, apart)


def _instances(ops: Iterable[Op]) -> list[list[Op]]:
    """Return the collectives of a launch: the n-th of a name is the same on all devices."""
    rounds: Counter[tuple[str, int]] = Counter()
    found: defaultdict[tuple[str, int], list[Op]] = defaultdict(list)
    for op in sorted(ops, key=lambda each: each.start):
        found[op.name, rounds[op.name, op.device]].append(op)
        rounds[op.name, op.device] += 1
    return [*found.values()]


def _groups(instance: Sequence[Op]) -> list[list[Op]]:
    """Return the members that left a collective together: the groups, if there are several.

    A single member has waited for devices of other traces, or for none.
    """
    if not meets(instance[0].name):
        return []
    found: list[list[Op]] = []
    for op in sorted(instance, key=lambda each: each.end):
        last = found[-1][-1] if found else None
        if last is not None and op.end - last.end <= max(CLOCKS_NS, min(_lasted(op), _lasted(last))):
            found[-1].append(op)
        else:
            found.append([op])
    return [group for group in found if len(group) > 1]


def _lasted(op: Op) -> int:
    return op.end - op.start


def _waits(group: Sequence[Op]) -> dict[int, int]:
    least = min(op.duration for op in group)
    return {op.device: op.duration - least for op in group}
