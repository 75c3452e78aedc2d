"""Real processes for tests: scripts with and without jaxtop, JAX runs of several processes, snapshots."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PYTHON = sys.executable
JAXTOP = [PYTHON, "-m", "jaxtop"]


def environment(devices: int = 4, **more: str) -> dict[str, str]:
    """The environment of a JAX process on the CPU with this many devices; HOME is the test's own."""
    return {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        **more,
    }


def script(folder: Path, text: str, name: str = "script.py") -> Path:
    """A script file with this text."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def run(*words: object, timeout: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    options.setdefault("env", environment())
    return subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=timeout, check=False, **options
    )


def jaxtop(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a jaxtop command to its end."""
    return run(*JAXTOP, *words, **options)


def snapshot(*words: object, **options: Any) -> tuple[int, dict[str, Any]]:
    """The exit status and the document of `jaxtop snapshot`."""
    done = jaxtop("snapshot", *words, **options)
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def eventually(check: Any, timeout: float = 60, every: float = 0.2) -> Any:
    """Call until it returns something true; the last answer is in the failure."""
    end = time.monotonic() + timeout
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s; the last answer was {answer!r}")
        time.sleep(every)


@contextmanager
def processes(*commands: list[object], **options: Any):
    """Start commands side by side; all are gone afterwards."""
    options.setdefault("env", environment())
    started = [
        subprocess.Popen([str(word) for word in command], text=True, stdin=subprocess.DEVNULL, **options)
        for command in commands
    ]
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


@contextmanager
def jax_run(script_path: Path, hosts: int = 2, devices: int = 4, **options: Any):
    """A multi-process JAX run of a script that is given: coordinator, number of processes, index."""
    coordinator = f"127.0.0.1:{free_port()}"
    options.setdefault("env", environment(devices))
    commands = [[PYTHON, script_path, coordinator, hosts, index] for index in range(hosts)]
    with processes(*commands, **options) as started:
        yield started
