"""The processes of a probe on this machine: start them, read their reports, and always end them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jaxtop.cli.errors import UserError
from jaxtop.cli.machine import processes
from jaxtop.wire.probing import FAILED, MEETING, ProbePlan, ProbeReport, Said, Stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from jaxtop.wire.probing import ProbeRequest

COULD_NOT = 2
# The line in which a C++ library reports why it aborts the process. Its stack follows.
FATAL = re.compile(r"F\d{4} ")
# A process that waits for another gives up by itself and reports it. We end it this much later.
GRACE_S = 30.0
LEAVE_WITHIN = 5.0
# Makes the allocator reuse memory. Otherwise its history decides whether a copy goes to fresh pages, which
# the kernel must clear first: a copy to fresh pages was measured to take twenty times as long.
STEADY_MEMORY = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


class ProcessesToStart(NamedTuple):
    """The processes to start: `hosts` of them here, one that joins others, or a single one."""

    hosts: int = 1
    devices: int | None = None  # forced CPU devices of each; None: what JAX sees
    coordinator: str | None = None
    processes: int | None = None
    process: int | None = None
    is_alone: bool = False


class ProbeReports(NamedTuple):
    """What process 0 reported. In other processes the reports are empty."""

    plan: ProbePlan | None
    reports: tuple[ProbeReport, ...]
    stage: str


def run(team: ProcessesToStart, asked: ProbeRequest, show_stage: Callable[[Stage], None]) -> ProbeReports:
    """Start the processes, and read the reports of the first until it ends; then end all of them."""
    with ExitStack() as stack:
        errors: list[IO[str]] = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(team.hosts)]
        reading, writing = os.pipe()
        stack.callback(os.close, reading)
        with processes.uninterrupted():
            try:
                started = _start(team, asked, errors, writing)
            finally:
                os.close(writing)
            stack.callback(_end, started)
        heard = _listen(reading, started, errors, show_stage, asked.patience_s + GRACE_S)
        with suppress(subprocess.TimeoutExpired):
            started[0].wait(LEAVE_WITHIN)
        # The other processes are no longer needed.
        _fail_if_ended(started[:1], errors, heard.stage)
        return heard


def _start(
    team: ProcessesToStart, asked: ProbeRequest, errors: list[IO[str]], pipe: int
) -> list[subprocess.Popen[bytes]]:
    environment = dict(os.environ) if team.devices is None else processes.on_cpu(team.devices)
    environment |= STEADY_MEMORY
    coordinator = team.coordinator
    if team.hosts > 1:
        coordinator = f"127.0.0.1:{processes.free_port()}"
        # The processes could not reach one another through a proxy.
        environment = {
            name: value for name, value in environment.items() if not name.lower().endswith("_proxy")
        }
    started = []
    for index in range(team.hosts):
        words: list[object] = ["--asked", msgspec.json.encode(asked).decode()]
        if team.hosts > 1:
            words += ["--local", "--processes", team.hosts, "--process", index]
        for name, value in (("--processes", team.processes), ("--process", team.process)):
            words += [] if value is None else [name, value]
        words += ["--coordinator", coordinator] if coordinator else []
        words += ["--alone"] if team.is_alone else []
        words += ["--report", pipe] if index == 0 else []
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "jaxtop_agent.probe", *map(str, words)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # JAX's transport reports its connections there
                stderr=errors[index],
                pass_fds=(pipe,) if index == 0 else (),
                # JAX treats SIGTERM only as a hint and continues.
                preexec_fn=partial(processes.die_with_parent, signal.SIGKILL),  # noqa: PLW1509 - this process has one thread
            )
        )
    return started


def _listen(
    pipe: int,
    started: list[subprocess.Popen[bytes]],
    errors: list[IO[str]],
    show_stage: Callable[[Stage], None],
    patience_s: float,
) -> ProbeReports:
    plan: ProbePlan | None = None
    reports: list[ProbeReport] = []
    stage = Stage("starting")
    heard_at = time.monotonic()
    for messages in processes.messages(pipe, msgspec.json.Decoder(Said)):
        for message in messages:
            heard_at = time.monotonic()
            if isinstance(message, Stage):
                stage = message
                show_stage(stage)
            elif isinstance(message, ProbePlan):
                plan = message
            else:
                reports.append(message)
        _fail_if_ended(started, errors, stage.name)
        if time.monotonic() - heard_at > patience_s:
            text = f"nothing has moved for {patience_s:.0f} s ({stage.name}): is something stuck?"
            raise UserError(text, COULD_NOT)
    return ProbeReports(plan, tuple(reports), stage.name)


def _fail_if_ended(started: list[subprocess.Popen[bytes]], errors: list[IO[str]], stage: str) -> None:
    for index, child in enumerate(started):
        status = child.poll()
        if status:
            who = f"process {index} of the probe" if len(started) > 1 else "the probe's process"
            raise UserError(_why(who, status, errors[index], stage), COULD_NOT)


def _why(who: str, status: int, file: IO[str], stage: str) -> str:
    words = processes.last_words(file)
    if status == FAILED and words:
        return words.removeprefix(": ")
    if status == -signal.SIGABRT:
        if stage == MEETING:  # JAX aborts without reporting this
            return "the other processes did not connect: start each of them with the same coordinator"
        file.seek(0)
        words = next((f": {line.partition('] ')[2][:300]}" for line in file if FATAL.match(line)), words)
    return f"{who} {processes.how(status)} ({stage}){words}"


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    """Kill the processes; they have nothing to clean up."""
    for child in started:
        child.kill()
    for child in started:
        child.wait()
