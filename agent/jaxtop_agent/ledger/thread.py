"""The thread that keeps the ledger of this process: it adds up, sends and writes the sums."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from jaxtop import wire
from jaxtop.base import debuglog, processes
from jaxtop.base.clock import now_ms
from jaxtop_agent import jaxprivate
from jaxtop_agent.core import threads
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.hooks.launches import MAX_LAUNCHES
from jaxtop_agent.ledger.account import Account
from jaxtop_agent.ledger.evidence import StackKinds, evaluates
from jaxtop_agent.ledger.pieces import (
    COMPILING,
    GARBAGE,
    IN_SCRIPT,
    ORBAX,
    PHASE,
    LaunchAt,
    Sighting,
    Span,
)
from jaxtop_agent.ledger.written_bytes import written_bytes
from jaxtop_agent.logged.courses import Courses

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.hooks.jax import Hooks
    from jaxtop_agent.ledger.file import LedgerWriter
    from jaxtop_agent.ledger.phases import Phases
    from jaxtop_agent.served.scraper import Scraper
    from jaxtop_agent.steps.pattern import FunctionLaunch
    from jaxtop_agent.steps.progress import Progress

NAME = "ledger"
EVERY_S, SEND_EVERY_S, POINT_EVERY_S = 2.0, 10.0, 10.0
# The age from which a process updates its ledger less often: a kill then loses a small share of the account.
OLD_PROCESS_S = 120.0
# The seconds between two updates of an older process.
OLD_PROCESS_INTERVAL_S = 4.0
# With more launches between two updates the interval stays short: only `MAX_LAUNCHES` are remembered.
MAX_LAUNCHES_PER_TURN = MAX_LAUNCHES // 4
MOST_SAMPLES = 2048
# Steps begin with the first launch of a function that is launched this often.
MIN_FIRST_STEP_LAUNCHES = 3
# For this long after the first step, there are few samples of steps yet.
NEW_FOR_S = 30.0
# Or they begin when this many looks in a row find this many launches of JAX's own functions each.
BUSY_LOOKS, MANY_OPERATIONS = 5, 100
# A save that samples saw this close to a reported one is the same. Reports of the same save differ by less.
SAME_SEEN_MS, SAME_REPORTED_MS = 1000, 50
# `agent.step()` stands for a function where launches are not counted.
REPORTED_STEP = -2


class LedgerThread:
    """Keeps the account on its own thread; `sample` is called by the thread that reads stacks."""

    def __init__(
        self,
        board: Board,
        hooks: Hooks,
        progress: Progress,
        phases: Phases,
        writer: LedgerWriter | None,
        *,
        scraper: Scraper | None = None,
    ) -> None:
        self._board, self._hooks, self._progress, self._phases = board, hooks, progress, phases
        self._writer = writer
        age = _age()
        self._started_ms = now_ms() - round(age * 1000)
        self._began = time.monotonic() - age
        self._account = Account(self._began)
        # What was before the first sample, such as imports, is not what the first sample shows.
        self._account.note([Sighting(time.monotonic(), IN_SCRIPT)])
        self.stacks = StackKinds()  # used on the thread that reads stacks
        # When the main thread last did each kind, and whether it was last seen in JAX.
        self.seen_at: dict[str, float] = {}
        self.is_in_jax = False
        self._scalars: Courses | None = Courses(board, progress, hooks.trackers, scraper, self._started_ms)
        self._samples: deque[Sighting] = deque(maxlen=MOST_SAMPLES)
        self._launched_ns = 0
        self._recent: deque[LaunchAt] = deque(maxlen=MAX_LAUNCHES)
        self._seen: Counter[int] = Counter()  # launches by function, until steps have begun
        self._first: dict[int, float] = {}
        self._has_launched, self._launched_lately = False, 0
        self._stepping_at: float | None = None  # when steps were found
        self._busy: list[float] = []  # the first launches of consecutive looks that found many
        self._noted_until = dict.fromkeys(("phases", "blocked", "complete"), 0.0)
        self._compiled_ms = 0
        self._blocked: list[tuple[float, float, str]] = []  # saves that ended, by whom they were seen
        # How many bytes the process had written, by time: for the bytes of checkpoints.
        self._written: deque[tuple[float, int]] = deque(maxlen=MAX_LAUNCHES)
        self._saves: deque[wire.Save] = deque(maxlen=wire.MOST_SAVES)
        self._points: list[wire.LedgerPoint] = []
        self._point_every_ms = POINT_EVERY_S * 1000
        self._sent_at = 0.0
        board.sources[NAME] = "on"

    @property
    def is_new(self) -> bool:
        """Whether steps began only recently, or not yet: samples come more often then."""
        return self._stepping_at is None or time.monotonic() - self._stepping_at < NEW_FOR_S

    @property
    def has_stepped(self) -> bool:
        """Whether steps were launched."""
        return self._stepping_at is not None

    def sample(self, kind: str, *, is_in_jax: bool) -> None:
        """Note what the main thread does now."""
        now = time.monotonic()
        self._samples.append(Sighting(now, kind))
        self.seen_at[kind], self.is_in_jax = now, is_in_jax

    def run(self) -> None:
        """Keep the account until the agent stops. A failure turns off only this source."""
        board = self._board
        try:
            while not board.stopping:
                self._look(is_over=False)
                self._read_scalars(Courses.look)
                wait(board.wakeups.ledger, self._pause())
            self._look(is_over=True)
            self._read_scalars(Courses.finish)
        except Exception as error:
            debuglog.warning(NAME, "the ledger is not kept any more", error=error)
            board.switch_off(NAME, error)
            board.ledger.latest = None
        finally:
            board.ledger.is_final = True

    def _pause(self) -> float:
        """Return the seconds until the next look."""
        is_old = time.monotonic() - self._began > OLD_PROCESS_S
        return (
            OLD_PROCESS_INTERVAL_S if is_old and self._launched_lately <= MAX_LAUNCHES_PER_TURN else EVERY_S
        )

    def _read_scalars(self, read: Callable[[Courses], None]) -> None:
        """Follow the scalars of the script: on this thread, since a disk may keep the one that reads."""
        if self._scalars is None:
            return
        try:
            read(self._scalars)
        except Exception as error:
            debuglog.warning("logged", "scalars of the script are not read any more", error=error)
            self._scalars = None

    def _look(self, *, is_over: bool) -> None:
        now, account = time.monotonic(), self._account
        launches, is_whole = self._new_launches()
        self._launched_lately = len(launches)
        self._has_launched |= bool(launches)
        account.note(self._taken_samples(), self._new_spans(now))
        if (written := written_bytes()) is not None:
            self._written.append((now, written))
        launches = self._find_first_step(launches)
        account.close(launches, now, is_whole=is_whole, is_stuck=self._board.publisher.is_stuck)
        self._recent.extend(launches)
        if is_over:
            account.finish(now)
        self._note_saves()
        self._publish(now, is_over=is_over)

    # New observations

    def _new_launches(self) -> tuple[list[LaunchAt], bool]:
        hook = self._hooks.launched
        if hook is None:
            calls = self._progress.calls_since(self._launched_ns)
            self._launched_ns = calls[-1].at if calls else self._launched_ns
            return [LaunchAt(each.at / 1e9, REPORTED_STEP) for each in calls], True
        is_whole = hook.reaches_back(self._launched_ns)
        found: list[FunctionLaunch] = hook.all_since(self._launched_ns)
        if not found:
            return [], True
        self._launched_ns = found[-1].at
        evaluating = {number for number, name in hook.names().items() if evaluates(name)}
        return [
            LaunchAt(each.at / 1e9, each.function, each.function in evaluating) for each in found
        ], is_whole

    def _taken_samples(self) -> list[Sighting]:
        taken = []
        with suppress(IndexError):
            while True:
                taken.append(self._samples.popleft())
        return taken

    def _new_spans(self, now: float) -> list[Span]:
        main, until = threads.main_ident(), self._noted_until
        ended = [each for each in self._phases.ended.copy() if each.end > until["phases"]]
        until["phases"] = max((each.end for each in ended), default=until["phases"])
        self._blocked += [(each.start, each.end, "phase") for each in ended if each.kind == "saving"]
        phases = (*ended, *self._phases.running())
        found = [Span(each.start, each.end, each.kind, PHASE) for each in phases]
        hook = self._hooks.checkpoints
        if hook is not None:
            blocked = [each for each in hook.blocked.copy() if each.end > until["blocked"]]
            found += [Span(each.start, each.end, each.kind, ORBAX) for each in blocked if each.thread == main]
            self._blocked += [(each.start, each.end, "orbax") for each in blocked if each.kind == "saving"]
            until["blocked"] = max((each.end for each in blocked), default=until["blocked"])
        ahead = now - now_ms() / 1000
        compiled = [each for each in self._hooks.compiled() if each.end_ms > self._compiled_ms]
        self._compiled_ms = max((each.end_ms for each in compiled), default=self._compiled_ms)
        for each in compiled:
            if each.thread == main:
                kind = "cached" if each.from_cache else "compiling"
                found.append(Span(each.start_ms / 1000 + ahead, each.end_ms / 1000 + ahead, kind, COMPILING))
        running = self._hooks.compiling()
        if running:
            since = min(each.since_ms for each in running) / 1000 + ahead
            found.append(Span(since, now, "compiling", COMPILING))
        found += [Span(*each, "garbage", GARBAGE) for each in self._hooks.collected()]
        return [each for each in found if each.end > self._account.closed]

    def _find_first_step(self, launches: list[LaunchAt]) -> list[LaunchAt]:
        """Find out whether steps are launched; until then, return the launches and whose they are."""
        if self._stepping_at is not None or not launches:
            return launches
        own = self._functions_of_jax()
        launches = [each._replace(is_jaxs=each.function in own) for each in launches]
        for each in launches:
            if each.is_jaxs or each.evaluates:
                continue
            self._first.setdefault(each.function, each.at)
            self._seen[each.function] += 1
            if self._seen[each.function] >= MIN_FIRST_STEP_LAUNCHES:
                self._begin_steps(self._first[each.function])
                return launches
        self._find_steps_of_operations(launches)
        return launches

    def _find_steps_of_operations(self, launches: list[LaunchAt]) -> None:
        """Find steps that launch nothing but JAX's own functions, as under `jax.disable_jit`.

        A start launches them, too, but compiles nearly each of them.
        """
        self._busy = [*self._busy, launches[0].at] if len(launches) >= MANY_OPERATIONS else []
        if len(self._busy) >= BUSY_LOOKS:
            self._begin_steps(self._busy[0])

    def _begin_steps(self, at: float) -> None:
        self._stepping_at = time.monotonic()
        self._account.steps_began(at)

    def _functions_of_jax(self) -> set[int]:
        hook = self._hooks.launched
        if hook is None:
            return set()
        of_jax = jaxprivate.own_functions()
        named = {number for number, name in hook.names().items() if name in of_jax}
        return (named | {0}) - hook.of_the_script()

    # Messages

    def _note_saves(self) -> None:
        found = self._blocked + [(start, start + each, "stack") for start, each in self._account.saved]
        self._blocked, self._account.saved = [], []
        # What was reported takes precedence over what samples saw of the same save.
        for start, end, seen_by in sorted(found, key=lambda each: (each[2] == "stack", each[0])):
            self._note_save(start, end, seen_by)
        hook, until = self._hooks.checkpoints, self._noted_until
        complete = [each for each in hook.complete.copy() if each[0] > until["complete"]] if hook else []
        for end, start in complete:
            until["complete"] = max(until["complete"], end)
            self._note_complete(start, end)

    def _note_save(self, start: float, end: float, seen_by: str) -> None:
        at_ms, blocked_ms = _wall_ms(start), round((end - start) * 1000)
        tolerance = SAME_SEEN_MS if seen_by == "stack" else SAME_REPORTED_MS
        for each in self._saves:
            if each.at_ms - tolerance <= at_ms <= each.at_ms + each.blocked_ms + tolerance:
                return
        # What the script waits for is complete when it goes on, unless Orbax says that later.
        committed = None if seen_by == "orbax" else at_ms + blocked_ms
        written = None if committed is None else self._written_between(start, end)
        save = wire.Save(at_ms, blocked_ms, committed, self._steps(before=start), seen_by, written)
        self._saves.append(save)
        if self._writer is not None:
            self._writer.note_save(save)

    def _note_complete(self, start: float, end: float) -> None:
        at_ms = _wall_ms(start)
        waiting = [i for i, each in enumerate(self._saves) if each.committed_ms is None]
        nearest = min(waiting, key=lambda i: abs(self._saves[i].at_ms - at_ms), default=None)
        if nearest is None or abs(self._saves[nearest].at_ms - at_ms) > SAME_SEEN_MS:
            return
        self._saves[nearest] = msgspec.structs.replace(
            self._saves[nearest],
            committed_ms=_wall_ms(end),
            written_bytes=self._written_between(start, end),
        )
        if self._writer is not None:
            self._writer.note_save(self._saves[nearest])

    def _written_between(self, start: float, end: float) -> int | None:
        """Return what the process wrote from before `start` until after `end`; None if that is not known."""
        before = [written for at, written in self._written if at <= start]
        after = [written for at, written in self._written if at >= end]
        return after[0] - before[-1] if before and after else None

    def _steps(self, before: float | None = None) -> int | None:
        """Return how many steps were done, or how many of them before a time of the last minutes."""
        if (calls := self._progress.calls) > 0:
            return calls if before is None else calls - len(self._progress.calls_since(round(before * 1e9)))
        hook, function = self._hooks.launched, self._account.main_function
        if hook is None or function is None:
            return None
        later = [each for each in self._recent if before is not None and each.at > before]
        return hook.counts().get(function, 0) - sum(each.function == function for each in later)

    def _publish(self, now: float, *, is_over: bool) -> None:
        board = self._board
        is_stuck = board.publisher.is_stuck
        seconds = self._account.spent(now, is_stuck=is_stuck, is_over=is_over)
        at_ms = now_ms()
        point = wire.LedgerPoint(at_ms, _whole(seconds, at_ms - self._started_ms))
        if not self._points or at_ms - self._points[-1].at_ms >= self._point_every_ms:
            self._points.append(point)
            if len(self._points) > wire.MOST_POINTS:
                self._points = self._points[1::2]
                self._point_every_ms *= 2
        lineage = self._writer.lineage if self._writer is not None else ""
        latest = wire.Ledger(
            at_ms,
            self._started_ms,
            point.spent_ms,
            self._steps(),
            lineage,
            tuple(self._saves),
            is_over=is_over,
        )
        board.ledger.latest = latest
        board.ledger.past = tuple(self._points)
        if board.is_watched and not is_over and now - self._sent_at >= SEND_EVERY_S:
            self._sent_at = now
            board.send(latest, at_once=False)
        if self._writer is not None and (self._has_launched or not _is_worker()):
            self._writer.write(latest, is_over=is_over)


def _is_worker() -> bool:
    """Whether Python's multiprocessing started this process, as it does for those that load data."""
    return processes.of_multiprocessing("parent_process") is not None


def _age() -> float:
    """Return the seconds since this process started."""
    ticks = processes.start_ticks(os.getpid())
    if ticks is None:
        return 0.0
    since_boot: float = time.clock_gettime(time.CLOCK_BOOTTIME)
    return max(0.0, since_boot - ticks / os.sysconf("SC_CLK_TCK"))


def _wall_ms(at: float) -> int:
    return now_ms() - round((time.monotonic() - at) * 1000)


def _whole(seconds: dict[str, float], whole_ms: int) -> tuple[int, ...]:
    """Return milliseconds by kind that sum up to `whole_ms`: what rounding leaves goes to the largest."""
    found = [round(seconds.get(kind, 0.0) * 1000) for kind in wire.SPENT_ON]
    largest = max(range(len(found)), key=found.__getitem__)
    found[largest] = max(0, found[largest] + whole_ms - sum(found))
    while found and not found[-1]:
        found.pop()
    return tuple(found)
