"""What each part of the agent takes, with everything on: a viewer, sampled windows, a black box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.frame import Figure, one
from tests.bench.processes import Trainer, Viewer

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
                trainer.do(
                    "train", seconds=setting.pick(5, 1)
                )  # the first looks cost more than those that follow
                before = trainer.do("costs")
                trained = trainer.do("train", seconds=setting.pick(60, 4))
                after = trainer.do("costs")
        threads, collectors = (
            _percent(before[kind], after[kind], trained["elapsed"])
            for kind in ("threads_us", "collectors_us")
        )
        yield Figure(
            f"{arrays:,} live arrays: all threads",
            one(sum(threads.values())),
            "%",
            control=one(trained["cpu"] / trained["elapsed"] * 100),
        )
        for name, share in sorted(threads.items(), key=lambda each: -each[1]):
            yield Figure(f"  {name}", one(share), "%")
            if name == "sampler":
                yield from (Figure(f"    {each}", one(of), "%") for each, of in collectors.items())


def _percent(before: dict[str, int], after: dict[str, int], elapsed: float) -> dict[str, float]:
    return {name: (taken - before.get(name, 0)) / elapsed / 1e4 for name, taken in after.items()}
