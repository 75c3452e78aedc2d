"""The effect of the agent on the step time of a training."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.bench.frame import RATIO, Figure, ratio
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET = "as the control"


def measure(setting: Setting) -> Iterator[Figure]:
    seconds, rounds = setting.pick((0.8, 28), (0.3, 3))
    arms = ["plain", "control", "agent"]
    blocks: list[dict[str, float]] = []
    dice = random.Random(0)
    with Trainer() as trainer:
        trainer.do("start")
        with Viewer():
            trainer.do("await_viewers", viewers=1)
            trainer.do("stop")
            for _ in range(rounds):
                dice.shuffle(arms)
                blocks.append({arm: _block(trainer, arm, seconds) for arm in arms})
    observed = ratio([(each["agent"], each["plain"]) for each in blocks])
    control = ratio([(each["control"], each["plain"]) for each in blocks])
    # Both ratios of a round share their denominator, so agent ÷ control shows the difference.
    apart = ratio([(each["agent"], each["control"]) for each in blocks])
    yield Figure(
        f"{rounds} rounds of {seconds:g} s blocks",
        observed,
        RATIO,
        control=control,
        budget=BUDGET,
        holds=apart.low <= 1.0,
    )


def _block(trainer: Trainer, arm: str, seconds: float) -> float:
    if arm == "agent":
        trainer.do("start")
        trainer.do("await_viewers", viewers=1)
    trainer.do("train", seconds=0.3)  # the start and the end of a session are not measured
    step: float = trainer.do("step_time", seconds=seconds)
    if arm == "agent":
        trainer.do("stop")
    return step
