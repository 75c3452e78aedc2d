"""The identity of an agent, fixed at its start."""

from __future__ import annotations

import os
import platform
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from jaxtop import processes
from jaxtop.clock import now_ms
from jaxtop.wire import Peer


@dataclass(frozen=True)
class Identity:
    """One agent, with its process and its machine."""

    agent: str
    name: str
    hostname: str
    pid: int
    process_started_ticks: int | None
    namespace: processes.Namespace
    started_ms: int
    argv: tuple[str, ...]
    python: str

    def peer(self, process_index: int | None, telemetry: str, requests: str) -> Peer:
        return Peer(
            agent=self.agent,
            process_index=process_index,
            hostname=self.hostname,
            pid=self.pid,
            process_started_ticks=self.process_started_ticks,
            boot=self.namespace.boot,
            pid_namespace=self.namespace.pid_namespace,
            telemetry=telemetry,
            requests=requests,
        )


def identify(name: str | None) -> Identity:
    """Create the identity of an agent that starts now."""
    pid = os.getpid()
    return Identity(
        agent=os.urandom(8).hex(),  # not `random`, whose state belongs to the script
        name=name or _script_name(),
        hostname=socket.gethostname(),
        pid=pid,
        process_started_ticks=processes.start_ticks(pid),
        namespace=processes.here(),
        started_ms=now_ms(),
        argv=tuple(str(word)[:200] for word in sys.argv[:20]),
        python=platform.python_version(),
    )


def _script_name() -> str:
    first = sys.argv[0] if sys.argv else ""
    if first in {"", "-c", "-m"}:
        return "python"
    path = Path(first)
    # A package run with -m is named after its folder, because "__main__" identifies nothing.
    return path.parent.name if path.stem == "__main__" else path.stem
