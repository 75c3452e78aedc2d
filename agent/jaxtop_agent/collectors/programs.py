"""The loaded programs: their identity and the compiler's figures, read once per program."""

from __future__ import annotations

import time
from contextlib import suppress
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import wire
from jaxtop.names import shorten
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays import origins
from jaxtop_agent.core import budget
from jaxtop_agent.core.clock import now_ms
from jaxtop_agent.core.waiting import breathe
from jaxtop_agent.programs.inventories import Inventories

if TYPE_CHECKING:
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.programs.compilations import Compiled
    from jaxtop_agent.programs.operations import Work

# The programs that need the most memory are sent, and the rest as a count: this keeps a message below
# MAX_TELEMETRY.
MOST_PROGRAMS = 300
LONGEST_NAME = 120
# CPU seconds that one turn may spend on new programs; the remaining ones are read in later turns.
TURN_S = 0.01
# The CPU backend records two events: the start of an instruction with its duration, and its end.
EVENTS_AN_INSTRUCTION = 2
# Reading a program of a plugin copies its modules, so we skip programs with more code than this.
MOST_CODE_BYTES = 256 << 20

# JAX reports the end of a compilation shortly after its program appears.
LISTENER_LATE_MS = 10_000

# An executable supports no weak references and must not be held. So the key is its id and its fingerprint.
Key = tuple[int, Any]


class _Read(msgspec.Struct):
    """The reading of one program; `program` is None if it cannot be read."""

    program: wire.Program | None
    seen_ms: int
    compile_ms: int | None = None
    # The profiler events that a launch makes in this process.
    recorded: int | None = None

    @property
    def needs(self) -> int:
        program = self.program
        if program is None:
            return 0
        parts = (program.argument_bytes, program.output_bytes, program.temp_bytes)
        return sum(part for part in parts if part is not None)


class LoadedPrograms:
    """The loaded programs, sent when they change. No object of JAX is held between two looks."""

    name = "programs"
    share = budget.PROGRAMS
    also_unwatched = False

    def __init__(self) -> None:
        self._keys: list[Key] = []  # the newest first, as JAX lists them
        self._read: dict[Key, _Read] = {}
        self._unread = 0
        self._untimed: set[Key] = set()
        self._compiles = 0
        self._last: wire.Programs | None = None
        self._inventories = Inventories()

    def collect(self, board: Board, client: Any) -> None:
        if client is None:
            return
        alone = board.topology is not None and board.topology.process_count == 1
        is_news = self._look(board, alone=alone) or bool(self._untimed)
        compiles = board.compiled.copy()
        total = sum(each.count for each in compiles.values())
        if not is_news and total == self._compiles:
            return
        self._compiles = total
        self._time(compiles)
        programs = self._message(compiles, board.recompiling)
        # The compared messages have no time, so that an unchanged one is not sent.
        if programs != self._last:
            self._last = board.programs = programs
            board.send(msgspec.structs.replace(programs, at_ms=now_ms()))

    def forget(self, board: Board) -> None:
        self._inventories.forget(board)
        board.programs = board.recorded = None
        board.send(wire.Programs(now_ms()))

    def _look(self, board: Board, *, alone: bool) -> bool:
        """Read new programs as far as this turn's time permits; return False if nothing changed."""
        listed = jaxprivate.live_executables()
        keys = [(id(each), jaxprivate.fingerprint(each)) for each in listed]
        if keys == self._keys and not self._unread:
            return False
        read = self._read
        new = [(key, each) for key, each in zip(keys, listed, strict=True) if key not in read]
        del listed  # from here on only new programs are held, each until it is read
        new.sort(key=lambda each: -(_local_devices(each[1]) or 0))
        new.reverse()
        until = time.thread_time() + TURN_S
        while new and time.thread_time() < until:
            key, executable = new.pop()
            program = _describe(executable, alone=alone)
            read[key] = _Read(program, now_ms())
            if program is not None:
                work = self._inventories.read(board, key, executable, program, alone=alone)
                read[key].program = _with_work(program, work)
                read[key].recorded = _recorded(program, work)
            self._untimed.add(key)
            del executable
            breathe()
        self._unread = len(new)
        self._keys, self._read = keys, {key: read[key] for key in keys if key in read}
        self._inventories.keep(board, keys, are_all=not new)
        self._tell_recorded(board)
        return True

    def _tell_recorded(self, board: Board) -> None:
        """Put the number of events that a launch adds to a trace onto the board, by program name.

        If several programs have one name, the largest number counts.
        """
        found: dict[str, int | None] = {}
        for each in self._read.values():
            if each.program is not None:
                before, now = found.get(each.program.name, 0), each.recorded
                found[each.program.name] = None if before is None or now is None else max(before, now)
        is_all = not self._unread and all(each.program is not None for each in self._read.values())
        board.recorded = found if is_all else None

    def _time(self, compiles: dict[str, Compiled]) -> None:
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

    def _message(self, compiles: dict[str, Compiled], recompiling: frozenset[str]) -> wire.Programs:
        known = [each for each in self._read.values() if each.program is not None]
        listed = known
        if len(known) > MOST_PROGRAMS:
            chosen = set(map(id, nlargest(MOST_PROGRAMS, known, key=lambda each: each.needs)))
            listed = [each for each in known if id(each) in chosen]
        programs = tuple(each.program for each in listed if each.program is not None)
        names = {program.name for program in programs} | recompiling
        return wire.Programs(
            at_ms=0,
            programs=programs,
            seen_ms=tuple(each.seen_ms for each in listed),
            compile_ms=tuple(each.compile_ms for each in listed),
            rest=len(self._read) - len(listed) + self._unread,
            compiles={name: compiles[name].count for name in sorted(names & compiles.keys())},
            recompiling=tuple(sorted(recompiling)),
        )


