"""The checkpoints that Orbax reports to JAX's monitoring: when they blocked the script, and when complete.

Orbax reports most of this in one process of the run only. In the others, stacks show that they save.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from jaxtop_agent import jaxprivate

# Both spellings that versions of Orbax use. A checkpoint that is reported under both has one time.
BLOCKED = {
    "/jax/orbax/write/blocking_duration_secs": "saving",
    "/jax/orbax/write/async/blocking_duration_secs": "saving",
    "/jax/checkpoint/write/async/blocking_duration_secs": "saving",
    "/jax/orbax/read/blocking_duration_secs": "restoring",
    "/jax/orbax/read/async/blocking_duration_secs": "restoring",
}
COMPLETE = frozenset(
    {
        "/jax/orbax/write/total_duration_secs",
        "/jax/orbax/write/async/total_duration_secs",
        "/jax/checkpoint/write/async/total_duration_secs",
    }
)
# The number of reports that are kept until the ledger reads them.
MAX_REPORTS = 256


class BlockedSpan(NamedTuple):
    """A time in which Orbax blocked a thread, on the monotonic clock."""

    thread: int
    start: float
    end: float
    kind: str


class CheckpointReports:
    """Listens on the user's threads, and only notes."""

    name = "checkpoints"

    def __init__(self) -> None:
        self.blocked: deque[BlockedSpan] = deque(maxlen=MAX_REPORTS)
        # When a checkpoint was complete, and when it had begun.
        self.complete: deque[tuple[float, float]] = deque(maxlen=MAX_REPORTS)
        self._listeners = jaxprivate.MonitoringListeners(_ignore, self._ended, _ignore)

    def install(self) -> str:
        self._listeners.register()
        return "on"

    def uninstall(self) -> None:
        self._listeners.unregister()

    def _ended(self, event: str, duration: float, **_: object) -> None:
        if event not in BLOCKED and event not in COMPLETE:
            return
        with suppress(Exception):  # an error here must not stop the user's checkpoint
            now = monotonic()
            start = now - max(0.0, duration)
            if event in COMPLETE:
                self.complete.append((now, start))
            else:
                self.blocked.append(BlockedSpan(threading.get_ident(), start, now, BLOCKED[event]))


def _ignore(*_: object, **__: object) -> None:
    pass
