"""The agent's modules, imported on a thread of its own, so that `agent.start()` returns at once.

A process that forks while another thread imports leaves the child with a module that nobody will finish,
behind a lock that nobody will open. So a fork waits until the import under way has ended, and the next one
waits for the fork.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# In this order each brings little that those before it did not: a fork waits for one of them.
MODULES = (
    "msgspec",
    "zmq.backend",
    "zmq",
    "asyncio",
    "zmq.utils.monitor",
    "jaxtop.wire",
    "jaxtop.transport",
    "jaxtop_agent.core.board",
    "jaxtop_agent.arrays.census",
    "jaxtop_agent.collectors.arrays",
    "jaxtop_agent.collectors.host",
    "jaxtop_agent.collectors.programs",
    "jaxtop_agent.collectors.steps",
    "jaxtop_agent.collectors.topology",
    "jaxtop_agent.hardware.worker",
    "jaxtop_agent.core.messages",
    "jaxtop_agent.core.registrar",
    "jaxtop_agent.core.sampler",
    "jaxtop_agent.profiler.worker",
    "jaxtop_agent.core.publisher",
)
# An import may wait for the very thread that forks.
LONGEST_WAIT = 1.0


class Stopped(Exception):
    """The agent was stopped before it was loaded."""


class Loading:
    """What is done between two forks."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._is_held = False
        self.is_stopped = False

    @contextmanager
    def undivided(self) -> Iterator[None]:
        """Something during which this process does not fork; `Stopped` if it is not to begin."""
        with self._busy:
            if self.is_stopped:
                raise Stopped
            yield

    def load(self) -> None:
        """Import what the agent is made of."""
        for name in MODULES:
            with self.undivided():
                import_module(name)

    def hold(self) -> None:
        """Before a fork, on the thread that forks: wait until nothing is half done."""
        self._is_held = self._busy.acquire(timeout=LONGEST_WAIT)

    def go_on(self) -> None:
        """After it, in the parent."""
        if self._is_held:
            self._is_held = False
            self._busy.release()
