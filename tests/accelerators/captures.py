"""One captured profile: what jaxtop reads, beside a count of the raw events and beside XProf."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.traces import files, gpu, protos, tpu
from jaxtop.traces.contents import contents
from jaxtop.traces.parts import CONTAINER, stats
from tests.accelerators import theirs
from tests.accelerators.theirs import Figures

if TYPE_CHECKING:
    from pathlib import Path

    from jaxtop.traces.contents import Contents, TracedProgram
    from jaxtop.traces.xspace import Trace, XPlane


# The programs of a profile that its row names.
MOST_PROGRAMS = 4


class Row(NamedTuple):
    """What was found in a profile; `runs` and `raw_runs` are those of programs on devices."""

    name: str
    platform: str
    kind: str
    programs: int
    launches: int
    per_launch: str
    runs: int
    raw_runs: int | None
    raw_operations: int | None
    unassigned: str
    apart_us: float | None
    ours: Figures
    xprof: Figures | str


def row(path: Path, name: str) -> Row:
    """Return the row of a profile; raises what the readers raise."""
    trace = files.read(path)
    found = contents(trace, protos.programs(trace), files.MOST_EVENTS)
    launches = [launch for program in found.programs for launch in program.launches]
    kinds = {device.kind for device in found.devices if device.kind is not None}
    apart = [launch.apart for launch in launches if launch.apart is not None]
    raw_runs, raw_operations = _raw(trace)
    return Row(
        name,
        found.platform,
        "; ".join(sorted(kinds, key=len)[-1:]),
        len(found.programs),
        len(launches),
        _some([_per_launch(each) for each in found.programs]),
        sum(len(launch.devices) for launch in launches),
        raw_runs,
        raw_operations,
        _unassigned(found),
        max(apart) / 1000 if apart else None,
        _ours(found),
        theirs.figures(path) if found.platform != "cpu" else "has no tables for CPUs",
    )


def _some(texts: list[str]) -> str:
    more = len(texts) - MOST_PROGRAMS
    return ", ".join(texts[:MOST_PROGRAMS]) + (f" and {more} more" if more > 0 else "")


def _per_launch(program: TracedProgram) -> str:
    sizes = Counter(len(launch.devices) for launch in program.launches)
    return f"{program.name} " + " + ".join(f"{count} × {size}" for size, count in sorted(sizes.items()))


def _unassigned(found: Contents) -> str:
    share = found.seen.unassigned
    if share is None:
        return "n/a: no operation names its program"
    reasons = "".join(f"; {ns / 1e6:.3f} ms {why}" for why, ns in found.seen.left_ns.items())
    return f"{share:.2%}{reasons}" + (f"; {found.cut} launches cut" if found.cut else "")


def _ours(found: Contents) -> Figures:
    seen = found.seen
    operations = sum(runs.count for named in seen.named.values() for runs in named.values())
    took = sum(runs.ns for named in seen.named.values() for runs in named.values())
    lasted = sum(op.end - op.start for op in seen.ops)
    return Figures(operations + len(seen.ops), (took + lasted) / 1e6, len(seen.ops), lasted / 1e6)


def _raw(trace: Trace) -> tuple[int | None, int | None]:
    """Count runs and operations without the readers: events, and those that name a module."""
    runs = operations = 0
    is_known = False
    for plane in trace.planes:
        if tpu.PLANE.fullmatch(plane.name):
            is_known = True
            runs += len(_events(plane, tpu.LAUNCHES))
            operations += sum(1 for name in _events(plane, tpu.OPS) if not _is_container(name))
        elif gpu.PLANE.fullmatch(plane.name):
            is_known = True
            lines = [line for line in plane.lines if line.name.startswith(gpu.STREAM)]
            operations += sum("hlo_module" in stats(event) for line in lines for event in line.events)
        elif plane.name == "/host:CPU":
            names = (event.name for line in plane.lines for event in line.events)
            runs += sum(name.endswith(":XLA GPU module") for name in names)
    return (runs, operations) if is_known else (None, None)


def _events(plane: XPlane, line: str) -> list[str]:
    return [event.name for each in plane.lines if each.name == line for event in each.events]


def _is_container(name: str) -> bool:
    return CONTAINER.fullmatch(name.split(" ", 1)[0].lstrip("%")) is not None
