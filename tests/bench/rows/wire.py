"""The traffic from an agent to one viewer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.bench.frame import Estimate, Figure, whole
from tests.bench.processes import Trainer, Viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET = 100.0
DEVICES = 8


def measure(setting: Setting) -> Iterator[Figure]:
    for pause, training in ((0.05, "20 steps a second"), (0.0, "at full speed"))[: setting.pick(2, 1)]:
        with Trainer(devices=DEVICES) as trainer:
            trainer.do("start")
            with Viewer() as viewer:
                trainer.do("await_viewers", viewers=1)
                trainer.do("train", seconds=2, pause=pause)
                viewer.tally()
                windows = [_window(trainer, viewer, pause) for _ in range(setting.pick(3, 1))]
        yield Figure(
            f"{training}, all messages",
            _rate(windows, lambda tally: sum(tally["bytes"].values())),
            "B",
            control=_rate(windows, lambda tally: tally["tcp_bytes"]),
            budget=BUDGET,
        )
        for kind in ("pulse", "arrays"):
            yield Figure(f"{training}, {kind}", _rate(windows, lambda t, k=kind: t["bytes"].get(k, 0)), "B")


def _window(trainer: Trainer, viewer: Viewer, pause: float) -> tuple[float, dict[str, Any]]:
    started = time.monotonic()
    trainer.do("train", seconds=4, pause=pause)
    tally = viewer.tally()
    return time.monotonic() - started, tally


def _rate(windows: list[tuple[float, dict[str, Any]]], of: Any) -> Estimate:
    return whole([of(tally) / elapsed / DEVICES for elapsed, tally in windows])
