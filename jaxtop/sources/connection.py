"""What is known of the way to one address: told by the transport, and by probes where that does not say."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import zmq

from jaxtop.transport import ReachabilityCheck
from jaxtop.transport import client as changes
from jaxtop.transport import probe as outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.sources.descriptors import Descriptors

FIRST_PROBE_AFTER = 1.0
# An address where nobody answers is tried again after a tenth of the time that this has lasted.
SOONEST_PROBE, RAREST_PROBE, SHARE_OF_ABSENCE = 1.0, 60.0, 0.1
# ZeroMQ gives up for good on a peer that said no; but the key may be listed there later.
RETRY_REFUSED_AFTER = 5.0
# Nobody is to be dialled in these states.
AWAY = frozenset({"closed", "dead", "unreachable"})


def _as_found(state: str, *, is_hung_up: bool) -> str:  # noqa: ARG001 - the signature of a judge
    return state


class Connection:
    """The states are those of `wire.Link`; methods return the state when it changed.

    Args:
        endpoint: The address.
        descriptors: What probes may open.
        is_process_gone: Whether this machine knows that the process has ended.
        judge: Makes of a state what the address proves: see `jaxtop.sources.evidence`.
        is_of_process: Whether the states are those of one process: then `closed` means that it has ended, and
            who answers later is somebody else until the process itself is heard.
    """

    def __init__(
        self,
        endpoint: str,
        descriptors: Descriptors,
        is_process_gone: Callable[[], bool] = lambda: False,
        judge: Callable[..., str] = _as_found,
        *,
        is_of_process: bool = True,
    ) -> None:
        self.endpoint = endpoint
        self.state = ""
        # The last probe was greeted: whoever is there speaks ZeroMQ.
        self.is_greeted = False
        # Somebody answers where a process was found to be gone; it is the same one only if it says so.
        self.is_taken = False
        self._descriptors = descriptors
        self._is_process_gone = is_process_gone
        self._judge = judge
        self._is_of_process = is_of_process
        self._failure = ""
        self._was_stopped = False
        self._away_since: float | None = None
        self._probe: ReachabilityCheck | None = None
        self._probe_due: float | None = None
        self._retry_due: float | None = None

    def become(self, state: str) -> str | None:
        """Take on a state."""
        if state in ("refused", "deaf", "silent") and (self._is_over or self._is_process_gone()):
            state = "closed"  # somebody else answers where ours was
        if state in ("up", "refused", "dead"):
            self._settle()
        if self.state in (state, "dead") or (self._is_over and state == "unreachable"):
            return None
        self.state = state
        return state

    def change(self, what: str, now: float) -> str | None:
        """Take in what the transport noticed."""
        if what == changes.UP:
            self._settle()
            self.is_taken = self._is_over
            return None if self.is_taken else self.become("up")
        self.is_taken = False
        if what == changes.NOT_ADMITTED:
            self._retry_due = now + max(RETRY_REFUSED_AFTER, self.pace(now))
            return self.become(self._judge("refused", is_hung_up=False))
        if what != changes.DOWN:
            self._failure = what
        self.probe_by(now)
        return None

    def speaks(self) -> str | None:
        """Take in that the agent itself was heard over this connection."""
        return self.become("up") if self.is_taken or self.state == "connecting" else None

    @property
    def _is_over(self) -> bool:
        return self._is_of_process and self.state == "closed"

    def pace(self, now: float) -> float:
        """The seconds until an address where nobody answers is tried again."""
        absent = 0.0 if self._away_since is None else now - self._away_since
        return min(max(SOONEST_PROBE, absent * SHARE_OF_ABSENCE), RAREST_PROBE)

    def probe_by(self, due: float) -> None:
        """Have a probe begin then, unless there is one."""
        if self._probe is None and self._probe_due is None:
            self._probe_due = due

    def overdue(self, now: float) -> float | None:
        """For how long a probe should have begun; None where none is due."""
        if self._probe is not None or self._probe_due is None or now < self._probe_due:
            return None
        return now - self._probe_due

    @property
    def is_probing(self) -> bool:
        """Whether a probe is under way."""
        return self._probe is not None

    def advance(self, now: float) -> str | None:
        """Begin a probe when one is due, move it on, and learn from it."""
        if self.state == "connecting":
            # ZeroMQ says nothing of packets into the void, and knocks there for minutes.
            self.probe_by(now + FIRST_PROBE_AFTER)
        self._begin(now)
        if self._probe is None or (outcome := self._probe.advance(now)) is None:
            return None
        self.close()
        self.is_greeted = outcome == outcomes.GREETS
        if not self.is_greeted and self._away_since is None:
            self._away_since = now
        self._probe_due = now + self.pace(now)
        state = self._meaning(outcome)
        return self.become(state) if state else None

    def _begin(self, now: float) -> None:
        if self.overdue(now) is None:
            return
        if self._descriptors.take(1):
            with suppress(OSError):  # others have taken what was left
                self._probe = ReachabilityCheck(self.endpoint, now)

    @property
    def wants_dial(self) -> bool:
        """Whether the transport should keep this address connected."""
        return self.state not in AWAY or self.is_greeted or self.is_taken

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing to be done until the transport notices something."""
        is_decided = self._probe is None and self._probe_due is None and self._retry_due is None
        return is_decided and self.state != "connecting"

    def sleeps_until(self) -> float | None:
        """Until when nothing is to be done here; None if that is not known."""
        if self._probe is not None or self._retry_due is not None or self.state == "connecting":
            return None
        return self._probe_due

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
            self._descriptors.give(1)

    def _settle(self) -> None:
        self._failure, self._probe_due, self._away_since = "", None, None
        self.close()

    def _meaning(self, outcome: str) -> str | None:
        if outcome == outcomes.SILENT and self._is_process_gone():
            # A forked child may hold a dead parent's socket open, which then looks like a stopped process.
            return outcomes.CLOSED
        was_stopped, self._was_stopped = self._was_stopped, outcome == outcomes.SILENT
        is_hung_up = outcome == outcomes.HUNG_UP
        if outcome != outcomes.GREETS:
            return self._judge(outcomes.CLOSED if is_hung_up else outcome, is_hung_up=is_hung_up)
        if was_stopped:
            # No handshake works with a stopped process: only one that fails from here on tells of its Python.
            self._failure = ""
        # It runs, so it is our handshake that fails: for want of the key, or because Python does not answer.
        found = {changes.OTHER_KEY: "refused", changes.NO_ANSWER: "deaf"}.get(self._failure)
        return self._judge(found, is_hung_up=False) if found else None
