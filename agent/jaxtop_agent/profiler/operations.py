"""The operations messages of a window: where the time of each program's whole launches went."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import shorten
from jaxtop.traces import OperationRuns
from jaxtop.traces.parts import merged, total_length
from jaxtop.wire import Operation, Operations
from jaxtop_agent.profiler.rows import whole_launches
from jaxtop_agent.programs.executed_operations import COLLECTIVE, ExecutedOperation
from jaxtop_agent.programs.loaded_executables import LoadedExecutable, launched_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.traces import LaunchSpan, Op, TraceContents

    Key = tuple[str, str | None]
    # What a trace has of the program: its name, the compiler's number, and its collectives.
    Traced = tuple[str, int | None, frozenset[str]]

# The programs of a window that are sent, those that took most time; their operations, of one and of all.
MOST_PROGRAMS, MOST_OPERATIONS, ALL_OPERATIONS = 8, 40, 120
LONGEST_NAME = 80
# The largest figure that a message may have.
MAX_FIGURE = 1 << 53
UNKNOWN = ExecutedOperation("")


class _Times(NamedTuple):
    """The operations of a program by name, its launches on each device, and the time between operations.

    `shows_runs` is false if an operation may have several events in one run.
    """

    named: dict[str, OperationRuns]
    collectives: set[str]
    launches: int
    idle_ns: int
    shows_runs: bool

    @property
    def ns(self) -> int:
        return self.idle_ns + sum(each.ns for each in self.named.values())


class Shown:
    """What a window showed of operations, until each of its programs has been read."""

    def __init__(self, seen: TraceContents, at_ms: int) -> None:
        self._at_ms = at_ms
        self._launched = _times_by_launched(seen)
        self._loaded: Sequence[LoadedExecutable] | None = None
        self._sent: list[Operations] = []

    @property
    def is_final(self) -> bool:
        """Whether programs that are loaded later change nothing: each was found, or is one of several."""
        names = {each.name for each in self._loaded or ()}
        return bool(names) and all(
            each.fingerprint is not None or each.program in names for each in self._sent
        )

    def news(
        self, loaded: Sequence[LoadedExecutable], executed: Mapping[Key, Mapping[str, ExecutedOperation]]
    ) -> list[Operations]:
        """Return the messages that what is loaded now adds or changes; empty ones take others back."""
        if self._loaded is not None and (not loaded or loaded == self._loaded):
            return []
        self._loaded = loaded
        before, self._sent = self._sent, messages(self._launched, loaded, executed, self._at_ms)
        keys = {(each.program, each.fingerprint) for each in self._sent}
        gone = [
            Operations(self._at_ms, each.program, each.fingerprint)
            for each in before
            if (each.program, each.fingerprint) not in keys
        ]
        return [*gone, *(each for each in self._sent if each not in before)]


def messages(
    launched: Mapping[Traced, _Times],
    loaded: Sequence[LoadedExecutable],
    executed: Mapping[Key, Mapping[str, ExecutedOperation]],
    at_ms: int,
) -> list[Operations]:
    """Return one message per program, those first whose launches took most time."""
    shown = _times_by_program(launched, loaded)
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


def _times_by_program(
    launched: Mapping[Traced, _Times], loaded: Sequence[LoadedExecutable]
) -> dict[Key, _Times]:
    found: dict[Key, _Times] = {}
    for (module, number, ops), shown in launched.items():
        program = launched_program(loaded, module, number, ops)
        key = module, None if program is None else program.fingerprint
        if key in found:
            found[key] = _added(_added(_Times({}, set(), 0, 0, shown.shows_runs), found[key]), shown)
        else:
            found[key] = shown
    return found


def _times_by_launched(seen: TraceContents) -> dict[Traced, _Times]:
    found: dict[Traced, _Times] = {}
    for ones, collectives in whole_launches(seen):
        ops = frozenset(op.name for each in ones for op in collectives.get(each.device, ()))
        key = ones[0].module, ones[0].number, ops
        for span in ones:
            shown = _times_on_device(seen, span, collectives.get(span.device, []))
            found[key] = _added(found[key], shown) if key in found else shown
    return found


def _times_on_device(seen: TraceContents, span: LaunchSpan, collectives: Sequence[Op]) -> _Times:
    """Return the operations of a launch on a device."""
    at = span.device_launch
    found = dict(seen.named.get(at, {}))
    for op in collectives:
        runs = found.setdefault(op.name, OperationRuns())
        runs.count += 1
        runs.ns += op.end - op.arrived
    busy = [*seen.busy.get(at, ()), *seen.barriers.get(at, ()), *((op.start, op.end) for op in collectives)]
    together = total_length(merged(busy))
    idle = max(0, span.end - span.start - together)
    return _Times(found, {op.name for op in collectives}, 1, idle, seen.shows_runs)


def _added(one: _Times, other: _Times) -> _Times:
    """Return both together; the runs of the first are changed."""
    for name, runs in other.named.items():
        total = one.named.setdefault(name, OperationRuns())
        total.count += runs.count
        total.ns += runs.ns
    return one._replace(
        collectives=one.collectives | other.collectives,
        launches=one.launches + other.launches,
        idle_ns=one.idle_ns + other.idle_ns,
    )


def _message(
    key: Key, shown: _Times, executed: Mapping[str, ExecutedOperation], limit: int, at_ms: int
) -> Operations:
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


def _operation(name: str, shown: _Times, known: ExecutedOperation) -> Operation:
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
        flops=None if known.operations is None else min(known.operations, MAX_FIGURE),
        bytes=None if known.bytes is None else min(known.bytes, MAX_FIGURE),
    )
