"""The buffers that hold memory at the peak of a program, as a message; read only on request of a viewer."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop import wire
from jaxtop.base.clock import now_ms
from jaxtop.base.names import legible, reason, shorten
from jaxtop_agent import jaxprivate
from jaxtop_agent.core.waiting import GilYielder
from jaxtop_agent.programs import executable_summary
from jaxtop_agent.programs.buffers import assignment, schedule
from jaxtop_agent.programs.inventories import has_large_constants
from jaxtop_agent.programs.source_lines import Frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.programs.buffers.schedule import ModuleSchedule, Spot
    from jaxtop_agent.programs.executable_summary import Key

# Serialising a module holds the GIL for 10 µs per computation, up to 30 µs on slow machines.
MOST_COMPUTATIONS = 1_000
MOST_PROGRAMS, MOST_BUFFERS, LONGEST_NAME = 8, 100, 80
TOO_LARGE = "reading a program of this size would delay the script"
UNSCHEDULED = "the compiler has not scheduled this program: its temporaries are one buffer"


class _Metadata(NamedTuple):
    """Where the script has an operation, as `Frames` reads it."""

    place: tuple[str, int] | None
    frame: int | None


def send(board: Board, known: Mapping[Key, wire.Program], launches: Mapping[str, int]) -> None:
    """Send what holds memory at the peaks of the programs that need most, launched ones first."""

    def rank(key: Key) -> tuple[bool, int]:
        return launches.get(known[key].name, 0) > 1, executable_summary.needs(known[key])

    for key in nlargest(MOST_PROGRAMS, known, key=rank):
        source = _source(key)
        if source is not None and not board.stopping:
            board.send(read(source, known[key], GilYielder()))


class PeakSource(NamedTuple):
    """What is needed to read a program, without the executable, which would keep its code on the device."""

    module: Any
    assignment: bytes = b""
    why_not: str = ""

    @classmethod
    def of(cls, executable: Any) -> PeakSource:
        try:
            module = jaxprivate.module(executable)
            if len(jaxprivate.parts(module)) > MOST_COMPUTATIONS or has_large_constants(module):
                return cls(None, why_not=TOO_LARGE)
            return cls(module, jaxprivate.buffer_assignment(executable))
        except Exception as error:
            return cls(None, why_not=reason(error))


def _source(key: Key) -> PeakSource | None:
    listed = (each for each in jaxprivate.live_executables() if key == executable_summary.key_of(each))
    executable = next(listed, None)
    return None if executable is None else PeakSource.of(executable)


def read(source: PeakSource, program: wire.Program, pause: Callable[[], None]) -> wire.Peak:
    """Return what holds memory at the peak of a program, or why this is unknown."""
    blank, why = wire.Peak(now_ms(), program.name, program.fingerprint), source.why_not
    try:
        if not why:
            return _read(source, blank, pause)
    except schedule.TooMany:
        why = TOO_LARGE
    except Exception as error:
        why = reason(error)
    return wire.Peak(blank.at_ms, blank.program, blank.fingerprint, why_not=why)


def _read(source: PeakSource, blank: wire.Peak, pause: Callable[[], None]) -> wire.Peak:
    allocations = assignment.read(source.assignment)
    found = schedule.read(jaxprivate.module_message(source.module), pause)
    frames = Frames.of(source.module, 0 if found is None else len(found.instructions))
    peak = assignment.peak(allocations, found, pause)
    buffers = [_buffer(each, found, frames) for each in peak.held]
    sizes = {kind: sum(each.bytes for each in allocations if each.kind == kind) for kind in assignment.KINDS}
    at = _definition_of(found, None if peak.at is None else (peak.at, ()))
    return wire.Peak(
        blank.at_ms,
        blank.program,
        blank.fingerprint,
        argument_bytes=sizes[assignment.ARGUMENT],
        result_bytes=sizes[assignment.RESULT],
        constant_bytes=sizes[assignment.CONSTANT],
        temporary_bytes=sizes[assignment.TEMPORARY],
        alive_bytes=sum(each.bytes for each in peak.held if each.kind == assignment.TEMPORARY),
        op="" if at is None else shorten(at.name, LONGEST_NAME),
        source="" if at is None else _line(at, frames),
        buffers=tuple(buffers[:MOST_BUFFERS]),
        rest=len(buffers[MOST_BUFFERS:]),
        rest_bytes=sum(each.bytes for each in buffers[MOST_BUFFERS:]),
        note=UNSCHEDULED if found is None else "",
    )


def _buffer(held: assignment.Held, found: ModuleSchedule | None, frames: Frames) -> wire.Buffer:
    instruction = _definition_of(found, held.spot)
    if instruction is None or held.spot is None:
        return wire.Buffer(held.kind, held.bytes)
    shape = instruction.shape
    for number in held.spot[1]:
        shape = shape.parts[number] if shape.parts is not None and number < len(shape.parts) else shape
    return wire.Buffer(
        held.kind,
        held.bytes,
        shorten(instruction.name, LONGEST_NAME),
        instruction.opcode,
        shape.words,
        _line(instruction, frames),
        shorten(legible(instruction.name_stack), LONGEST_NAME),
    )


def _definition_of(found: ModuleSchedule | None, spot: Spot | None) -> schedule.ScheduledInstruction | None:
    return None if found is None or spot is None else found.instructions.get(spot[0])


def _line(instruction: schedule.ScheduledInstruction, frames: Frames) -> str:
    # Older versions write both, and list no frames.
    return frames.line(_Metadata(instruction.place, instruction.frame if instruction.place is None else None))
