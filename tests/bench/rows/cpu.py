"""The CPU time of the agent's threads: with everything on, by thread, and while nobody watches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.bench.frame import Figure, one
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET, BUDGET_AT_FIRST = 0.25, 0.5


def measure(setting: Setting) -> Iterator[Figure]:
    box = setting.home / "costs"
    box.mkdir(exist_ok=True)
    with ThreadPoolExecutor() as pool:  # processes that mostly sleep, each with a core for itself
        for arrays in setting.pick((100, 10_000), (100,)):
            watched = pool.submit(_watched, setting, arrays, str(box))
            alone = pool.submit(_alone, setting, arrays)
            yield from (*watched.result(), alone.result())


def _alone(setting: Setting, arrays: int) -> Figure:
    home = setting.home / "alone"  # where the viewer of the other process does not find this one
    home.mkdir(exist_ok=True)
    with Trainer(arrays, HOME=str(home)) as trainer:
        trainer.do("start")
        trainer.do("train", seconds=setting.pick(60, 1))
        trained = trainer.do("train", seconds=setting.pick(60, 2))
        return _of_all(trainer, trained, f"{arrays:,} live arrays: nobody watches")


def _watched(setting: Setting, arrays: int, box: str) -> list[Figure]:
    on = {"JAXTOP_COLLECTIVES": "sampled", "JAXTOP_RECORD": box}
    with Trainer(arrays, **on) as trainer:
        trainer.do("start")
        with Viewer():
            trainer.do("await_viewers", viewers=1)
            first = trainer.do("train", seconds=setting.pick(60, 2))
            before = trainer.do("costs")
            trained = trainer.do("train", seconds=setting.pick(60, 4))
            after = trainer.do("costs")
        what = f"{arrays:,} live arrays: everything on"
        figures = [
            Figure(f"{what}, the first minute", one(_share(first)), "%", budget=BUDGET_AT_FIRST),
            _of_all(trainer, trained, f"{what}, from then on"),
        ]
    threads, collectors = (
        _percent(before[kind], after[kind], trained["elapsed"]) for kind in ("threads_us", "collectors_us")
    )
    for name, taken in sorted(threads.items(), key=lambda each: -each[1]):
        figures.append(Figure(f"  {name}", one(taken), "%"))
        if name == "sampler":
            figures += (Figure(f"    {each}", one(share), "%") for each, share in collectors.items())
    return figures


def _of_all(trainer: Trainer, trained: dict[str, float], what: str) -> Figure:
    """Return the CPU of all threads, beside a thread that wakes as often and does nothing."""
    idle = trainer.do("wake", a_second=trained["wakes"] / trained["elapsed"], seconds=5)
    return Figure(what, one(_share(trained)), "%", control=one(_share(idle)), budget=BUDGET)


def _share(trained: dict[str, float]) -> float:
    """Return the CPU time of the agent's threads, in % of a core."""
    return trained["cpu"] / trained["elapsed"] * 100


def _percent(before: dict[str, int], after: dict[str, int], elapsed: float) -> dict[str, float]:
    return {name: (taken - before.get(name, 0)) / elapsed / 1e4 for name, taken in after.items()}
