"""Compiling a program, and reading from the result what a launch needs and exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.features.planning.messages import CompilationEnded
from jaxtop_agent import jaxprivate
from jaxtop_agent.planning.lowered_program import CannotCompile, parse, read
from jaxtop_agent.planning.rewriting import rewrite, unnamed
from jaxtop_agent.programs import fitting, hlo, inventories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.features.planning.messages import Axes, WantedCandidate
    from jaxtop_agent.planning.lowered_program import LoweredProgram


def build(
    content: bytes, number: int, wanted: WantedCandidate, today: Axes, devices: Sequence[Any]
) -> CompilationEnded:
    """Compile a program for a candidate; say in the result why that is impossible."""
    try:
        program = read(parse(content))
        notes = rewrite(program, wanted, today)
        return replace(_built(read(program.module), number, notes, devices), unnamed=unnamed(program, wanted))
    except CannotCompile as error:
        return CompilationEnded(number, why_not=str(error))
    except jaxprivate.Missing as error:
        return CompilationEnded(number, why_not=f"this version of JAX offers no way to compile it: {error}")
    except Exception as error:
        return CompilationEnded(number, why_not=_first_line(error))


def _built(
    program: LoweredProgram, number: int, notes: tuple[str, ...], devices: Sequence[Any]
) -> CompilationEnded:
    executable = jaxprivate.compiled(
        program.module,
        devices[: program.devices],
        is_shardy=bool(program.axes),
        open_arguments=[each.is_open for each in program.arguments],
        open_results=[each.is_open for each in program.results],
    )
    memory = jaxprivate.compiled_memory(executable)
    text = jaxprivate.module_text(jaxprivate.module(executable), brief=False)
    work = inventories.operations_of(text, _never)
    reading = hlo.read(text)
    blank = wire.Inventory(
        at_ms=0,
        program=jaxprivate.module_name(executable),
        fingerprint=None,
        devices=program.devices,
        unread=reading.unread,
    )
    return CompilationEnded(
        number,
        argument_bytes=memory.argument_size_in_bytes,
        output_bytes=memory.output_size_in_bytes,
        temp_bytes=memory.temp_size_in_bytes,
        alias_bytes=memory.alias_size_in_bytes,
        flops=None if work is None else work.operations,
        inventory=fitting.fitted(blank, reading),
        notes=notes,
    )


def _never() -> None:
    """Give way to nobody: this process has one thread."""


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"the compiler refuses it: {lines[0][:200]}" if lines else type(error).__name__
