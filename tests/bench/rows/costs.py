"""The cost of each part of the agent with everything on: a viewer, sampled windows, a black box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.frame import Figure, one
from tests.bench.processes import Trainer, Viewer
from tests.bench.rows.cpu import BUDGET, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting


def measure(setting: Setting) -> Iterator[Figure]:
    box = setting.home / "costs"
    box.mkdir(exist_ok=True)
    for arrays in setting.pick((100, 10_000), (100,)):
        on = {"JAXTOP_COLLECTIVES": "sampled", "JAXTOP_RECORD": str(box)}
        with Trainer(arrays, **on) as trainer:
            trainer.do("start")
            with Viewer():
                trainer.do("await_viewers", viewers=1)
                first = trainer.do("train", seconds=setting.pick(60, 2))
                before = trainer.do("costs")
                trained = trainer.do("train", seconds=setting.pick(120, 4))
                after = trainer.do("costs")
        yield Figure(f"{arrays:,} live arrays: all threads, the first minute", one(share(first)), "%")
        threads, collectors = (
            _percent(before[kind], after[kind], trained["elapsed"])
            for kind in ("threads_us", "collectors_us")
        )
        yield Figure(
            f"{arrays:,} live arrays: all threads, from then on",
            one(sum(threads.values())),
            "%",
            control=one(share(trained)),
            budget=BUDGET,
        )
        for name, taken in sorted(threads.items(), key=lambda each: -each[1]):
            yield Figure(f"  {name}", one(taken), "%")
            if name == "sampler":
                yield from (Figure(f"    {each}", one(of), "%") for each, of in collectors.items())


def _percent(before: dict[str, int], after: dict[str, int], elapsed: float) -> dict[str, float]:
    return {name: (taken - before.get(name, 0)) / elapsed / 1e4 for name, taken in after.items()}
