"""The agents that are followed, and the state of the connection to each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.sources.connection import Connection
from jaxtop.sources.evidence import AgentAddress, judged
from jaxtop.store import runfiles
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import zmq

    from jaxtop.sources.descriptors import Descriptors
    from jaxtop.sources.mapping import AddressMap
    from jaxtop.transport import Subscriber

# An ended process is tried again, because it may only have been cut off. At most `MOST_ENDED` are followed,
# and all but the latest `FEWEST_ENDED` of them for at most `ENDED_SECONDS` seconds.
MOST_ENDED, FEWEST_ENDED, ENDED_SECONDS, TIDY_EVERY = 256, 16, 3600.0, 10.0
# The number of dropped agent ids that are remembered: rosters may list these agents until the run ends.
MOST_DROPPED = 10_000


@dataclass
class FollowedAgent:
    """An agent that is followed."""

    agent: str
    requests: str
    address: AgentAddress
    telemetry: Connection
    run: str | None = None
    is_dialled: bool = False
    ended_at: float | None = None
    has_left: bool = False  # its goodbye was heard or found

    @property
    def endpoint(self) -> str:
        return self.telemetry.endpoint


class Peers:
    """Follow agents over one subscription; `emit` reports the link to each, and what it left at its end."""

    def __init__(
        self,
        telemetry: Subscriber,
        descriptors: Descriptors,
        emit: Callable[[str, wire.Message], None],
        address_map: AddressMap,
    ) -> None:
        self._telemetry, self._descriptors, self._emit = telemetry, descriptors, emit
        self._map = address_map
        self._peers: dict[str, FollowedAgent] = {}
        self._at_endpoint: dict[str, FollowedAgent] = {}
        # Peers whose connections have work to do, and the times at which the others are tried again.
        self._restless: dict[str, FollowedAgent] = {}
        self._asleep: list[tuple[float, str]] = []
        self._dropped: dict[str, None] = {}
        self._tidy_due = 0.0
        self._now = 0.0
        # The number of links reported, and the peers dropped since the caller last cleared the list.
        self.changes = 0
        self.let_go: list[FollowedAgent] = []

    def __iter__(self) -> Iterator[FollowedAgent]:
        return iter(self._peers.values())

    def get(self, agent: str) -> FollowedAgent | None:
        return self._peers.get(agent)

    @property
    def without_descriptor(self) -> int:
        """The number of agents that are not followed because file descriptors ran out."""
        return sum(
            peer.telemetry.wants_dial and not peer.is_dialled and peer.telemetry.state is LinkState.CONNECTING
            for peer in self._restless.values()
        )

    # Following

    def meet(self, who: wire.Hello | wire.Peer) -> FollowedAgent | None:
        """Return the agent of this hello or listing and follow it; None if it is known to be gone."""
        return self._peers.get(who.agent) or self.follow(who, *self._way_to(who))

    def follow(self, who: wire.Hello | wire.Peer, telemetry: str, requests: str) -> FollowedAgent | None:
        """Follow an agent at this address and return it; None if it is known to be gone."""
        speaks = isinstance(who, wire.Hello)
        if who.agent in self._dropped and not speaks:
            return None
        address = AgentAddress(who, telemetry, is_met=speaks)
        before = self._at_endpoint.get(telemetry)
        if before is not None and not speaks and before.telemetry.state is LinkState.UP:
            # Another agent serves this address. The listing is outdated, or the agent's hello is on its way.
            self._drop(who.agent)
            state = judged(address, LinkState.CLOSED, is_hung_up=True, has_neighbour=before.address.is_own)
            self._emit_link(who.agent, wire.Link(state, telemetry))
            return None
        self._dropped.pop(who.agent, None)
        judge = partial(self._judge, address)
        connection = Connection(telemetry, self._descriptors, lambda: bool(address.is_gone()), judge)
        peer = self._peers[who.agent] = FollowedAgent(who.agent, requests, address, connection)
        self._restless[who.agent] = self._at_endpoint[telemetry] = peer
        if before is not None:  # a new agent at the address of another uses the same connection
            peer.is_dialled = before.is_dialled
            is_proof = before.address.is_met or before.address.is_own
            state = LinkState.CLOSED if is_proof else LinkState.UNREACHABLE
            self._report(before, before.telemetry.become(state))
            self._let_go(before)
        is_up = before is not None and speaks
        self._report(peer, connection.become(LinkState.UP if is_up else LinkState.CONNECTING))
        return peer

    def note_exited(self, agent: str, state: LinkState) -> None:
        """Note that the process of this agent has exited, according to its own machine."""
        peer = self._peers.get(agent)
        if peer is not None:
            self._report(peer, peer.telemetry.become(state))

    def _way_to(self, who: wire.Hello | wire.Peer) -> tuple[str, str]:
        """Return the addresses of an agent: its own, or those of the tunnel over which it was heard."""
        telemetry = self._map.endpoint_to_dial(who.telemetry, who.hostname)
        if isinstance(who, wire.Hello) and telemetry not in self._at_endpoint:
            port = who.telemetry.rpartition(":")[2]
            for peer in self._peers.values():
                if peer.telemetry.is_taken and peer.endpoint.rpartition(":")[2] == port:
                    return peer.endpoint, peer.requests
        return telemetry, self._map.endpoint_to_dial(who.requests, who.hostname)

    def _judge(self, address: AgentAddress, state: LinkState, *, is_hung_up: bool) -> LinkState:
        has_neighbour = state is LinkState.CLOSED and any(address.is_beside(each.address) for each in self)
        return judged(address, state, is_hung_up=is_hung_up, has_neighbour=has_neighbour)

    def _let_go(self, peer: FollowedAgent) -> None:
        peer.telemetry.close()
        self._peers.pop(peer.agent, None)
        self._restless.pop(peer.agent, None)
        if self._at_endpoint.get(peer.endpoint) is peer:
            del self._at_endpoint[peer.endpoint]
            if peer.is_dialled:
                self._telemetry.disconnect(peer.endpoint)
        self._drop(peer.agent)
        self.let_go.append(peer)

    def _drop(self, agent: str) -> None:
        self._dropped[agent] = None
        if len(self._dropped) > MOST_DROPPED:
            del self._dropped[next(iter(self._dropped))]

    # Messages and changes

    def hear(self, frame: wire.Frame) -> None:
        """Note that an agent was heard over its connection."""
        peer = self._peers.get(frame.agent)
        if peer is None:
            return
        peer.address.is_met = True
        self._report(peer, peer.telemetry.speaks())
        if frame.kind == "bye":
            peer.has_left = True
            peer.ended_at = peer.ended_at or self._now

    def take_changes(self, now: float) -> None:
        """Process the changes that the transport reported."""
        self._now = now
        for change in self._telemetry.changes():
            peer = self._at_endpoint.get(change.endpoint)
            if peer is not None:
                self._restless[peer.agent] = peer
                self._report(peer, peer.telemetry.change(change.what, now))

    def advance(self, now: float) -> None:
        """Advance the probes under way, and begin what is due."""
        self._now = now
        while self._asleep and self._asleep[0][0] <= now:
            _, agent = heappop(self._asleep)
            if agent in self._peers:
                self._restless[agent] = self._peers[agent]
        for peer in list(self._restless.values()):
            self._advance(peer, now)
        if now >= self._tidy_due:
            self._tidy_due = now + TIDY_EVERY
            self._tidy(now)

    def wait_with(self, poller: zmq.Poller) -> bool:
        """Let probes wake this poller; return whether there is one."""
        probing = [peer.telemetry.wait_with(poller) for peer in self._restless.values()]
        return any(probing)

    def close(self) -> None:
        for peer in self:
            peer.telemetry.close()

    def _advance(self, peer: FollowedAgent, now: float) -> None:
        connection = peer.telemetry
        self._report(peer, connection.advance(now))
        self._dial(peer)
        if connection.is_retry_due(now):
            self._telemetry.disconnect(peer.endpoint)
            self._telemetry.connect(peer.endpoint)
        if connection.is_at_rest:
            del self._restless[peer.agent]
        elif peer.is_dialled == connection.wants_dial and (until := connection.sleeps_until()) is not None:
            del self._restless[peer.agent]
            heappush(self._asleep, (until, peer.agent))

    def _dial(self, peer: FollowedAgent) -> None:
        """Connect or disconnect the peer. ZeroMQ would retry forever at an address that does not answer."""
        wants = peer.telemetry.wants_dial
        if wants == peer.is_dialled:
            return
        if not wants:
            self._telemetry.disconnect(peer.endpoint)
            peer.is_dialled = False
        elif self._descriptors.take(1):
            peer.is_dialled = self._telemetry.connect(peer.endpoint)
            if not peer.is_dialled:  # not a valid address
                self._report(peer, peer.telemetry.become(LinkState.UNREACHABLE))

    def _tidy(self, now: float) -> None:
        """Drop processes that ended long ago, and the oldest if there are too many."""
        ended = sorted((peer.ended_at, agent) for agent, peer in self._peers.items() if peer.ended_at)
        many = len(ended) - MOST_ENDED
        for i, (since, agent) in enumerate(ended[: max(0, len(ended) - FEWEST_ENDED)]):
            if i < many or now - since > ENDED_SECONDS:
                self._let_go(self._peers[agent])

    def _report(self, peer: FollowedAgent, state: LinkState | None) -> None:
        if state is None:
            return
        self.changes += 1
        if state.has_exited:
            peer.ended_at = peer.ended_at or self._now
        elif state is LinkState.UP:
            peer.ended_at = None
        self._emit_link(peer.agent, wire.Link(state, peer.endpoint), knows_ending=peer.has_left)

    def _emit_link(self, agent: str, link: wire.Link, *, knows_ending: bool = False) -> None:
        """Report a link. If an agent's goodbye was missed, report what it left on this machine."""
        ending = runfiles.ending(agent) if link.state.is_away and not knows_ending else None
        if ending is not None and link.state is LinkState.UNREACHABLE:
            # Its goodbye proves that the process has exited.
            link = wire.Link(LinkState.CLOSED, link.endpoint)
        self._emit(agent, link)
        if ending is not None:
            if (peer := self._peers.get(agent)) is not None:
                peer.has_left = True
            self._emit(agent, ending.hello)
            self._emit(agent, ending.bye)
