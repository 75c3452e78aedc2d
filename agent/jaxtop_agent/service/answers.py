"""The answers to the requests of viewers, and what a request changes in this agent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base import debuglog
from jaxtop.base.clock import now_ms
from jaxtop_agent.core.settings import bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.service.messages import Messages
    from jaxtop_agent.stalls.watch import Stalls
    from jaxtop_agent.stuck.agreement import StillReports

    # The kind of a message, and its bytes.
    Encoded = tuple[str, bytes]

READ_ONLY = "this run is read-only (JAXTOP_READONLY=1)"
NOT_OWNER = "only the owner of the run may do this"
NO_PROFILER = "no profile can be taken here: "
NOT_ASKED = "end_if_stuck is not set in this process"
NO_STACKS = "the stacks cannot be read here: "


class Answers:
    """Answers requests on the publisher's thread."""

    def __init__(
        self,
        board: Board,
        messages: Messages,
        stalls: Stalls,
        *,
        is_read_only: bool,
        agreement: StillReports | None = None,
    ) -> None:
        self._board = board
        self._messages = messages
        self._stalls = stalls
        self._is_read_only = is_read_only
        self._agreement = agreement

    def answer_to(
        self, request: wire.Request, state: Callable[[], list[Encoded]], *, is_owner: bool
    ) -> tuple[wire.Reply, list[Encoded]]:
        """Return the answer to a request, and the messages that follow it: `state` makes all of them."""
        error = ""
        messages: list[Encoded] = []
        capture: wire.CaptureState | None = None
        ends_in_ms: int | None = None
        match request.what:
            case "ping":
                pass
            case "roster":
                self._board.wakeups.registrar.set()  # for the next request; this answer does not wait
                messages = [("roster", wire.encode(self._messages.roster()))]
            case "state":
                messages = state()
            case "cost":
                messages = [("costs", wire.encode(self._messages.costs()))]
            case "pace" | wire.TAKE_WINDOW | "peaks":
                error = self._refusal(is_owner, needs_profiler=request.what == wire.TAKE_WINDOW)
                error = error or self._command(request)
            case wire.BEGIN_CAPTURE | wire.FETCH_CAPTURE | wire.END_CAPTURE:
                error = self._refusal(is_owner, needs_profiler=request.what == wire.BEGIN_CAPTURE)
                if not error:
                    error, capture = self._board.capture.answer(request)
                if self._board.capture.has_changed:
                    self._board.wakeups.windows.set()
            case "stacks":  # they contain no values, so every authorised viewer may read them
                stacks = self._stalls.stacks_for_viewer()
                error = NO_STACKS + self._board.sources["stalls"] if stacks is None else ""
                messages = [] if stacks is None else [("stacks", wire.encode(stacks))]
            case "still":
                error, ends_in_ms = self._report(request, is_owner=is_owner)
            case other:
                error = f"this agent does not know the request {other!r}; is its jaxtop older?"
        debuglog.debug("publisher", f"the request {request.what!r}", error or "answered")
        return wire.Reply(request.what, error, now_ms(), capture=capture, ends_in_ms=ends_in_ms), messages

    def _report(self, request: wire.Request, *, is_owner: bool) -> tuple[str, int | None]:
        """Note that another process is stuck; return why its report does not count, and when all end."""
        if not is_owner or self._agreement is None or request.still is None:
            return NOT_ASKED if is_owner else NOT_OWNER, None
        return "", self._agreement.note(request.still, time.monotonic())

    def _refusal(self, is_owner: bool, *, needs_profiler: bool) -> str:
        """Return why this viewer may not change this agent, or why nothing can be profiled; else ""."""
        board = self._board
        if self._is_read_only or not is_owner:
            return READ_ONLY if self._is_read_only else NOT_OWNER
        if needs_profiler and not board.windows.can_capture:
            return NO_PROFILER + board.sources.get("collectives", "")
        return ""

    def _command(self, request: wire.Request) -> str:
        """Execute a request that changes this agent; return the reason if it is refused, else ""."""
        board = self._board
        if request.what == wire.TAKE_WINDOW:
            board.requests.window_at = None if request.at_ms is None else request.at_ms / 1000
            board.requests.windows += 1
            board.wakeups.windows.set()
        elif request.what == "peaks":
            board.requests.peaks += 1
            board.wakeups.sampler.set()
        elif request.interval_ms is None:
            return "a pace needs an interval"
        else:
            board.requests.interval = bounded(request.interval_ms / 1000)
            board.pulse_now = True
            board.wakeups.sampler.set()
            board.wakeups.hardware.set()
        return ""
