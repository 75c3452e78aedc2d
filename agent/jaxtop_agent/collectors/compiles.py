"""The running compilations, and the durations of finished ones, from JAX's monitoring events."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.clock import now_ms
from jaxtop.names import program_of, unwrapped
from jaxtop_agent import jaxprivate
from jaxtop_agent.programs.compilations import Compiled, steady_ms

if TYPE_CHECKING:
    from jaxtop.wire import Compiling
    from jaxtop_agent.core.board import Board

# The bound keeps the agent from growing with a program that makes new functions forever.
MOST_NAMES = 500
EVENT = "/jax/core/compile/backend_compile_duration"
# The stages up to that event: tracing and lowering, which take as long for large functions.
STAGES = {
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    EVENT,
}
# A stage belongs to the same compilation as the stage before it if it begins within this time, or within the
# time that the earlier stages took: JAX works on their results between two stages.
NEXT_STAGE_WITHIN_MS = 1000
MOST_THREADS = 64
# The compilations that end while the agent is still loading are stored, and reported afterwards.
MOST_EARLY = 64


class Running(NamedTuple):
    """A running compilation: its function and its start."""

    function: str
    since_ms: int


class Compiles:
    """The compilations of the process. A thread compiles one program at a time.

    The listeners run on the user's threads. They are installed before the agent is loaded, so this module
    imports nothing that takes long.
    """

    name = "compiles"

    def __init__(self) -> None:
        self._board: Board | None = None
        self.compiled: dict[str, Compiled] = {}  # by program name; the board shares it
        self._finished: deque[tuple[int, str, int]] = deque(maxlen=MOST_EARLY)
        self._running: dict[int, Running] = {}
        self._depth: dict[int, int] = {}  # functions are traced within functions
        # The last stage of each thread, and its end.
        self._last: dict[int, tuple[Running, int]] = {}
        self._compiles: dict[int, jaxprivate.Compiles] = {}
        self._listeners = jaxprivate.CompileListeners(self._started, self._ended)
        # The monotonic time at which a compilation last ended.
        self.last_ended = 0.0

    def attach(self, board: Board) -> None:
        """Report to this board from now on, beginning with the compilations that have ended already."""
        board.compiled = self.compiled
        self._board = board
        self._report()

    def _report(self) -> None:
        from jaxtop.wire import Compile  # loaded with the board

        while self._board is not None and self._finished:
            with suppress(IndexError):  # another thread took it
                self._board.send(Compile(*self._finished.popleft()))

    def install(self) -> str:
        """Listen from now on, and return the state of the source."""
        self._listeners.register()
        return "on"

    def uninstall(self) -> None:
        self._listeners.unregister()

    def running(self) -> tuple[Compiling, ...]:
        """Return the functions that are being traced, lowered or compiled now."""
        from jaxtop.wire import Compiling  # as above

        return tuple(Compiling(*each) for each in self._running.copy().values())

    def _started(self, event: str, value: object, **facts: object) -> None:  # noqa: ARG002 - JAX's signature
        if event in STAGES:
            with suppress(Exception):  # an error here must not stop the user's compilation
                self._begin(threading.get_ident(), _function(facts))
                if event == EVENT:
                    self._compiles[threading.get_ident()] = jaxprivate.being_compiled(sys._getframe())

    def _begin(self, thread: int, function: str) -> None:
        depth = self._depth[thread] = self._depth.get(thread, 0) + 1
        if depth > 1:
            return
        now = now_ms()
        last, ended_ms = self._last.get(thread, (Running("", now), now))
        is_next = now - ended_ms < max(NEXT_STAGE_WITHIN_MS, ended_ms - last.since_ms)
        goes_on = is_next and program_of(function) == program_of(last.function)
        self._running[thread] = last if goes_on else Running(function, now)

    def _ended(self, event: str, duration: float, **facts: object) -> None:
        if event in STAGES:
            with suppress(Exception):  # as above
                self._end(threading.get_ident())
                if event == EVENT:
                    self._last.pop(threading.get_ident(), None)  # the next stage is a new compilation's
                    self.last_ended = time.monotonic()
                    function, took = _function(facts), round(duration * 1000)
                    self._note(function, took)
                    self._finished.append((now_ms(), function, took))
                    if self._board is not None:
                        self._report()

    def _end(self, thread: int) -> None:
        depth = self._depth.pop(thread, 1) - 1
        if depth > 0:
            self._depth[thread] = depth
        elif (done := self._running.pop(thread, None)) is not None:
            if len(self._last) >= MOST_THREADS:
                self._last.clear()
            self._last[thread] = done, now_ms()

    def _note(self, function: str, took: int) -> None:
        """Note a compilation under its program's name, so that functions of one name share an entry."""
        what = self._compiles.pop(threading.get_ident(), jaxprivate.Compiles())
        noted, name = self.compiled, program_of(function)
        if name in noted or len(noted) < MOST_NAMES:
            noted[name] = noted.get(name, Compiled(function)).again(
                steady_ms(), took, of_jax=what.of_jax, initializes=what.initializes
            )


def _function(facts: dict[str, object]) -> str:
    return unwrapped(str(facts.get("fun_name") or "a function without a name"))
