"""The live source: follow every agent of the runs that the seeds lead to."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import zmq

from jaxtop import wire
from jaxtop.base.clock import steady
from jaxtop.base.feature import hook
from jaxtop.sources.address_search import Seed, Seeking
from jaxtop.sources.descriptors import Descriptors
from jaxtop.sources.mapping import NO_MAP
from jaxtop.sources.paths import DIRECT, Paths
from jaxtop.sources.peers import Peers
from jaxtop.sources.relays import NoRelays
from jaxtop.sources.requests import RequestPool
from jaxtop.sources.rosters import Rosters
from jaxtop.transport import Subscriber
from jaxtop.wire import LinkState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.base.keys import KeyPair
    from jaxtop.sources.mapping import AddressMap
    from jaxtop.sources.relays import Relays

# Messages of each agent that wait to be taken. ZeroMQ ends this process if an agent dies whose queue is full
# (see `transport/client.py`), so it has room for hours of a viewer that takes none.
QUEUE = 100_000
BATCH = 2_000
IDLE_STEP = 0.25
PROBING_STEP = 0.05
# With a thousand hosts something arrives every millisecond: poll at most every 20 ms, in batches.
POLL_INTERVAL_S = 0.02


class LiveSource:
    """Frames from live agents, and frames on the state of the connections to them.

    All work happens on the thread that calls `poll`. Call it often: a viewer that does not take its messages
    loses them.
    """

    def __init__(
        self,
        seeds: Sequence[Seed],
        keys: KeyPair,
        owner: bytes | None = None,
        *,
        own_id: str = "",
        address_map: AddressMap = NO_MAP,
    ) -> None:
        """Begin to follow the seeds.

        `owner` is the public key of the owner, if that is another user; `own_id` the id of the relay whose
        source this is. `address_map` says what to dial in place of the addresses of agents.
        """
        self._now = steady()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.max_sockets = 16_384
        self._rejected: Counter[str] = Counter()
        server = owner or keys.public
        self._telemetry = Subscriber(self._context, keys, server, QUEUE)
        self._descriptors = Descriptors()
        self._requests = RequestPool(self._context, keys, server, self._rejected, self._descriptors)
        self._seeking = Seeking(self._descriptors, self._requests, partial(self._emit, ""), self._found)
        self._map = address_map
        self._peers = Peers(self._telemetry, self._descriptors, self._emit, address_map)
        self._paths = Paths(own_id)
        self._relays: Relays = (hook("relays") or NoRelays)(
            self._context, keys, server, self._descriptors, self._seeking.seek, own_id=own_id
        )
        self._rosters = Rosters(self._peers, self._request_roster)
        # A relay runs for months: it looks at the address of an agent that left for the next one.
        self._is_of_relay = bool(own_id)
        self._typed: dict[str, tuple[str, str]] = {}
        self._sequence: dict[tuple[str, str], int] = {}
        self._out: list[wire.Frame] = []
        for seed in seeds:
            if seed.hello is not None:
                self._follow_run_file(seed.hello, seed.exited)
            else:
                self._seeking.seek(seed.target, seed.endpoints)

    @property
    def is_settled(self) -> bool:
        """Whether every address has answered or has a known reason not to."""
        are_settled = all(peer.telemetry.state is not LinkState.CONNECTING for peer in self._peers)
        return self._seeking.is_settled and are_settled and self._relays.is_settled

    @property
    def rejected(self) -> Counter[str]:
        return self._rejected + self._relays.rejected()

    @property
    def notes(self) -> list[str]:
        """Notes on the source itself for the user, one per line."""
        count = self._peers.without_descriptor
        limit = self._descriptors.limit
        who = f"{count} agents are" if count > 1 else "1 agent is"
        many = [f"{who} not followed: this process may open only {limit} files (ulimit -n)"] if count else []
        return many + self._relays.notes(self._now)

    def poll(self, timeout: float) -> list[wire.Frame]:
        """Return the frames that have arrived; wait for the first for at most `timeout` seconds."""
        if not self._out:
            self._wait(timeout)
        # Frames of one poll share one time, so that frames are in the order of their times.
        now = self._now = steady()
        for parts in self._telemetry.take(BATCH):
            self._take(parts, now)
        self._peers.take_changes(now)
        for relay, frame in self._relays.take(now):
            self._take_relayed(relay, frame)
        self._requests.take(now)
        self._peers.advance(now)
        self._seeking.advance(now)
        self._rosters.advance(now)
        self._forget()
        out, self._out = self._out, []
        return out

    def request(self, agent: str, request: wire.Request, done: Callable[[wire.Reply | None], None]) -> None:
        """Send a request to an agent; a later `poll` calls `done` with the reply, or None if none came."""
        peer, relay = self._peers.get(agent), self._paths.path_of(agent)
        if relay != DIRECT:
            self._relays.request(relay, agent, request, steady(), done)
            return
        if peer is None:
            done(None)
            return

        def on_reply(reply: wire.Reply | None, frames: list[wire.Frame]) -> None:
            self._pass_on_all(reply, frames)
            done(reply)

        self._requests.send(peer.requests, request, steady(), on_reply)

    def close(self) -> None:
        self._peers.close()
        self._seeking.close()
        self._requests.close()
        self._relays.close()
        self._telemetry.close()
        self._context.destroy(linger=0)

    def _wait(self, timeout: float) -> None:
        poller = zmq.Poller()
        poller.register(self._telemetry.socket, zmq.POLLIN)
        poller.register(self._telemetry.monitor, zmq.POLLIN)
        self._requests.wait_with(poller)
        self._relays.wait_with(poller)
        probing = [self._peers.wait_with(poller), self._seeking.wait_with(poller)]
        longest = min(timeout, PROBING_STEP if any(probing) else IDLE_STEP)
        time.sleep(max(0.0, min(longest, self._now + POLL_INTERVAL_S - steady())))
        poller.poll(int(max(0.0, longest) * 1000))

    # Messages

    def _take(self, parts: list[bytes], now: float) -> None:
        try:
            frame = wire.unpack(parts, now)
        except wire.NewerVersion as error:
            wire.tally(self._rejected, f"a newer jaxtop speaks {error}")
        except wire.Unreadable as error:
            wire.tally(self._rejected, f"unreadable message: {error}")
        else:
            self._see_gap(frame)
            self._peers.hear(frame)
            self._pass_on(frame)

    def _see_gap(self, frame: wire.Frame) -> None:
        """Request the full state of an agent if messages from it are missing."""
        key = (frame.agent, frame.kind)
        last = self._sequence.get(key)
        self._sequence[key] = frame.sequence
        peer = self._peers.get(frame.agent)
        if last is not None and frame.sequence > last + 1 and peer is not None:
            self._requests.send(peer.requests, wire.Request("state"), frame.at, self._pass_on_all)

    def _pass_on_all(self, _reply: wire.Reply | None, frames: list[wire.Frame]) -> None:
        for frame in frames:
            self._pass_on(frame)

    def _pass_on(self, frame: wire.Frame) -> None:
        if frame.kind in wire.OWN_KINDS:
            self._rejected["sent by an agent, although only viewers may"] += 1
            return
        if self._paths.is_used(DIRECT, frame.agent):
            self._out.append(frame)
        if frame.kind not in ("hello", "roster"):
            return
        try:
            message = wire.decode(frame.kind, frame.raw)
        except wire.Unreadable:
            return  # the fold counts it
        if isinstance(message, wire.Hello):
            self._meet(message, message.run, message.process_count)
        elif isinstance(message, wire.Roster):
            for listed in message.peers:
                self._meet(listed, message.run, message.process_count)
            for listed in message.kin:
                self._meet(listed, None, None)

    def _take_relayed(self, relay: str, frame: wire.Frame) -> None:
        """Pass on a frame that came through a relay. Its agents are not dialled from here."""
        if frame.agent and (link := wire.link_of(frame)) is not None:
            self._note_link(relay, frame.agent, link)
        elif not frame.agent or self._paths.is_used(relay, frame.agent):
            self._out.append(frame)

    def _note_link(self, path: str, agent: str, link: wire.Link) -> None:
        """Show a link over a path, if that path is used; over a new path, what was missed is requested."""
        shown, is_other = self._paths.note(path, agent, link)
        if shown is not None:
            self._out.append(wire.local_frame(self._now, agent, shown))
        if is_other:
            self.request(agent, wire.Request("state"), lambda _: None)

    # Agents

    def _meet(self, who: wire.Hello | wire.Peer, run: str | None, process_count: int | None) -> None:
        peer = self._peers.meet(who)
        if peer is not None:
            self._rosters.met(peer, run, process_count)

    def _follow_run_file(self, hello: wire.Hello, exited: LinkState | None) -> None:
        listed = wire.Peer(*(getattr(hello, name) for name in wire.Peer.__struct_fields__))
        roster = wire.Roster(hello.agent, (listed,), hello.run, hello.name, hello.process_count)
        self._emit("", roster)
        self._meet(listed, hello.run, hello.process_count)
        if exited is not None:
            self._emit(hello.agent, hello)
            self._peers.note_exited(hello.agent, exited)

    def _request_roster(self, endpoint: str, now: float) -> None:
        self._requests.send(endpoint, wire.Request("roster"), now, self._pass_on_all)

    def _found(
        self, target: str, typed: str, reply: wire.Reply | None, frames: list[wire.Frame]
    ) -> str | None:
        """Process the answer of an agent or a relay at a typed address; return its id."""
        if reply is not None and reply.relay:
            is_followed = self._relays.found(target, typed, reply.relay, self._now)
            return reply.relay if is_followed else None
        for frame in frames:
            if frame.kind == "roster":
                self._typed[frame.agent] = target, typed
                self._reach_through(typed, frame)
                self._pass_on(frame)
                return frame.agent
        return None

    def _reach_through(self, typed: str, frame: wire.Frame) -> None:
        """Follow the agent that answered at a typed address at that address: it may be behind a tunnel."""
        try:
            roster = wire.decode("roster", frame.raw)
        except wire.Unreadable:
            return
        for listed in roster.peers if isinstance(roster, wire.Roster) else ():
            if listed.agent == frame.agent and self._peers.get(listed.agent) is None:
                telemetry = self._map.endpoint_to_dial(listed.telemetry, listed.hostname)
                if telemetry == listed.telemetry:
                    telemetry = f"{typed.rpartition(':')[0]}:{listed.telemetry.rpartition(':')[2]}"
                self._peers.follow(listed, telemetry, typed)

    def _forget(self) -> None:
        """Discard what is stored about agents that are no longer followed."""
        for peer in self._peers.let_go:
            self._paths.leave(DIRECT, peer.agent)
            for kind in wire.KINDS:
                self._sequence.pop((peer.agent, kind), None)
            self._rosters.let_go(peer)
            target, endpoint = self._typed.pop(peer.agent, ("", ""))
            if target and self._is_of_relay:
                self._seeking.seek(target, (endpoint,))
        self._peers.let_go.clear()

    def _emit(self, agent: str, message: wire.Message) -> None:
        """Add a frame made by this viewer to the stream."""
        if agent and isinstance(message, wire.Link):
            self._note_link(DIRECT, agent, message)
        elif not agent or self._paths.is_used(DIRECT, agent):
            self._out.append(wire.local_frame(self._now, agent, message))
