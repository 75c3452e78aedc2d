"""The window message from a trace: whole launches, one row per collective, and the choice of rows to send."""

from __future__ import annotations

import zlib
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from jaxtop.traces.parts import merged, overlap, rounds, total_length, with_pauses
from jaxtop.wire import Launch, Round
from jaxtop.wire.windows import MOST_UNASSIGNED_PERMILLE
from jaxtop_agent.core.waiting import WorkSlices, release_gil
from jaxtop_agent.programs.loaded_executables import LoadedExecutable, launched_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jaxtop.traces import LaunchSpan, Op, TraceContents
    from jaxtop.wire import Window

# A viewer receives rows from every process, and can process ALL_ROWS in total.
MOST_ROWS, ALL_ROWS, FEWEST_ROWS = 512, 8192, 32
MOST_DURATIONS = 16_384
MOST_LAUNCHES = 256

_MASK = (1 << 64) - 1

# The collectives of a launch by name and round, each by device, in the order in which they began.
_Collectives = dict[tuple[str, int], dict[int, "Op"]]


class _WholeLaunch(NamedTuple):
    """A whole launch, with its span on the device that took longest."""

    span: LaunchSpan
    number: int | None  # the same in all processes; None if unknown
    communicating: list[tuple[int, int]]  # when that device was within collectives
    collectives: _Collectives


