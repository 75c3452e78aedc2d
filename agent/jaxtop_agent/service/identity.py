"""The identity of an agent, fixed at its start."""

from __future__ import annotations

import os
import platform
import socket
import sys
from pathlib import Path

from jaxtop import processes
from jaxtop._version import __version__
from jaxtop.clock import now_ms
from jaxtop.wire import Hello

# The scripts that run the kernel of a notebook.
_KERNELS = frozenset({"ipykernel_launcher", "colab_kernel_launcher"})


def identify(name: str | None) -> Hello:
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
        name=name or _script_name(),
        job=processes.job(),
    )


def _script_name() -> str:
    first = sys.argv[0] if sys.argv else ""
    if first in {"", "-c", "-m"}:
        return "python"
    path = Path(first)
    if path.stem in _KERNELS:  # Jupyter names the notebook
        return Path(os.environ.get("JPY_SESSION_NAME", "")).stem or "notebook"
    # A package run with -m is named after its folder, because "__main__" identifies nothing.
    return path.parent.name if path.stem == "__main__" else path.stem
