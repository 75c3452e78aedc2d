"""Traces of TPUs: one plane per core, with lines for launches, operations, and transfers in flight.

Run ids count per core, over all programs, so they join nothing: the launch of a run is found on the host.
The duration of an asynchronous collective is that of its `-done`: how long the core waited for it. Cores may
also wait for each other in a barrier before a collective, which then takes equally long on all of them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from jaxtop.traces.executes import HOST, Executes
from jaxtop.traces.launches import ProgramRun, ProgramVariant, assign
from jaxtop.traces.parts import (
    CONTAINER,
    DeviceLaunch,
    LaunchSpan,
    Op,
    TraceContents,
    WantedCollectives,
    extent,
    reading,
    stats,
)

PLANE = re.compile(r"/device:TPU:(\d+)")  # "/device:TPU:0 SparseCore 1" is not a separate core
LAUNCHES, OPS, IN_FLIGHT, WAITS = "XLA Modules", "XLA Ops", "Async XLA Ops", "XLA TraceMe"
BARRIER = "barrier-cores"
# `jit_step(15161771884)`, and `%all-reduce.1 = f32[8]{0} all-reduce(...)`
MODULE = re.compile(r"(.+?)(?:\((\d+)\))?")
OP = re.compile(r"%?([^\s=]+)")
# Where a core waits for another slice: a transfer through the hosts, over the network of the data centre.
BETWEEN_SLICES = re.compile(r"(send|recv)-done(\.\d+)*")


# How long an operation took by the clock of its core. The start and the end of an event are by the clock of
# the host, to which the profiler fits that of the core again and again: an event across a correction is too
# long or too short by that much. In a captured trace, corrections were up to 0.2 s.
LASTED = "device_duration_ps"


@dataclass(eq=False, slots=True)
class _Work:
    """An operation of a core: its name, the collective that it is, and the run in which it is."""

    run: ProgramRun
    name: str
    collective: str | None
    start: int
    end: int
    lasted: int


class _Core:
    """The contents of the plane of a core."""

    def __init__(self, device: int, executes: Executes) -> None:
        self.runs: list[ProgramRun] = []
        self.work: list[_Work] = []
        self.flights: list[tuple[ProgramRun, int, int]] = []
        self.barriers: list[tuple[ProgramRun, int, int]] = []
        self._device = device
        self._executes = executes
        self._starts: list[int] = []

    def read(self, plane: Any, wanted: WantedCollectives, seen: TraceContents) -> None:
        lines = {line.name: line for line in plane.lines}
        if LAUNCHES in lines:
            self._launches(lines[LAUNCHES], seen)
        if WAITS in lines:
            for event in reading(seen, lines[WAITS].events):
                if event.name == BARRIER and (run := self._around(int(event.start_ns))) is not None:
                    self.barriers.append((run, *extent(event)))
        if OPS in lines:
            self._ops(lines[OPS], wanted, seen)
        if IN_FLIGHT in lines:
            for event in reading(seen, lines[IN_FLIGHT].events):
                run = self._around(int(event.start_ns))
                if run is not None and wanted.op(run.program.module, _name(event)) is not None:
                    self.flights.append((run, *extent(event)))

    def _launches(self, line: Any, seen: TraceContents) -> None:
        for event in reading(seen, line.events):
            module = MODULE.fullmatch(event.name)
            if module is None:
                continue
            values = stats(event)
            context = (int(values["_ct"]), int(values["_c"])) if "_c" in values and "_ct" in values else None
            root = None if context is None else self._executes.launch_of_context(context)
            program = ProgramVariant(module[1], module[2] or "")
            self.runs.append(ProgramRun(program, self._device, *extent(event), root=root))
        self.runs.sort(key=lambda run: run.start)
        self._starts = [run.start for run in self.runs]

    def _ops(self, line: Any, wanted: WantedCollectives, seen: TraceContents) -> None:
        rounds: Counter[tuple[ProgramRun, str]] = Counter()
        for event in reading(seen, line.events):
            name = _name(event)
            start, end = extent(event)
            run = self._around(start)
            if run is None:
                continue
            op = wanted.op(run.program.module, name)
            if op is None and BETWEEN_SLICES.fullmatch(name):
                op = name
            if op is None and CONTAINER.fullmatch(name):
                continue
            # Stats are expensive.
            lasted = _lasted(event) if op is not None or seen.has_names else end - start
            run.busy_ns += lasted
            if op is not None and "-start" not in name and wanted.meets(run.program.module, op):
                run.ends[op, rounds[run, op]] = end, lasted
                rounds[run, op] += 1
            self.work.append(_Work(run, name, op, start, end, lasted))

    def waits(self) -> dict[_Work, int]:
        """Return how long the core was in barriers just before each collective.

        What an earlier collective waited counts there.
        """
        self.work.sort(key=lambda work: work.start)
        found: dict[_Work, int] = {}
        left = deque(sorted(self.barriers, key=lambda barrier: barrier[1]))
        for each in self.work:
            if each.collective is None or "-start" in each.name:
                continue
            own = []
            while left and left[0][1] <= each.start:
                own.append(left.popleft())
            durations = [end - start for run, start, end in own if run is each.run]
            if durations:
                found[each] = sum(durations)
        return found

    def _around(self, at: int) -> ProgramRun | None:
        place = bisect_right(self._starts, at) - 1
        return self.runs[place] if place >= 0 and at <= self.runs[place].end else None


def read(profile: Any, wanted: WantedCollectives, ordinals: dict[int, int], seen: TraceContents) -> None:
    """Read the host's launches, then those of each core and the operations inside them."""
    executes = Executes(seen)
    planes = []
    for plane in profile.planes:
        if plane.name == HOST:
            for line in plane.lines:
                executes.line(line)
        elif (match := PLANE.fullmatch(plane.name)) is not None:
            planes.append((ordinals.get(int(match[1]), int(match[1])), plane))
    executes.finish()
    cores = []
    for device, plane in planes:
        core = _Core(device, executes)
        core.read(plane, wanted, seen)
        cores.append(core)
    runs = [run for core in cores for run in core.runs]
    numbers = assign(runs, [(run.program, run.device) for run in runs], seen)
    waits = {core: core.waits() for core in cores}
    expected = wanted.barriers.union(*(_waited(each) for each in waits.values()))
    for core in cores:
        _show(core, numbers, waits[core], expected, seen)


