"""Reads the variables of running functions without changing the functions.

Each version of Python needs its own care. Up to 3.12, `frame.f_locals` of a running function leaves a
snapshot on the frame, which keeps objects alive that the script has since dropped. Clearing the snapshot
empties a dict that the script may hold as its `locals()`.
"""

from __future__ import annotations

import ctypes
import dis
import sys
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.arrays import running_frames
from jaxtop_agent.arrays.origins import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Callable

# Frames of these packages are not the user's: their variables belong to Python, JAX or a framework.
_NOT_THE_USERS = LIBRARIES | {"jaxtop", "jaxtop_agent"} | (sys.stdlib_module_names - {"__main__"})
# Functions of Python that return the variables of their caller, or may do so.
_SHOW_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir"})
_MODULE_OF_THESE = frozenset({"builtins", "__builtins__"})
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_OPTIMIZED = 0x1  # CO_OPTIMIZED: the variables are slots, not the entries of a dict
_RESUMED = 0x20 | 0x80 | 0x200  # the flags of generators, coroutines and asynchronous generators
MODULE = "<module>"


class Variable(NamedTuple):
    """The location of a variable: thread, depth of the frame, code, name. It holds neither frame nor value.

    Variables of the main module have no code, because they also exist between the cells of a notebook.
    """

    thread: int
    depth: int
    code: CodeType | None
    name: str

    @property
    def function(self) -> str:
        return MODULE if self.code is None else self.code.co_qualname

    @property
    def is_of_a_generator(self) -> bool:
        """Whether its function is a generator or coroutine; while suspended, that is on no thread's stack."""
        return self.code is not None and bool(self.code.co_flags & _RESUMED)


def variables() -> list[Variable]:
    """Return the variables of the main module, then of the user's running functions, outermost first.

    The first ones change least.
    """
    main = _main()
    found = [Variable(0, 0, None, name) for name in main.copy() if not _is_hidden(name)]
    threads = running_frames.frames()
    try:
        for thread in sorted(threads):  # the main thread is usually the oldest, and so has the lowest number
            found += _variables(thread, running_frames.stack(threads[thread]), main)
    finally:
        threads.clear()
    return found


def a_generator_runs() -> bool:
    """Whether a generator of the script is running at this moment."""
    threads = running_frames.frames()
    try:
        return any(
            frame.f_code.co_flags & _RESUMED and is_the_users(frame)
            for thread in threads
            for frame in running_frames.stack(threads[thread])
        )
    finally:
        threads.clear()


def _main() -> dict[str, Any]:
    """Return the variables of the main module: of the script, or of an interactive session."""
    module = sys.modules.get("__main__")
    return vars(module) if isinstance(module, ModuleType) else {}


def _variables(thread: int, stack: list[FrameType], main: dict[str, Any]) -> list[Variable]:
    return [
        Variable(thread, depth, frame.f_code, name)
        for depth, frame in enumerate(reversed(stack))
        if is_the_users(frame)
        for name in _names(frame, main)
    ]


