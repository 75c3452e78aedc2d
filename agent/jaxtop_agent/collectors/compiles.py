"""Which compilations run, and how long finished ones took, from JAX's monitoring events."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop.names import program_of
from jaxtop.wire import Compile, Compiling
from jaxtop_agent import jaxprivate
from jaxtop_agent.clock import now_ms
from jaxtop_agent.compiled import Compiled

if TYPE_CHECKING:
    from jaxtop_agent.board import Board

# A program that makes new functions for ever must not make the agent grow for ever.
MOST_NAMES = 500
EVENT = "/jax/core/compile/backend_compile_duration"


class Compiles:
    """The listeners run on the user's threads; a thread compiles one program at a time."""

    name = "compiles"

    def __init__(self, board: Board) -> None:
        self._board = board
        self._running: dict[int, Compiling] = {}
        self._listeners = jaxprivate.CompileListeners(self._started, self._ended)

    def install(self) -> None:
        self._listeners.register()

    def uninstall(self) -> None:
        self._listeners.unregister()

    def running(self) -> tuple[Compiling, ...]:
        """What is being compiled now."""
        return tuple(self._running.copy().values())

    def _started(self, event: str, value: object, **facts: object) -> None:  # noqa: ARG002 - JAX's signature
        if event == EVENT:
            with suppress(Exception):  # the user's compilation goes on
                self._running[threading.get_ident()] = Compiling(_function(facts), now_ms())

    def _ended(self, event: str, duration: float, **facts: object) -> None:
        if event == EVENT:
            with suppress(Exception):  # as above
                self._running.pop(threading.get_ident(), None)
                now, function, took = now_ms(), _function(facts), round(duration * 1000)
                self._note(function, now, took)
                self._board.tell(Compile(now, function, took))

    def _note(self, function: str, now: int, took: int) -> None:
        """By the name of the program, so that two functions of one name are one entry."""
        noted, name = self._board.compiled, program_of(function)
        if name in noted or len(noted) < MOST_NAMES:
            noted[name] = noted.get(name, Compiled(function)).again(now, took)


def _function(facts: dict[str, object]) -> str:
    name = str(facts.get("fun_name") or "a function without a name")
    return name.removeprefix("jit(").removesuffix(")") if name.startswith("jit(") else name
