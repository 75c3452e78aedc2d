"""The loaded programs: first their identity, then the compiler's figures, read once per program."""

from __future__ import annotations

import time
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import wire
from jaxtop.base.clock import now_ms
from jaxtop.base.names import program_of
from jaxtop_agent import jaxprivate
from jaxtop_agent.core import budget
from jaxtop_agent.core.board import READING, Board
from jaxtop_agent.core.waiting import release_gil
from jaxtop_agent.programs import executable_summary
from jaxtop_agent.programs.buffers import peaks
from jaxtop_agent.programs.inventories import Inventories, PerLaunch

if TYPE_CHECKING:
    from collections.abc import Generator

    from jaxtop_agent.hooks.launches import Launches
    from jaxtop_agent.programs.compiles.compilations import FunctionCompilations
    from jaxtop_agent.programs.compiles.recompilations import Recompilations
    from jaxtop_agent.programs.executable_summary import Key

# The programs that need the most memory are sent, and the rest as a count: this keeps a message below
# MAX_TELEMETRY.
MOST_PROGRAMS = 300
# The lines of the script that are sent with their compilations.
MOST_LINES = 40
# CPU seconds that one turn may spend on new programs; the rest is read in later turns.
TURN_S = 0.01
# On CPU, JAX makes a text of all buffers to count a program's memory: 50 MB and 0.1 s for 3,000 computations.
MOST_COUNTED_ON_CPU = 400
# The CPU backend records two events: the start of an instruction with its duration, and its end.
EVENTS_AN_INSTRUCTION = 2
# Programs of up to this many computations are read first: they take milliseconds.
SMALL = 64

# JAX reports the end of a compilation shortly after its program appears.
LISTENER_LATE_MS = 10_000


class _Read(msgspec.Struct):
    """The reading of one program; `program` is None if it cannot be read."""

    program: wire.Program | None
    seen_ms: int
    compile_ms: int | None = None
    has_figures: bool = False
    computations: int = 0
    # The profiler events that a launch makes in this process.
    recorded: int | None = None

    def add(self, read: PerLaunch) -> None:
        """Add what was read last."""
        self.has_figures = True
        program, work = self.program, read.work
        if program is None:
            return
        if program.argument_bytes is None and read.sides is not None:
            taken, returned = read.sides
            program = msgspec.structs.replace(program, argument_bytes=taken, output_bytes=returned)
        if work is not None:
            program = msgspec.structs.replace(
                program, flops=work.operations, accessed_bytes=work.bytes, flops_at_least=work.at_least
            )
            if work.executed is not None and program.local_devices is not None:
                self.recorded = EVENTS_AN_INSTRUCTION * work.executed * program.local_devices
        self.program = program


