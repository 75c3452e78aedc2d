"""Imports the agent's modules on a separate thread, so that `agent.start()` returns at once.

If a process forks while another thread imports, the child inherits a half-imported module and an import lock
that is never released. So a fork waits until the current import has ended, and the next import waits for the
fork.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from jaxtop.base.forks import ForkLock

if TYPE_CHECKING:
    from collections.abc import Iterator

# In this order each module adds little to those before it, so that a fork, which waits for one import, waits
# briefly.
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
    "jaxtop_agent.service.messages",
    "jaxtop_agent.service.registrar",
    "jaxtop_agent.service.sampler",
    "jaxtop.traces",
    "jaxtop_agent.profiler.worker",
    "jaxtop_agent.stalls.activity",
    "jaxtop.store.ledgers",
    "jaxtop_agent.ledger.thread",
    "jaxtop_agent.ledger.file",
    "jaxtop_agent.service.publisher",
    "jaxtop_agent.service.assembly",
)


class Stopped(Exception):
    """The agent was stopped before it was loaded."""


class Loading:
    """Runs work that a fork must not interrupt."""

    def __init__(self) -> None:
        # Held during a block of work; a fork waits for it.
        self.busy = ForkLock()
        self.is_stopped = False

    @contextmanager
    def undivided(self) -> Iterator[None]:
        """Keep this process from forking during the block; raise `Stopped` if the agent was stopped."""
        with self.busy.lock:
            if self.is_stopped:
                raise Stopped
            yield

    def load(self) -> None:
        for name in MODULES:
            with self.undivided():
                import_module(name)
