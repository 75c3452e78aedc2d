"""The contents of one trace as JSON, and what is wrong with them in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.traces.contents import Contents, TracedProgram
    from jaxtop.traces.waits import TracedLaunch

SCHEMA = 1


def as_json(contents: Contents) -> dict[str, Any]:
    """Return the contents as a JSON object; times are in milliseconds."""
    seen = contents.seen
    return {
        "schema": SCHEMA,
        "platform": contents.platform,
        "devices": [each._asdict() for each in contents.devices],
        "events": seen.events,
        "unassigned": seen.unassigned,
        "assigned_ms": milliseconds(seen.assigned_ns or None),
        "unassigned_ms": {why: milliseconds(ns) for why, ns in seen.left_ns.items()},
        "cut_launches": contents.cut,
        "cut_ms": milliseconds(contents.cut_ns),
        "waits_unknown": dict(contents.unknown),
        "programs": [_program(each) for each in contents.programs],
        "problems": [*problems(contents)],
    }


def _program(program: TracedProgram) -> dict[str, Any]:
    launches = program.launches
    return {
        "name": program.name,
        "devices": program.devices,
        "launches": len(launches),
        "devices_per_launch": [len(each.devices) for each in launches],
        "waits_ms": [_waits(each) for each in launches],
        "waits_in": [each.waited_in for each in launches],
        "collectives_per_launch": [each.collectives for each in launches],
        "ends_apart_ms": [milliseconds(each.apart) for each in launches],
        "host_runs": program.host_runs,
        "cut": [place for place, each in enumerate(launches) if each.is_cut],
    }


def _waits(launch: TracedLaunch) -> list[float | None] | None:
    return None if launch.waits is None else [milliseconds(each) for each in launch.waits]


def milliseconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6


def problems(contents: Contents) -> Iterator[str]:
    """Yield what is missing or wrong in a trace, a line each."""
    seen = contents.seen
    if seen.is_too_large:
        yield f"the trace has more than {seen.most:,} events: nothing of it was read"
        return
    yield from (f"the profiler said: {each}" for each in contents.warnings)
    if contents.copies:
        lines = _count(contents.copies, "line is", "lines are")
        yield f"{lines} in the trace twice: their copies were left out"
    left = sum(seen.left_ns.values())
    for why, ns in seen.left_ns.items():
        share = ns / (seen.assigned_ns + left) if ns else 0.0
        yield f"{ns / 1e6:.3f} ms of operations ({share:.1%}) belong to no launch: {why}"
    if contents.cut or contents.cut_ns:
        what = _count(contents.cut, "launch", "launches") if contents.cut else "parts of launches"
        yield f"the trace cuts off {what} ({contents.cut_ns / 1e6:.3f} ms of operations): no waits"
    for why, count in contents.unknown.items():
        yield f"the waits in {_count(count, 'collective', 'collectives')} are unknown: {why}"
    for each in contents.programs:
        shown = sum(len(launch.devices) for launch in each.launches)
        if each.host_runs is not None and shown < each.host_runs:
            yield f"the host ran {each.name} on devices {each.host_runs} times; {shown} are in the trace"
    shared = [each.name for each in contents.programs if each.is_shared]
    if shared:
        yield f"other processes run {', '.join(shared)} too: the trace does not have their devices"
    if not contents.programs:
        yield "no operation of a device names its program"
    if contents.programs and contents.platform != "cpu" and not seen.executed:
        yield "the host's launches are not in the trace: those of each device were counted"


def _count(count: int, one: str, several: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {several}"
