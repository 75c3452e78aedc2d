"""Faults by which the run stops."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import ClassVar

from jaxtop_agent.demo.faults.fault import Fault


class StoppedProcess(Fault):
    name = "stopped"
    text = "the last host is stopped, as by a debugger (SIGSTOP)"
    rules = ("host_lost",)

    def before_launch(self, i: int) -> None:  # noqa: ARG002
        if self.is_here:
            os.kill(os.getpid(), signal.SIGSTOP)


class Killed(Fault):
    name = "killed"
    text = "the last host is killed, as for lack of memory (SIGKILL)"
    rules = ("host_lost",)

    def before_launch(self, i: int) -> None:  # noqa: ARG002
        if self.is_here:
            os.kill(os.getpid(), signal.SIGKILL)


class ScriptRaised(Fault):
    name = "exception"
    text = "the script of the last host ends with an exception"
    rules = ("crashed",)

    def before_launch(self, i: int) -> None:
        if self.is_here:
            raise ValueError(f"batch {i} is empty")


class GilHeld(Fault):
    name = "gil_held"
    text = "a C function of the last host holds the GIL for a minute at a time"
    rules = ("host_lost", "stalled")

    def before_launch(self, i: int) -> None:  # noqa: ARG002
        if self.is_here:
            ctypes.PyDLL(None).usleep(60_000_000)


class HangLater(Fault):
    name = "hang_later"
    text = "the data loader of the last host hangs"
    rules: ClassVar[tuple[str, ...]] = ("stalled",)

    def load_batch(self, i: int) -> None:  # noqa: ARG002
        while self.is_here:
            time.sleep(60)


class HangFirstStep(HangLater):
    name = "hang_first_step"
    text = "the data loader of the last host hangs before the first step"
    rules = ("stalled", "never_started")
    after = 0.0


FAULTS = (StoppedProcess, Killed, ScriptRaised, GilHeld, HangLater, HangFirstStep)
