"""What the ledger and its samples cost a run that nobody watches, in turns with the same run without."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.bench.frame import Figure, median, ratio
from tests.bench.processes import Trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET_MS = 3.0
# The threads of the ledger: one adds up and writes, the other looks at the main thread.
THREADS = ("ledger", "activity")
ON, OFF, WITHOUT = "on", "off", "without an agent"


def measure(setting: Setting) -> Iterator[Figure]:
    for rate in (100, 3):
        with ExitStack() as stack:
            trainers = {
                ON: stack.enter_context(Trainer(0, JAXTOP_LEDGER=str(setting.home / "ledgers"))),
                OFF: stack.enter_context(Trainer(0, JAXTOP_LEDGER="off")),
                WITHOUT: stack.enter_context(Trainer(0)),
            }
            for name in (ON, OFF):
                trainers[name].do("start")
            first = {name: _block(trainers[name], setting.pick(30, 2), rate, name) for name in (ON, OFF)}
            rounds = [
                {name: _block(trainer, setting.pick(4, 2), rate, name) for name, trainer in trainers.items()}
                for _ in range(setting.pick(6, 2))
            ]
        yield from _figures(f"{rate} steps a second", first, rounds)


def _block(trainer: Any, seconds: float, rate: float, name: str) -> dict[str, float]:
    """Train for a while; return milliseconds of CPU a second of each thread, and of each step."""
    before = {} if name == WITHOUT else trainer.do("costs")["threads_us"]
    trained = trainer.do("paced", seconds=seconds, rate=rate)
    after = {} if name == WITHOUT else trainer.do("costs")["threads_us"]
    used = {each: (after[each] - before.get(each, 0)) / 1000 / trained["elapsed"] for each in after}
    return {
        **{each: used.get(each, 0.0) for each in THREADS},
        "agent": sum(used.values()),
        "step": trained["step"] * 1000,
        "cpu": trained["cpu"] * 1000,
    }


Blocks = dict[str, dict[str, float]]


def _figures(what: str, first: Blocks, rounds: list[Blocks]) -> Iterator[Figure]:
    def of(name: str, figure: str) -> list[float]:
        return [each[name][figure] for each in rounds]

    for thread in THREADS:
        yield Figure(
            f"{what}: thread {thread}",
            median(of(ON, thread)),
            "ms/s",
            control=median(of(OFF, thread)),
            budget=BUDGET_MS,
        )
        yield Figure(f"{what}: thread {thread}, first half minute", median([first[ON][thread]]), "ms/s")
    yield Figure(f"{what}: all threads", median(of(ON, "agent")), "ms/s", control=median(of(OFF, "agent")))
    for figure, word in (("cpu", "CPU of a step"), ("step", "step")):
        yield Figure(f"{what}: {word}, without an agent", median(of(WITHOUT, figure)), "ms")
        yield Figure(
            f"{what}: {word}, with ÷ without an agent",
            ratio(zip(of(ON, figure), of(WITHOUT, figure), strict=True)),
            "x",
            control=ratio(zip(of(ON, figure), of(OFF, figure), strict=True)),
        )
