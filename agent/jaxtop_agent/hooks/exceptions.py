"""The exceptions that JAX's runtime raises, whether the script catches them or not."""

from __future__ import annotations

import sys
from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base.clock import now_ms
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays.origins import is_library

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

# The number of exceptions that are remembered.
MAX_EXCEPTIONS = 64
# The number of frames that are searched for the script's own code.
MAX_FRAMES = 100
# The length of the message of an exception.
MAX_MESSAGE_CHARS = 600
# JAX and its libraries raise these exceptions to detect features, and catch them themselves.
_ANSWERS = frozenset({"UNIMPLEMENTED", "NOT_FOUND", "ALREADY_EXISTS"})
# These functions rebuild an exception that was raised before, maybe in another process.
_COPIES = frozenset({"copy", "copyreg", "pickle"})


class RaisedException(NamedTuple):
    """An exception of JAX's runtime: when, on which thread, its message, and the script's line.

    `function` is the one whose launch raised it; empty where that is unknown.
    """

    at_ms: int
    thread: int
    message: str
    code: CodeType | None
    line: int
    function: str


class RuntimeExceptions:
    """The latest exceptions of JAX's runtime. No exception and no frame is held."""

    name = "exceptions"

    def __init__(self, launching: Callable[[], str]) -> None:
        """`launching` returns the function that this thread is launching outside JAX's fast path."""
        self._launching = launching
        self.latest: deque[RaisedException] = deque(maxlen=MAX_EXCEPTIONS)
        self._errors = jaxprivate.RuntimeErrors(self._note)

    def install(self) -> str:
        self._errors.install()
        return "on"

    def uninstall(self) -> None:
        self._errors.uninstall()

    def _note(self, args: tuple[Any, ...]) -> None:
        text = args[0] if args else ""
        if type(text) is not str or text.partition(":")[0] in _ANSWERS:
            return
        frame = innermost = sys._getframe(2)
        if innermost.f_globals.get("__name__") in _COPIES:
            return
        for _ in range(MAX_FRAMES):
            if frame.f_globals.get("__name__") == jaxprivate.TRIES_PLATFORMS:
                return
            if not is_library(frame.f_code.co_filename) or frame.f_back is None:
                break
            frame = frame.f_back
        is_of_script = not is_library(frame.f_code.co_filename)
        is_launch = innermost.f_globals.get("__name__") == jaxprivate.LAUNCHES_SLOWLY
        self.latest.append(
            RaisedException(
                now_ms(),
                get_ident(),
                text[:MAX_MESSAGE_CHARS],
                frame.f_code if is_of_script else None,
                frame.f_lineno or 0,
                self._launching() if is_launch else "",
            )
        )
