"""The operations messages of a window: where the time of each program's whole launches went."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.names import shorten
from jaxtop.traces import Runs
from jaxtop.traces.parts import length, merged
from jaxtop.wire import Operation, Operations
from jaxtop_agent.profiler.rows import whole_launches
from jaxtop_agent.programs.executed import COLLECTIVE, Executed
from jaxtop_agent.programs.loaded import Loaded, which

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.traces import Op, Seen, Span

    Key = tuple[str, str | None]

# The programs of a window that are sent, those that took most time; their operations, of one and of all.
MOST_PROGRAMS, MOST_OPERATIONS, ALL_OPERATIONS = 8, 40, 120
# The messages kept for new viewers.
MOST_KEPT = 16
LONGEST_NAME = 80
# The largest figure that a message may have.
MOST = 1 << 53
UNKNOWN = Executed("")


class _Shown(NamedTuple):
    """The operations of a program by name, its launches on each device, and the time between operations.

    `shows_runs` is false if an operation may have several events in one run.
    """

    named: dict[str, Runs]
    collectives: set[str]
    launches: int
    idle_ns: int
    shows_runs: bool

    @property
    def ns(self) -> int:
        return self.idle_ns + sum(each.ns for each in self.named.values())


def messages(
    seen: Seen,
    loaded: Sequence[Loaded],
    executed: Mapping[Key, Mapping[str, Executed]],
    at_ms: int,
) -> list[Operations]:
    """Return one message per program, those first whose launches took most time."""
    shown = _by_program(seen, loaded)
    longest = nlargest(MOST_PROGRAMS, shown, key=lambda key: shown[key].ns)
    rooms = _rooms([len(shown[key].named) for key in longest])
    return [
        _message(key, shown[key], executed.get(key, {}), room, at_ms)
        for key, room in zip(longest, rooms, strict=True)
    ]


def _rooms(wanted: Sequence[int]) -> list[int]:
    """Return how many operations each program may list: what small ones leave is for the others."""
    rooms, left = [0] * len(wanted), ALL_OPERATIONS
    by_size = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for place, i in enumerate(by_size):
        rooms[i] = min(wanted[i], MOST_OPERATIONS, left // (len(wanted) - place))
        left -= rooms[i]
    return rooms


def _by_program(seen: Seen, loaded: Sequence[Loaded]) -> dict[Key, _Shown]:
    found: dict[Key, _Shown] = {}
    for module, _, ones, collectives in whole_launches(seen):
        ops = {op.name for each in ones for op in collectives.get(each.device, ())}
        program = which(loaded, module, ones[0].number, ops)
        key = module, None if program is None else program.fingerprint
        for span in ones:
            shown = _on_device(seen, span, collectives.get(span.device, []))
            found[key] = _added(found[key], shown) if key in found else shown
    return found


def _on_device(seen: Seen, span: Span, collectives: Sequence[Op]) -> _Shown:
    """Return the operations of a launch on a device."""
    at = span.run, span.device
    found = dict(seen.named.get(at, {}))
    for op in collectives:
        runs = found.setdefault(op.name, Runs())
        runs.count += 1
        runs.ns += op.end - op.start
    together = length(merged([*seen.busy.get(at, ()), *((op.start, op.end) for op in collectives)]))
    idle = max(0, span.end - span.start - together)
    return _Shown(found, {op.name for op in collectives}, 1, idle, seen.shows_runs)


def _added(one: _Shown, other: _Shown) -> _Shown:
    for name, runs in other.named.items():
        total = one.named.setdefault(name, Runs())
        total.count += runs.count
        total.ns += runs.ns
    return one._replace(
        collectives=one.collectives | other.collectives,
        launches=one.launches + other.launches,
        idle_ns=one.idle_ns + other.idle_ns,
    )


def _message(key: Key, shown: _Shown, executed: Mapping[str, Executed], limit: int, at_ms: int) -> Operations:
    by_time = sorted(shown.named, key=lambda name: (-shown.named[name].ns, name))
    rest: dict[str, int] = {}
    for name in by_time[limit:]:
        kind = COLLECTIVE if name in shown.collectives else executed.get(name, UNKNOWN).kind
        rest[kind] = rest.get(kind, 0) + shown.named[name].ns
    return Operations(
        at_ms=at_ms,
        program=key[0],
        fingerprint=key[1],
        launches=shown.launches,
        operations=tuple(_operation(name, shown, executed.get(name, UNKNOWN)) for name in by_time[:limit]),
        idle_us=round(shown.idle_ns / 1000),
        rest=len(by_time[limit:]),
        rest_us={kind: round(ns / 1000) for kind, ns in rest.items()},
    )


def _operation(name: str, shown: _Shown, known: Executed) -> Operation:
    runs = shown.named[name]
    # The program knows better: on CPUs, too, a part of an operation may have an event of its own.
    count = runs.count if shown.shows_runs else None
    if known.times is not None:
        count = known.times * shown.launches
    return Operation(
        op=shorten(name, LONGEST_NAME),
        kind=COLLECTIVE if name in shown.collectives else known.kind,
        source=known.line,
        time_us=round(runs.ns / 1000),
        runs=count,
        flops=None if known.operations is None else min(known.operations, MOST),
        bytes=None if known.bytes is None else min(known.bytes, MOST),
    )
