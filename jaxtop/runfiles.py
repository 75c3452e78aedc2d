"""Run files: how the viewers of a user find the agents on a machine, as Jupyter finds its kernels."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from jaxtop import processes, wire
from jaxtop.wire import Hello


class RunFile(NamedTuple):
    """A run file that was found: where, what the agent wrote, and whether its process is known to be gone."""

    path: Path
    hello: Hello
    is_stale: bool


def folders() -> list[Path]:
    """Where run files may be; agents write to the first, viewers read all."""
    found = []
    # Sessions differ in what they set (ssh, cron, containers): the state folder is known to all of them.
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        found.append(Path(runtime) / "jaxtop")
    with suppress(RuntimeError):  # a container whose user has neither name nor HOME
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        found.append(Path(state) / "jaxtop" / "runs")
    return found


def write(hello: Hello) -> None:
    """Write or renew the run file of this agent; without a folder to write to, only the address helps."""
    # By way of the wire, which has an answer to text that is no Unicode.
    text = msgspec.json.encode(msgspec.msgpack.decode(wire.encode(hello)))
    for folder in folders():
        path = folder / f"{hello.agent}.json"
        draft = path.with_suffix(".draft")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text)
            draft.replace(path)  # at once: a reader never sees half a file
        except OSError:
            continue
        return


def remove(agent: str) -> None:
    """Remove the run file of an agent."""
    for folder in folders():
        try:
            (folder / f"{agent}.json").unlink(missing_ok=True)
        except OSError:
            continue


def read(path: Path) -> RunFile | None:
    """The run file at this path; None if it is none, or of another user."""
    try:
        if path.stat().st_uid != os.getuid():
            return None
        hello = msgspec.json.decode(path.read_bytes(), type=Hello)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    place = processes.Place(hello.boot, hello.pid_namespace)
    return RunFile(path, hello, processes.is_gone(place, hello.pid, hello.process_started_ticks))


def find() -> list[RunFile]:
    """All run files of this user, newest first."""
    paths = {path for folder in folders() if folder.is_dir() for path in folder.glob("*.json")}
    found = [run_file for path in paths if (run_file := read(path)) is not None]
    return sorted(found, key=lambda run_file: (-run_file.hello.started_ms, run_file.hello.agent))


def tidy(found: list[RunFile]) -> list[RunFile]:
    """Remove what dead processes left, and return the rest.

    A dead process whose run still lives keeps its file: it is the witness of that death.
    """
    living = {run_file.hello.run for run_file in found if not run_file.is_stale} - {None}
    kept = []
    for run_file in found:
        if run_file.is_stale and run_file.hello.run not in living:
            with suppress(OSError):  # a home may be mounted read-only
                run_file.path.unlink(missing_ok=True)
        else:
            kept.append(run_file)
    return kept
