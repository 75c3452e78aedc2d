"""The identity of an agent, fixed at its start."""

from __future__ import annotations

import os
import platform
import socket
import sys

from jaxtop._version import __version__
from jaxtop.base import processes
from jaxtop.base.clock import now_ms
from jaxtop.wire import Hello
from jaxtop_agent.core.settings import script_name


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
