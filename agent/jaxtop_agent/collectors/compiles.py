"""Which compilations run, and how long finished ones took, from JAX's monitoring events."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.names import program_of, unwrapped
from jaxtop_agent import jaxprivate
from jaxtop_agent.core.clock import now_ms
from jaxtop_agent.programs.compilations import Compiled, steady_ms

if TYPE_CHECKING:
    from jaxtop.wire import Compiling
    from jaxtop_agent.core.board import Board

# A program that makes new functions for ever must not make the agent grow for ever.
MOST_NAMES = 500
EVENT = "/jax/core/compile/backend_compile_duration"
# What goes before it: tracing and lowering, which of large functions take as long.
STAGES = {
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    EVENT,
}
# The next stage of the same function goes on with its compilation if it begins within this time, or within as
# long as the stages before it took: between two stages JAX works on what they made.
NEXT_STAGE_WITHIN_MS = 1000
MOST_THREADS = 64
# What ends while the agent is still being loaded, and is reported then.
MOST_EARLY = 64


class Running(NamedTuple):
    """A compilation that runs: of which function, since when."""

    function: str
    since_ms: int


class Compiles:
    """The listeners run on the user's threads; a thread compiles one program at a time.

    They are put in before the agent is loaded: this module imports nothing that takes long.
    """

    name = "compiles"

    def __init__(self) -> None:
        self._board: Board | None = None
        self.compiled: dict[str, Compiled] = {}  # by the name of the program; the board's, too
        self._finished: deque[tuple[int, str, int]] = deque(maxlen=MOST_EARLY)
        self._running: dict[int, Running] = {}
        self._depth: dict[int, int] = {}  # functions are traced within functions
        # The last stage of each thread, and when that ended.
        self._last: dict[int, tuple[Running, int]] = {}
        self._compiles: dict[int, jaxprivate.Compiles] = {}
        self._listeners = jaxprivate.CompileListeners(self._started, self._ended)
        # When a compilation last ended, by the monotonic clock.
        self.last_ended = 0.0

    def attach(self, board: Board) -> None:
        """Report to this board from now on, first what has ended already."""
        board.compiled = self.compiled
        self._board = board
        self._report()

    def _report(self) -> None:
        from jaxtop.wire import Compile  # loaded with the board

        while self._board is not None and self._finished:
            with suppress(IndexError):  # another thread took it
                self._board.tell(Compile(*self._finished.popleft()))

    def install(self) -> None:
        self._listeners.register()

    def uninstall(self) -> None:
        self._listeners.unregister()

    def running(self) -> tuple[Compiling, ...]:
        """What is being compiled now: traced, lowered or compiled."""
        from jaxtop.wire import Compiling  # as above

        return tuple(Compiling(*each) for each in self._running.copy().values())

    def _started(self, event: str, value: object, **facts: object) -> None:  # noqa: ARG002 - JAX's signature
        if event in STAGES:
            with suppress(Exception):  # the user's compilation goes on
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
                    self._last.pop(threading.get_ident(), None)  # what comes next is another compilation
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
        """By the name of the program, so that two functions of one name are one entry."""
        what = self._compiles.pop(threading.get_ident(), jaxprivate.Compiles())
        noted, name = self.compiled, program_of(function)
        if name in noted or len(noted) < MOST_NAMES:
            noted[name] = noted.get(name, Compiled(function)).again(
                steady_ms(), took, of_jax=what.of_jax, initializes=what.initializes
            )


def _function(facts: dict[str, object]) -> str:
    return unwrapped(str(facts.get("fun_name") or "a function without a name"))
