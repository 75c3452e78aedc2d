"""The memory that the agent adds to the training process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.bench.frame import Estimate, Figure, whole
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.bench.frame import Setting

    Phases = list[dict[str, float]]

BUDGET_MB = 30.0
ARRAYS = 1000
# Ten times the default rate, with pulses of 200 kB: a stalled viewer without a bound would cost 2 MB/s.
OFTEN = {"JAXTOP_INTERVAL": "0.1"}
PULSE_BYTES = 200_000
PHASES = ("no viewer", "two viewers", "two viewers and a stopped one")


def measure(setting: Setting) -> Iterator[Figure]:
    seconds = setting.pick(5.0, 1.0)
    kept: tuple[list[Phases], ...] = ([], [], [])
    for _ in range(setting.pick(3, 1)):
        with ThreadPoolExecutor() as pool:  # parallel runs do not disturb memory figures
            jobs: tuple[Callable[[float], Phases], ...] = (_watched, _plain, _plain)
            for phases, grown in zip(kept, pool.map(lambda job: job(seconds), jobs), strict=True):
                phases.append(grown)
    watched, plain, again = kept
    for kind in ("uss", "rss"):
        for i, phase in enumerate(PHASES):
            yield Figure(
                f"{kind.upper()}, {phase}",
                _difference(watched, plain, i, kind),
                "MB",
                control=_difference(again, plain, i, kind),
                budget=BUDGET_MB,
            )


def _plain(seconds: float) -> Phases:
    with Trainer(ARRAYS) as trainer:
        before = _phase(trainer, seconds)
        return [_growth(trainer, seconds, before) for _ in PHASES]


def _watched(seconds: float) -> Phases:
    with Trainer(ARRAYS, **OFTEN) as trainer, ExitStack() as viewers:
        before = _phase(trainer, seconds)
        trainer.do("start")
        grown = [_growth(trainer, seconds, before)]
        for _ in range(2):
            viewers.enter_context(Viewer())
        trainer.do("await_viewers", viewers=2)
        grown.append(_growth(trainer, seconds, before))
        stalled = viewers.enter_context(Viewer())
        trainer.do("await_viewers", viewers=3)
        stalled.stop()
        grown.append(_growth(trainer, seconds, before))
        return grown


def _growth(trainer: Trainer, seconds: float, before: dict[str, float]) -> dict[str, float]:
    """Return the growth since before the agent: JAX processes differ by more than the agent takes."""
    return {kind: size - before[kind] for kind, size in _phase(trainer, seconds).items()}


def _phase(trainer: Trainer, seconds: float) -> dict[str, float]:
    trainer.do("train", seconds=seconds, metric_bytes=PULSE_BYTES)
    sizes: dict[str, float] = trainer.do("memory")
    return sizes


def _difference(ones: list[Phases], others: list[Phases], i: int, kind: str) -> Estimate:
    return whole([one[i][kind] - other[i][kind] for one, other in zip(ones, others, strict=True)])
