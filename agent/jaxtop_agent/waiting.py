"""Waiting for a bell or for time to pass, whichever comes first."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtop_agent.threads import Wake


def wait(bell: Wake, seconds: float) -> bool:
    """Wait at most so long; True if the bell rang."""
    poller = select.poll()  # select() fails in programs with more than 1,024 open files
    poller.register(bell.fd, select.POLLIN)
    rang = bool(poller.poll(max(0.0, seconds) * 1000))
    if rang:
        bell.clear()
    return rang
