"""The cost of reading the collectives from the text of a very large program."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from jaxtop_agent.core.waiting import GilYielder
from jaxtop_agent.programs import hlo
from tests.bench import probes, texts
from tests.bench.frame import Figure, one, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.bench.frame import Setting

CPU_BUDGET_S = 3.0
HOLD_BUDGET_MS = 5.0


def measure(setting: Setting) -> Iterator[Figure]:
    megabytes = setting.pick(50, 5)
    text = texts.program(megabytes * texts.MB)
    seconds = [_cpu(lambda: hlo.read(text, GilYielder())) for _ in range(setting.pick(5, 2))]
    lines = [_cpu(lambda: sum(1 for _ in text.splitlines())) for _ in range(setting.pick(5, 2))]
    budget = CPU_BUDGET_S * megabytes / 50
    yield Figure(
        f"{megabytes} MB: CPU of reading it", whole(seconds), "s", control=whole(lines), budget=budget
    )
    yield Figure(f"{megabytes} MB: collectives in it", one(len(hlo.read(text).collectives)), "")
    stretches = [_stretch_ms(text) for _ in range(setting.pick(5, 2))]
    yield Figure(
        f"{megabytes} MB: longest CPU between two pauses", whole(stretches), "ms", budget=HOLD_BUDGET_MS
    )
    windows = setting.pick(5, 2)
    holds = [_hold(lambda over: _read_until(over, text)) for _ in range(windows)]
    control = [_hold(_count_until) for _ in range(windows)]
    yield Figure(f"{megabytes} MB: longest hold of the GIL", whole(holds), "ms", control=whole(control))


class _Timed(GilYielder):
    """A budget that records the longest time between two pauses, without the machine's other work."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self._since = time.thread_time()

    def __call__(self) -> None:
        self.longest = max(self.longest, time.thread_time() - self._since)
        super().__call__()
        self._since = time.thread_time()


def _stretch_ms(text: str) -> float:
    pace = _Timed()
    hlo.read(text, pace)
    pace()
    return pace.longest * 1000


def _cpu(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


def _read_until(over: threading.Event, text: str) -> None:
    while not over.is_set():
        hlo.read(text, GilYielder())


def _count_until(over: threading.Event) -> None:
    pace = GilYielder()
    while not over.is_set():
        sum(range(1000))
        pace()


def _hold(work: Callable[[threading.Event], None]) -> float:
    """Return the longest gap that a spinning thread sees while another does this work."""
    over = threading.Event()
    reader = threading.Thread(target=work, args=(over,))
    reader.start()
    try:
        assert reader.native_id is not None
        return max(probes.gaps(2.0, frozenset({reader.native_id})), default=0.0) * 1000
    finally:
        over.set()
        reader.join()
