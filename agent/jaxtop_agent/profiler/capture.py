"""Full profiles on request: taken as windows are, but with everything in them, and packed for the viewer."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING

from jaxtop.base.names import reason
from jaxtop.wire.captures import FAILED, OPEN, PACKING, PART_BYTES, READY, STOPPING, WAITING
from jaxtop_agent import jaxprivate
from jaxtop_agent.core.capture import NOTHING, CaptureProgress, RequestedCapture
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.machine import basics
from jaxtop_agent.machine.cgroups import memory_left
from jaxtop_agent.profiler.session import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.profiler.load import Load, StepsMade
    from jaxtop_agent.profiler.schedule import Schedule
    from jaxtop_agent.profiler.session import ProfiledTrace, ProfilerSession

# What an operation takes in a finished trace: 37 bytes, and as much for what the runtime does around it.
# Where operations are counted, a capture ends before its trace is larger than was requested.
EVENT_BYTES = 75
# Where they are not counted, the growth of the process shows it: an event takes five times as much memory
# while the profiler is on as in the finished trace. The kernel is asked at most this often.
GROWTH, GROWTH_EVERY_S = 6, 0.1
# The process may not grow by more than this share of the memory that is left as the capture begins.
SHARE_OF_LEFT = 0.25
# A trace that became larger than was requested is still sent, up to this factor.
EXCESS = 2
# Looks while a capture waits for its moment.
LOOK_S = 0.5
_PACKED_AT_ONCE = 1 << 18


class CaptureWorker:
    """Takes the requested capture; used on the profiler's thread only.

    `steps` counts the steps of the script; None while they are unknown.
    """

    def __init__(
        self, board: Board, load: Load, schedule: Schedule, steps: Callable[[], StepsMade | None]
    ) -> None:
        self._board = board
        self._exchange = board.capture
        self._load = load
        self._schedule = schedule
        self._steps = steps
        self._text = ""

    def serve(self, session: ProfilerSession) -> ProfiledTrace | None:
        """Take the requested capture and return it, or drop the one that was given up."""
        requested = self._exchange.requested
        self._exchange.progress = NOTHING
        if requested is None:
            return None
        self._become(requested, WAITING)
        try:
            return self._take(requested, session)
        except Refused as error:
            self._become(requested, FAILED, str(error))
            return None
        except BaseException as error:
            self._become(requested, FAILED, reason(error))
            raise

    def _take(self, requested: RequestedCapture, session: ProfilerSession) -> ProfiledTrace | None:
        board, request = self._board, requested.request
        at = self._schedule.requested_at(requested.at, time.time() + board.registrar.clock_offset)
        while (left := at - time.time() - board.registrar.clock_offset) > 0 and self._is_wanted(requested):
            wait(board.wakeups.windows, min(left, LOOK_S))
        if not self._is_wanted(requested):
            return None
        if jaxprivate.default_client() is None:
            self._become(requested, FAILED, "JAX has no devices")
            return None
        self._become(requested, OPEN)
        seconds = request.duration_ms / 1000
        self._text = ""
        taken = session.capture(
            seconds, self._end_of(requested), stopping=lambda: self._become(requested, STOPPING, self._text)
        )
        raw = taken.trace
        if taken.is_cut_off:
            self._text = "the script began its own profile"
        elif request.steps is not None and not self._text and taken.seconds >= seconds:
            self._text = f"{request.steps} steps were not counted in this time"
        text = f"ended after {taken.seconds:.1f} s: {self._text}" if self._text else ""
        if len(raw) > EXCESS * request.most_bytes:
            many = f"the trace has {len(raw) / 1e6:.1f} MB, {request.most_bytes / 1e6:.1f} were allowed"
            self._become(requested, FAILED, f"{many}: ask for less time, or for a larger size")
            return None
        self._become(requested, PACKING, text)
        parts = tuple(packed(raw))
        if not self._is_wanted(requested):
            return None
        lasted = round(taken.seconds * 1e6)
        self._exchange.progress = CaptureProgress(
            request.id, READY, time.monotonic(), text, len(raw), parts, lasted
        )
        return taken

    def _end_of(self, requested: RequestedCapture) -> Callable[[], bool]:
        """Return a function that says whether to stop the capture now; it notes why, if that is early."""
        request = requested.request
        recorded, before, wanted = self._load.recorder(), self._steps(), request.steps
        size, grown_due, most_growth = basics.process().rss or 0, 0.0, _most_growth(request.most_bytes)

        def is_over() -> bool:
            nonlocal before, grown_due
            if not self._is_wanted(requested):
                return True
            if wanted is not None and (now := self._steps()) is not None:
                if before is None or before.functions != now.functions:
                    before = now  # what makes a step became known only now, or has changed
                elif now.made - before.made >= wanted + 1:  # one more: it began within a step
                    return True
            if recorded() * EVENT_BYTES > request.most_bytes:
                self._text = "its trace has the largest size that was asked for"
            if time.monotonic() >= grown_due:
                grown_due = time.monotonic() + GROWTH_EVERY_S
                if (grown := (basics.process().rss or 0) - size) > most_growth:
                    self._text = f"the process had grown by {grown / 1e6:.0f} MB"
            return bool(self._text)

        return is_over

    def _is_wanted(self, requested: RequestedCapture) -> bool:
        return not self._board.stopping and self._exchange.requested is requested

    def _become(self, requested: RequestedCapture, phase: str, text: str = "") -> None:
        self._exchange.progress = CaptureProgress(requested.request.id, phase, time.monotonic(), text)


def packed(raw: bytes) -> Iterator[bytes]:
    """Yield the trace, packed, in parts that fit into an answer."""
    packer = zlib.compressobj(1)
    left = bytearray()
    for at in range(0, len(raw), _PACKED_AT_ONCE):
        left += packer.compress(memoryview(raw)[at : at + _PACKED_AT_ONCE])
        while len(left) >= PART_BYTES:
            yield bytes(left[:PART_BYTES])
            del left[:PART_BYTES]
    left += packer.flush()
    for at in range(0, len(left), PART_BYTES):
        yield bytes(left[at : at + PART_BYTES])


def _most_growth(most_bytes: int) -> float:
    """Return how many bytes the process may grow by while a trace of this size is taken."""
    left = memory_left()
    growth = GROWTH * most_bytes
    return growth if left is None else min(growth, SHARE_OF_LEFT * left)
