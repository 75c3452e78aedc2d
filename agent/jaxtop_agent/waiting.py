"""Waiting for a bell or for time to pass, whichever comes first; and pausing, for others to have the GIL."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtop_agent.threads import Wake

# Not 0, after which the GIL would be ours again before anybody woke up.
BREATH_S = 1e-5


def wait(bell: Wake, seconds: float) -> bool:
    """Wait at most so long; True if the bell rang."""
    poller = select.poll()  # select() fails in programs with more than 1,024 open files
    poller.register(bell.fd, select.POLLIN)
    rang = bool(poller.poll(max(0.0, seconds) * 1000))
    if rang:
        bell.clear()
    return rang


def breathe() -> None:
    """Let whoever waits for the GIL have it."""
    time.sleep(BREATH_S)
