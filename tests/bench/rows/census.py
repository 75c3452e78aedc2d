"""The cost of one census of the arrays, the interval between two, and the bytes sent."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from jaxtop_agent.core import budget
from tests.bench.frame import Figure, median, one
from tests.bench.processes import Trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

MEMORY_BUDGET_MB = 30.0


def measure(setting: Setting) -> Iterator[Figure]:
    for arrays in setting.pick((1_000, 10_000, 100_000), (1_000,)):
        with Trainer(arrays) as trainer:
            told = trainer.do("census", rounds=setting.pick(20, 5))
        what = f"{arrays:,} arrays"
        seconds = told["seconds"]
        yield Figure(f"{what}: CPU of a census", median([1000 * each for each in seconds]), "ms")
        # The sampler spaces censuses so that they take this share of a core.
        pace = max(1.0, statistics.median(seconds) / budget.CENSUS.of_core)
        yield Figure(f"{what}: seconds from one to the next", one(pace), "s")
        yield Figure(f"{what}: memory", one(told["grown_mb"]), "MB", budget=MEMORY_BUDGET_MB)
        for change, size in told["bytes"].items():
            yield Figure(f"{what}: sent, {_CHANGES[change]}", one(size), "B")


_CHANGES = {
    "whole": "to who comes new",
    "rebuilt": "all arrays rebuilt under their names",
    "1 %": "1 % gone or back",
    "all": "all gone or back",
}
