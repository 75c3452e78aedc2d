"""The identity of an agent, fixed at its start, and the board that has it."""

from __future__ import annotations

import os
import platform
import socket
import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jaxtop._version import __version__
from jaxtop.base import processes
from jaxtop.base.clock import now_ms
from jaxtop.wire import Hello
from jaxtop_agent.core.board import Board
from jaxtop_agent.core.settings import script_name
from jaxtop_agent.service import roles

if TYPE_CHECKING:
    from jaxtop_agent.boot.children import Family
    from jaxtop_agent.core.settings import AgentSettings


def identify(
    name: str | None, peak_flops: int | None = None, simulated_limit_bytes: int | None = None
) -> Hello:
    """Return the hello of an agent that starts now, as far as it never changes."""
    pid, here = os.getpid(), processes.here()
    return Hello(
        agent=os.urandom(8).hex(),  # not `random`, whose state belongs to the script
        hostname=socket.gethostname(),
        pid=pid,
        process_started_ticks=processes.start_ticks(pid),
        boot=here.boot,
        pid_namespace=here.pid_namespace,
        started_ms=now_ms(),
        telemetry="",
        requests="",
        interval_ms=0,
        jaxtop=__version__,
        python=platform.python_version(),
        argv=tuple(str(word)[:200] for word in sys.argv[:20]),
        name=name or script_name(),
        job=processes.job(),
        peak_flops=peak_flops,
        simulated_limit_bytes=simulated_limit_bytes,
    )


def board_of(settings: AgentSettings, family: Family, role: str) -> Board:
    """Return the board of an agent that starts now, with its identity."""
    name = settings.name or roles.run_of_ray(family)
    hello = identify(name, settings.peak_flops, settings.simulated_limit)
    own_role = roles.of_process(role, family, serves=settings.scrape is not None)
    return Board(
        replace(hello, family=family.id, **own_role), interval=settings.interval, sources=settings.sources
    )
