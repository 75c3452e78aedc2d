"""The variables of running functions, read without leaving a trace in them.

Each version of Python has its own trap: up to 3.12 `frame.f_locals` of a running function leaves a snapshot
on the frame, which keeps what the script has dropped since; and clearing it empties a dict that the script
may hold as its `locals()`.
"""

from __future__ import annotations

import ctypes
import dis
import sys
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.arrays import running
from jaxtop_agent.arrays.origins import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

# Frames of these are not the user's: their variables are Python's, JAX's or the frameworks' own.
_NOT_THE_USERS = LIBRARIES | {"jaxtop", "jaxtop_agent"} | (sys.stdlib_module_names - {"__main__"})
# Functions of Python that hand out the variables of the function that calls them, or may do so.
_SHOW_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir"})
_MODULE_OF_THESE = frozenset({"builtins", "__builtins__"})
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_OPTIMIZED = 0x1  # CO_OPTIMIZED: the variables are slots, not the entries of a dict
_RESUMED = 0x20 | 0x80 | 0x200  # of generators, coroutines and asynchronous generators
MODULE = "<module>"


class Variable(NamedTuple):
    """Where a variable is found, without holding anything of it: thread, depth of the frame, code, name.

    Variables of the main module have no code: they are there between the cells of a notebook, too.
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
        """Whether its function is suspended again and again; then it has no frame on any stack."""
        return self.code is not None and bool(self.code.co_flags & _RESUMED)


def variables() -> list[Variable]:
    """The variables of the main module, then of the user's running functions, outermost functions first.

    Those that come first change least.
    """
    main = _main()
    found = [Variable(0, 0, None, name) for name in main.copy() if not _is_hidden(name)]
    threads = running.frames()
    try:
        for thread in sorted(threads):  # the main thread is usually the oldest, and so has the lowest number
            found += _variables(thread, running.stack(threads[thread]), main)
    finally:
        threads.clear()
    return found


def a_generator_runs() -> bool:
    """Whether one of the script is not suspended at this moment."""
    threads = running.frames()
    try:
        return any(
            frame.f_code.co_flags & _RESUMED and is_the_users(frame)
            for thread in threads
            for frame in running.stack(threads[thread])
        )
    finally:
        threads.clear()


def _main() -> dict[str, Any]:
    """The variables of the main module: of the script, or of an interactive session."""
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
    """The variables of a function, without `.0`, which is what a comprehension goes through."""
    slots = (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    return tuple(name for name in slots if not name.startswith("."))


def _is_hidden(name: object) -> bool:
    # What an interactive session keeps as `_`, `_1`, `__` or in `_oh` has another name too, such as `Out[1]`,
    # or is on its way out.
    if not isinstance(name, str):
        return True
    return name.startswith("_") and (name == "_oh" or not name.strip("_0123456789"))


def values(frame: FrameType) -> dict[str, Any]:
    """The variables of one function, which may be suspended; to be dropped before the script runs on."""
    if not frame.f_code.co_flags & _OPTIMIZED:
        return {name: value for name, value in frame.f_locals.copy().items() if not _is_hidden(name)}
    if _get_variable is None:
        snapshot = _snapshot(frame)
        return {name: snapshot[name] for name in _slots(frame.f_code) if name in snapshot}
    return {name: _get_variable(frame, name) for name in _slots(frame.f_code)}


class Reader:
    """Reads variables for a moment; `let_go` must come before the script may run on."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[FrameType]] = {}
        self._values: dict[FrameType, dict[str, Any]] = {}

    def read(self, variable: Variable) -> Any:
        """Its value; None where the function has ended or the variable is not bound."""
        if variable.code is None:
            return _main().get(variable.name)
        stack = self._stacks.get(variable.thread)
        if stack is None:
            threads = running.frames()
            innermost = threads.get(variable.thread)
            threads.clear()
            stack = [] if innermost is None else running.stack(innermost)[::-1]
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
        """Hold nothing any more: a frame that is held keeps its variables after its function has ended."""
        self._values.clear()
        self._stacks.clear()


def local(frame: FrameType, name: str) -> Any:
    """The value of a variable of a running function; None where it is not bound or cannot be read."""
    if not frame.f_code.co_flags & _OPTIMIZED:
        return frame.f_locals.get(name)
    if _get_variable is not None:
        return _get_variable(frame, name)
    return _snapshot(frame).get(name)


def _snapshot(frame: FrameType) -> dict[str, Any]:
    """Python 3.11: a copy of the snapshot, which is then emptied, unless somebody else may hold it."""
    if frame.f_trace is not None or _may_show_its_locals(frame):
        return {}  # a debugger's variables, or the dict that the script got from `locals()`
    snapshot: dict[str, Any] = running.local_variables(frame)
    values = snapshot.copy()
    snapshot.clear()
    return values


def _may_show_its_locals(frame: FrameType) -> bool:
    """Whether the function uses `locals` or the like: Python's own, no method or function of the script."""
    code = frame.f_code
    if _SHOW_LOCALS.isdisjoint(code.co_names):
        return False
    own, python = frame.f_globals, frame.f_builtins
    return any(name not in own or own[name] is python.get(name) for name in _shows_locals(code))


@lru_cache(maxsize=1024)
def _shows_locals(code: CodeType) -> frozenset[str]:
    """Which of these functions it loads by name. `model.eval` loads an attribute, which is none of them."""
    if not _MODULE_OF_THESE.isdisjoint((*code.co_names, *code.co_varnames)):
        return _SHOW_LOCALS.intersection(code.co_names)  # `builtins.locals` is an attribute, too
    loaded, upper = set(), 0
    for opcode, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= upper  # noqa: PLW2901 - the low byte of a large one
        upper = argument << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode == _LOAD_GLOBAL:
            loaded.add(code.co_names[argument >> 1])  # the lowest bit says that it is called
    return _SHOW_LOCALS.intersection(loaded)


def _variable_getter() -> Callable[[FrameType, str], Any] | None:
    if sys.version_info >= (3, 13):  # a view of the frame, no snapshot

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
