"""The time that the launch hook adds to a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.frame import Figure, difference, median
from tests.bench.processes import Trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET_US = 1.0
LAUNCHES = 5_000


def measure(setting: Setting) -> Iterator[Figure]:
    with Trainer(devices=1) as trainer:
        rounds = [_round(trainer) for _ in range(setting.pick(60, 8))]
    control = difference([(each["none again"], each["none"]) for each in rounds])
    for arm, what, budget in (
        ("ours", "our hook", BUDGET_US),
        ("empty", "a hook that does nothing", None),
    ):
        added = difference([(each[arm], (each["none"] + each["none again"]) / 2) for each in rounds])
        yield Figure(what, added, "µs", control=control, budget=budget)
    yield Figure("a launch without a hook", median([each["none"] for each in rounds]), "µs")


def _round(trainer: Trainer) -> dict[str, float]:
    arms = ("none", "empty", "none again", "ours")
    return {arm: trainer.do("launches", count=LAUNCHES, hook=arm.split()[0]) * 1e6 for arm in arms}
