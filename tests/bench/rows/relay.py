"""What relays cost that join generated hosts, and what a viewer behind them sees."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

import psutil

from jaxtop import wire
from jaxtop.base import keys
from jaxtop.base.clock import now_ms
from jaxtop.sources import LiveSource, discovery
from tests.bench.frame import Estimate, Figure, one
from tests.bench.processes import REPOSITORY
from tests.support import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

DEVICES, ARRAYS = 8, 50
# The time in which everything must have arrived.
PATIENCE_S = 100.0


class Seen:
    """What a viewer receives: the ages of pulses, and the pulses that are missing."""

    def __init__(self, at: str) -> None:
        self._source = LiveSource(discovery.seeds([at]), keys.load())
        self._last: dict[str, int] = {}
        self.met: set[str] = set()
        self.ages: list[float] = []
        self.lost = self.pulses = 0

    def look(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for frame in self._source.poll(left):
                if frame.kind == "hello":
                    self.met.add(frame.agent)
                if frame.kind == "pulse":
                    self._count(frame)

    def _count(self, frame: wire.Frame) -> None:
        pulse = wire.decode("pulse", frame.raw)
        assert isinstance(pulse, wire.Pulse)
        before = self._last.get(frame.agent, frame.sequence - 1)
        if frame.sequence > before:
            self._last[frame.agent] = frame.sequence
            self.lost += frame.sequence - before - 1
            self.pulses += 1
            self.ages.append((now_ms() - pulse.at_ms) / 1000)

    def forget(self) -> None:
        self.ages, self.lost, self.pulses = [], 0, 0

    def close(self) -> None:
        self._source.close()


def measure(setting: Setting) -> Iterator[Figure]:
    """Measure one relay, and then a tree of them."""
    yield from _through(setting.pick(1024, 64), 1, 1.0, setting.pick(30.0, 3.0))
    yield from _through(
        setting.pick(1024, 32), setting.pick(10, 2), setting.pick(20.0, 1.0), setting.pick(40.0, 3.0)
    )


def _through(each: int, relays: int, every: float, seconds: float) -> Iterator[Figure]:
    """Measure `relays` relays of `each` hosts; of several, with another relay in front of them."""
    with ExitStack() as stack:
        words = [(each, DEVICES, 600, ARRAYS, "usual", number, every) for number in range(relays)]
        loads = [_start(stack, "-m", "tests.real.load", *some, stdout=subprocess.PIPE) for some in words]
        leaves = [_relay(stack, _line(load.stdout)) for load in loads]
        top = leaves[0] if relays == 1 else _relay(stack, *(at for _, at in leaves))
        seen = Seen(top[1])
        stack.callback(seen.close)
        began = time.monotonic()
        while len(seen.met) < each * relays and time.monotonic() - began < PATIENCE_S:
            seen.look(1.0)
        took = time.monotonic() - began
        seen.look(2 * every + 3.0)
        seen.forget()
        # Each relay once, the one that the viewer has dialled first.
        at_work = [top[0], *(process for process, _ in leaves if process is not top[0])]
        before = [_cpu_s(process) for process in at_work]
        seen.look(seconds)
        percent = [
            100 * (_cpu_s(process) - was) / seconds for process, was in zip(at_work, before, strict=True)
        ]
        label = f"{each * relays:,} hosts, a pulse every {every:g} s"
        yield Figure(f"{label}: hosts that the viewer met", one(len(seen.met)), "")
        yield Figure(f"{label}: until it met them", one(took), "s")
        yield Figure(f"{label}: CPU of the relay that it dials", one(percent[0]), "%")
        yield Figure(f"{label}: its memory", one(_mb(at_work[0])), "MB")
        if len(at_work) > 1:
            mean, rest = sum(percent[1:]) / len(percent[1:]), sorted(percent[1:])
            yield Figure(f"{label}: CPU of each relay behind it", Estimate(mean, rest[0], rest[-1]), "%")
            sizes = sorted(_mb(process) for process in at_work[1:])
            yield Figure(
                f"{label}: memory of each", Estimate(sizes[len(sizes) // 2], sizes[0], sizes[-1]), "MB"
            )
        ages = sorted(seen.ages)
        yield Figure(
            f"{label}: age of a pulse when it is shown",
            Estimate(ages[len(ages) // 2], ages[0], ages[-1]),
            "s",
        )
        yield Figure(f"{label}: the same, p99", one(ages[int(0.99 * (len(ages) - 1))]), "s")
        yield Figure(f"{label}: pulses that were lost", one(100 * seen.lost / (seen.lost + seen.pulses)), "%")


def _relay(stack: ExitStack, *targets: str) -> tuple[subprocess.Popen[str], str]:
    at = f"127.0.0.1:{free_port()}"
    started = _start(stack, "-m", "jaxtop", "relay", "--listen", at, *targets, stderr=subprocess.PIPE)
    said = _line(started.stderr)
    assert "listens on" in said, said
    return started, at


def _line(pipe: IO[str] | None) -> str:
    assert pipe is not None
    return pipe.readline().strip()


def _start(stack: ExitStack, *words: object, **options: int) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, *map(str, words)], cwd=REPOSITORY, text=True, **options)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _cpu_s(process: subprocess.Popen[str]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def _mb(process: subprocess.Popen[str]) -> float:
    return float(psutil.Process(process.pid).memory_info().rss / 1e6)
