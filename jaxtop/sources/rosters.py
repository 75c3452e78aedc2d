"""Runs that lack processes, and the schedule of the requests for their rosters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.sources.peers import FollowedAgent, Peers

# The bounds of the seconds between two requests for a roster.
MIN_REQUEST_INTERVAL_S = 2.0
MAX_REQUEST_INTERVAL_S = 30.0
# The interval, as a share of the time for which processes have been missing.
INTERVAL_SHARE_OF_ABSENCE = 0.1


@dataclass
class _Run:
    """A run, and the time of its next roster request."""

    process_count: int | None = None
    lacks_since: float = 0.0
    request_due: float = 0.0


class Rosters:
    """The runs of the agents that are followed; `request` requests the roster of the agent at an address."""

    def __init__(self, peers: Peers, request: Callable[[str, float], None]) -> None:
        self._peers, self._request = peers, request
        # The value of `Peers.changes` at which every run had all its processes up.
        self._complete: int | None = None
        self._runs: dict[str, _Run] = {}

    def met(self, peer: FollowedAgent, run: str | None, process_count: int | None) -> None:
        """Note the run of an agent."""
        peer.run = run or peer.run
        if peer.run is not None:
            entry = self._runs.setdefault(peer.run, _Run())
            entry.process_count = process_count or entry.process_count
            self._complete = None

    def let_go(self, peer: FollowedAgent) -> None:
        """Forget the run of an agent that is no longer followed, if it was the last one."""
        if peer.run is not None and all(each.run != peer.run for each in self._peers):
            self._runs.pop(peer.run, None)

    def advance(self, now: float) -> None:
        """Request the roster from an agent of each run with missing processes, if that is due."""
        if self._complete == self._peers.changes:
            return
        up: dict[str, list[FollowedAgent]] = {}
        for peer in self._peers:
            if peer.run is not None and peer.telemetry.state is LinkState.UP:
                up.setdefault(peer.run, []).append(peer)
        self._complete = self._peers.changes
        for run_id, members in up.items():
            run = self._runs[run_id]
            if len(members) == run.process_count:
                run.lacks_since = 0.0
                continue
            self._complete = None
            run.lacks_since = run.lacks_since or now
            if now >= run.request_due:
                lacking = (now - run.lacks_since) * INTERVAL_SHARE_OF_ABSENCE
                run.request_due = now + min(max(MIN_REQUEST_INTERVAL_S, lacking), MAX_REQUEST_INTERVAL_S)
                self._request(members[0].requests, now)