def _waited(waits: dict[_Work, int]) -> set[tuple[str, str]]:
    """Return the collectives before which a core waited in a barrier, by program and name."""
    return {(work.run.program.module, work.collective or "") for work in waits}


def _show(
    core: _Core,
    numbers: dict[ProgramRun, int],
    waits: dict[_Work, int],
    expected: frozenset[tuple[str, str]],
    seen: TraceContents,
) -> None:
    """Note what a core did; `expected` has the collectives that all follow a barrier, as some did."""
    launches = {
        run: DeviceLaunch(run.program.module, numbers[run], run.device) for run in core.runs if run in numbers
    }
    seen.spans += [LaunchSpan(*launches[run], run.start, run.end) for run in core.runs if run in launches]
    for run, start, end in core.flights:
        if run in launches:
            seen.flights.setdefault(launches[run], []).append((start, end))
    for run, start, end in core.barriers:
        if run in launches:
            seen.barriers.setdefault(launches[run], []).append((start, end))
    for each in core.work:
        if each.run not in launches:
            continue
        if each.collective is None:
            seen.work(launches[each.run], each.start, each.end, each.name, each.lasted)
        elif "-start" not in each.name:
            module = each.run.program.module
            has_barrier = each in waits or (module, each.collective) in expected
            waited = waits.get(each) if has_barrier else 0
            began = each.end - each.lasted  # all members leave at the end
            seen.ops.append(Op(*launches[each.run], each.collective, began, each.end, waited, has_barrier))


def _lasted(event: Any) -> int:
    for name, value in event.stats:
        if name == LASTED and isinstance(value, int):
            return value // 1000
    return int(event.duration_ns)


def _name(event: Any) -> str:
    match = OP.match(event.name)
    return match[1] if match else ""