def _describe(executable: Any, *, alone: bool) -> wire.Program | None:
    """Describe a program; None if its name cannot be read or its code is too large."""
    try:
        if (code := jaxprivate.code_bytes(executable)) and code > MOST_CODE_BYTES:
            return None
        name = jaxprivate.module_name(executable)[:LONGEST_NAME]
    except Exception:
        return None
    local = _local_devices(executable)
    created = origins.created(jaxprivate.program_traceback(executable))
    program = wire.Program(
        name=name,
        fingerprint=_text(jaxprivate.fingerprint(executable)),
        devices=local if alone else _devices(executable, name, local),
        local_devices=local,
        created=shorten(created, LONGEST_NAME) if created else None,
    )
    with suppress(Exception):
        memory = jaxprivate.compiled_memory(executable)
        program = msgspec.structs.replace(
            program,
            argument_bytes=memory.argument_size_in_bytes,
            output_bytes=memory.output_size_in_bytes,
            alias_bytes=memory.alias_size_in_bytes,
            temp_bytes=memory.temp_size_in_bytes,
            code_bytes=memory.generated_code_size_in_bytes,
        )
    return program


def _with_work(program: wire.Program, work: Work | None) -> wire.Program:
    if work is None:
        return program
    return msgspec.structs.replace(
        program, flops=work.operations, accessed_bytes=work.bytes, flops_at_least=work.at_least
    )


def _recorded(program: wire.Program, work: Work | None) -> int | None:
    if work is None or work.executed is None or program.local_devices is None:
        return None
    return EVENTS_AN_INSTRUCTION * work.executed * program.local_devices


def _local_devices(executable: Any) -> int | None:
    with suppress(Exception):
        return len(jaxprivate.local_devices(executable))
    return None


def _devices(executable: Any, name: str, local: int | None) -> int | None:
    """Return the number of devices in all processes; None if a program of several devices shards nothing."""
    with suppress(Exception):
        cuts = jaxprivate.cuts(executable)
        if cuts:
            return max(cuts) if max(cuts) > 1 else None
        if local == 1 and not name.startswith("pmap_"):
            return 1
    return None


def _text(fingerprint: Any) -> str | None:
    if isinstance(fingerprint, bytes):
        try:
            text = fingerprint.decode("ascii")
        except UnicodeDecodeError:
            text = ""
        return text if text.isalnum() else fingerprint.hex()
    return None if fingerprint is None else str(fingerprint)
