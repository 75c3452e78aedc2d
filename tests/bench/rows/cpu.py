"""The CPU time of the agent's threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.frame import Figure, mean, one
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET = 0.5


def measure(setting: Setting) -> Iterator[Figure]:
    seconds = setting.pick(120, 4)
    for arrays in setting.pick((100, 10_000), (100,)):
        with Trainer(arrays) as trainer:
            trainer.do("start")
            with Viewer() as viewer:
                trainer.do("await_viewers", viewers=1)
                # A new viewer first receives the full state, which is not part of the running cost.
                trainer.do("train", seconds=setting.pick(60, 1))
                viewer.tally()
                watched = trainer.do("train", seconds=seconds)
                told = [ppm / 1e4 for ppm in viewer.tally()["costs_ppm"]]
            yield Figure(
                f"{arrays:,} live arrays, a viewer",
                one(share(watched)),
                "%",
                control=mean(told),
                budget=BUDGET,
            )
            trainer.do("await_viewers", viewers=0)
            alone = trainer.do("train", seconds=setting.pick(20, 2))
            yield Figure(
                f"{arrays:,} live arrays, no viewer",
                one(share(alone)),
                "%",
                budget=BUDGET,
            )


def share(trained: dict[str, float]) -> float:
    """Return the CPU time of the agent's threads, in % of a core."""
    return trained["cpu"] / trained["elapsed"] * 100
