"""Reads the frames of running threads safely.

A held frame keeps alive the variables of a function that may have ended since.

On Python 3.11, creating an object may start a garbage collection at once, which runs Python code: finalizers,
and `gc.callbacks`, to which JAX adds one. Other threads run meanwhile. Inside `sys._current_frames()`, until
3.11.8, the whole process then deadlocked if a thread began or ended. Inside `f_back` and `f_locals`, the
function in question ended, the call wrote to the memory where its variables had been, and the process
crashed. So no garbage is collected during these calls. Newer versions collect only between instructions.
"""

from __future__ import annotations

import gc
import operator
import sys
from functools import partial
from itertools import accumulate, islice, repeat, takewhile
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

T = TypeVar("T")

COLLECTS_ANYWHERE = sys.version_info < (3, 12)
# These versions still show a function that is just ending, with variables that no longer exist.
SHOWS_WHAT_ENDS = sys.version_info < (3, 11, 1)


def frames() -> dict[int, FrameType]:
    """Return the frame of each thread by ident. Clear the dict at once: it is part of a reference cycle."""
    return {} if SHOWS_WHAT_ENDS else _undisturbed(sys._current_frames)


def stack(frame: FrameType, deepest: int | None = None) -> list[FrameType]:
    """Return a frame and its callers, the innermost first."""
    outwards: Any = accumulate(repeat("f_back"), getattr, initial=frame)
    return _undisturbed(partial(list, islice(takewhile(partial(operator.is_not, None), outwards), deepest)))


def suspended(value: object, attribute: str) -> Any:
    """Return the frame of a generator or coroutine from the given attribute; None once it has ended."""
    return _undisturbed(partial(getattr, value, attribute))


def referents(value: object) -> list[Any]:
    """Return the objects that an object of one of Python's own types holds."""
    return _undisturbed(partial(gc.get_referents, value))


def local_variables(frame: FrameType) -> Any:
    """Return `f_locals` of a frame, which is a dict or a view, depending on the version of Python."""
    return _undisturbed(partial(getattr, frame, "f_locals"))


def _undisturbed(read: Callable[[], T]) -> T:
    """Call a function that is written in C and return its result, with no garbage collection meanwhile."""
    if not COLLECTS_ANYWHERE:
        return read()
    # One call runs only C functions, so no other thread runs in between: none finds the collection off that
    # it had turned on, or on that it had turned off. If it is already off, this ends after the first step.
    steps: Iterator[Any] = map(operator.call, (gc.isenabled, gc.disable, read, gc.enable))
    try:
        done: list[Any] = list(takewhile(partial(operator.is_not, False), steps))
    except BaseException:  # no memory, or an audit hook of the script
        gc.enable()
        raise
    return done[2] if done else read()
