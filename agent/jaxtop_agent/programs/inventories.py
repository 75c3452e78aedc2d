"""The inventory of each loaded program, read once: its collectives, and the operations of a launch."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base.clock import now_ms
from jaxtop.base.names import reason
from jaxtop.traces import protos
from jaxtop_agent import jaxprivate
from jaxtop_agent.core.waiting import GilYielder, release_gil
from jaxtop_agent.programs import fitting, hlo, shapes
from jaxtop_agent.programs.hlo import HloReading, Module
from jaxtop_agent.programs.loaded_executables import LoadedExecutable
from jaxtop_agent.programs.operations import OperationSums, Work
from jaxtop_agent.programs.source_lines import Frames

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from jaxtop.traces.members import DeviceAssignment
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.programs.executable_summary import Key
    from jaxtop_agent.programs.executed_operations import ExecutedOperation

# Where JAX can only print a whole module at once, it holds the GIL meanwhile: some milliseconds for a module
# of this many computations, printed in full and in brief.
MOST_WHOLE, MOST_BRIEF = 250, 600
TOO_LARGE = "printing a program of this size would delay the script in this version of JAX"
# Reading a program's number holds the GIL too: 30 µs per computation, and 300 µs in older versions.
MOST_NUMBERED, MOST_NUMBERED_SLOWLY = 128, 12
# A serialised module contains its constants: one of 100 MB holds the GIL for 0.6 s, and is copied repeatedly.
MOST_CONSTANT_BYTES = 4 << 20
# The operations that are stored of a program, and of all; one takes 0.3 kB.
MOST_OPERATIONS, ALL_OPERATIONS = 1_000, 6_000
BETWEEN_LOOKS = 32
# What may be an asynchronous start of the general kind: its text lacks the name of the operation inside.
_STARTED = re.compile(r"= \(\([^=\n]*-start\(")


class _Entry(NamedTuple):
    """What remains of a program's reading."""

    loaded: LoadedExecutable
    inventory: wire.Inventory | None
    ends: dict[str, str]
    executed: Mapping[str, ExecutedOperation]


class Inventories:
    """The readings of the programs that are loaded now."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}

    def read(
        self, board: Board, key: Key, executable: Any, program: wire.Program, *, alone: bool
    ) -> Generator[None, None, PerLaunch]:
        """Read a program in small parts and send its inventory; return the rest, per launch.

        The executable is held only until the first part is read.
        """
        source = _Source.of(executable, program, alone=alone)
        number = _number(executable, source.module)
        del executable
        yield
        stored = sum(len(each.executed) for each in self._entries.values())
        room = min(MOST_OPERATIONS, max(0, ALL_OPERATIONS - stored))
        inventory, reading, per_launch = yield from _inventory(source, room)
        ops = frozenset(each.op for each in reading.collectives)
        is_read = not inventory.unread and not inventory.why_not
        loaded = LoadedExecutable(program.name, program.fingerprint, number, ops if is_read else None)
        has_collectives = program.devices != 1
        is_sent = has_collectives and bool(inventory.collectives or inventory.unread or inventory.why_not)
        sent = inventory if is_sent else None
        self._entries[key] = _Entry(loaded, sent, reading.ends, per_launch.executed)
        self._put_executed_on(board)
        if is_sent:
            self._put_on(board)
            board.send(replace(inventory, at_ms=now_ms()))
        return per_launch

    def keep(self, board: Board, keys: Iterable[Key], *, are_all: bool = True) -> None:
        """Forget all programs but these, newest first; `are_all` is false while some are not read yet."""
        left = {key: self._entries[key] for key in keys if key in self._entries}
        has_lost = len(left) < len(self._entries)
        self._entries = left
        board.programs.loaded = tuple(each.loaded for each in reversed(left.values())) if are_all else ()
        if has_lost:
            self._put_on(board)
            self._put_executed_on(board)

    def forget(self, board: Board) -> None:
        """Remove everything from the board."""
        self.keep(board, ())

    def _put_on(self, board: Board) -> None:
        sent = [(each.inventory, each.ends) for each in self._entries.values() if each.inventory is not None]
        board.programs.inventories = {(each.program, each.fingerprint): each for each, _ in sent}
        board.programs.ends = {(each.program, each.fingerprint): ends for each, ends in sent}

    def _put_executed_on(self, board: Board) -> None:
        board.programs.executed = {
            (each.loaded.name, each.loaded.fingerprint): each.executed for each in self._entries.values()
        }


class PerLaunch(NamedTuple):
    """What a program's text shows of a launch on one device, as far as it could be read.

    `sides` has the bytes of its arguments and its results, `executed` its operations by name.
    """

    work: Work | None = None
    sides: tuple[int, int | None] | None = None
    executed: Mapping[str, ExecutedOperation] = MappingProxyType({})


class _Source(NamedTuple):
    """What is needed to read a program, without the executable, which must not be held."""

    program: wire.Program
    module: Any
    why_not: str
    local_ids: tuple[int, ...] = ()
    total: int | None = None  # the number of devices, if it is known
    most_cut: int = 1  # the most pieces into which an array is cut
    cuts: Sequence[Sequence[int]] = ()  # of each argument, the pieces of each dimension
    device_count: int = 1

    @classmethod
    def of(cls, executable: Any, program: wire.Program, *, alone: bool) -> _Source:
        try:
            local_ids = tuple(device.id for device in jaxprivate.local_devices(executable))
            cuts = jaxprivate.argument_cuts(executable)
            source = cls(program, jaxprivate.module(executable), "", local_ids, cuts=cuts)
            if alone:
                return source._replace(total=len(local_ids))
            cut, count = jaxprivate.cuts(executable), jaxprivate.device_count(executable)
            return source._replace(most_cut=max(cut, default=1), device_count=count)
        except Exception as error:
            return cls(program, None, reason(error))


def _inventory(
    source: _Source, room: int
) -> Generator[None, None, tuple[wire.Inventory, HloReading, PerLaunch]]:
    """Return the collectives as a message, the full reading, and the figures per launch.

    There is room for this many operations.
    """
    reading, per_launch, why_not = HloReading(), PerLaunch(), source.why_not
    try:
        if not why_not:
            reading, per_launch = yield from _reading(source, room)
    except _TooLarge:
        why_not = TOO_LARGE
    except Exception as error:
        why_not = reason(error)
    program = source.program
    blank = wire.Inventory(
        at_ms=0,
        program=program.name,
        fingerprint=program.fingerprint,
        devices=reading.devices or program.devices or len(source.local_ids),
        local_ids=wire.pack_ids(source.local_ids),
        unread=reading.unread,
        why_not=why_not,
    )
    return fitting.fitted(blank, reading), reading, per_launch


def _number(executable: Any, module: Any) -> int | None:
    """Return the compiler's number for a program, which CPU traces contain; None for large ones."""
    try:
        listed = jaxprivate.parts(module)
        is_quick = hasattr(listed[0], "instructions")
        if len(listed) > (MOST_NUMBERED if is_quick else MOST_NUMBERED_SLOWLY):
            return None
        if jaxprivate.platform(executable) != "cpu" or has_large_constants(module):
            return None
        return jaxprivate.module_number(module)
    except Exception:
        return None


