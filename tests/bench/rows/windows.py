"""The cost of sampled profiler windows in a training process."""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING

from tests.bench.frame import RATIO, Estimate, Figure, one, whole
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

HOLD_BUDGET_MS = 5.0
MOST_SHARE = 4.0
RESAMPLES = 1000

Steps = list[list[float]]


def measure(setting: Setting) -> Iterator[Figure]:
    seconds = setting.pick(180, 70)
    with Trainer() as trainer:
        trainer.do("start")
        with Viewer():
            trainer.do("await_viewers", viewers=1)
            trainer.do("beside_windows", seconds=12)  # the first windows are close together
            seen = trainer.do("beside_windows", seconds=seconds)
            gaps = trainer.do("window_gaps", count=setting.pick(8, 2))
        trainer.do("stop")
    inside = sum(length for _, length in seen["windows"])
    yield Figure(
        f"wall time within windows, {len(seen['windows'])} of them in {seconds} s",
        one(100 * inside / seconds),
        "%",
        budget=MOST_SHARE,
    )
    if seen["windows"]:
        yield _steps(seen["steps"], seen["windows"])
    yield Figure(
        "longest hold of the GIL: start, stop, reading",
        whole([1000 * each for each, _ in gaps]),
        "ms",
        control=whole([1000 * each for _, each in gaps]),
        budget=HOLD_BUDGET_MS,
    )
    yield from _large(setting)


def _steps(steps: Steps, windows: Steps) -> Figure:
    """Compare medians inside ÷ outside; for the control, random outside steps replace those inside."""
    within = [took for began, took in steps if any(at <= began <= at + length for at, length in windows)]
    without = [
        took for began, took in steps if all(not at - 1 <= began <= at + length + 1 for at, length in windows)
    ]
    dice = random.Random(0)
    usual = statistics.median(without)

    def spread(of: list[float]) -> Estimate:
        again = sorted(statistics.median(dice.choices(of, k=len(within))) / usual for _ in range(RESAMPLES))
        return Estimate(statistics.median(of) / usual, again[RESAMPLES // 40], again[-RESAMPLES // 40])

    return Figure(
        f"step time inside ÷ outside, {len(within)} steps of {usual * 1000:.1f} ms inside",
        spread(within),
        RATIO,
        control=spread(without),
    )


def _large(setting: Setting) -> Iterator[Figure]:
    collectives, windows = setting.pick((5000, 3), (500, 2))
    with Trainer() as trainer:
        taken = trainer.do("window_cost", collectives=collectives, windows=windows)
    of = f"a launch of {collectives:,} collectives"
    yield Figure(
        f"{of}: inside ÷ outside", whole([each["within"] / each["without"] for each in taken]), RATIO
    )
    yield Figure(f"{of}: start and stop, CPU", whole([1000 * each["taking"] for each in taken]), "ms")
    events = taken[0]["events"]
    yield Figure(
        f"{of}: reading {events:,.0f} events, CPU", whole([1000 * each["reading"] for each in taken]), "ms"
    )
