"""Runs a command of jaxtop for each question: its document is the answer, its notes come with it.

A process of its own can neither write into the protocol's output nor outlast its time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from jaxtop.base.names import legible

# What a command may need beyond the time in which it measures: its start, and hosts that do not answer.
BEYOND_S = 45.0
# For this many seconds, the pages of one document are parts of the same moment.
FRESH_S, MAX_KEPT = 60.0, 4
MAX_NOTES, LONGEST_NOTE = 10, 300


class NoReply(Exception):
    """Why there is no answer, in one line."""


class CommandReply(NamedTuple):
    """The document that a command printed, when it was asked, its notes and its exit status."""

    document: Any
    asked_at: float
    notes: tuple[str, ...]
    status: int

    def head(self) -> dict[str, Any]:
        """Return of which moment the document is, how old it is now, and what the command noted."""
        at = self.document.get("at") if isinstance(self.document, dict) else None
        then = self.asked_at
        if isinstance(at, str):
            with suppress(ValueError):
                then = datetime.fromisoformat(at).timestamp()
        head: dict[str, Any] = {"at": at, "age_s": round(max(0.0, time.time() - then), 1)}
        return {**head, "notes": list(self.notes)} if self.notes else head


class CommandRunner:
    """Runs commands of jaxtop. A recent reply is used again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], CommandReply] = {}

    async def run(self, *words: str, measures_s: float = 0.0, fresh: bool = True) -> CommandReply:
        """Return what `jaxtop` answers to these words, which print JSON.

        Raise `NoReply` with what it says where it prints none.
        """
        kept = self._kept.get(words)
        if not fresh and kept is not None and time.time() - kept.asked_at < FRESH_S:
            return kept
        asked_at = time.time()
        status, out, err = await _run(words, measures_s + BEYOND_S)
        lines = [legible(each)[:LONGEST_NOTE] for each in err.splitlines() if each.strip()]
        notes = tuple(each.removeprefix("jaxtop: ") for each in lines[-MAX_NOTES:])
        try:
            document = msgspec.json.decode(out)
        except msgspec.DecodeError:
            raise NoReply("; ".join(notes) or f"jaxtop ended with status {status}") from None
        answer = CommandReply(document, asked_at, notes, status)
        self._kept[words] = answer
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return answer


async def _run(words: tuple[str, ...], seconds: float) -> tuple[int, bytes, str]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "jaxtop",
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,  # what it starts ends with it
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        raise NoReply(f"`jaxtop {words[0]}` has not answered for {seconds:.0f} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return process.returncode or 0, out, err.decode(errors="replace")