def has_large_constants(module: Any) -> bool:
    """Return whether the constants of a module are too large, or of unknown size, to serialise it."""
    found = shapes.constant_bytes(jaxprivate.module_shapes(module))
    return found is None or found > MOST_CONSTANT_BYTES


class _TooLarge(Exception):
    pass


def _reading(source: _Source, room: int) -> Generator[None, None, tuple[HloReading, PerLaunch]]:
    """Read single instructions where JAX offers them, so that no text of many megabytes is made."""
    computations = jaxprivate.parts(source.module)
    pace = GilYielder()
    module, operations = Module(source.cuts), OperationSums()
    try:
        for computation in computations:
            for _ in _add(module, operations, computation):
                pace()
                yield
    except jaxprivate.Missing:
        return _reading_of_text(source, len(computations), room, pace)
    yield
    work = operations.work(None, pace)
    yield
    frames = Frames.of(source.module, operations.instructions)
    yield
    executed = _as_shown(operations.executed(frames, room, pace), module.started)
    yield
    reading = module.finish(_places(module, source), pace, frames=frames)
    return reading, PerLaunch(work, operations.sides(), executed)


def _add(module: Module, operations: OperationSums, computation: Any) -> Iterator[None]:
    name, listed = computation.name, []
    for number, instruction in enumerate(jaxprivate.instructions(computation)):
        if (noted := module.add(name, instruction.to_string())) is not None:
            listed.append(noted)
            if noted.opcode.endswith("-start") and (inside := jaxprivate.started(instruction)) is not None:
                module.started[noted.name] = inside
        if not number % BETWEEN_LOOKS:
            yield
    module.add_computation(name, listed)
    yield from operations.add(name, listed)


def _reading_of_text(
    source: _Source, computations: int, room: int, pace: GilYielder
) -> tuple[HloReading, PerLaunch]:
    if computations > MOST_BRIEF:
        raise _TooLarge
    printed = jaxprivate.module_text(source.module, brief=computations > MOST_WHOLE)
    release_gil()
    operations, entry = summed(printed, pace)
    work = operations.work(entry, pace)
    started = {}
    if _STARTED.search(printed) and not has_large_constants(source.module):
        started = protos.started(jaxprivate.module_message(source.module))
    executed = _as_shown(operations.executed(Frames(printed), room, pace, entry), started)
    return hlo.read(printed, pace, source.cuts, started), PerLaunch(work, executed=executed)


def _as_shown(
    executed: dict[str, ExecutedOperation], started: Mapping[str, str]
) -> dict[str, ExecutedOperation]:
    """Return the operations by the names that the profiler shows: asynchronous starts show what they wrap."""
    return {started.get(name, name): each for name, each in executed.items()}


def operations_of(printed: str, pace: Callable[[], None]) -> Work | None:
    """Return the work of a launch, from the text of the program's module."""
    operations, entry = summed(printed, pace)
    return operations.work(entry, pace)


def summed(printed: str, pace: Callable[[], None]) -> tuple[OperationSums, str | None]:
    """Return the operations of a module, from its text, and the name of the computation that is launched."""
    operations, entry = OperationSums(), None
    for name, is_entry, listed in hlo.parsed(printed, pace):
        for _ in operations.add(name, listed):
            pace()
        entry = name if is_entry else entry
    return operations, entry


def _places(module: Module, source: _Source) -> DeviceAssignment | None:
    """Infer the device assignment from the groups, else from how the program shards its arrays."""
    if source.total is None and (places := module.places(None)) is not None:
        return places
    return module.places(source.total or source.most_cut) or module.places(source.device_count)
