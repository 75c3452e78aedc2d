"""Traces of TPUs: one plane per core, with lines for launches, operations, and transfers in flight.

This reader follows XProf's documentation, not a captured trace. The duration of an asynchronous collective is
that of its `-done`: how long the core waited for it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from jaxtop.traces.parts import CONTAINER, Op, Seen, Span, Wanted, extent, reading, run_of, stats

PLANE = re.compile(r"/device:TPU:(\d+)")  # "/device:TPU:0 SparseCore 1" is not a separate core
LAUNCHES, OPS, IN_FLIGHT = "XLA Modules", "XLA Ops", "Async XLA Ops"
# `jit_step(15161771884)`, and `%all-reduce.1 = f32[8]{0} all-reduce(...)`
MODULE = re.compile(r"(.+?)(?:\(\d+\))?")
OP = re.compile(r"%?([^\s=]+)")


def read(profile: Any, wanted: Wanted, ordinals: dict[int, int], seen: Seen) -> None:
    """Read the launches of each core, then the operations inside them."""
    for plane in profile.planes:
        match = PLANE.fullmatch(plane.name)
        if match is not None:
            lines = {line.name: line for line in plane.lines}
            device = ordinals.get(int(match[1]), int(match[1]))
            spans = _launches(lines[LAUNCHES], device, seen) if LAUNCHES in lines else []
            seen.spans += spans
            if OPS in lines:
                _ops(lines[OPS], spans, wanted, seen)
            if IN_FLIGHT in lines:
                _in_flight(lines[IN_FLIGHT], spans, wanted, seen)


def _launches(line: Any, device: int, seen: Seen) -> list[Span]:
    spans = []
    for event in reading(seen, line.events):
        run = stats(event).get("run_id")
        module = MODULE.fullmatch(event.name)
        if run is not None and module is not None:
            spans.append(Span(module[1], run_of(run), device, *extent(event)))
    return sorted(spans, key=lambda span: span.start)


def _ops(line: Any, spans: list[Span], wanted: Wanted, seen: Seen) -> None:
    starts = [span.start for span in spans]
    for event in reading(seen, line.events):
        name = _name(event)
        start, end = extent(event)
        span = _around(start, spans, starts)
        if span is None:
            continue
        op = wanted.op(span.module, name)
        if op is None:
            if not CONTAINER.fullmatch(name):
                seen.work(span.run, span.device, start, end, name)
        elif "-start" not in name:
            seen.ops.append(Op(span.module, span.run, span.device, op, start, end))


def _in_flight(line: Any, spans: list[Span], wanted: Wanted, seen: Seen) -> None:
    starts = [span.start for span in spans]
    for event in reading(seen, line.events):
        span = _around(int(event.start_ns), spans, starts)
        if span is not None and wanted.op(span.module, _name(event)) is not None:
            seen.flights.setdefault((span.run, span.device), []).append(extent(event))


def _name(event: Any) -> str:
    match = OP.match(event.name)
    return match[1] if match else ""


def _around(at: int, spans: list[Span], starts: list[int]) -> Span | None:
    place = bisect_right(starts, at) - 1
    return spans[place] if place >= 0 and at <= spans[place].end else None