def room(process_count: int, devices: int) -> int:
    """Return how many rows of one window this process may send."""
    fair = max(FEWEST_ROWS, min(MOST_ROWS, ALL_ROWS // max(1, process_count)))
    return max(1, min(fair, MOST_DURATIONS // max(1, devices)))


def message(
    seen: TraceContents,
    devices: Sequence[int],
    loaded: Sequence[LoadedExecutable],
    limit: int,
    blank: Window,
    *,
    numbers: Mapping[tuple[str, int], int] = MappingProxyType({}),
) -> Window:
    """Return the window message; `blank` has the fields that are already known.

    `numbers` are those that all processes give launches, by module and run, if the trace itself has none.
    """
    unassigned = round(1000 * (seen.unassigned or 0))
    launched = _launches(seen, devices, numbers) if unassigned <= MOST_UNASSIGNED_PERMILLE else []
    programs: dict[tuple[str, str | None], int] = {}
    ops: dict[str, int] = {}
    launches: list[Launch] = []
    rows: list[Round] = []
    for each, chosen in _chosen(launched, limit, blank.slot or 0):
        release_gil()
        for (op, number), members in chosen.items():
            rows.append(_round(len(launches), ops.setdefault(op, len(ops)), number, members, devices))
        span = each.span
        found = launched_program(loaded, span.module, span.number, {op for op, _ in each.collectives})
        program = span.module, None if found is None else found.fingerprint
        work = seen.busy.get(span.device_launch, [])
        launches.append(_launch(each, programs.setdefault(program, len(programs)), work))
    return replace(
        blank,
        programs=tuple(programs),
        ops=tuple(ops),
        launches=tuple(launches),
        rounds=tuple(rows),
        unsent=sum(len(each.collectives) for each in launched) - len(rows),
        note=blank.note or _note(seen, launched),
        unassigned_permille=unassigned,
    )


def _note(seen: TraceContents, launched: list[_WholeLaunch]) -> str:
    if launched:
        return ""
    if seen.is_too_large:
        return f"the window held more than {seen.events:,} events, too many to read"
    if seen.left_ns and (share := seen.unassigned or 0) * 1000 > MOST_UNASSIGNED_PERMILLE:
        return f"{share:.0%} of device time could not be assigned to launches"
    if seen.cut or seen.ops or seen.busy:
        return "no complete launch in the window"
    return "no device events"


def whole_launches(seen: TraceContents) -> Iterator[tuple[list[LaunchSpan], Mapping[int, list[Op]]]]:
    """Yield the spans, and the collectives by device, of each launch that is whole on all its local devices.

    It pauses between them.
    """
    spans: defaultdict[tuple[str, int], list[LaunchSpan]] = defaultdict(list)
    for span in seen.spans:
        spans[span.module, span.run].append(span)
    ops: defaultdict[tuple[str, int], defaultdict[int, list[Op]]] = defaultdict(lambda: defaultdict(list))
    for op in with_pauses(seen.ops, WorkSlices().pause):
        ops[op.module, op.run][op.device].append(op)
    for key, parts in spans.items():
        if key not in seen.cut:
            release_gil()
            yield parts, ops.get(key, {})


def _launches(
    seen: TraceContents, devices: Sequence[int], numbers: Mapping[tuple[str, int], int]
) -> list[_WholeLaunch]:
    """Return the whole launches by start time."""
    found = []
    for spans, of_device in whole_launches(seen):
        span = max(spans, key=lambda span: span.end - span.start)
        number = span.run if seen.is_shared else numbers.get((span.module, span.run))
        own = [(op.start, op.end) for op in of_device.get(span.device, ())]
        communicating = merged(
            [*own, *seen.flights.get(span.device_launch, ()), *seen.barriers.get(span.device_launch, ())]
        )
        collectives, _ = rounds(op for device in devices for op in of_device.get(device, ()))
        found.append(_WholeLaunch(span, number, communicating, _in_order(collectives.items())))
    return sorted(found, key=lambda each: each.span.start)


def _launch(launched: _WholeLaunch, program: int, work: list[tuple[int, int]]) -> Launch:
    """Return a launch as it is sent; `work` is when its device did other work."""
    span, communicating = launched.span, total_length(launched.communicating)
    return Launch(
        program=program,
        number=launched.number,
        start_us=_us(span.start),
        duration_us=_us(span.end - span.start),
        collective_us=_us(communicating),
        exposed_us=_us(communicating - overlap(launched.communicating, merged(work))),
    )


def _round(launch: int, op: int, number: int, members: Mapping[int, Op], devices: Sequence[int]) -> Round:
    """Return a collective as it is sent, with its durations on all devices."""
    durations = [members[device].duration if device in members else None for device in devices]
    durations_us = tuple(None if ns is None else _us(ns) for ns in durations)
    return Round(launch, op, number, _us(_began(members)), durations_us)


def _began(members: Mapping[int, Op]) -> int:
    return min(op.arrived for op in members.values())


def _in_order(collectives: Iterable[tuple[tuple[str, int], dict[int, Op]]]) -> _Collectives:
    return dict(sorted(collectives, key=lambda each: (_began(each[1]), each[0])))


def _chosen(launched: list[_WholeLaunch], limit: int, slot: int) -> list[tuple[_WholeLaunch, _Collectives]]:
    """Return launches, in order of time, with as many of their rows as fit.

    All hosts must make the same choice without communication, so it depends only on values that they share:
    the number of a launch and the slot. Each program gets one launch before any gets a second. If a launch
    alone exceeds the limit, each slot sends other rows of it.
    """
    turns: defaultdict[str, list[_WholeLaunch]] = defaultdict(list)
    for each in launched:
        turns[each.span.module].append(each)
    order = []
    for module, ones in turns.items():
        ones.sort(key=lambda each: _spread(_known(each)))
        order += [(turn, _spread(_known(each)), module, each) for turn, each in enumerate(ones)]
    order.sort(key=lambda entry: entry[:3])
    left = limit
    chosen: list[tuple[_WholeLaunch, _Collectives]] = []
    for *_, each in order:
        rows = each.collectives
        if len(rows) > left:
            rows = _rotated(rows, left, slot) if left == limit else {}
        left -= len(rows)
        chosen.append((each, rows))
    # Beyond the limit, those without rows are dropped first.
    chosen.sort(key=lambda entry: not entry[0].collectives)
    return sorted(chosen[:MOST_LAUNCHES], key=lambda entry: entry[0].span.start)


def _rotated(collectives: _Collectives, limit: int, slot: int) -> _Collectives:
    """Return some of the collectives: a hash orders them in a ring, and each slot starts elsewhere."""

    def turn(key: tuple[str, int]) -> int:
        op, number = key
        return (_spread(zlib.crc32(f"{op} {number}".encode())) + _spread(slot)) & _MASK

    return _in_order((key, collectives[key]) for key in sorted(collectives, key=turn)[:limit])


def _known(each: _WholeLaunch) -> int:
    return each.span.run if each.number is None else each.number


def _spread(number: int) -> int:
    """Return a hash of the number of a launch.

    Those of CPUs ascend over all programs, so unhashed ones would often follow a regular pattern: with two
    programs in turn, every second number always belongs to the same one.
    """
    return (number * 0x9E3779B97F4A7C15) & _MASK


def _us(nanoseconds: int) -> int:
    return round(nanoseconds / 1000)
