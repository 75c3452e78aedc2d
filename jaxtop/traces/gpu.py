"""Traces of GPUs: kernels on streams, and their launches on the host.

A kernel has the name of its HLO operation, and the correlation id of the driver call on the host that put it
on a stream. The launch of a kernel is the `Execute` that made this call. Kernels whose calls the trace lacks
are split into launches where the same sequence of operations begins again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from typing import Any

from jaxtop.traces.executes import HOST, Executes, HostEvent
from jaxtop.traces.launches import ProgramRun, ProgramVariant, assign
from jaxtop.traces.parts import (
    NO_CALL,
    DeviceLaunch,
    LaunchSpan,
    Op,
    TraceContents,
    WantedCollectives,
    extent,
    reading,
    stats,
)
from jaxtop.traces.sequences import Kernel, split

PLANE = re.compile(r"/device:GPU:(\d+)")
# The driver calls that put work on a stream. XLA appends the graph to the name of a call that launches one.
# Older versions give the call the name of the kernel.
CALL = re.compile(r"(cu|cuda|hip)([A-Z]\w*)?(Launch|Mem)\w*( \(CudaGraph:\d+\))?")
# NVSHMEM's kernels have its name, too. XLA's own kernels for small all-reduces have that of the operation.
OF_LIBRARY = re.compile(r".*(nccl|rccl|nvshmem).*", re.IGNORECASE)
# Lines that are derived from the streams.
STREAM = "Stream"


def read(profile: Any, wanted: WantedCollectives, ordinals: dict[int, int], seen: TraceContents) -> None:
    """Read the kernels first, because some calls have their names; then the host."""
    seen.shows_runs = False  # an operation may start several kernels
    kernels: dict[tuple[ProgramVariant, int], list[Kernel]] = {}
    names: set[str] = set()
    hosts = []
    for plane in profile.planes:
        if plane.name == HOST:
            hosts.append(plane)
        elif (match := PLANE.fullmatch(plane.name)) is not None:
            device = ordinals.get(int(match[1]), int(match[1]))
            for program, found in _kernels(plane, names, seen).items():
                kernels[program, device] = sorted(found, key=lambda kernel: kernel.start)
    executes = Executes(seen, lambda name: CALL.fullmatch(name) is not None or name in names)
    for plane in hosts:
        for line in plane.lines:
            executes.line(line)
    executes.finish()
    runs: dict[ProgramRun, list[Kernel]] = {}
    for (program, device), kernels_of_program in kernels.items():
        runs.update(_runs(program, device, kernels_of_program, executes, seen))
    collectives = {run: _collectives(run, kernels_of_run, wanted) for run, kernels_of_run in runs.items()}
    for run in runs:
        _note_ends(run, collectives[run], wanted)
    _note_short(runs, executes)
    numbers = assign([*runs], kernels, seen)
    for run, number in numbers.items():
        _show(run, number, runs[run], collectives[run], seen)


def _kernels(plane: Any, names: set[str], seen: TraceContents) -> dict[ProgramVariant, list[Kernel]]:
    found: defaultdict[ProgramVariant, list[Kernel]] = defaultdict(list)
    for line in plane.lines:
        if not line.name.startswith(STREAM):
            continue
        for event in reading(seen, line.events):
            values = stats(event)
            module = values.get("hlo_module")
            if module is None:
                continue
            names.add(event.name)
            correlation = values.get("correlation_id")
            program = ProgramVariant(str(module), str(values.get("program_id", "")))
            found[program].append(
                Kernel(
                    str(values.get("hlo_op", "")),
                    *extent(event),
                    None if correlation is None else int(correlation),
                    OF_LIBRARY.match(event.name) is not None,
                )
            )
    return found


def _runs(
    program: ProgramVariant, device: int, kernels: list[Kernel], executes: Executes, seen: TraceContents
) -> dict[ProgramRun, list[Kernel]]:
    """Return the runs of a program on a device, each with its kernels."""
    of_root: defaultdict[HostEvent, list[Kernel]] = defaultdict(list)
    others: list[Kernel] = []
    for kernel in kernels:
        root = None if kernel.correlation is None else executes.launch_of_call(kernel.correlation)
        if root is None:
            others.append(kernel)
        else:
            of_root[root].append(kernel)
    # What ran before the first known launch was launched before the trace began. Later kernels lost their
    # calls.
    first = min((kernels_of_run[0].start for kernels_of_run in of_root.values()), default=None)
    before = [kernel for kernel in others if first is None or kernel.start <= first]
    pieces, cut, unknown = split(before)
    if first is not None:
        cut, unknown = [*cut, *unknown], [kernel for kernel in others if kernel.start > first]
    seen.cut_ns += _time(cut)
    if unknown:
        seen.leave(NO_CALL, _time(unknown))
    found = {
        _run(program, device, kernels_of_run, root): kernels_of_run
        for root, kernels_of_run in of_root.items()
    }
    found.update({_run(program, device, kernels_of_run, None): kernels_of_run for kernels_of_run in pieces})
    _note_incomplete(list(found), unknown)
    return found


def _note_incomplete(runs: list[ProgramRun], unknown: list[Kernel]) -> None:
    """Mark the runs to which kernels without a launch may belong: those that began before and after each."""
    runs.sort(key=lambda run: run.start)
    for kernel in unknown:
        place = bisect_right(runs, kernel.start, key=lambda run: run.start)
        for run in runs[max(0, place - 1) : place + 1]:
            run.is_cut = True


def _time(kernels: list[Kernel]) -> int:
    return sum(kernel.end - kernel.start for kernel in kernels)


def _run(program: ProgramVariant, device: int, kernels: list[Kernel], root: HostEvent | None) -> ProgramRun:
    number = int(program.variant) if program.variant.isdecimal() else None
    end = max(kernel.end for kernel in kernels)
    made = ProgramRun(program, device, kernels[0].start, end, number, root)
    made.busy_ns, made.operations = _time(kernels), len(kernels)
    return made


def _collectives(
    run: ProgramRun, kernels: list[Kernel], wanted: WantedCollectives
) -> dict[str, list[Kernel]]:
    """Return the kernels of each collective: those of the library, or where an operation has none, all."""
    found: defaultdict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        op = wanted.op(run.program.module, kernel.op)
        if op is not None:
            found[op].append(kernel)
    return {
        op: [each for each in kernels_of_op if each.is_of_library] or kernels_of_op
        for op, kernels_of_op in found.items()
    }


def _note_ends(run: ProgramRun, collectives: dict[str, list[Kernel]], wanted: WantedCollectives) -> None:
    for op, kernels_of_op in collectives.items():
        if wanted.meets(run.program.module, op):
            for number, kernel in enumerate(kernels_of_op):
                run.ends[op, number] = kernel.end, kernel.end - kernel.start


def _note_short(runs: dict[ProgramRun, list[Kernel]], executes: Executes) -> None:
    """Mark the runs that the trace may have cut off.

    A run is whole if an earlier one had as many kernels, or if each call of its launch has its kernel.
    """
    sizes: defaultdict[ProgramVariant, Counter[int]] = defaultdict(Counter)
    last: dict[int, ProgramRun] = {}
    for run, kernels_of_run in runs.items():
        sizes[run.program][len(kernels_of_run)] += 1
        if run.device not in last or run.end > last[run.device].end:
            last[run.device] = run
    for run in last.values():
        kernels_of_run = runs[run]
        if sizes[run.program][len(kernels_of_run)] == 1:
            done = {kernel.correlation for kernel in kernels_of_run}
            calls = executes.calls_of(run.root, run.program.module)
            run.is_cut |= not calls or not calls <= done


def _show(
    run: ProgramRun,
    number: int,
    kernels: list[Kernel],
    collectives: dict[str, list[Kernel]],
    seen: TraceContents,
) -> None:
    launch = DeviceLaunch(run.program.module, number, run.device)
    seen.spans.append(LaunchSpan(*launch, run.start, run.end, run.number))
    op_of = {kernel: op for op, kernels_of_op in collectives.items() for kernel in kernels_of_op}
    for kernel in kernels:
        if kernel in op_of:
            seen.ops.append(Op(*launch, op_of[kernel], kernel.start, kernel.end))
        else:
            seen.work(launch, kernel.start, kernel.end, kernel.op)
