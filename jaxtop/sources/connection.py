"""The state of the connection to one address, from the transport or, where that says nothing, from probes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import zmq

from jaxtop.base import debuglog
from jaxtop.transport import Outcome, ReachabilityCheck
from jaxtop.transport import client as changes
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.sources.descriptors import Descriptors

FIRST_PROBE_AFTER = 1.0
# An address that does not answer is probed at intervals of a tenth of the time for which it has been absent.
SOONEST_PROBE, RAREST_PROBE, SHARE_OF_ABSENCE = 1.0, 60.0, 0.1
# ZeroMQ never retries a peer that refused the key, but the peer may admit the key later.
RETRY_REFUSED_AFTER = 5.0
_STATE_OF_OUTCOME = {
    Outcome.NOT_GREETED: LinkState.STOPPED,
    Outcome.CLOSED: LinkState.CLOSED,
    Outcome.HUNG_UP: LinkState.CLOSED,
    Outcome.UNREACHABLE: LinkState.UNREACHABLE,
}
# The state of a running process, by the outcome of a failed handshake with it.
_STATE_OF_FAILURE = {changes.OTHER_KEY: LinkState.REFUSED, changes.NO_ANSWER: LinkState.BLOCKED}


class Connection:
    """The connection to one address. Methods return the state if it has changed.

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
        judge: Callable[..., LinkState] = lambda state, **_: state,
        *,
        is_of_process: bool = True,
    ) -> None:
        self.endpoint = endpoint
        self.state: LinkState | None = None
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

    def become(self, state: LinkState) -> LinkState | None:
        is_answered = state in (LinkState.REFUSED, LinkState.BLOCKED, LinkState.STOPPED)
        if is_answered and (self._has_ended or self._is_process_gone()):
            state = LinkState.CLOSED  # another process answers at this address
        if state in (LinkState.UP, LinkState.REFUSED, LinkState.DEAD):
            self._settle()
        if self.state in (state, LinkState.DEAD) or (self._has_ended and state is LinkState.UNREACHABLE):
            return None
        debuglog.info(
            "connection", f"{self.endpoint} is {state}", f"before: {self.state}" if self.state else ""
        )
        self.state = state
        return state

    def change(self, what: str, now: float) -> LinkState | None:
        """Process a change that the transport reported."""
        if what == changes.UP:
            self._settle()
            self.is_taken = self._has_ended
            return None if self.is_taken else self.become(LinkState.UP)
        self.is_taken = False
        if what == changes.NOT_ADMITTED:
            self._retry_due = now + max(RETRY_REFUSED_AFTER, self.pace(now))
            return self.become(self._judge(LinkState.REFUSED, is_hung_up=False))
        if what != changes.DOWN:
            self._failure = what
        self.probe_by(now)
        return None

    def speaks(self) -> LinkState | None:
        """Note that the agent itself was heard over this connection."""
        return self.become(LinkState.UP) if self.is_taken or self.state is LinkState.CONNECTING else None

    @property
    def _has_ended(self) -> bool:
        return self._is_of_process and self.state is LinkState.CLOSED

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

    def advance(self, now: float) -> LinkState | None:
        """Begin a probe that is due, advance it, and use its outcome."""
        if self.state is LinkState.CONNECTING:
            # ZeroMQ does not report packets that are lost, and retries for minutes.
            self.probe_by(now + FIRST_PROBE_AFTER)
        self._begin(now)
        if self._probe is None or (outcome := self._probe.advance(now)) is None:
            return None
        self.close()
        self.is_greeted = outcome is Outcome.GREETED
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
        is_away = self.state is not None and self.state.is_away
        return not is_away or self.is_greeted or self.is_taken

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing to do until the transport reports a change."""
        is_decided = self._probe is None and self._probe_due is None and self._retry_due is None
        return is_decided and self.state is not LinkState.CONNECTING

    def sleeps_until(self) -> float | None:
        """Return the time until which there is nothing to do; None if unknown."""
        if self._probe is not None or self._retry_due is not None or self.state is LinkState.CONNECTING:
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

    def _meaning(self, outcome: Outcome) -> LinkState | None:
        if outcome is Outcome.NOT_GREETED and self._is_process_gone():
            # A forked child may hold a dead parent's socket open, which looks like a stopped process.
            return LinkState.CLOSED
        was_stopped, self._was_stopped = self._was_stopped, outcome is Outcome.NOT_GREETED
        if outcome is not Outcome.GREETED:
            return self._judge(_STATE_OF_OUTCOME[outcome], is_hung_up=outcome is Outcome.HUNG_UP)
        if was_stopped:
            # No handshake works with a stopped process. Only a later failure says something about its Python.
            self._failure = ""
        # The process runs, so the handshake fails: the key is not listed, or Python does not answer.
        found = _STATE_OF_FAILURE.get(self._failure)
        return self._judge(found, is_hung_up=False) if found else None
