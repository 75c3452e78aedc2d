"""The window message from a trace: whole launches, one row per collective, and the choice of rows to send."""

from __future__ import annotations

import zlib
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from jaxtop.traces.parts import breathing, length, merged, rounds, shared
from jaxtop.wire import Launch, Round
from jaxtop.wire.windows import MOST_UNASSIGNED_PERMILLE
from jaxtop_agent.core.waiting import WorkSlices, breathe
from jaxtop_agent.programs.loaded import Loaded, which

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jaxtop.traces import LaunchSpan, Op, Seen
    from jaxtop.wire import Window

# A viewer receives rows from every process, and can process ALL_ROWS in total.
MOST_ROWS, ALL_ROWS, FEWEST_ROWS = 512, 8192, 32
MOST_DURATIONS = 16_384
MOST_LAUNCHES = 256

_MASK = (1 << 64) - 1


class _Row(NamedTuple):
    op: str
    round: int
    start: int
    durations: tuple[int | None, ...]


class _Launched(NamedTuple):
    """A launch on all local devices."""

    module: str
    compiled: int | None  # the compiler's number of the module
    run: int
    number: int | None
    start: int
    duration: int
    collective: int
    exposed: int
    rows: list[_Row]


def room(process_count: int, devices: int) -> int:
    """Return how many rows of one window this process may send."""
    fair = max(FEWEST_ROWS, min(MOST_ROWS, ALL_ROWS // max(1, process_count)))
    return max(1, min(fair, MOST_DURATIONS // max(1, devices)))


def message(
    seen: Seen,
    devices: Sequence[int],
    loaded: Sequence[Loaded],
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
    rounds_sent: list[Round] = []
    unsent = sum(len(each.rows) for each in launched)
    for each, rows in _chosen(launched, limit, blank.slot or 0):
        for row in rows:
            place = ops.setdefault(row.op, len(ops))
            durations = tuple(None if ns is None else _us(ns) for ns in row.durations)
            rounds_sent.append(Round(len(launches), place, row.round, _us(row.start), durations))
        unsent -= len(rows)
        found = which(loaded, each.module, each.compiled, {row.op for row in each.rows})
        program = each.module, None if found is None else found.fingerprint
        launches.append(
            Launch(
                program=programs.setdefault(program, len(programs)),
                number=each.number,
                start_us=_us(each.start),
                duration_us=_us(each.duration),
                collective_us=_us(each.collective),
                exposed_us=_us(each.exposed),
            )
        )
    return replace(
        blank,
        programs=tuple(programs),
        ops=tuple(ops),
        launches=tuple(launches),
        rounds=tuple(rounds_sent),
        unsent=unsent,
        note=blank.note or _note(seen, launched),
        unassigned_permille=unassigned,
    )


def _note(seen: Seen, launched: list[_Launched]) -> str:
    if launched:
        return ""
    if seen.is_too_large:
        return f"the window held more than {seen.events:,} events, too many to read"
    if seen.left_ns and (share := seen.unassigned or 0) * 1000 > MOST_UNASSIGNED_PERMILLE:
        return f"{share:.0%} of device time could not be assigned to launches"
    if seen.cut or seen.ops or seen.busy:
        return "no complete launch in the window"
    return "no device events"


def whole_launches(seen: Seen) -> Iterator[tuple[str, int, list[LaunchSpan], Mapping[int, list[Op]]]]:
    """Yield the launches that are whole on every local device they ran on, in small parts.

    Each has its program, its run, its spans, and its collectives by device.
    """
    spans: defaultdict[tuple[str, int], list[LaunchSpan]] = defaultdict(list)
    for span in seen.spans:
        spans[span.module, span.run].append(span)
    ops: defaultdict[tuple[str, int], defaultdict[int, list[Op]]] = defaultdict(lambda: defaultdict(list))
    for op in breathing(seen.ops, WorkSlices().pause):
        ops[op.module, op.run][op.device].append(op)
    for (module, run), parts in spans.items():
        if (module, run) not in seen.cut:
            breathe()
            yield module, run, parts, ops.get((module, run), {})


def _launches(seen: Seen, devices: Sequence[int], numbers: Mapping[tuple[str, int], int]) -> list[_Launched]:
    """Return the whole launches by start time."""
    found = []
    for module, run, parts, ops in whole_launches(seen):
        longest = max(parts, key=lambda span: span.end - span.start)
        own = [(op.start, op.end) for op in ops.get(longest.device, [])]
        on = longest.on
        together = merged([*own, *seen.flights.get(on, ()), *seen.barriers.get(on, ())])
        work = merged(seen.busy.get(on, []))
        total = length(together)
        found.append(
            _Launched(
                module,
                longest.number,
                run,
                run if seen.is_shared else numbers.get((module, run)),
                longest.start,
                longest.end - longest.start,
                total,
                total - shared(together, work),
                _rows(ops, devices),
            )
        )
    return sorted(found, key=lambda each: each.start)


def _rows(of_device: Mapping[int, list[Op]], devices: Sequence[int]) -> list[_Row]:
    """Return one row for each round of each collective, with its durations on all devices."""
    rows = []
    found = rounds(op for device in devices for op in of_device.get(device, ())).found
    for (name, number), ops in found.items():
        start = min(op.arrived for op in ops.values())
        durations = tuple(None if device not in ops else ops[device].duration for device in devices)
        rows.append(_Row(name, number, start, durations))
    return sorted(rows, key=lambda row: (row.start, row.op, row.round))


def _chosen(launched: list[_Launched], limit: int, slot: int) -> list[tuple[_Launched, list[_Row]]]:
    """Return launches, in order of time, with as many of their rows as fit.

    All hosts must make the same choice without communication, so it depends only on values that they share:
    the number of a launch and the slot. Each program gets one launch before any gets a second. Of a launch
    that alone exceeds the limit, each slot sends other rows.
    """
    turns: defaultdict[str, list[_Launched]] = defaultdict(list)
    for each in launched:
        turns[each.module].append(each)
    order = []
    for module, ones in turns.items():
        ones.sort(key=lambda each: _spread(_known(each)))
        order += [(turn, _spread(_known(each)), module, each) for turn, each in enumerate(ones)]
    order.sort(key=lambda entry: entry[:3])
    left = limit
    chosen: list[tuple[_Launched, list[_Row]]] = []
    for *_, each in order:
        rows = each.rows
        if len(rows) > left:
            rows = _some(rows, left, slot) if left == limit else []
        left -= len(rows)
        chosen.append((each, rows))
    chosen.sort(key=lambda entry: not entry[0].rows)  # beyond the limit, those without rows are dropped first
    return sorted(chosen[:MOST_LAUNCHES], key=lambda entry: entry[0].start)


def _some(rows: list[_Row], limit: int, slot: int) -> list[_Row]:
    """Return some of the rows: a hash of the name orders them in a ring, and each slot starts elsewhere."""

    def turn(row: _Row) -> int:
        return (_spread(zlib.crc32(f"{row.op} {row.round}".encode())) + _spread(slot)) & _MASK

    return sorted(sorted(rows, key=turn)[:limit], key=lambda row: (row.start, row.op, row.round))


def _known(each: _Launched) -> int:
    return each.run if each.number is None else each.number


def _spread(number: int) -> int:
    """Return a hash of the number of a launch.

    Those of CPUs ascend over all programs, so unhashed ones would often follow a regular pattern: with two
    programs in turn, every second number always belongs to the same one.
    """
    return (number * 0x9E3779B97F4A7C15) & _MASK


def _us(nanoseconds: int) -> int:
    return round(nanoseconds / 1000)
