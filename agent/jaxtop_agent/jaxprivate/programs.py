"""Loaded programs, their modules and what the compiler reports about them."""

from __future__ import annotations

import sys
from functools import partial
from math import prod
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from jaxtop.base.protobuf import places
from jaxtop_agent.jaxprivate.backends import clients
from jaxtop_agent.jaxprivate.lookup import Missing, find, imported, jax_folder

if TYPE_CHECKING:
    from jaxtop_agent.jaxprivate.declarations import (
        CompiledMemory,
        Computation,
        Executable,
        Instruction,
        Module,
        Names,
        PrintOptions,
    )

# The types of JAX's own compiled functions: `ufunc` for `jax.numpy.multiply` and similar ones.
_COMPILED_TYPES: Names = ("PjitFunction", "ufunc")
# A script's function may be wrapped this many times before it is compiled.
_WRAPPED_WITHIN = 16


def live_executables() -> list[Executable]:
    """Return every loaded program, newest first per client. Drop the list soon, as for `live_arrays`."""
    return [executable for client in clients() for executable in find(client, "live_executables")()]


def fingerprint(executable: Executable) -> Any | None:
    """Return the compiler's identification of a program, equal in all processes that compiled the same."""
    return getattr(executable, "fingerprint", None)


def module_name(executable: Executable) -> str:
    return str(module(executable).name)


def module(executable: Executable) -> Module:
    """Return the optimised module of a program, as the compiler left it."""
    return find(executable, "hlo_modules")()[0]


def parts(module: Module) -> list[Computation]:
    """Return the computations of a module, each with a name."""
    return list(module.computations())


def instructions(computation: Computation) -> list[Instruction]:
    """Return a computation's instructions, with opcode and text.

    Raise `Missing` on versions that can only print a whole module.
    """
    # Without it: the operations are read from the text of the whole module.
    return list(find(computation, "instructions")())


def started(instruction: Instruction) -> str | None:
    """Return the name of the operation that an asynchronous start of the general kind wraps, else None."""
    if str(instruction.opcode) != "HloOpcode.kAsyncStart":  # the compiler aborts the process for others
        return None
    # Without it: the operations are read from the text of the whole module.
    return str(find(instruction, "async_wrapped_root")().name)


def module_number(module: Module) -> int | None:
    """Return the compiler's number of a module, as in traces; serialising the module holds the GIL."""
    raw = module_message(module)
    found = (number for field, number, end in places(raw, 0, len(raw)) if field == 5 and end is None)
    return next(found, None)


def module_message(module: Module) -> bytes:
    """Return a module as XLA's own message; serialising holds the GIL."""
    found: bytes = find(module, "as_serialized_hlo_module_proto")()
    return found


def module_text(module: Module, *, brief: bool) -> str:
    """Return the text of a module; printing holds the GIL for 15 µs per computation, 6 µs if brief."""
    if not brief:
        return str(module.to_string())
    omitted: PrintOptions = (
        "print_metadata", "print_operand_shape", "print_control_dependencies", "print_program_shape",
        "print_percent",
    )  # fmt: skip
    return str(module.to_string(_options(omitted)))


def module_header(module: Module) -> str:
    """Return the text of a module before its computations, such as its table of stack frames.

    It prints as little as possible of the rest, and holds the GIL for 0.3 µs per instruction.
    """
    omitted: PrintOptions = (
        "print_operand_shape", "print_control_dependencies", "print_program_shape", "print_backend_config",
        "print_extra_attributes", "print_operand_names", "print_result_shape", "print_large_constants",
        "print_percent", "print_ids",
    )  # fmt: skip
    printed = str(module.to_string(_options(omitted)))
    start = printed.find("\nStackFrames\n")  # the last of the tables
    return printed[: max(printed.find("\n\n", start + 1), 0)] if start >= 0 else ""


def module_shapes(module: Module) -> str:
    """Return the text of a module with little more than opcodes and the shapes of their results.

    It has no values of large constants, and holds the GIL for 6 µs per computation.
    """
    omitted: PrintOptions = (
        "print_metadata", "print_operand_shape", "print_control_dependencies", "print_program_shape",
        "print_operand_names", "print_percent", "print_ids", "print_backend_config", "print_extra_attributes",
    )  # fmt: skip
    return str(module.to_string(_options(omitted)))


def _options(omitted: PrintOptions) -> Any:
    """Return options for printing without these details."""
    # Without it: the class is in `jaxlib._jax`.
    options = find(sys.modules.get("jaxlib._hlo") or imported("jaxlib._jax"), "HloPrintOptions")()
    for detail in omitted:
        setattr(options, detail, False)
    options.include_layout_in_shapes = False
    return options


def platform(executable: Executable) -> str:
    return str(find(executable, "client").platform)


def device_count(executable: Executable) -> int:
    """Return the number of devices of a program's client, over all processes."""
    return len(find(executable, "client").devices())


def code_bytes(executable: Executable) -> int | None:
    """Return the size of the machine code, if the compiler reports it."""
    size = getattr(executable, "size_of_generated_code_in_bytes", None)
    return None if size is None else int(size())


def compiled_memory(executable: Executable) -> CompiledMemory:
    """Return the compiler's figures for a program's memory on one device; the call releases the GIL."""
    return find(executable, "get_compiled_memory_stats")()


def buffer_assignment(executable: Executable) -> bytes:
    """Return the compiler's assignment of buffers, as its own message; the call releases the GIL."""
    found = getattr(compiled_memory(executable), "serialized_buffer_assignment_proto", b"")
    if not found:
        raise Missing("this version of JAX does not give the compiler's buffer assignment")
    return bytes(found)


def program_traceback(executable: Executable) -> Any | None:
    return getattr(executable, "traceback", None)


def cuts(executable: Executable) -> list[int]:
    """Return the number of pieces of each input and output of a program, over all devices of the run.

    The list is empty if the compiler had nothing to partition, as in a program of one device.
    """
    return [prod(each) for side in (argument_cuts, _result_cuts) for each in side(executable)]


def argument_cuts(executable: Executable) -> list[list[int]]:
    """Return the number of pieces of each dimension of each input; with more, of copies of each piece."""
    return [each.tile_assignment_dimensions for each in find(executable, "get_parameter_shardings")() or ()]


def _result_cuts(executable: Executable) -> list[list[int]]:
    return [each.tile_assignment_dimensions for each in find(executable, "get_output_shardings")() or ()]


def own_functions() -> frozenset[str]:
    """Return the names of JAX's own operations and functions, which scripts call with any shapes."""
    operations = getattr(sys.modules.get("jax._src.interpreters.mlir"), "_lowerings", ())
    names = {str(operation.name) for operation in operations}
    for name, module in sys.modules.copy().items():
        if name.startswith("jax.") and module is not None:
            found = list(vars(module).values())
            names.update(str(each.__name__) for each in found if type(each).__name__ in _COMPILED_TYPES)
    return frozenset(names)


def is_jaxs(function: Any) -> bool | None:
    """Return whether JAX itself defines a compiled function; None if its definition is not found.

    Only the attributes of Python's and JAX's own types are read, so that no code of the script runs.
    """
    for _ in range(_WRAPPED_WITHIN):
        kind = type(function)
        if kind is FunctionType:
            wrapped = function.__dict__.get("__wrapped__")
            if wrapped is None:
                return str(function.__code__.co_filename).startswith(jax_folder())
            function = wrapped
        elif kind is MethodType:
            function = function.__func__
        elif kind is partial:
            function = function.func
        elif kind.__name__ in _COMPILED_TYPES and hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return None
