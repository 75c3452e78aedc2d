"""The costs of the app on a pseudo-terminal: CPU, memory, and the time from a key to its paint."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import statistics
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from tests.bench.frame import Estimate, Figure, one, whole
from tests.bench.processes import REPOSITORY, Trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

ROWS, COLUMNS = 50, 200
CPU_BUDGET = {1: 3.0, 256: None, 1024: 50.0}
MEMORY_BUDGET_MB = 500.0
KEY_BUDGET_MS = 100.0
PEERS = ("htop", "glances")
# A screen's key, its name, and two keys that move its selection.
SCREENS = (
    (b"1", "Overview", (b"j", b"k")),
    (b"2", "Mesh", (b"l", b"h")),
    (b"3", "Hosts", (b"j", b"k")),
)


class Terminal:
    """A program on a 200×50 pseudo-terminal, whose output is read as fast as it arrives."""

    def __init__(self, *words: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm-256color"}
        )
        os.close(slave)
        self.output_at = 0.0
        self.output_bytes = 0
        self._ended = False
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        while not self._ended:
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    taken = os.read(self._master, 1 << 16)
                except OSError:
                    return
                self.output_at = time.perf_counter()
                self.output_bytes += len(taken)

    def key_to_paint(self, key: bytes, patience: float = 2.0) -> float:
        """Return the seconds from a key to the output that follows it."""
        pressed = time.perf_counter()
        os.write(self._master, key)
        while self.output_at < pressed and time.perf_counter() - pressed < patience:
            time.sleep(0.0005)
        return time.perf_counter() - pressed

    def cpu_percent(self, seconds: float) -> float:
        """Return the percentage of one core that the program and its threads use."""
        process = psutil.Process(self.process.pid)
        before, started = process.cpu_times(), time.monotonic()
        time.sleep(seconds)
        after = process.cpu_times()
        used = after.user + after.system - before.user - before.system
        return 100 * used / (time.monotonic() - started)

    def memory_mb(self) -> float:
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def close(self) -> None:
        self._ended = True
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def on_terminal(*words: str) -> Iterator[Terminal]:
    terminal = Terminal(*words)
    try:
        yield terminal
    finally:
        terminal.close()


def measure(setting: Setting) -> Iterator[Figure]:
    """Measure one real host, compared with the installed peers, and then generated hosts."""
    seconds = float(setting.pick(10, 4))
    yield from _one_host(seconds)
    yield from _many_arrays(setting, seconds)
    for hosts in setting.pick((256, 1024), (64,)):
        with load(hosts) as address, on_terminal(*_jaxtop(), "attach", address) as terminal:
            time.sleep(setting.pick(15, 5))
            label = f"{hosts} hosts × 8 devices"
            for key, screen, keys in SCREENS:
                os.write(terminal._master, key)
                time.sleep(2.0)
                cpu = [terminal.cpu_percent(seconds / 2) for _ in range(2)]
                yield Figure(f"{label}, {screen}, CPU", whole(cpu), "%", budget=CPU_BUDGET.get(hosts))
                yield from _waits(terminal, f"{label}, {screen}", keys, setting.pick(60, 30))
            yield Figure(f"{label}, memory", one(terminal.memory_mb()), "MB", budget=MEMORY_BUDGET_MB)


def _many_arrays(setting: Setting, seconds: float) -> Iterator[Figure]:
    """Measure the screens with the most derivation, on hosts with many arrays."""
    with load(64, 10_000) as address, on_terminal(*_jaxtop(), "attach", address) as terminal:
        time.sleep(8)
        for key, screen in (("4", "Arrays"), ("5", "Memory")):
            os.write(terminal._master, key.encode())
            time.sleep(3)
            cpu = [terminal.cpu_percent(seconds / 2) for _ in range(2)]
            label = f"64 hosts × 10,000 arrays, {screen}"
            yield Figure(f"{label}, CPU", whole(cpu), "%", budget=CPU_BUDGET[1024])
            yield from _waits(terminal, label, (b"j", b"k"), setting.pick(60, 20))
        yield Figure(
            "64 hosts × 10,000 arrays, memory", one(terminal.memory_mb()), "MB", budget=MEMORY_BUDGET_MB
        )


def _one_host(seconds: float) -> Iterator[Figure]:
    with Trainer(devices=8) as trainer:
        trainer.do("start")
        with on_terminal(*_jaxtop(), "attach") as terminal:
            time.sleep(4)
            cpu = whole([terminal.cpu_percent(seconds / 2) for _ in range(2)])
            yield Figure("1 real host × 8 devices, idle, CPU", cpu, "%", budget=CPU_BUDGET[1])
            yield Figure("1 real host × 8 devices, idle, memory", one(terminal.memory_mb()), "MB")
        for peer in PEERS:
            if path := shutil.which(peer):
                with on_terminal(path) as terminal:
                    time.sleep(4)
                    yield Figure(f"beside it: {peer}, CPU", one(terminal.cpu_percent(seconds)), "%")
                    yield Figure(f"beside it: {peer}, memory", one(terminal.memory_mb()), "MB")


def _waits(terminal: Terminal, label: str, keys: tuple[bytes, bytes], presses: int) -> Iterator[Figure]:
    waits = []
    for i in range(presses):
        waits.append(1000 * terminal.key_to_paint(keys[i % 2]))
        time.sleep(0.11)  # not in step with the four paints a second
    waits.sort()
    spread = Estimate(statistics.median(waits), waits[0], waits[-1])
    yield Figure(f"{label}: key to paint, median", spread, "ms")
    p99 = one(waits[int(0.99 * (len(waits) - 1))])
    yield Figure(f"{label}: key to paint, p99", p99, "ms", budget=KEY_BUDGET_MS)


@contextmanager
def load(hosts: int, arrays: int = 50, figures: str = "usual") -> Iterator[str]:
    """Run generated hosts of 8 devices, and yield the address of one."""
    words = [sys.executable, "-m", "tests.real.load", str(hosts), "8", "600", str(arrays), figures]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _jaxtop() -> tuple[str, ...]:
    return sys.executable, "-m", "jaxtop"
