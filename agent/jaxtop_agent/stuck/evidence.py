"""The last act of a process that is stuck: it writes the black box, says so in one line, and ends.

All of it runs on the agent's threads, so the main thread may hang anywhere, also in C, as long as it does not
hold Python's lock. The time of each part is limited: neither a disk nor a pipe that does not answer keeps the
process from ending.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base.clock import now_ms
from jaxtop.base.names import legible
from jaxtop.store import ledgers
from jaxtop_agent.blackbox import BlackBox
from jaxtop_agent.stuck.agreement import EVIDENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.service.publisher import Publisher
    from jaxtop_agent.stalls.watch import Stalls
    from jaxtop_agent.stuck.thread import Decision

NAME = "stuck"
# For figures that are read only while somebody watches; for the state to be on its way; for the disk.
FIGURES_S, STATE_S, DISK_S = 1.5, 3.0, 10.0
# For native stacks, which are read from the beginning on.
NATIVE_S = 2.0
LONGEST_S = FIGURES_S + NATIVE_S + STATE_S + DISK_S + EVIDENCE_S
# For whoever reads standard error. A pipe that can be written takes this many bytes at once.
READER_MS, MOST_BYTES = 1000, 4096
# The most black where in the folder for those that are begun only now: the oldest are removed first.
MOST_BOXES = 100


def folder() -> Path | None:
    """Return where black where go if the run has none; None where the user has no home."""
    found = ledgers.folder()
    return None if found is None else found.with_name(NAME)


class LastAct:
    """Ends the process; `end` does not return."""

    def __init__(
        self,
        board: Board,
        publisher: Publisher,
        stalls: Stalls,
        start: Callable[[str, Callable[[], None]], None],
    ) -> None:
        """Prepare it; `start` runs something on a thread of the agent."""
        self._board, self._publisher, self._stalls, self._start = board, publisher, stalls, start
        self.has_begun = False

    def hold(self) -> None:
        """At the script's exit: wait for the end if it has begun, so that its status and its goodbye count.

        A script fails on its own when those that it waits for have exited.
        """
        if self.has_begun:
            time.sleep(LONGEST_S)

    def end(self, decision: Decision) -> None:
        """Write the evidence and end the process, whatever fails."""
        self.has_begun = True
        why, where, box = decision.why, "", None
        try:
            self._stalls.begin_native()
            box = self._open_box()
            self._stalls.wait_for_native(NATIVE_S)
            where = self._show(why)
            self._close(box)
        except Exception as error:
            where = where or f"; not all evidence could be written: {type(error).__name__}: {error}"
        finally:
            with suppress(Exception):
                time.sleep(max(0.0, decision.exits_at - time.monotonic()))
                _say(
                    f"jaxtop: ended this process (exit status {wire.STUCK_STATUS}): {why}{where}; "
                    f"{_written(box)}"
                )
            os._exit(wire.STUCK_STATUS)

    def _open_box(self) -> BlackBox | None:
        """Return the black box of the run; begin one where it has none."""
        publisher = self._publisher
        if (box := publisher.black_box) is not None and self._board.publisher.is_recording:
            return box
        where = folder()
        if where is None:
            return None
        with suppress(OSError):
            _tidy(where)
        box = BlackBox(self._board, where, 0)
        self._start("recording", box.run)
        publisher.black_box = box
        for wakeup in (self._board.wakeups.sampler, self._board.wakeups.publisher):
            wakeup.set()
        time.sleep(FIGURES_S)
        return box

    def _show(self, why: str) -> str:
        """Send the stacks and an event to viewers and the black box; return where the process is."""
        board, stacks = self._board, self._stalls.stacks()
        if stacks is not None:
            board.send(stacks)
        text = f"its agent ends it with status {wire.STUCK_STATUS}: {why}"
        board.send(wire.Event(now_ms(), "critical", NAME, text))
        return "" if stacks is None else place_text(stacks)

    def _close(self, box: BlackBox | None) -> None:
        """Say goodbye and finish the black box."""
        board = self._board
        end = time.monotonic() + STATE_S
        while box is not None and (board.outbox.waiting or box.wants_keyframe) and time.monotonic() < end:
            time.sleep(0.05)
        self._publisher.farewell = wire.STUCK
        board.stop()
        end = time.monotonic() + DISK_S
        while box is not None and not box.is_over and time.monotonic() < end:
            time.sleep(0.02)


def place_text(stacks: wire.Stacks) -> str:
    """Return where the process is, as the end of a sentence: a line of the script, and its wait."""
    main = next((each for each in stacks.threads if each.is_main), None)
    frames = () if main is None else main.frames
    # Files of the script have bare names: those of libraries and of no file do not.
    own = next((each for each in reversed(frames) if not {"/", "<"} & set(each.file)), None)
    at = "" if own is None else f" at {own.file}:{own.line} {own.function}"
    native = stacks.telling
    waits = f" {native.wait}" if native.waits_in else f" waits {native.wait}" * bool(native.wait)
    return f"; this one{at}{waits}" if at or waits else ""


def _tidy(where: Path) -> None:
    found = sorted(where.glob("*.mcap"), key=lambda each: each.stat().st_mtime)
    for each in found[: -MOST_BOXES + 1]:
        each.unlink()


def _written(box: BlackBox | None) -> str:
    if box is None:
        return "no black box was written"
    if box.failure or not box.is_over:
        return f"the black box is not whole ({box.failure or 'the disk does not answer'}): {box.path}"
    return f"what it did is in {box.path}"


def _say(line: str) -> None:
    """Write one line to standard error, if somebody reads it."""
    poller = select.poll()
    poller.register(2, select.POLLOUT)
    if poller.poll(READER_MS):
        os.write(2, f"{legible(line)}\n".encode(errors="replace")[:MOST_BYTES])
