"""The effect of a viewer's first half minute on a script with very many arrays and small launches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.frame import RATIO, Figure, whole
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

SLOWDOWN_BUDGET = 1.1


def measure(setting: Setting) -> Iterator[Figure]:
    for arrays in setting.pick((20_000, 300_000), (20_000,)):
        yield from _beside(arrays, setting.pick(30, 1), setting.pick(5, 1))


def _beside(arrays: int, seconds: float, pairs: int) -> Iterator[Figure]:
    observed, control, slowest, alone = [], [], [], []
    with Trainer(arrays, 1) as trainer:
        trainer.do("start")
        with Viewer():
            trainer.do("await_viewers", viewers=1)
            for _ in range(pairs):
                trainer.do("stop")
                before = trainer.do("loop", seconds=seconds, start=False)
                between = trainer.do("loop", seconds=seconds, start=False)
                watched = trainer.do("loop", seconds=seconds, start=True)
                control.append(between["mean"] / before["mean"])
                observed.append(watched["mean"] / between["mean"])
                alone.append(1000 * between["slowest"])
                slowest.append(1000 * watched["slowest"])
    what = f"{arrays:,} live arrays"
    yield Figure(f"{what}: slowdown", whole(observed), RATIO, control=whole(control), budget=SLOWDOWN_BUDGET)
    yield Figure(f"{what}: slowest 200 launches", whole(slowest), "ms", control=whole(alone))