class LoadedPrograms:
    """The loaded programs, sent when they change. No object of JAX is held between two looks."""

    name = "programs"
    share = budget.PROGRAMS
    also_unwatched = False

    def __init__(self, launches: Launches | None = None) -> None:
        self._launches = launches
        self._keys: list[Key] = []  # the newest first, as JAX lists them
        self._read: dict[Key, _Read] = {}
        self._unread = 0
        # The program that is being read; the generator holds its module, not the executable.
        self._reading: tuple[Key, Generator[None, None, PerLaunch]] | None = None
        self._untimed: set[Key] = set()
        self._compiles = 0
        self._last: wire.Programs | None = None
        self._inventories = Inventories()
        self._peaks_sent = 0  # the number of requests for peaks that were answered

    def collect(self, board: Board, client: Any) -> bool:
        if client is not None:
            self._collect(board)
        return bool(self._unread)

    def _collect(self, board: Board) -> None:
        if board.requests.peaks > self._peaks_sent:
            self._peaks_sent = board.requests.peaks
            known = {key: read.program for key, read in self._read.items() if read.program is not None}
            peaks.send(board, known, self._counts())
        topology = board.sampler.topology
        alone = topology is not None and topology.process_count == 1
        is_news = self._look(board, alone=alone) or bool(self._untimed)
        compiles = board.compiles.compiled.copy()
        total = sum(each.count for each in compiles.values())
        if not is_news and total == self._compiles:
            return
        self._compiles = total
        self._time(compiles)
        programs = self._message(compiles, board.programs.recompiling, board.compiles.history)
        # The compared messages have no time, so that an unchanged one is not sent.
        if programs != self._last:
            self._last = board.programs.listed = programs
            board.send(msgspec.structs.replace(programs, at_ms=now_ms()))

    def forget(self, board: Board) -> None:
        self._inventories.forget(board)
        board.programs.listed = board.programs.recorded = None
        board.send(wire.Programs(now_ms()))

    def _look(self, board: Board, *, alone: bool) -> bool:
        """Read new programs as far as this turn's time permits; return False if nothing changed."""
        listed = jaxprivate.live_executables()
        keys = [executable_summary.key_of(each) for each in listed]
        if keys == self._keys and not self._unread:
            return False
        read = self._read
        new = {key: each for key, each in zip(keys, listed, strict=True) if not self._has_figures(key)}
        del listed  # from here on only new programs are held, each until it is read
        until = time.thread_time() + TURN_S
        for key in [key for key in reversed(keys) if key not in read]:
            program, computations = executable_summary.describe(new[key], alone=alone)
            read[key] = _Read(program, now_ms(), computations=computations)
            self._untimed.add(key)
            if time.thread_time() > until:
                break
            release_gil()
        self._keys, self._read = keys, {key: read[key] for key in keys if key in read}
        if self._reading is not None and self._reading[0] not in self._read:
            self._reading = None
        self._read_figures(board, new, until, alone=alone)
        self._unread = sum(not self._has_figures(key) for key in keys)
        if self._unread:
            board.sources[self.name] = f"{READING}{len(keys) - self._unread} of {len(keys)}"
        else:
            board.sources[self.name] = "on"
        self._inventories.keep(board, keys, are_all=not self._unread)
        self._put_recorded(board)
        return True

    def _counts(self) -> dict[str, int]:
        """Return the launches so far, by the names of programs."""
        totals = {} if self._launches is None else self._launches.totals()
        return {program_of(name): count for name, count in totals.items()}

    def _has_figures(self, key: Key) -> bool:
        return key in self._read and self._read[key].has_figures

    def _read_figures(self, board: Board, new: dict[Key, Any], until: float, *, alone: bool) -> None:
        """Read programs until this time: small ones first, then the most launched, then the oldest."""
        counts = self._counts()

        def rank(key: Key) -> tuple[bool, int, int]:
            read = self._read[key]
            if read.program is None:
                return True, 0, 0
            return (
                read.computations <= SMALL,
                counts.get(read.program.name, 0),
                read.program.local_devices or 0,
            )

        being_read = None if self._reading is None else self._reading[0]
        ahead = [
            key for key in reversed(self._keys) if key in new and key in self._read and key != being_read
        ]
        ahead.sort(key=rank, reverse=True)
        while time.thread_time() < until:
            if self._reading is None:
                if not ahead:
                    return
                self._reading = self._begin(board, ahead[0], new.pop(ahead.pop(0)), alone=alone)
                continue
            key, reading = self._reading
            try:
                next(reading)
            except StopIteration as done:
                self._reading = None
                self._read[key].add(done.value)

    def _begin(
        self, board: Board, key: Key, executable: Any, *, alone: bool
    ) -> tuple[Key, Generator[None, None, PerLaunch]] | None:
        """Begin to read a program; None if it cannot be read."""
        read = self._read[key]
        if read.program is None:
            read.has_figures = True
            return None
        if read.computations <= MOST_COUNTED_ON_CPU or jaxprivate.platform(executable) != "cpu":
            read.program = executable_summary.with_memory(read.program, executable)
        reading = self._inventories.read(board, key, executable, read.program, alone=alone)
        next(reading)  # from here on it holds no executable
        return key, reading

    def _put_recorded(self, board: Board) -> None:
        """Put the number of events that a launch adds to a trace onto the board, by program name.

        If several programs have one name, the largest number counts.
        """
        found: dict[str, int | None] = {}
        for each in self._read.values():
            if each.program is not None:
                before, now = found.get(each.program.name, 0), each.recorded
                found[each.program.name] = None if before is None or now is None else max(before, now)
        is_all = not self._unread and all(each.program is not None for each in self._read.values())
        board.programs.recorded = found if is_all else None

    def _time(self, compiles: dict[str, FunctionCompilations]) -> None:
        """Note compile times: for each name, the compilation that ended last made the newest program."""
        timed: set[str] = set()
        untimed, self._untimed = self._untimed, set()
        for key, read in self._read.items():
            if key not in untimed or read.program is None or read.program.name in timed:
                continue
            compiled = compiles.get(read.program.name)
            if compiled is not None:
                read.compile_ms = compiled.last_ms
                timed.add(read.program.name)
            elif now_ms() - read.seen_ms < LISTENER_LATE_MS:
                self._untimed.add(key)

    def _message(
        self,
        compiles: dict[str, FunctionCompilations],
        recompiling: frozenset[str],
        history: Recompilations | None,
    ) -> wire.Programs:
        known = {key: each.program for key, each in self._read.items() if each.program is not None}
        if len(known) > MOST_PROGRAMS:
            chosen = set(nlargest(MOST_PROGRAMS, known, key=lambda key: executable_summary.needs(known[key])))
            known = {key: program for key, program in known.items() if key in chosen}
        names = {program.name for program in known.values()} | recompiling
        return wire.Programs(
            at_ms=0,
            programs=tuple(known.values()),
            seen_ms=tuple(self._read[key].seen_ms for key in known),
            compile_ms=tuple(self._read[key].compile_ms for key in known),
            rest=len(self._keys) - len(known),
            compiles={name: compiles[name].count for name in sorted(names & compiles.keys())},
            recompiling=tuple(sorted(recompiling)),
            of_jax=tuple(sorted(name for name, each in compiles.items() if each.is_of_jax)),
            **({} if history is None else _compilations(history)),
        )


def _compilations(history: Recompilations) -> dict[str, Any]:
    """Return the latest compilations, and the lines that lost most time by them."""
    return {
        "compilations": tuple(wire.Compilation(*each) for each in history.latest()),
        "lines": tuple(wire.CompiledLine(*each) for each in history.lines(MOST_LINES)),
    }