def is_the_users(frame: FrameType) -> bool:
    """Whether a frame runs code of the user, or of a library that may hold their state."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package not in _NOT_THE_USERS


def _names(frame: FrameType, main: dict[str, Any]) -> tuple[str, ...]:
    code = frame.f_code
    if not code.co_flags & _OPTIMIZED:
        if frame.f_locals is main:
            return ()
        return tuple(name for name in frame.f_locals.copy() if not _is_hidden(name))
    return _slots(code)


def _slots(code: CodeType) -> tuple[str, ...]:
    """Return the variable names of a function, without `.0`, the iterator of a comprehension."""
    slots = (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    return tuple(name for name in slots if not name.startswith("."))


def _is_hidden(name: object) -> bool:
    # Values that an interactive session keeps as `_`, `_1`, `__` or in `_oh` also have another name, such as
    # `Out[1]`, or are dropped soon.
    if not isinstance(name, str):
        return True
    return name.startswith("_") and (name == "_oh" or not name.strip("_0123456789"))


def values(frame: FrameType) -> dict[str, Any]:
    """Return the variables of one function, which may be suspended; drop them before the script continues."""
    if not frame.f_code.co_flags & _OPTIMIZED:
        return {name: value for name, value in frame.f_locals.copy().items() if not _is_hidden(name)}
    if _get_variable is None:
        snapshot = _snapshot(frame)
        return {name: snapshot[name] for name in _slots(frame.f_code) if name in snapshot}
    return {name: _get_variable(frame, name) for name in _slots(frame.f_code)}


class FrameReader:
    """Reads variables while the script waits; call `let_go` before the script continues."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[FrameType]] = {}
        self._values: dict[FrameType, dict[str, Any]] = {}

    def read(self, variable: Variable) -> Any:
        """Return the value of a variable; None if the function has ended or the variable is not bound."""
        if variable.code is None:
            return _main().get(variable.name)
        stack = self._stacks.get(variable.thread)
        if stack is None:
            threads = running_frames.frames()
            innermost = threads.get(variable.thread)
            threads.clear()
            stack = [] if innermost is None else running_frames.stack(innermost)[::-1]
            self._stacks[variable.thread] = stack
        if variable.depth >= len(stack):
            return None
        frame = stack[variable.depth]
        if frame.f_code is not variable.code:
            return None
        if not variable.code.co_flags & _OPTIMIZED or _get_variable is not None:
            return local(frame, variable.name)
        values = self._values.get(frame)
        if values is None:
            values = self._values[frame] = _snapshot(frame)
        return values.get(variable.name)

    def let_go(self) -> None:
        """Drop all frames and values: a held frame keeps its variables alive after its function has ended."""
        self._values.clear()
        self._stacks.clear()


def local(frame: FrameType, name: str) -> Any:
    """Return the value of a running function's variable; None if it is not bound or cannot be read."""
    if not frame.f_code.co_flags & _OPTIMIZED:
        return frame.f_locals.get(name)
    if _get_variable is not None:
        return _get_variable(frame, name)
    return _snapshot(frame).get(name)


def _snapshot(frame: FrameType) -> dict[str, Any]:
    """On Python 3.11, copy the frame's snapshot and empty it, unless other code may hold it."""
    if frame.f_trace is not None or _may_show_its_locals(frame):
        return {}  # a debugger's variables, or the dict that the script got from `locals()`
    snapshot: dict[str, Any] = running_frames.local_variables(frame)
    values = snapshot.copy()
    snapshot.clear()
    return values


def _may_show_its_locals(frame: FrameType) -> bool:
    """Whether the function uses Python's `locals` or similar, not a method or function of that name."""
    code = frame.f_code
    if _SHOW_LOCALS.isdisjoint(code.co_names):
        return False
    own, python = frame.f_globals, frame.f_builtins
    return any(name not in own or own[name] is python.get(name) for name in _shows_locals(code))


@lru_cache(maxsize=1024)
def _shows_locals(code: CodeType) -> frozenset[str]:
    """Return which of `_SHOW_LOCALS` the code loads by name. `model.eval` is an attribute and not counted."""
    if not _MODULE_OF_THESE.isdisjoint((*code.co_names, *code.co_varnames)):
        return _SHOW_LOCALS.intersection(code.co_names)  # `builtins.locals` is an attribute as well
    loaded, upper = set(), 0
    for opcode, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= upper  # noqa: PLW2901 - an argument above 255 is split
        upper = argument << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode == _LOAD_GLOBAL:
            loaded.add(code.co_names[argument >> 1])  # the lowest bit marks a call
    return _SHOW_LOCALS.intersection(loaded)


def _variable_getter() -> Callable[[FrameType, str], Any] | None:
    if sys.version_info >= (3, 13):  # `f_locals` is a view of the frame, not a snapshot

        def from_view(frame: FrameType, name: str) -> Any:
            return frame.f_locals.get(name)

        return from_view
    if sys.version_info >= (3, 12):
        get = ctypes.pythonapi.PyFrame_GetVarString
        get.restype = ctypes.py_object
        get.argtypes = (ctypes.py_object, ctypes.c_char_p)

        def from_slots(frame: FrameType, name: str) -> Any:
            try:
                return get(frame, name.encode())
            except NameError:
                return None

        return from_slots
    return None


_get_variable = _variable_getter()
