"""The thread that follows the process, and ends it once the whole run is stuck."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop import transport, wire
from jaxtop.base import debuglog, keys, units
from jaxtop_agent.core import threads
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.stuck import usage
from jaxtop_agent.stuck.agreement import REPORT_EVERY_S, VALID_S, Notice, StillReports, pace
from jaxtop_agent.stuck.standstill import Observation, Standstill

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jaxtop_agent.core.board import Board, Topology
    from jaxtop_agent.hooks.jax import Hooks
    from jaxtop_agent.ledger.phases import Phases
    from jaxtop_agent.ledger.thread import LedgerThread
    from jaxtop_agent.steps.progress import Progress

NAME = "end if stuck"
SHORTEST_S, LONGEST_S, SHARE = 0.2, 2.0, 0.02
# While a process is stuck, it looks this often, to learn in time what the others say.
STUCK_S = 0.5
# What the main thread does that moves by itself, by kind of the ledger.
BUSY = {
    "starting": "starts",
    "compiling": "compiles",
    "cached": "compiles",
    "saving": "saves",
    "restoring": "restores",
    "input": "collects input",
}
MOST_NAMED = 8


class Decision(NamedTuple):
    """The decision to end this process: why, in words, and when it exits."""

    why: str
    exits_at: float


class StuckWatch:
    """Follows the process on its own thread, reports to process 0 or decides there, and calls `end`."""

    def __init__(
        self,
        board: Board,
        hooks: Hooks,
        progress: Progress,
        phases: Phases,
        ledger: LedgerThread,
        *,
        own_threads: Callable[[], Collection[int]],
        limit: float,
    ) -> None:
        self._board, self._hooks, self._progress, self._phases = board, hooks, progress, phases
        self._ledger, self._own_threads = ledger, own_threads
        self._limit = limit
        self.end: Callable[[Decision], None] = lambda _: None  # set before it runs
        self._standstill = Standstill(limit, time.monotonic(), self._read)
        self._looked_at = time.monotonic()
        self.agreement = StillReports()
        self._report = _ReportToFirst()
        board.sources[NAME] = self._on = f"on: after {units.age(limit)}"

    def run(self) -> None:
        """Follow it until the agent stops. A failure turns off only this: then nothing is ended."""
        board = self._board
        try:
            while not board.stopping:
                wait(board.wakeups.stuck, self._until_next())
                if not board.stopping and (decision := self.check(time.monotonic())) is not None:
                    self.end(decision)
        except Exception as error:
            debuglog.warning(NAME, "the process is not ended if it is stuck", error=error)
            board.switch_off(NAME, error)
            self.agreement.ends_at = None
        finally:
            self._report.close()

    def _until_next(self) -> float:
        if self._standstill.is_stuck:
            return STUCK_S
        return min(LONGEST_S, max(SHORTEST_S, SHARE * self._limit))

    def check(self, now: float) -> Decision | None:
        """Look once; return the decision to end now, if it is made."""
        board, standstill, topology = self._board, self._standstill, self._board.sampler.topology
        standstill.update(now, self._observe(topology))
        self._looked_at = now
        is_stuck, roster = standstill.is_stuck, board.registrar.roster
        count = 1 if topology is None else topology.process_count
        run = (roster.run if roster is not None else None) or ""
        ends, waits, exits_at = False, "", 0.0
        if topology is None:
            pass
        elif topology.process_index == 0:
            missing = self.agreement.missing(count, run, now) if is_stuck else []
            ends = self.agreement.decide(is_stuck=is_stuck, missing=missing, count=count, now=now)
            exits_at = now if count == 1 else self.agreement.exits_at
            waits = f"{_named(missing)} of the run did not say the same" if missing else ""
        else:
            still = wire.Still(run, topology.process_index, round(standstill.for_s * 1000))
            waits = self._report.exchange(roster, still if is_stuck else None, now, count)
            ends = self._report.notice.decide(is_stuck=is_stuck, now=now, count=count)
            exits_at = self._report.notice.exits_at
        self._say(is_stuck=is_stuck, waits=waits)
        if not ends:
            return None
        whole = "the run" if count == 1 else f"all {count} processes of the run"
        return Decision(f"{whole} stood still for {units.age(standstill.for_s)}", exits_at)

    def _say(self, *, is_stuck: bool, waits: str) -> None:
        state = self._on
        if is_stuck:
            state += "; this process is stuck" + (f", but {waits}" if waits else "")
        elif moves := self._standstill.moves_without_launches:
            state += f"; this process launches nothing, but is not stuck: {moves}"
        if self._board.sources.get(NAME) != state:
            self._board.sources[NAME] = state

    def _observe(self, topology: Topology | None) -> Observation:
        hooks, is_in_jax = self._hooks, self._ledger.is_in_jax
        launched_at, compiled_at = hooks.last_launch()[0], hooks.compiled_at()
        is_accelerator = topology is not None and topology.platform.lower() != "cpu"
        return Observation(
            max(launched_at, compiled_at, self._progress.last_at, self._saved_at()),
            self._busy(is_first=is_accelerator and is_in_jax and compiled_at > launched_at),
            # The host spins while it waits for an accelerator, in threads of libraries: only Python counts.
            _runs_python() if is_accelerator and is_in_jax else bool,
        )

    def _busy(self, *, is_first: bool) -> str:
        """Return what the process does that moves by itself, or why nobody can tell; else empty."""
        stalls, seen_at = self._board.sources.get("stalls", ""), self._ledger.seen_at
        read = self._board.hardware.readings
        is_read = time.monotonic() - read.at <= read.valid_s
        found = (
            (not self._ledger.has_stepped, "has not begun its steps"),
            (stalls != "on", f"cannot be judged: stalls are {stalls}"),
            (bool(self._hooks.compiling()), "compiles"),
            *((each.kind in BUSY, BUSY.get(each.kind, "")) for each in self._phases.running()),
            *((seen_at.get(kind, 0.0) >= self._looked_at, words) for kind, words in BUSY.items()),
            (is_first, "runs a program for the first time"),
            # What computes uses these units, and a wait for others does not.
            (is_read and any(read.columns.get("tensor_permille") or ()), "its devices compute"),
        )
        return next((words for holds, words in found if holds), "")

    def _saved_at(self) -> float:
        reports = self._hooks.checkpoints
        if reports is None:
            return 0.0
        last = (reports.complete.copy(), reports.blocked.copy())
        return max(last[0][-1][0] if last[0] else 0.0, last[1][-1].end if last[1] else 0.0)

    def _read(self, now: float) -> usage.Usage:
        return usage.read(now, self._own_threads(), frozenset(self._ports()))

    def _ports(self) -> list[int]:
        """Return the ports of the agent and of JAX's coordination service: they always have traffic."""
        board, found = self._board, []
        topology, roster = board.sampler.topology, board.registrar.roster
        first = _first_of(roster)
        addresses = [board.publisher.requests, board.publisher.telemetry, first]
        addresses.append((topology and topology.coordinator) or "")
        for address in addresses:
            with suppress(ValueError):
                found.append(int(address.rpartition(":")[2]))
        return found


