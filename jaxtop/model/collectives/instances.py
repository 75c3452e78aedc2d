"""The windows of all hosts, joined launch by launch to find which units waited and which came last.

An instance is identified by program, run id, op and round, which are the same on all hosts. The clocks of
hosts are never compared. A launch is evaluated when every agent that reports windows has reported it, or when
it is `WINDOWS_TO_WAIT` windows old. In the second case, only groups whose members have all reported it count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import zip_longest
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jaxtop.model.collectives.timing import Participants, Timing, silent_places, timed, timed_alone
from jaxtop.model.collectives.verdict import (
    AT_LEAST_US,
    AT_LEAST_US_ON_CPU,
    MISSING,
    STAYS,
    Arrivals,
    Verdict,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from jaxtop import wire
    from jaxtop.model.collectives.layout import Layout, ProgramKey, Unit
    from jaxtop.model.collectives.timing import Durations
    from jaxtop.model.host import Host

# The number of complete launches that are kept of each collective. Collectives with many devices keep fewer
# launches, and their waits by device in fewer still. One window may fill only its part, so that the last
# `WINDOWS_KEPT` windows have room.
MOST_LAUNCHES, FEWEST_LAUNCHES, LAUNCHES_OF, WINDOWS_KEPT = 64, 24, 1 << 17, 8
FEWEST_BY_DEVICE, BY_DEVICE_OF = 4, 1 << 15
# After this many windows a launch is evaluated as it is, and an agent that reported no window since is no
# longer expected. A viewer that joins late receives the last windows of each process together, so this is no
# less than the number of windows that agents keep.
WINDOWS_TO_WAIT = 4
MOST_PENDING, MOST_PENDING_ROWS = 1024, 200_000
MOST_PROGRAMS, MOST_OPS, MOST_CLOSED = 256, 2048, 2048


class LaunchShare(NamedTuple):
    """The duration of a launch and its time in collectives, summed over the processes that reported both."""

    duration_us: int
    collective_us: int
    exposed_us: int | None


class Named(NamedTuple):
    """A verdict on one team of a collective, with the number of the team."""

    team: int
    unit: Unit
    verdict: Verdict


class VerdictChange(NamedTuple):
    """A verdict that appeared, moved to another unit or was withdrawn."""

    key: ProgramKey
    op: str
    before: Named | None
    now: Named | None


@dataclass
class Pending:
    """A launch that some agents have not reported yet, with the rows of each agent by op and round."""

    window: int
    launches: dict[str, wire.Launch] = field(default_factory=dict)
    rows: dict[tuple[str, int], dict[str, Durations]] = field(default_factory=dict)

    def copy(self) -> Pending:
        rows = {key: reports.copy() for key, reports in self.rows.items()}
        return Pending(self.window, self.launches.copy(), rows)


@dataclass
class Seen:
    """What windows reported of one program: pending launches and the results of earlier ones."""

    window: int = 0
    told: dict[str, int] = field(default_factory=dict)  # the window that each agent reported last
    pending: dict[int, Pending] = field(default_factory=dict)
    closed: dict[int, int] = field(default_factory=dict)  # the window of each launch that was evaluated
    timings: dict[str, tuple[Timing, ...]] = field(default_factory=dict)
    shares: tuple[LaunchShare, ...] = ()
    named: dict[str, tuple[Named, ...]] = field(default_factory=dict)
    # The agents that are expected to report, with the window and the layout for which they were found.
    expected: tuple[int, Layout | None, set[str]] | None = field(default=None, repr=False, compare=False)

    def copy(self) -> Seen:
        return replace(
            self,
            told=self.told.copy(),
            pending={run_id: each.copy() for run_id, each in self.pending.items()},
            closed=self.closed.copy(),
            timings=self.timings.copy(),
            named=self.named.copy(),
        )


@dataclass
class Instances:
    """All programs that windows reported. `changes` and `facts` tell views when to derive again."""

    seen: dict[ProgramKey, Seen] = field(default_factory=dict)
    changes: int = 0
    facts: int = 0
    inventories: dict[tuple[str, str | None], wire.Inventory] = field(default_factory=dict)

    def frozen(self) -> Instances:
        """Return a copy of the current state."""
        return replace(
            self,
            seen={key: each.copy() for key, each in self.seen.items()},
            inventories=self.inventories.copy(),
        )

    def shared(self, inventory: wire.Inventory) -> wire.Inventory:
        """Return the inventory with lists shared by all processes that load the same program."""
        self.facts += 1
        key = inventory.program, inventory.fingerprint
        known = self.inventories.get(key)
        if known is None or known.groups != inventory.groups or known.collectives != inventory.collectives:
            self.inventories[key] = inventory
            return inventory
        return msgspec.structs.replace(inventory, groups=known.groups, collectives=known.collectives)

    def keep(self, runs: Container[str], hosts: Mapping[str, Host]) -> None:
        """Keep only what belongs to these runs, and within them to these agents."""
        self.facts += 1
        self.changes += 1
        self.seen = {key: each for key, each in self.seen.items() if key[0] in runs}
        for each in self.seen.values():
            each.told = {agent: window for agent, window in each.told.items() if agent in hosts}
            each.expected = None
        loaded = {key for host in hosts.values() for key in host.inventories}
        self.inventories = {key: each for key, each in self.inventories.items() if key in loaded}

    def take(
        self,
        agent: str,
        run: str,
        window: wire.Window,
        layout_of: Callable[[ProgramKey], Layout | None],
        may_be_met: Callable[[ProgramKey], bool],
    ) -> list[VerdictChange]:
        """Add a window and return the verdicts that it changed.

        Layouts are expensive to derive while hosts still connect. One is requested only if all hosts of a
        program may have connected, or if launches are overdue or too many.
        """
        self.changes += 1
        rows: dict[int, list[wire.Timed]] = {}
        for each in window.timed:
            rows.setdefault(each.launch, []).append(each)
        by_program: dict[int, list[int]] = {}
        for i, launch in enumerate(window.launches):
            by_program.setdefault(launch.program, []).append(i)
        changes: list[VerdictChange] = []
        for program, launches in by_program.items():
            key = (run, *window.programs[program])
            seen = self._seen(key)
            number = _number(seen, [window.launches[i].run_id for i in launches])
            seen.told[agent] = number
            for i in launches:
                launch = window.launches[i]
                if launch.run_id in seen.closed:
                    continue
                pending = seen.pending.setdefault(launch.run_id, Pending(number))
                pending.launches[agent] = launch
                for row in rows.get(i, ()):
                    of_op = pending.rows.setdefault((window.ops[row.op], row.occurrence), {})
                    of_op[agent] = row.durations_us
            if may_be_met(key) or _is_overdue(seen) or _too_many(seen):
                changes += _settle(key, seen, layout_of(key))
        return changes

    def _seen(self, key: ProgramKey) -> Seen:
        seen = self.seen.pop(key, None) or Seen()
        self.seen[key] = seen  # the most recently used program is last
        if len(self.seen) > MOST_PROGRAMS:
            del self.seen[next(iter(self.seen))]
        return seen


def _number(seen: Seen, run_ids: list[int]) -> int:
    """Return the window number. Windows of several hosts have one number if they share a launch."""
    for run_id in run_ids:
        if run_id in seen.pending:
            return seen.pending[run_id].window
        if run_id in seen.closed:
            return seen.closed[run_id]
    seen.window += 1
    return seen.window


def _is_overdue(seen: Seen) -> bool:
    return any(each.window <= seen.window - WINDOWS_TO_WAIT for each in seen.pending.values())


def _settle(key: ProgramKey, seen: Seen, layout: Layout | None) -> list[VerdictChange]:
    expected = _expected(seen, layout)
    # While some processes are unknown, the set of expected agents is incomplete.
    is_known = layout is None or layout.is_met
    due = [
        run_id
        for run_id, each in seen.pending.items()
        if each.window <= seen.window - WINDOWS_TO_WAIT
        or (is_known and len(each.launches) >= len(expected) and expected <= each.launches.keys())
    ]
    ops: set[str] = set()
    for run_id in due or _too_many(seen):
        pending = seen.pending.pop(run_id)
        seen.closed[run_id] = pending.window
        if len(seen.closed) > MOST_CLOSED:
            del seen.closed[next(iter(seen.closed))]
        ops |= _close(seen, pending, layout, expected)
    return [change for op in sorted(ops) for change in _judge(key, seen, op, layout)]


def _expected(seen: Seen, layout: Layout | None) -> set[str]:
    """Return the agents that take part and report windows. At first all that take part are expected."""
    known = seen.expected
    if known is not None and layout is not None and known[0] == seen.window and known[1] is layout:
        return known[2]
    members = seen.told if layout is None or not layout.places else layout.places
    found = {agent for agent in members if seen.window - seen.told.get(agent, 0) <= WINDOWS_TO_WAIT}
    seen.expected = seen.window, layout, found
    return found


def _too_many(seen: Seen) -> list[int]:
    rows = sum(len(of_op) for each in seen.pending.values() for of_op in each.rows.values())
    if len(seen.pending) <= MOST_PENDING and rows <= MOST_PENDING_ROWS:
        return []
    return list(seen.pending)[: max(1, len(seen.pending) // 4)]


def _close(seen: Seen, pending: Pending, layout: Layout | None, expected: set[str]) -> set[str]:
    told = pending.launches.values()
    seen.shares = (*seen.shares, *_share(told))[-MOST_LAUNCHES:]
    launch_us = round(median(each.duration_us for each in told))
    by_op: dict[str, list[Mapping[str, Durations]]] = {}
    for op, occurrence in sorted(pending.rows):
        by_op.setdefault(op, []).append(pending.rows[op, occurrence])
    silent = silent_places(layout, expected) if layout is not None else set()
    touched = set()
    for op, rounds in by_op.items():
        before = seen.timings.get(op, ())
        if (not before and len(seen.timings) >= MOST_OPS) or _is_full(before, pending.window):
            continue
        grouped = layout.groups_of(op) if layout is not None else None
        if layout is not None and grouped is not None:
            timing = timed(Participants(layout, grouped, silent), rounds, pending.window, launch_us)
        else:
            timing = timed_alone(rounds, pending.window, launch_us)
        if timing is not None:
            seen.timings[op] = _kept(before, timing)
            touched.add(op)
    return touched


def _share(told: Iterable[wire.Launch]) -> list[LaunchShare]:
    known = [each for each in told if each.collective_us is not None]
    exposed = [each.exposed_us for each in known if each.exposed_us is not None]
    if not known:
        return []
    return [
        LaunchShare(
            sum(each.duration_us for each in known),
            sum(each.collective_us or 0 for each in known),
            sum(exposed) if len(exposed) == len(known) else None,
        )
    ]


def _is_full(before: tuple[Timing, ...], window: int) -> bool:
    """Return whether enough launches of this window are kept, so that earlier windows keep their room."""
    of_window = sum(each.window == window for each in before)
    return of_window >= max(1, _room(before) // WINDOWS_KEPT) if of_window else False


def _room(timings: tuple[Timing, ...]) -> int:
    devices = max(1, len(timings[-1].by_device or ()))
    return min(MOST_LAUNCHES, max(FEWEST_LAUNCHES, LAUNCHES_OF // devices))


def _kept(before: tuple[Timing, ...], now: Timing) -> tuple[Timing, ...]:
    if before and before[-1].grouped is not now.grouped:
        return (now,)  # the participants have changed
    kept = [*before, now]
    del kept[: -_room((now,))]
    by_device = max(FEWEST_BY_DEVICE, BY_DEVICE_OF // max(1, len(now.by_device or ())))
    for i, each in enumerate(kept[:-by_device]):
        if each.by_device is not None:
            kept[i] = each._replace(by_device=None)
    return tuple(kept)


def _judge(key: ProgramKey, seen: Seen, op: str, layout: Layout | None) -> list[VerdictChange]:
    timings = seen.timings[op]
    grouped = timings[-1].grouped
    before = seen.named.get(op, ())
    if grouped is None or layout is None:
        seen.named.pop(op, None)
        return [VerdictChange(key, op, each, None) for each in before]
    at_least_us = AT_LEAST_US_ON_CPU if layout.is_cpu else AT_LEAST_US
    of_unit = {each.unit: each for each in before}
    lately = [each for each in timings if each.window == timings[-1].window]
    found = []
    for number, team in enumerate(grouped.teams):
        if 2 * sum(_widest(each.arrivals[number]) >= at_least_us * STAYS / 2 for each in lately) < len(
            lately
        ):
            continue  # most teams are never late, so this check saves most of the work
        named = next((i for i, unit in enumerate(team.units) if unit in of_unit), None)
        found_here = verdict(arrivals_of(timings, number), named, at_least_us)
        if found_here is not None:
            found.append(Named(number, team.units[found_here.unit], found_here))
    seen.named[op] = tuple(found)
    now = {each.unit: each for each in found}
    gone = [each for unit, each in of_unit.items() if unit not in now]
    come = [each for unit, each in now.items() if unit not in of_unit]
    pairs = zip_longest(gone, come)  # a withdrawn and a new verdict are paired as one that moved
    return [VerdictChange(key, op, was, each) for was, each in pairs]


def arrivals_of(timings: Sequence[Timing], team: int) -> list[Arrivals]:
    """Return the waits of a team in each launch that at least two of its units reported."""
    return [
        Arrivals(each.window, each.launch_us, each.arrivals[team])
        for each in timings
        if len(each.arrivals[team]) - each.arrivals[team].count(MISSING) > 1
    ]


def _widest(waits: Sequence[int]) -> int:
    most = max(waits)
    return most if most != MISSING else max((each for each in waits if each != MISSING), default=0)
