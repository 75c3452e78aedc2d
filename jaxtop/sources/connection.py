"""What is known of the way to one address: told by the transport, and by probes where that does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from jaxtop.transport import Probe
from jaxtop.transport import client as changes
from jaxtop.transport import probe as outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

PROBE_AGAIN_AFTER = 1.0
FIRST_PROBE_AFTER = 1.0
# ZeroMQ gives up for good on a peer that said no; but the key may be listed there later.
RETRY_REFUSED_AFTER = 5.0


class Connection:
    """The states are those of `wire.Link`; methods return the state when it changed."""

    def __init__(self, endpoint: str, is_process_gone: Callable[[], bool] = lambda: False) -> None:
        self.endpoint = endpoint
        self.state = ""
        self._is_process_gone = is_process_gone
        self._failure = ""
        self._was_stopped = False
        self._probe: Probe | None = None
        self._probe_due: float | None = None
        self._retry_due: float | None = None

    def become(self, state: str) -> str | None:
        """Take on a state."""
        if state == "refused" and (self.state == "closed" or self._is_process_gone()):
            state = "closed"  # somebody else's agent answers where ours was
        if state in ("up", "refused", "dead"):
            self._failure, self._probe_due = "", None
            self.close()
        if self.state in (state, "dead"):
            return None
        self.state = state
        return state

    def change(self, what: str, now: float) -> str | None:
        """Take in what the transport noticed."""
        if what == changes.UP:
            return self.become("up")
        if what == changes.NOT_ADMITTED:
            self._retry_due = now + RETRY_REFUSED_AFTER
            return self.become("refused")
        if what != changes.DOWN:
            self._failure = what
        if self._probe is None and self._probe_due is None:
            self._probe_due = now
        return None

    def advance(self, now: float) -> str | None:
        """Begin a probe when one is due, move it on, and learn from it."""
        if self.state == "connecting" and self._probe is None and self._probe_due is None:
            # ZeroMQ says nothing of packets into the void, and knocks there for minutes.
            self._probe_due = now + FIRST_PROBE_AFTER
        if self._probe is None and self._probe_due is not None and now >= self._probe_due:
            self._probe = Probe(self.endpoint, now)
        if self._probe is None or (outcome := self._probe.advance(now)) is None:
            return None
        self.close()
        self._probe_due = now + PROBE_AGAIN_AFTER
        state = self._meaning(outcome)
        return self.become(state) if state else None

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing to be done until the transport notices something."""
        is_decided = self._probe is None and self._probe_due is None and self._retry_due is None
        return is_decided and self.state != "connecting"

    def is_retry_due(self, now: float) -> bool:
        """Whether it is time to knock again where we were refused; once a time."""
        if self._retry_due is None or now < self._retry_due:
            return False
        self._retry_due = None
        return True

    def wait_with(self, poller: zmq.Poller) -> bool:
        """Let the probe wake this poller; whether there is one."""
        if self._probe is None:
            return False
        poller.register(self._probe.fileno(), zmq.POLLOUT if self._probe.wants_write else zmq.POLLIN)
        return True

    def close(self) -> None:
        """Give up the probe under way."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _meaning(self, outcome: str) -> str | None:
        if outcome == outcomes.SILENT and self._is_process_gone():
            # A forked child may hold a dead parent's socket open, which then looks like a stopped process.
            return outcomes.CLOSED
        was_stopped, self._was_stopped = self._was_stopped, outcome == outcomes.SILENT
        if outcome != outcomes.GREETS:
            return outcome
        if was_stopped:
            # No handshake works with a stopped process: only one that fails from here on tells of its Python.
            self._failure = ""
        # It runs, so it is our handshake that fails: for want of the key, or because Python does not answer.
        return {changes.OTHER_KEY: "refused", changes.NO_ANSWER: "deaf"}.get(self._failure)
