"""Ask drivers in processes of their own, because a call of a driver may hang forever."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Without persistence mode a driver may take seconds to wake its GPUs. One that takes longer than this hangs.
PATIENCE = 20.0


class NoAnswer(Exception):
    """A driver did not answer; the text says what is known."""


def asked(module: str, questions: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Any]]:
    """Run this module of the agent once per question, side by side; yield each question with its answer.

    The words of a question are the arguments. A `NoAnswer` takes the place of an answer that did not come.
    """
    processes = {
        question: subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for question, words in questions.items()
    }
    until = time.monotonic() + PATIENCE
    for question, process in processes.items():
        yield question, _answer(process, until)


def _answer(process: subprocess.Popen[str], until: float) -> Any:
    try:
        output, _ = process.communicate(timeout=max(0.0, until - time.monotonic()))
        return json.loads(output)
    except subprocess.TimeoutExpired:
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        with suppress(subprocess.TimeoutExpired):  # a process that is stuck in the kernel does not end
            process.wait(1)
        mend = "dmesg may say why; a reset or a reboot may help"
        return NoAnswer(f"the driver did not answer within {PATIENCE:.0f} s; {mend}")
    except json.JSONDecodeError:
        return NoAnswer(f"the driver check exited with status {process.returncode}")
