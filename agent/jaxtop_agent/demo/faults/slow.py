"""Faults that cost time in each step, or in some."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

from jaxtop_agent.demo.faults.fault import Fault

SLEEP = 0.4


class SlowProcess(Fault):
    name = "straggler"
    text = "the last host sleeps for 400 ms before each launch"
    rules: ClassVar[tuple[str, ...]] = ("straggler",)
    subject = {"source": "slow.py"}
    costs_time = True
    SLEEPS = SLEEP

    def before_launch(self, i: int) -> None:  # noqa: ARG002
        if self.is_here:
            time.sleep(self.SLEEPS)


class HealingStraggler(SlowProcess):
    name = "straggler_heals"
    text = "the last host sleeps for 400 ms before each launch, for 40 s"
    lasts: ClassVar[float | None] = 40.0
    costs_time = False  # the mean step since it began contains healthy ones

    def begin(self, state: Any) -> Any:
        self.until = time.monotonic() + (self.lasts or 0.0)
        return state

    def before_launch(self, i: int) -> None:
        if time.monotonic() < self.until:
            super().before_launch(i)


class EvenStragglers(SlowProcess):
    name = "evenly_slow"
    text = "every host sleeps for 400 ms before each launch"
    rules = ("input_bound", "straggler")
    everywhere = True


class SlowInput(Fault):
    name = "slow_input"
    text = "loading a batch takes 400 ms on the last host"
    rules: ClassVar[tuple[str, ...]] = ("straggler",)
    subject = {"source": "slow.py"}
    costs_time = True

    def load_batch(self, i: int) -> None:  # noqa: ARG002
        if self.is_here:
            time.sleep(SLEEP)


class SlowInputEverywhere(SlowInput):
    name = "slow_input_all"
    text = "loading a batch takes 400 ms on every host"
    rules = ("input_bound",)
    everywhere = True


class CpuHog(Fault):
    name = "cpu_hog"
    text = "busy processes, two per core, compete with the run"
    rules = ("straggler", "cpu_contention", "held_back")
    costs_time = True
    is_of_one_process = False  # the others run on the same machine
    NICENESS = 5

    def begin(self, state: Any) -> Any:
        if self.is_here:
            # They ran at this priority on a machine of their own, too. The other hosts should not notice.
            for thread in Path("/proc/self/task").iterdir():
                os.setpriority(os.PRIO_PROCESS, int(thread.name), self.NICENESS)
            busy = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
            for _ in range(2 * len(os.sched_getaffinity(0))):
                subprocess.Popen([sys.executable, "-S", "-c", busy], stdin=subprocess.DEVNULL)
        return state


class PeriodicStall(Fault):
    name = "periodic_stall"
    text = "the last host stops for 2 s every 20 steps"
    rules = ("pauses",)
    subject = {"source": "slow.py"}
    costs_time = True

    def before_launch(self, i: int) -> None:
        if self.is_here and self.costs(i):
            time.sleep(2)

    def costs(self, i: int) -> bool:
        return i % 20 == 0


class SlowDisk(Fault):
    name = "slow_disk"
    text = "every host writes a checkpoint to a slow disk every 10 steps, for at least 1.6 s"
    rules = ("checkpoint_pauses",)
    subject = {"source": "slow.py"}
    everywhere = True
    costs_time = True
    CHUNKS = 80

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:  # noqa: ARG002
        if self.costs(i):
            self.save_checkpoint()

    def save_checkpoint(self) -> None:
        with tempfile.TemporaryDirectory() as folder, (Path(folder) / "checkpoint").open("wb") as file:
            for _ in range(self.CHUNKS):
                file.write(bytes(100_000))
                file.flush()
                os.fsync(file.fileno())
                time.sleep(0.02)

    def costs(self, i: int) -> bool:
        return i % 10 == 0


class GcPauses(Fault):
    name = "gc_pauses"
    text = "every host collects garbage in each step, among a million objects"
    rules = ("gc_pauses",)
    everywhere = True
    costs_time = True

    def begin(self, state: Any) -> Any:
        gc.disable()  # or making them would take long
        self.objects = [[i] for i in range(1_000_000)]
        gc.enable()
        return state

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:  # noqa: ARG002
        gc.collect()


class BlockingReads(Fault):
    name = "blocking_reads"
    text = "every host reads the loss in each step, and only then prepares the next, for half as long"
    rules = ("blocking_reads",)
    everywhere = True
    costs_time = True
    LONGEST = 1.0
    read_s = 0.0

    def load_batch(self, i: int) -> None:  # noqa: ARG002
        time.sleep(min(self.LONGEST, self.read_s / 2))  # no cost while steps are launched ahead

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:  # noqa: ARG002
        began = time.monotonic()
        float(loss)
        self.read_s = time.monotonic() - began


class LaunchBound(Fault):
    name = "launch_bound"
    text = "every host launches 15,000 tiny programs in each step"
    rules = ("launch_bound",)
    everywhere = True
    costs_time = True

    def begin(self, state: Any) -> Any:
        import jax
        import numpy as np

        self.add_one = jax.jit(lambda x: x + 1)
        self.count = jax.device_put(np.zeros((), np.int32), jax.local_devices()[0])
        return state

    def before_launch(self, i: int) -> None:  # noqa: ARG002
        for _ in range(15_000):
            self.count = self.add_one(self.count)


FAULTS = (
    SlowProcess,
    HealingStraggler,
    EvenStragglers,
    SlowInput,
    SlowInputEverywhere,
    CpuHog,
    PeriodicStall,
    SlowDisk,
    GcPauses,
    BlockingReads,
    LaunchBound,
)