class _ReportToFirst:
    """Sends the reports of a process to the agent of process 0, and reads the answers."""

    def __init__(self) -> None:
        self.notice = Notice()
        self._context: Any = None
        self._question: transport.RequestConnection | None = None
        self._asked_at = self._answered_at = 0.0
        self._said = ""

    def exchange(self, roster: wire.Roster | None, still: wire.Still | None, now: float, count: int) -> str:
        """Report it if there is something to report; return why the others do not end, if that is known."""
        if still is None:
            self.close()
            return ""
        if self._question is not None:
            self._read(now)
        if self._question is None and now - self._asked_at >= REPORT_EVERY_S * pace(count):
            self._asked_at = now
            self._ask(_first_of(roster), still)
        return self._said

    def _ask(self, address: str, still: wire.Still) -> None:
        import zmq

        if not address or not still.run:
            self._said = "the agent of process 0 is not known here"
            return
        try:
            pair = keys.load()
            if self._context is None:
                self._context = zmq.Context()
            raw = wire.encode(wire.Request("still", still=still))
            self._question = transport.RequestConnection(self._context, pair, pair.public, address, raw)
        except (keys.NoKey, OSError, zmq.ZMQError) as error:
            self._said = f"process 0 cannot be asked: {error}"

    def _read(self, now: float) -> None:
        assert self._question is not None
        answer = self._question.reply()
        if answer is None:
            if now - self._asked_at > VALID_S:
                self._said = "the agent of process 0 does not answer"
                self._drop()
            return
        self._drop()
        try:
            reply: wire.Reply = wire.decode_as(wire.Reply, answer[0])
        except (wire.Unreadable, IndexError) as error:
            self._said = f"process 0 cannot be understood: {error}"
            return
        if reply.error:
            self._said = f"process 0 says: {reply.error}"
            return
        self._said = "" if reply.ends_in_ms is not None else "process 0 has not heard the same of all"
        self.notice.hear(reply.ends_in_ms, now)

    def _drop(self) -> None:
        if self._question is not None:
            self._question.close()
            self._question = None

    def close(self) -> None:
        self._drop()
        self._said = ""
        context, self._context = self._context, None
        if context is not None:
            context.destroy(linger=0)


def _first_of(roster: wire.Roster | None) -> str:
    """Return the address of the agent of process 0; empty where it is not known."""
    peers = () if roster is None else roster.peers
    return next((each.requests for each in peers if each.process_index == 0), "")


def _runs_python() -> Callable[[int], bool]:
    """Return which threads run Python, by their native ids, without the main thread."""
    main = threads.main_ident()
    listed = threads.listed().items()
    found = {threads.fact(each, "_native_id", 0) for ident, each in listed if ident != main}
    return found.__contains__


def _named(missing: list[int]) -> str:
    named = ", ".join(map(str, missing[:MOST_NAMED]))
    more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    return f"process{'es' if len(missing) > 1 else ''} {named}{more}"
