"""The CPU that the agent's threads take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.frame import Figure, mean, one
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET = 0.5


def measure(setting: Setting) -> Iterator[Figure]:
    seconds = setting.pick(20, 4)
    for arrays in setting.pick((100, 10_000), (100,)):
        with Trainer(arrays) as trainer:
            trainer.do("start")
            with Viewer() as viewer:
                trainer.do("await_viewers", viewers=1)
                trainer.do("train", seconds=1)  # the greeting is not what it costs to stay
                viewer.tally()
                watched = trainer.do("train", seconds=seconds)
                told = [ppm / 1e4 for ppm in viewer.tally()["costs_ppm"]]
            yield Figure(
                f"{arrays:,} live arrays, a viewer",
                one(watched["cpu"] / watched["elapsed"] * 100),
                "%",
                control=mean(told),
                budget=BUDGET,
            )
            trainer.do("await_viewers", viewers=0)
            alone = trainer.do("train", seconds=setting.pick(20, 2))
            yield Figure(
                f"{arrays:,} live arrays, no viewer",
                one(alone["cpu"] / alone["elapsed"] * 100),
                "%",
                budget=BUDGET,
            )
