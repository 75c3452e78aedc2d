"""The exception that ended the script, which Python leaves in `sys` before it calls the exit hooks.

Only attributes are read: no hook is installed, and no code of the script runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base.names import legible, shorten
from jaxtop_agent.arrays.origins import is_library
from jaxtop_agent.core.redaction import without_secrets
from jaxtop_agent.stalls.stacks import MAX_NAME_CHARS, MAX_WALKED_FRAMES, place

if TYPE_CHECKING:
    from types import TracebackType

LONGEST_MESSAGE = 300
# The attributes as Python defines them: those of a class of the script could run its code.
_OF_WORKER: list[BaseException] = []
_ARGS, _STRERROR = vars(BaseException)["args"].__get__, vars(OSError)["strerror"].__get__


def uncaught() -> wire.Uncaught | None:
    """Return the exception that ended the script; None if it ended otherwise, or if that is unknown.

    An interrupt by the user is none. `sys.exit(1)` leaves nothing here.
    """
    try:
        error, trace = _last()
        if not isinstance(error, Exception) or trace is None:
            return None
        return wire.Uncaught(
            shorten(legible(type(error).__name__), MAX_NAME_CHARS), _message(error), _place(trace)
        )
    except Exception:  # an exception may have any class
        return None


def exit_status() -> int | None:
    """Return the exit status of the script; None where exit hooks cannot see it, as after `sys.exit(3)`."""
    try:
        error, _ = _last()
        return wire.INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1 if error is not None else None
    except Exception:  # as above
        return None


def note_worker_error(error: BaseException | None) -> None:
    """Note what ends the work of a process of multiprocessing, which handles it after its exit hooks."""
    _OF_WORKER[:] = [error] if error is not None else []


def _last() -> tuple[BaseException | None, TracebackType | None]:
    """Return what ended the script, with its traceback; None if nothing is known to have ended it."""
    if _OF_WORKER:
        return _OF_WORKER[0], _OF_WORKER[0].__traceback__
    error, trace = getattr(sys, "last_value", None), getattr(sys, "last_traceback", None)
    if error is None or trace is None or hasattr(sys, "ps1"):
        return None, None  # at a prompt, an error ends nothing
    if trace.tb_frame.f_back is not None:
        return None, None  # it was shown by a program that caught it, such as pytest or IPython
    return error, trace


def _message(error: Exception) -> str:
    """Return the first line of the message, without what may be a secret in it.

    `str` could run code of the script, or read arrays, and so could an attribute of its class.
    """
    args = _ARGS(error)
    first = args[0] if args else ""
    if isinstance(error, OSError) and type(words := _STRERROR(error)) is str:
        first = words
    return first_line(first) if type(first) is str else ""


def first_line(message: str) -> str:
    """Return the first line of a message, printable, and without what may be a secret in it."""
    lines = message[: 2 * LONGEST_MESSAGE].strip().splitlines()
    return shorten(legible(without_secrets(lines[0])), LONGEST_MESSAGE) if lines else ""


def _place(trace: TracebackType) -> wire.Place:
    """Return the innermost line of the script; the innermost of all where libraries alone were running."""
    places = []
    for _ in range(MAX_WALKED_FRAMES):
        places.append((trace.tb_frame.f_code, trace.tb_lineno))
        if trace.tb_next is None:
            break
        trace = trace.tb_next
    of_script = (each for each in reversed(places) if not is_library(each[0].co_filename))
    return place(*next(of_script, places[-1]))
