"""The processes of a run with a fault, and what process 0 prints."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from jaxtop.cli.machine import processes

ROOT = Path(__file__).parents[2]
HOSTS, DEVICES = 2, 4
PROGRAMS = {"demo": "jaxtop_agent.demo.train", "plain": "tests.faults.plain", "rest": "tests.faults.rest"}
OF_FAULTS = ("demo", "plain")
_STEP = re.compile(r"step +(\d+) .* ([\d.]+) ms/step")
_FAULT = re.compile(
    r"fault \w+ (begins|first costs something)(?: (\d+) bytes per device)? at \S+ \(([\d.]+)\)"
)


class Output:
    """The lines of process 0, with the times of steps and of the fault."""

    def __init__(self, pipe: Any) -> None:
        self.steps: list[tuple[float, int, float]] = []  # when, the step, its milliseconds
        self.began: float | None = None
        self.costs: float | None = None
        self.bytes_per_device: float | None = None
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe: Any) -> None:
        with pipe:
            for line in pipe:
                text = line.decode(errors="replace")
                if found := _STEP.search(text):
                    self.steps.append((time.time(), int(found[1]), float(found[2])))
                elif found := _FAULT.search(text):
                    if found[1] == "begins":
                        self.began = float(found[3])
                        self.bytes_per_device = float(found[2]) if found[2] else None
                    self.costs = float(found[3])

    def step_ms(self, *, faulty: bool) -> float | None:
        """The mean time of a step before or since the fault; None if too few were reported."""
        began = self.began or float("inf")
        lines = [each for each in self.steps if (each[0] > began) == faulty]
        spans = [(now[1] - then[1], now[2]) for then, now in pairwise(lines)]
        steps = sum(count for count, _ in spans)
        return sum(count * ms for count, ms in spans) / steps if steps else None


class Process(subprocess.Popen[bytes]):
    """One process of a run, which ends with the block."""

    def __init__(self, words: list[str], output: int, errors: Any) -> None:
        self.printed = errors
        super().__init__(
            words,
            env={**processes.on_cpu(DEVICES), "PYTHONPATH": f"{ROOT}:{ROOT / 'agent'}"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            preexec_fn=_die_with_the_bench,
        )

    def last_words(self) -> str:
        return processes.last_words(self.printed)

    def __exit__(self, *_: object) -> None:
        self.send_signal(signal.SIGCONT)
        self.kill()
        self.wait()
        self.printed.close()


def _die_with_the_bench() -> None:
    processes.die_with_parent(signal.SIGKILL)


def start(program: str, index: int, words: list[str], port: int) -> Process:
    place = [
        "--process",
        index,
        "--processes",
        HOSTS,
        "--coordinator",
        f"127.0.0.1:{port}",
        "--devices",
        DEVICES,
    ]
    command = [sys.executable, "-m", PROGRAMS[program], *map(str, place), *words]
    output = subprocess.DEVNULL if index else subprocess.PIPE
    return Process(command, output, tempfile.TemporaryFile("w+"))
