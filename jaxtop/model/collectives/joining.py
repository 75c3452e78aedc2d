"""The reducer of windows: it joins the windows of all hosts launch by launch, then judges them.

An instance is identified by program, number of the launch, op and round, which are the same on all hosts.
Durations are never computed from the clocks of several hosts. A launch is evaluated when every agent that
reports windows has reported it, or when it is `WINDOWS_TO_WAIT` windows old. In the second case, only groups
whose members have all reported it count. A launch without a number is evaluated at once: it has no
counterparts, so only groups inside its process count.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.model.collectives.layout import layouts, may_be_met
from jaxtop.model.collectives.matching import are_one, traced
from jaxtop.model.collectives.sentences import changes_in_words
from jaxtop.model.collectives.timing import (
    Participants,
    places_without_report,
    timing_of,
    timing_of_unknown_groups,
)
from jaxtop.model.collectives.verdict import LATE_MS, LATE_MS_ON_CPU, judge
from jaxtop.model.host import run_of
from jaxtop.model.state import LoggedEvent
from jaxtop.model.tuning import STRAGGLER
from jaxtop.model.windows import LaunchShare, PendingLaunch, ProgramWindows, launch_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from jaxtop.model.collectives.layout import Layout
    from jaxtop.model.collectives.verdict import VerdictChange
    from jaxtop.model.host import Host
    from jaxtop.model.keyframe import Message
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import Durations, LaunchId, ProgramKey, Timing

# The most launches that are kept of each collective.
MAX_LAUNCHES = 64
# The launches that are kept of a collective with very many devices.
MIN_LAUNCHES = 24
# The most launches times devices that are kept of a collective: large ones keep fewer launches.
LAUNCHES_BUDGET = 1 << 17
# Only the last windows count: every recording has them at each of its moments. One window may fill only its
# part of the launches.
COUNTED_WINDOWS = 8
# The fewest launches whose waits are kept by device.
MIN_LAUNCHES_BY_DEVICE = 4
# The most launches times devices whose waits are kept by device.
LAUNCHES_BY_DEVICE_BUDGET = 1 << 15
# After this many windows a launch is evaluated as it is, and an agent that reported no window since is no
# longer expected. A viewer that joins late receives the last windows of each process together, so this is no
# less than the number of windows that they keep for it.
WINDOWS_TO_WAIT = 4
# The most windows whose times are kept, including windows that still wait for some processes.
MAX_WINDOW_TIMES = 2 * COUNTED_WINDOWS
# The most launches of a program that wait for the windows of other hosts.
MAX_PENDING = 1024
# The most rows of these launches.
MAX_PENDING_ROWS = 200_000
# The most programs whose windows are kept.
MAX_PROGRAMS = 256
# The most collectives of a program.
MAX_OPS = 2048
# The most evaluated launches of a program whose numbers are kept.
MAX_EVALUATED = 2048


class EvaluatedProgram(NamedTuple):
    """A program with evaluated launches, and the ops that these launches timed."""

    key: ProgramKey
    layout: Layout | None
    windows: ProgramWindows
    ops: set[str]


def reduce(state: ClusterState, agent: str, message: Message, at: float) -> list[LoggedEvent]:
    """Join a window with the windows of other hosts; return an event for each verdict that it changed."""
    if not isinstance(message, wire.Window):
        return []
    joined = join(state, state.hosts[agent], message)
    changes = [change for each in joined for change in _judged(state, each)]
    return [
        LoggedEvent(at, severity, STRAGGLER, about, text)
        for severity, about, text in changes_in_words(state, changes)
    ]


def _judged(state: ClusterState, joined: EvaluatedProgram) -> Iterator[VerdictChange]:
    """Judge the collectives of a program again; yield the verdicts that have changed."""
    key, layout, windows, ops = joined
    least = LATE_MS_ON_CPU if layout is not None and layout.is_cpu else LATE_MS
    at_least_us = state.tuning.value_of(least) * 1000
    for op in sorted(ops):
        yield from judge(key, windows, op, at_least_us)


def join(state: ClusterState, host: Host, window: wire.Window) -> Iterator[EvaluatedProgram]:
    """Add a window of a host, and yield the programs whose launches could be evaluated.

    Layouts are expensive to derive while hosts still connect. One is requested only if all hosts of a program
    may have connected, or if launches are overdue or too many.
    """
    state.windows.changes += 1
    # XLA numbers the launches of CPUs alike on all processes, and overlaps them in any order.
    tests = {} if host.is_on_cpu else traced(window, run_of(host))
    rows: dict[int, list[wire.Round]] = {}
    for each in window.rounds:
        rows.setdefault(each.launch, []).append(each)
    by_program: dict[int, list[int]] = {}
    for i, launch in enumerate(window.launches):
        by_program.setdefault(launch.program, []).append(i)
    for program, launches in by_program.items():
        key = (run_of(host), *window.programs[program])
        windows = _windows_of(state, key)
        ids = {i: launch_id(host.agent, window, i) for i in launches}
        number = _number(windows, ids.values(), window.slot)
        windows.taken_ms.setdefault(number, {})[host.agent] = window.at_ms
        if len(windows.taken_ms) > MAX_WINDOW_TIMES:
            del windows.taken_ms[next(iter(windows.taken_ms))]
        windows.last_number_of_agent[host.agent] = number
        for i in launches:
            if ids[i] in windows.evaluated:
                continue
            pending = windows.pending.setdefault(ids[i], PendingLaunch(number))
            pending.launches[host.agent] = window.launches[i]
            if i in tests:
                pending.traced[host.agent] = tests[i]
            for row in rows.get(i, ()):
                of_op = pending.rows.setdefault((window.ops[row.op], row.round), {})
                of_op[host.agent] = row.durations_us
        if may_be_met(state, host, key) or _is_overdue(windows) or _too_many(windows):
            layout = layouts(state).get(key)
            yield EvaluatedProgram(key, layout, windows, _evaluate(state, key, windows, layout))


def _windows_of(state: ClusterState, key: ProgramKey) -> ProgramWindows:
    programs = state.windows.programs
    windows = programs.pop(key, None) or ProgramWindows()
    programs[key] = windows  # the most recently used program is last
    if len(programs) > MAX_PROGRAMS:
        del programs[next(iter(programs))]
    return windows


def _number(windows: ProgramWindows, ids: Collection[LaunchId], slot: int | None) -> int:
    """Return the window number. Windows of several hosts have one number if they share a launch.

    Windows without numbered launches have one number if they were taken in the same slot.
    """
    for each in ids:
        if each in windows.pending:
            return windows.pending[each].window_number
        if each in windows.evaluated:
            return windows.evaluated[each]
    slot = None if any(isinstance(each, int) for each in ids) else slot
    if slot is None or slot != windows.slot:
        windows.last_number += 1
        windows.slot = slot
    return windows.last_number


def _is_overdue(windows: ProgramWindows) -> bool:
    return any(
        each.window_number <= windows.last_number - WINDOWS_TO_WAIT for each in windows.pending.values()
    )


def _evaluate(
    state: ClusterState, key: ProgramKey, windows: ProgramWindows, layout: Layout | None
) -> set[str]:
    expected = _expected(state, key, windows, layout)
    # While some processes are unknown, the set of expected agents is incomplete.
    is_met = layout is None or layout.is_met
    due = [
        launch
        for launch, each in windows.pending.items()
        if not isinstance(launch, int)
        or each.window_number <= windows.last_number - WINDOWS_TO_WAIT
        or (is_met and len(each.launches) >= len(expected) and expected <= each.launches.keys())
    ]
    ops: set[str] = set()
    for launch in due or _too_many(windows):
        pending = windows.pending.pop(launch)
        windows.evaluated[launch] = pending.window_number
        if len(windows.evaluated) > MAX_EVALUATED:
            del windows.evaluated[next(iter(windows.evaluated))]
        ops |= _close(windows, pending, layout, expected)
    return ops


def _expected(
    state: ClusterState, key: ProgramKey, windows: ProgramWindows, layout: Layout | None
) -> set[str]:
    """Return the agents that take part and report windows. At first all that take part are expected."""

    def derive() -> set[str]:
        members = windows.last_number_of_agent if layout is None or not layout.places else layout.places
        newest, reported = windows.last_number, windows.last_number_of_agent
        return {agent for agent in members if newest - reported.get(agent, 0) <= WINDOWS_TO_WAIT}

    if layout is None:
        return derive()
    return state.derived.of("expected", key, state.windows.programs, (windows.last_number, layout), derive)


def _too_many(windows: ProgramWindows) -> list[LaunchId]:
    if len(windows.pending) <= MAX_PENDING:
        # No row has more reports than agents, so most windows need no count of all.
        rows = sum(len(each.rows) for each in windows.pending.values())
        if rows * len(windows.last_number_of_agent) <= MAX_PENDING_ROWS:
            return []
        reports = sum(len(of_op) for each in windows.pending.values() for of_op in each.rows.values())
        if reports <= MAX_PENDING_ROWS:
            return []
    return list(windows.pending)[: max(1, len(windows.pending) // 4)]


def _close(
    windows: ProgramWindows, pending: PendingLaunch, layout: Layout | None, expected: set[str]
) -> set[str]:
    """Time the ops of a launch and return those that could be timed."""
    if not are_one(pending, layout):
        windows.unmatched += 1
        return set()
    launches = pending.launches.values()
    windows.shares = (*windows.shares, *_share(pending.window_number, launches))[-MAX_LAUNCHES:]
    launch_us = round(median(each.duration_us for each in launches))
    by_op: dict[str, list[Mapping[str, Durations]]] = {}
    for op, number in sorted(pending.rows):
        by_op.setdefault(op, []).append(pending.rows[op, number])
    without_report = places_without_report(layout, expected) if layout is not None else set()
    touched = set()
    for op, rounds in by_op.items():
        before = windows.timings.get(op, ())
        if (not before and len(windows.timings) >= MAX_OPS) or _is_full(before, pending.window_number):
            continue
        grouped = layout.groups_of(op) if layout is not None else None
        if layout is not None and grouped is not None:
            timing = timing_of(
                Participants(layout, grouped, without_report), rounds, pending.window_number, launch_us
            )
        else:
            timing = timing_of_unknown_groups(rounds, pending.window_number, launch_us)
        if timing is not None:
            windows.timings[op] = _with_timing_added(before, timing)
            touched.add(op)
    return touched


def _share(window: int, launches: Iterable[wire.Launch]) -> list[LaunchShare]:
    known = [each for each in launches if each.collective_us is not None]
    exposed = [each.exposed_us for each in known if each.exposed_us is not None]
    if not known:
        return []
    return [
        LaunchShare(
            window,
            sum(each.duration_us for each in known),
            sum(each.collective_us or 0 for each in known),
            sum(exposed) if len(exposed) == len(known) else None,
        )
    ]


def _is_full(before: tuple[Timing, ...], window: int) -> bool:
    """Return whether enough launches of this window are kept, so that earlier windows keep their room."""
    of_window = sum(each.window_number == window for each in before)
    return of_window >= max(1, _room(before) // COUNTED_WINDOWS) if of_window else False


def _room(timings: tuple[Timing, ...]) -> int:
    devices = max(1, len(timings[-1].by_device or ()))
    return min(MAX_LAUNCHES, max(MIN_LAUNCHES, LAUNCHES_BUDGET // devices))


def _with_timing_added(before: tuple[Timing, ...], now: Timing) -> tuple[Timing, ...]:
    if before and before[-1].grouped is not now.grouped and before[-1].grouped != now.grouped:
        return (now,)  # the participants have changed
    kept = [*before, now]
    numbers = sorted({each.window_number for each in kept})[-COUNTED_WINDOWS:]
    kept = [each for each in kept if each.window_number >= numbers[0]]
    del kept[: -_room((now,))]
    by_device = max(MIN_LAUNCHES_BY_DEVICE, LAUNCHES_BY_DEVICE_BUDGET // max(1, len(now.by_device or ())))
    for i, each in enumerate(kept[:-by_device]):
        if each.by_device is not None:
            kept[i] = each._replace(by_device=None)
    return tuple(kept)
