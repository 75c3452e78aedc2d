"""The effects of the agent's census on the script: holds of the GIL, and arrays kept alive.

A thread that spins in Python sees a hold of the GIL as a gap; gaps below 50 µs are ignored. A thread that
waits for the GIL requests it after 5 ms (`sys.getswitchinterval`), so that Python code never holds it longer
at a stretch: longer gaps are single calls into C. The probe counts only gaps in which it slept, and subtracts
the time that it and the holder queued for a core. A known holder shows the remaining error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.frame import Figure, whole
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

HOLD_BUDGET_MS = 5.0
KEEP_BUDGET_MS = 20.0
# With several devices an array has several buffers, so the JAX call that lists arrays takes longer.
SIZES = ((100, 8), (10_000, 1), (10_000, 8), (20_000, 1), (100_000, 1), (300_000, 1))


def hold(setting: Setting) -> Iterator[Figure]:
    for size in setting.pick(SIZES, SIZES[:1]):
        yield _figure(size, "gaps", setting.pick(5, 1), HOLD_BUDGET_MS)


def keep(setting: Setting) -> Iterator[Figure]:
    for size in setting.pick(SIZES[1:], SIZES[:1]):
        yield _figure(size, "drops", setting.pick(3, 1), KEEP_BUDGET_MS)


def _figure(size: tuple[int, int], command: str, windows: int, budget: float) -> Figure:
    arrays, devices = size
    observed, control = [], []
    with Trainer(arrays, devices) as trainer:
        trainer.do("start")
        with Viewer():
            trainer.do("await_viewers", viewers=1)
            for _ in range(windows):
                trainer.do("stop")
                control.append(_longest_ms(trainer.do(command, start=False)))
                observed.append(_longest_ms(trainer.do(command, start=True)))
                trainer.do("await_viewers", viewers=1)
    on = f"{devices} device{'s' * (devices > 1)}"
    return Figure(
        f"{arrays:,} live arrays on {on}", whole(observed), "ms", control=whole(control), budget=budget
    )


def _longest_ms(found: list[float]) -> float:
    return max(found, default=0.0) * 1000
