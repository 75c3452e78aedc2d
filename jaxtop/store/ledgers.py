"""The files in which processes record their time by kind, so that the record outlasts them.

A file per process, JSON lines: first who it is, then sums since its start, checkpoints, and how it ended.
Lines are added every few seconds; most of them replace the last one, so that a file grows slowly
and a process that is killed leaves what it had done by then. A line that was cut off is skipped. Files of one
lineage are attempts at one job.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from jaxtop.base import private
from jaxtop.base.names import as_file_name
from jaxtop.wire.bounds import Count, TimeMs  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.ledger import Save  # noqa: TC001 - as above

SUFFIX = ".jsonl"
VERSION = 1
# Older files are removed, and the oldest of more than this many.
KEPT_S, MOST_FILES = 90 * 86_400.0, 2_000
# The most of a file that is read: a week of lines has a few megabytes.
MOST_BYTES = 64 << 20

Seconds = dict[str, Annotated[float, Meta(ge=0, le=1e10)]]


class LedgerProcess(Struct, frozen=True, omit_defaults=True):
    """The first line: the process. It comes again when more is known; the last one counts."""

    ledger: int
    lineage: str
    agent: str
    started_ms: TimeMs
    name: str = ""
    hostname: str = ""
    pid: Count = 0
    process_started_ticks: Count | None = None
    boot: str = ""
    pid_namespace: str = ""
    attempt: str = ""
    run: str | None = None
    process_index: Count | None = None
    process_count: Count | None = None
    devices: Count = 0
    platform: str = ""
    jaxtop: str = ""
    jax: str = ""


class Sums(Struct, frozen=True, omit_defaults=True):
    """The time of the process up to a moment, in seconds by kind."""

    at_ms: TimeMs
    spent_s: Seconds
    steps: Count | None = None
    # How it ended, in its last line: "ended", or "stopped" where only the agent was stopped.
    end: str = ""
    error: str = ""


class SaveLine(Struct, frozen=True):
    """A checkpoint. It comes again when it is known to be complete."""

    save: Save


class LedgerFile(NamedTuple):
    """The content of a ledger file: the process, its sums over time, and its checkpoints by their start."""

    path: Path
    who: LedgerProcess
    sums: tuple[Sums, ...]
    saves: tuple[Save, ...]


class NotALedger(Exception):
    """A file that has no process in it; the text says why."""


def folder() -> Path | None:
    """Return the folder of all ledgers of this user; None where the user has no home."""
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return Path(state) / "jaxtop" / "ledgers"


def file_name(who: LedgerProcess) -> str:
    """Return the name of a process's file: its lineage and its agent find it."""
    return f"{as_file_name(who.lineage)}-{who.started_ms}-{as_file_name(who.agent)}{SUFFIX}"


def line_of(content: LedgerProcess | Sums | SaveLine) -> bytes:
    return msgspec.json.encode(content) + b"\n"


def put(path: Path, at: int, text: bytes) -> None:
    """Write lines at this place of a file, which is created if it is missing. It has a single writer."""
    fd = private.append(path) if at == 0 else os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(fd, text, at)
    finally:
        os.close(fd)


def tidy(where: Path, now: float | None = None) -> None:
    """Remove the files that are too old or too many."""
    now = time.time() if now is None else now
    found = []
    for path in where.glob(f"*{SUFFIX}"):
        with suppress(OSError):
            found.append((path.stat().st_mtime, path))
    found.sort(reverse=True)
    for i, (changed, path) in enumerate(found):
        if i >= MOST_FILES or now - changed > KEPT_S:
            with suppress(OSError):
                path.unlink()


def read(path: Path) -> LedgerFile:
    """Return what is in a file; raise `NotALedger` if it has no process, `OSError` if it cannot be read."""
    who: LedgerProcess | None = None
    sums: list[Sums] = []
    saves: dict[int, Save] = {}
    with path.open("rb") as file:
        text = file.read(MOST_BYTES)
    for line in text.splitlines():
        match _parsed(line):
            case LedgerProcess() as found:
                who = found
            case Sums() as found:
                sums.append(found)
            case SaveLine(save):
                saves[save.at_ms] = save
    if who is None:
        raise NotALedger(f"{path} is no ledger: no line names a process")
    ordered = tuple(sorted(sums, key=lambda each: each.at_ms))
    return LedgerFile(path, who, ordered, tuple(saves[at] for at in sorted(saves)))


def _parsed(line: bytes) -> LedgerProcess | Sums | SaveLine | None:
    try:
        found: Any = json.loads(line)
        if "ledger" in found:
            return msgspec.convert(found, LedgerProcess)
        return msgspec.convert(found, SaveLine) if "save" in found else msgspec.convert(found, Sums)
    except (ValueError, TypeError, RecursionError, msgspec.ValidationError):
        return None
