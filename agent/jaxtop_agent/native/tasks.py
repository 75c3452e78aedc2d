"""Where the threads of this process wait in the kernel."""

from __future__ import annotations

import os
from typing import NamedTuple

from jaxtop_agent.machine import files

MOST_TASKS = 512
RUNNING = "running"


class Waiting(NamedTuple):
    """What the kernel says about a thread: the text, and the registers if it does not run."""

    text: str
    sp: int = 0
    pc: int = 0

    @property
    def is_known(self) -> bool:
        return self.pc != 0


def waiting(task: int) -> Waiting:
    """Return where a thread waits; only its text if it runs or has ended."""
    text = (files.text(f"/proc/self/task/{task}/syscall", 256) or "").strip()
    return parsed(text)


def parsed(text: str) -> Waiting:
    """Parse what the kernel says: the call and its arguments, or -1 outside of one; then both registers."""
    words = text.split()
    if len(words) not in {3, 9} or not all(each.startswith("0x") for each in words[1:]):
        return Waiting(text)
    try:
        _, sp, pc = int(words[0]), int(words[-2], 16), int(words[-1], 16)
    except ValueError:
        return Waiting(text)
    return Waiting(text, sp, pc) if sp > 0 else Waiting(text)


def tasks() -> list[int]:
    """Return the ids of the threads of this process, the main thread first."""
    pid = os.getpid()
    found = sorted(int(each) for each in os.listdir("/proc/self/task") if each.isdecimal())  # noqa: PTH208
    return sorted(found, key=lambda task: (task != pid, task))[:MOST_TASKS]


def name_of(task: int) -> str:
    return (files.text(f"/proc/self/task/{task}/comm", 64) or "").strip()
