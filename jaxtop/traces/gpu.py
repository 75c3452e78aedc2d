"""Traces of GPUs: kernels on streams, and their launches on the host.

This reader follows the sources of XLA and XProf, not a captured trace. A kernel has the name of its HLO
operation, and the correlation id of the driver call on the host that launched it. That call is inside the
event of the same thread that has the run id.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from jaxtop.traces.parts import Op, Seen, Span, Wanted, extent, reading, run_of, stats

PLANE = re.compile(r"/device:GPU:(\d+)")
HOST = "/host:CPU"
# The driver calls that put work on a stream. XLA appends the graph to the name of a call that launches one.
CALL = re.compile(r"(cu|cuda|hip)([A-Z]\w*)?(Launch|Mem)\w*( \(CudaGraph:\d+\))?")
# The events in which PJRT names the launch: by its run id, or by the launch id of newer versions.
LAUNCH = re.compile(
    # The first line is for JAX before 0.10. Newer versions have events on the threads of caller and device.
    r"\w*::(EnqueueExecution|ExecuteHelper|ExecuteOnLocalDevice|LaunchOnDevice)\b.*"
    r"|(\[\d+\] )?CommonPjRtLoadedExecutable::Execute \(.*\)"
)
PJRT_CONTEXT = 5
COLLECTIVE_KERNEL = re.compile(r"(nccl|rccl)\w*", re.IGNORECASE)


def read(profile: Any, wanted: Wanted, ordinals: dict[int, int], seen: Seen) -> None:
    """Read the runs by correlation id first, because the planes have no fixed order; then the kernels."""
    seen.shows_runs = False  # an operation may start several kernels
    runs: dict[int, int] = {}
    planes = []
    for plane in profile.planes:
        if plane.name == HOST:
            for line in plane.lines:
                runs.update(_runs(line, seen))
        elif (match := PLANE.fullmatch(plane.name)) is not None:
            planes.append((ordinals.get(int(match[1]), int(match[1])), plane))
    for device, plane in planes:
        _device(plane, device, runs, wanted, seen)


def _runs(line: Any, seen: Seen) -> dict[int, int]:
    """Return the run of each driver call on this thread, by the call's correlation id."""
    launches: list[tuple[int, int, int]] = []  # start, end, run
    calls: list[tuple[int, int]] = []  # start, correlation id
    for event in reading(seen, line.events):
        name = event.name
        if LAUNCH.fullmatch(name):
            if (run := _run(stats(event))) is not None:
                launches.append((*extent(event), run))
        elif CALL.fullmatch(name):
            correlation = stats(event).get("correlation_id")
            if correlation is not None:
                calls.append((int(event.start_ns), int(correlation)))
    launches.sort()
    starts = [launch[0] for launch in launches]
    found = {}
    for at, correlation in calls:
        place = bisect_right(starts, at) - 1
        if place >= 0 and at <= launches[place][1]:
            found[correlation] = launches[place][2]
    return found


def _run(said: dict[str, Any]) -> int | None:
    for name in ("run_id", "launch_id"):
        if name in said:
            return run_of(said[name])
    for kind, context in (("_ct", "_c"), ("_pt", "_p")):
        if said.get(kind) == PJRT_CONTEXT and context in said:
            return run_of(said[context])
    return None


def _device(plane: Any, device: int, runs: dict[int, int], wanted: Wanted, seen: Seen) -> None:
    extents: dict[int, tuple[str, int, int]] = {}  # by run: module, start, end
    for line in plane.lines:
        if not line.name.startswith("Stream"):
            continue  # derived from the streams
        for event in reading(seen, line.events):
            said = stats(event)
            run = runs.get(said.get("correlation_id", -1))
            module = said.get("hlo_module")
            if run is None or module is None:
                seen.strays += module is not None
                continue
            start, end = extent(event)
            _, first, last = extents.get(run, ("", start, end))
            extents[run] = str(module), min(first, start), max(last, end)
            name = str(said.get("hlo_op", ""))
            op = wanted.op(str(module), name)
            if op is not None and COLLECTIVE_KERNEL.match(event.name):
                seen.ops.append(Op(str(module), run, device, op, start, end))
            else:
                seen.work(run, device, start, end, name)
    # The last launch may have continued after the window: the trace does not show where it ends.
    latest = max(extents, key=lambda run: extents[run][2], default=None)
    for run, (module, start, end) in extents.items():
        if run == latest:
            seen.cut.add((module, run))
        else:
            seen.spans.append(Span(module, run, device, start, end))
