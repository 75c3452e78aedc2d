"""The time that commands take, from the shell and back."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.frame import Figure, median
from tests.bench.processes import REPOSITORY, Trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

HELP_BUDGET_MS = 150.0
JAXTOP = Path(sys.executable).with_name("jaxtop")


def help_(setting: Setting) -> Iterator[Figure]:
    commands = {
        "help": [JAXTOP, "--help"],
        "pass": [sys.executable, "-c", "pass"],
        "argparse": [sys.executable, "-c", "import argparse"],
    }
    taken = _interleaved(commands, setting.pick(25, 8))
    for control in ("pass", "argparse"):
        yield Figure(
            f"jaxtop --help, beside {control}",
            median(taken["help"]),
            "ms",
            control=median(taken[control]),
            budget=HELP_BUDGET_MS,
        )


def snapshot(setting: Setting) -> Iterator[Figure]:
    with Trainer() as trainer:
        trainer.do("start")
        trainer.do("train", seconds=1)
        taken = _interleaved({"snapshot": [JAXTOP, "snapshot"], "ls": [JAXTOP, "ls"]}, setting.pick(12, 3))
    yield Figure("jaxtop snapshot", median(taken["snapshot"]), "ms", control=median(taken["ls"]))


def _interleaved(commands: dict[str, list[str | Path]], rounds: int) -> dict[str, list[float]]:
    """Return wall times in milliseconds; the first round only warms the disk cache."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for i in range(rounds + 1):
        for name, words in commands.items():
            started = time.perf_counter()
            done = subprocess.run(words, capture_output=True, check=False, cwd=REPOSITORY)
            if done.returncode != 0:
                raise RuntimeError(f"{name}: {done.stderr.decode().strip()}")
            if i:
                taken[name].append((time.perf_counter() - started) * 1000)
    return taken
