"""The state of the connection to one address, from the transport or, where that says nothing, from probes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import zmq

from jaxtop.base import debuglog
from jaxtop.transport import ReachabilityCheck, reachability
from jaxtop.transport import client as changes

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.sources.descriptors import Descriptors

FIRST_PROBE_AFTER = 1.0
# An address that does not answer is probed at intervals of a tenth of the time for which it has been absent.
SOONEST_PROBE, RAREST_PROBE, SHARE_OF_ABSENCE = 1.0, 60.0, 0.1
# ZeroMQ never retries a peer that refused the key, but the peer may admit the key later.
RETRY_REFUSED_AFTER = 5.0
# The transport does not connect in these states.
AWAY = frozenset({"closed", "dead", "unreachable"})


class Connection:
    """The connection to one address. The states are those of `wire.Link`; methods return a changed state.

    Args:
        endpoint: The address.
        descriptors: The file descriptors that probes may use.
        is_process_gone: Returns whether this machine knows that the process has ended.
        judge: Turns a state into what the address proves: see `jaxtop.sources.evidence`.
        is_of_process: Whether the states are those of one process. Then `closed` means that it has ended, and
            a later answer comes from another process until the process itself is heard.
    """

    def __init__(
        self,
        endpoint: str,
        descriptors: Descriptors,
        is_process_gone: Callable[[], bool] = lambda: False,
        judge: Callable[..., str] = lambda state, **_: state,
        *,
        is_of_process: bool = True,
    ) -> None:
        self.endpoint = endpoint
        self.state = ""
        # The last probe was greeted: a ZeroMQ peer listens there.
        self.is_greeted = False
        # A peer answers at the address of an ended process. It is the same process only if it says so.
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
        if state in ("refused", "deaf", "silent") and (self._has_ended or self._is_process_gone()):
            state = "closed"  # another process answers at this address
        if state in ("up", "refused", "dead"):
            self._settle()
        if self.state in (state, "dead") or (self._has_ended and state == "unreachable"):
            return None
        debuglog.info(
            "connection", f"{self.endpoint} is {state}", f"before: {self.state}" if self.state else ""
        )
        self.state = state
        return state

    def change(self, what: str, now: float) -> str | None:
        """Process a change that the transport reported."""
        if what == changes.UP:
            self._settle()
            self.is_taken = self._has_ended
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
        """Note that the agent itself was heard over this connection."""
        return self.become("up") if self.is_taken or self.state == "connecting" else None

    @property
    def _has_ended(self) -> bool:
        return self._is_of_process and self.state == "closed"

    def pace(self, now: float) -> float:
        """Return the seconds until an address that does not answer is probed again."""
        absent = 0.0 if self._away_since is None else now - self._away_since
        return min(max(SOONEST_PROBE, absent * SHARE_OF_ABSENCE), RAREST_PROBE)

    def probe_by(self, due: float) -> None:
        """Schedule a probe at `due`, unless one is scheduled or under way."""
        if self._probe is None and self._probe_due is None:
            self._probe_due = due

    def overdue(self, now: float) -> float | None:
        """Return for how long a probe has been due; None if none is due."""
        if self._probe is not None or self._probe_due is None or now < self._probe_due:
            return None
        return now - self._probe_due

    @property
    def is_probing(self) -> bool:
        return self._probe is not None

    def advance(self, now: float) -> str | None:
        """Begin a probe that is due, advance it, and use its outcome."""
        if self.state == "connecting":
            # ZeroMQ does not report packets that are lost, and retries for minutes.
            self.probe_by(now + FIRST_PROBE_AFTER)
        self._begin(now)
        if self._probe is None or (outcome := self._probe.advance(now)) is None:
            return None
        self.close()
        self.is_greeted = outcome == reachability.GREETS
        if not self.is_greeted and self._away_since is None:
            self._away_since = now
        self._probe_due = now + self.pace(now)
        state = self._meaning(outcome)
        return self.become(state) if state else None

    def _begin(self, now: float) -> None:
        if self.overdue(now) is None:
            return
        if self._descriptors.take(1):
            with suppress(OSError):  # other code has taken the last descriptors
                self._probe = ReachabilityCheck(self.endpoint, now)

    @property
    def wants_dial(self) -> bool:
        """Whether the transport should keep this address connected."""
        return self.state not in AWAY or self.is_greeted or self.is_taken

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing to do until the transport reports a change."""
        is_decided = self._probe is None and self._probe_due is None and self._retry_due is None
        return is_decided and self.state != "connecting"

    def sleeps_until(self) -> float | None:
        """Return the time until which there is nothing to do; None if unknown."""
        if self._probe is not None or self._retry_due is not None or self.state == "connecting":
            return None
        return self._probe_due

    def is_retry_due(self, now: float) -> bool:
        """Return whether a retry after a refusal is due; true once per refusal."""
        if self._retry_due is None or now < self._retry_due:
            return False
        self._retry_due = None
        return True

    def wait_with(self, poller: zmq.Poller) -> bool:
        """Let the probe wake this poller; return whether there is one."""
        if self._probe is None:
            return False
        poller.register(self._probe.fileno(), zmq.POLLOUT if self._probe.wants_write else zmq.POLLIN)
        return True

    def close(self) -> None:
        """Cancel the probe under way."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _settle(self) -> None:
        self._failure, self._probe_due, self._away_since = "", None, None
        self.close()

    def _meaning(self, outcome: str) -> str | None:
        if outcome == reachability.SILENT and self._is_process_gone():
            # A forked child may hold a dead parent's socket open, which looks like a stopped process.
            return reachability.CLOSED
        was_stopped, self._was_stopped = self._was_stopped, outcome == reachability.SILENT
        is_hung_up = outcome == reachability.HUNG_UP
        if outcome != reachability.GREETS:
            return self._judge(reachability.CLOSED if is_hung_up else outcome, is_hung_up=is_hung_up)
        if was_stopped:
            # No handshake works with a stopped process. Only a later failure says something about its Python.
            self._failure = ""
        # The process runs, so the handshake fails: the key is not listed, or Python does not answer.
        found = {changes.OTHER_KEY: "refused", changes.NO_ANSWER: "deaf"}.get(self._failure)
        return self._judge(found, is_hung_up=False) if found else None
