"""The processes that rows measure, seen from the measuring process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

REPOSITORY = Path(__file__).parents[2]


class _Commanded:
    """A process that answers lines of JSON; it is ended at the end of the block."""

    def __init__(self, module: str, *words: object, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.bench.{module}", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **environment},
        )

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.communicate()  # it exits at the end of its input
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def stop(self) -> None:
        """Stop the process as Ctrl-Z does: its connections remain, but it reads nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def _say(self, line: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the measured process ended")
        return json.loads(line)["answer"]


class Trainer(_Commanded):
    """A JAX process that trains on command; see `tests.bench.trainer`."""

    def __init__(self, arrays: int = 100, devices: int = 8, **environment: str) -> None:
        super().__init__(
            "trainer",
            arrays,
            JAX_PLATFORMS="cpu",
            XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}",
            **environment,
        )
        self._answer()  # warm now

    def do(self, command: str, **arguments: object) -> Any:
        """Send a command and return its answer."""
        return self._say(json.dumps([command, arguments]))


class Viewer(_Commanded):
    """A live source of the newest run, in a process of its own."""

    def __init__(self) -> None:
        super().__init__("viewer")

    def tally(self) -> dict[str, Any]:
        """Return what it received since the last call."""
        taken: dict[str, Any] = self._say("")
        return taken
