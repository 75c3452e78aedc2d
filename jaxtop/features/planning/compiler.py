"""The process that compiles candidates of a plan: start it, read what it says, and always end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from functools import partial
from math import prod
from typing import IO, TYPE_CHECKING

import msgspec
import psutil
from msgspec.structs import replace

from jaxtop.base.units import in_bytes
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine import processes
from jaxtop.cli.text.output import ProgressLine
from jaxtop.cli.text.words import note
from jaxtop.features.planning.messages import Began, Said, TakenText
from jaxtop.features.planning.model import compilations
from jaxtop.wire.probing import FAILED

if TYPE_CHECKING:
    from jaxtop.features.planning.messages import Axes, CompileRequest
    from jaxtop.features.planning.model.plan import CompiledCandidate

# Importing JAX, making the devices and reading the texts takes some seconds, on a busy machine minutes.
STARTING = 180.0
# The part of the machine's free memory that the compiler may take.
MEMORY_SHARE = 0.5
# JAX takes CPU devices beyond this for those of another process.
MAX_DEVICES = 2048
PROCESS = ("-m", "jaxtop_agent.planning")
# After this many candidates in a row that ended their process, the rest are not tried.
MAX_KILLED = 2


class Compiler:
    """Compiles the candidates in one process, and in a new one after each that ended it."""

    def __init__(self, asked: CompileRequest, limit_s: float) -> None:
        self._asked = asked
        self._limit_s = limit_s
        self._most_bytes = int(psutil.virtual_memory().available * MEMORY_SHARE)
        self._progress = ProgressLine()
        self._found: dict[int, CompiledCandidate] = {}
        self._file, self._doubt = "", ""
        self._at: int | None = None  # the candidate that is being compiled
        self._since = 0.0  # when its compilation, or the process, began

    def compile_all(self) -> list[CompiledCandidate]:
        """Return the result for each candidate, in order."""
        processes.end_with_sigterm()
        for number, each in enumerate(self._asked.wanted):
            if _devices(each.axes) > MAX_DEVICES:
                self._found[number] = compilations.not_compiled(f"it has more than {MAX_DEVICES} devices")
        try:
            self._run_until_done()
        finally:
            self._progress.show("")
        rest = compilations.not_compiled("not tried: candidates before it ended the compiler")
        return [self._found.get(number, rest) for number in range(len(self._asked.wanted))]

    def _run_until_done(self) -> None:
        killed = 0
        while killed < MAX_KILLED:
            left = [number for number in range(len(self._asked.wanted)) if number not in self._found]
            if not left:
                return
            why = self._run(left)
            if self._at is None:
                self._found.update(
                    (number, compilations.not_compiled(why))
                    for number in left
                    if why and number not in self._found
                )
                return
            killed = killed + 1 if self._at == left[0] else 1
            self._found[self._at] = compilations.not_compiled(why)

    def _run(self, numbers: list[int]) -> str:
        """Compile these candidates in one process; return why it ended early, or an empty text."""
        asked = replace(self._asked, wanted=tuple(self._asked.wanted[number] for number in numbers))
        environment = processes.on_cpu(max(_devices(each.axes) for each in asked.wanted))
        self._at, self._since = None, time.monotonic()
        with ExitStack() as stack:
            request = stack.enter_context(tempfile.TemporaryFile())
            request.write(msgspec.json.encode(asked))
            request.seek(0)
            errors = stack.enter_context(tempfile.TemporaryFile("w+"))
            reading, writing = os.pipe()
            stack.callback(os.close, reading)
            with processes.uninterrupted():
                try:
                    child = subprocess.Popen(
                        [sys.executable, *PROCESS, str(writing)],
                        env=environment,
                        stdin=request,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                        pass_fds=(writing,),
                        preexec_fn=partial(processes.die_with_parent, signal.SIGKILL),  # noqa: PLW1509 - a live source has ended its threads
                    )
                finally:
                    os.close(writing)
                stack.callback(child.wait)
                stack.callback(child.kill)
            return self._listen(reading, child, errors, numbers)

    def _listen(self, pipe: int, child: subprocess.Popen[bytes], errors: IO[str], numbers: list[int]) -> str:
        for messages in processes.messages(pipe, msgspec.json.Decoder(Said)):
            for each in messages:
                self._hear(each, numbers)
            if why := self._excess(child):
                return why
        status, words = child.wait(), processes.last_words(errors)
        if status == FAILED and words and not self._file:
            raise UserError(f"--compile: {words.removeprefix(': ')}")
        return f"the compiler {processes.how(status)}{words}" if status else ""

    def _hear(self, message: Said, numbers: list[int]) -> None:
        if isinstance(message, TakenText):
            is_new, self._file, self._doubt = message.file != self._file, message.file, message.note
            if is_new:
                self._progress.show("")
                note(f"compiling {message.file}")
            return
        number = numbers[message.number]
        self._since = time.monotonic()
        if isinstance(message, Began):
            self._at = number
        else:
            self._at = None
            axes = self._asked.wanted[number].axes
            self._found[number] = compilations.compiled(message, axes, self._doubt)

    def _excess(self, child: subprocess.Popen[bytes]) -> str:
        """Show the progress; return what the process takes too much of, or an empty text."""
        seconds = time.monotonic() - self._since
        what, limit_s = "starting JAX", max(STARTING, self._limit_s)
        if self._at is not None:
            mesh = ",".join(f"{name}={count}" for name, count in self._asked.wanted[self._at].axes)
            what, limit_s = f"{self._at + 1} of {len(self._asked.wanted)}: {mesh}", self._limit_s
        self._progress.show(f"compiling {what} ({seconds:.0f} s)")
        if seconds > limit_s:
            subject = "it" if self._at is not None else "starting JAX"
            return f"{subject} took longer than {limit_s:g} s; raise --compile-limit"
        with suppress(psutil.Error):
            if psutil.Process(child.pid).memory_info().rss > self._most_bytes:
                return f"the compiler needed more than {in_bytes(self._most_bytes)}, half of the free memory"
        return ""


def _devices(axes: Axes) -> int:
    return prod(count for _, count in axes)
