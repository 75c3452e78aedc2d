"""The capture that a viewer requests: between the thread that answers viewers and the one that profiles."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import debuglog
from jaxtop.wire import BEGIN_CAPTURE, END_CAPTURE, CaptureState
from jaxtop.wire.captures import FAILED, OPEN, STOPPING, WAITING

if TYPE_CHECKING:
    from jaxtop.wire import CaptureRequest, Request

# A viewer requests the progress of a capture several times a second. After this time without a request it has
# left, and the trace is dropped.
UNHEARD_S = 60.0
# The publisher looks at least once a second. If it was held up for longer, requests may have been lost.
HELD_UP_S = 5.0
# The longest that the exit of the script waits for the profiler to stop, and between two looks.
STOPS_WITHIN_S, LOOK_S = 600.0, 0.005
BUSY = "a capture of this process is already being taken; try again when it has ended"
OVER = "this capture has ended: its viewer ended it, or was not heard for a minute"


class RequestedCapture(NamedTuple):
    """A requested capture, and when it is to begin by the common clock."""

    request: CaptureRequest
    at: float | None


@dataclass(frozen=True)
class CaptureProgress:
    """How far a capture is, since when by the monotonic clock, and its packed trace."""

    id: str = ""
    phase: str = WAITING
    since: float = 0.0
    text: str = ""
    size: int = 0
    parts: tuple[bytes, ...] = ()
    lasted_us: int = 0


NOTHING = CaptureProgress()


class CaptureExchange:
    """One capture at a time. The publisher's thread writes `requested`, the profiler's writes `progress`."""

    def __init__(self) -> None:
        self.requested: RequestedCapture | None = None
        self.progress = NOTHING
        self._heard_at = self._looked_at = -math.inf
        self._stops_by: float | None = None  # set when the exit begins to wait
        self._has_waited = self._has_warned = False

    @property
    def has_changed(self) -> bool:
        """Whether a capture was requested or given up, and the profiler's thread has not seen it."""
        requested = self.requested
        return self.progress.id != ("" if requested is None else requested.request.id)

    # The publisher's side

    def answer(self, request: Request) -> tuple[str, CaptureState | None]:
        """Return why a request about a capture is refused, else "", and how far the capture is."""
        capture, requested = request.capture, self.requested
        if capture is None:
            return "a request about a capture has to name it", None
        is_it = requested is not None and requested.request.id == capture.id
        self._heard_at = time.monotonic() if is_it else self._heard_at
        if request.what == BEGIN_CAPTURE:
            if not is_it and requested is not None and self._progress_of(requested).phase != FAILED:
                return BUSY, None
            if not is_it:
                at = None if request.at_ms is None else request.at_ms / 1000
                self.requested, self._heard_at = RequestedCapture(capture, at), time.monotonic()
        elif not is_it:
            return OVER, None
        elif request.what == END_CAPTURE:
            self.requested = None
            return "", None
        assert self.requested is not None
        return "", _state(self._progress_of(self.requested), capture.part)

    def forget_if_unheard(self, now: float) -> bool:
        """Drop the capture if its viewer has left; return whether it was dropped."""
        if now - self._looked_at > HELD_UP_S:
            self._heard_at = max(self._heard_at, now)
        self._looked_at = now
        if self.requested is None or now - self._heard_at < UNHEARD_S:
            return False
        self.requested = None
        return True

    # At exit

    def wait_for_stop(self) -> bool:
        """Wait until no capture is in jaxlib; return whether this call, or one that was interrupted, waited.

        A thread in jaxlib would abort the process as it exits, so a second Ctrl-C does not end the wait: the
        caller has to try again. All tries share one deadline.
        """
        try:
            while self.progress.phase in {OPEN, STOPPING}:
                now = time.monotonic()
                if self._stops_by is None:
                    self._stops_by = now + STOPS_WITHIN_S
                if now >= self._stops_by:
                    break
                self._has_waited = True
                time.sleep(LOOK_S)
        except BaseException:
            if not self._has_warned:
                self._has_warned = True
                debuglog.warning(
                    "capture",
                    "the exit waits for the profiler to stop",
                    "leaving now would abort the process",
                )
            raise
        has_waited, self._has_waited = self._has_waited, False
        return has_waited

    def _progress_of(self, requested: RequestedCapture) -> CaptureProgress:
        return self.progress if self.progress.id == requested.request.id else NOTHING


def _state(progress: CaptureProgress, part: int | None) -> CaptureState:
    parts = progress.parts
    return CaptureState(
        progress.phase,
        round((time.monotonic() - progress.since) * 1000) if progress.since else 0,
        progress.text,
        progress.size,
        len(parts),
        progress.lasted_us,
        parts[part] if part is not None and part < len(parts) else b"",
    )
