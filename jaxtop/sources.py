"""Where frames come from: the live cluster (recordings and others join it here)."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import zmq

from jaxtop import processes, wire
from jaxtop.transport import Probe, Question, Subscriber
from jaxtop.transport import client as changes
from jaxtop.transport import probe as outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.keys import KeyPair

PROBE_AGAIN_AFTER = 1.0
ASK_AGAIN_AFTER = 1.0
ANSWER_WITHIN = 4.0
# Asked to connect again: ZeroMQ gives up for good on a peer that said no, and the key may be listed later.
RETRY_REFUSED_AFTER = 5.0
QUEUE = 10_000
BATCH = 2_000


class Seed(NamedTuple):
    """An address to begin with; what a run file said of the agent there, if it was found that way."""

    endpoint: str
    hello: wire.Hello | None = None
    is_dead: bool = False
    # One of several guesses, of which it is enough that one answers.
    is_guess: bool = False


@dataclass
class _Peer:
    """An agent we follow."""

    agent: str
    endpoint: str
    requests: str
    place: processes.Place
    pid: int
    started: int | None
    told: str = ""
    failure: str = ""
    probe: Probe | None = None
    probe_due: float | None = None
    retry_due: float | None = None


@dataclass
class _SeedState:
    """A seed that still has to answer."""

    seed: Seed
    ask_due: float = 0.0
    question: _Asked | None = None
    told: str = ""
    failure: str = ""
    probe: Probe | None = None
    probe_due: float | None = None


@dataclass
class _Asked:
    socket: Question
    agent: str
    what: str
    until: float
    done: Callable[[wire.Reply | None], None] | None = field(default=None)


class LiveSource:
    """Follows every agent of the runs that the seeds lead to. All of it on the thread that calls `poll`."""

    def __init__(
        self,
        seeds: Sequence[Seed],
        keys: KeyPair,
        owner: bytes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._owner = owner or keys.public
        self._clock = clock
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.max_sockets = 16_384
        self._telemetry = Subscriber(self._context, keys, self._owner, QUEUE)
        self._peers: dict[str, _Peer] = {}
        self._by_endpoint: dict[str, _Peer] = {}
        self._seeds = {seed.endpoint: _SeedState(seed) for seed in seeds if not seed.hello}
        self._asked: list[_Asked] = []
        self._sequence: dict[tuple[str, str], int] = {}
        self._rosters: dict[str, str] = {}
        self._out: list[wire.Frame] = []
        self.rejected: Counter[str] = Counter()
        for seed in seeds:
            if seed.hello:
                self._follow_run_file(seed.hello, is_dead=seed.is_dead)
            else:
                self._tell_seed(self._seeds[seed.endpoint], "connecting")

    @property
    def is_settled(self) -> bool:
        """Whether every address has answered, or said why not."""
        return not any(s.told in ("", "connecting") for s in (*self._seeds.values(), *self._peers.values()))

    def poll(self, timeout: float) -> list[wire.Frame]:
        """Frames that arrived, waiting for the first at most so long."""
        if not self._out:
            self._wait(timeout)
        now = self._clock()
        self._take_telemetry(now)
        self._take_changes()
        self._take_answers(now)
        self._take_care_of_peers(now)
        self._take_care_of_seeds(now)
        out, self._out = self._out, []
        return out

    def request(self, agent: str, request: wire.Request, done: Callable[[wire.Reply | None], None]) -> None:
        """Ask one agent; `done` is called from a later `poll`, with None if no answer came."""
        peer = self._peers.get(agent)
        if peer is None:
            done(None)
        else:
            self._ask(peer.requests, agent, request, done)

    def close(self) -> None:
        """Leave."""
        for asked in self._asked:
            asked.socket.close()
        for each in (*self._peers.values(), *self._seeds.values()):
            if each.probe:
                each.probe.close()
        self._telemetry.close()
        self._context.destroy(linger=0)

    # Waiting

    def _wait(self, timeout: float) -> None:
        poller = zmq.Poller()
        poller.register(self._telemetry.socket, zmq.POLLIN)
        poller.register(self._telemetry.monitor, zmq.POLLIN)
        for asked in self._asked:
            poller.register(asked.socket.socket, zmq.POLLIN)
            poller.register(asked.socket.monitor, zmq.POLLIN)
        busy = False
        for each in (*self._peers.values(), *self._seeds.values()):
            if each.probe is not None:
                busy = True
                poller.register(each.probe.fileno(), zmq.POLLOUT if each.probe.wants_write else zmq.POLLIN)
        step = 0.05 if busy else 0.25
        poller.poll(max(0.0, min(timeout, step)) * 1000)

    # Telemetry

    def _take_telemetry(self, now: float) -> None:
        for parts in self._telemetry.take(BATCH):
            frame = self._unpack(parts, now)
            if frame is not None:
                self._count(frame)
                self._emit(frame)

    def _unpack(self, parts: list[bytes], now: float) -> wire.Frame | None:
        try:
            return wire.unpack(parts, now)
        except wire.NewerVersion as error:
            self.rejected[f"a newer jaxtop speaks {error}"] += 1
        except wire.Unreadable as error:
            self.rejected[f"unreadable message: {error}"[:200]] += 1
        return None

    def _emit(self, frame: wire.Frame) -> None:
        self._out.append(frame)
        if frame.kind == "hello":
            self._read_hello(frame)
        elif frame.kind == "roster":
            self._read_roster(frame)

    def _count(self, frame: wire.Frame) -> None:
        """See gaps in the numbering, and ask for what was missed."""
        key = (frame.agent, frame.kind)
        last = self._sequence.get(key)
        self._sequence[key] = frame.sequence
        if last is not None and frame.sequence > last + 1:
            peer = self._peers.get(frame.agent)
            if peer is not None:
                self._ask(peer.requests, peer.agent, wire.Request("state"))

    def _read_hello(self, frame: wire.Frame) -> None:
        try:
            hello = wire.decode("hello", frame.raw)
        except wire.Unreadable:
            return  # the fold counts it
        assert isinstance(hello, wire.Hello)
        peer = self._peers.get(hello.agent)
        if peer is None:
            # Started again at an address that we follow: the old agent of that address is no more.
            self._follow(_peer_of(hello), up=hello.telemetry in self._by_endpoint)
        if hello.roster_hash and self._rosters.get(hello.agent) != hello.roster_hash:
            self._rosters[hello.agent] = hello.roster_hash
            if hello.roster_hash not in list(self._rosters.values())[:-1]:
                self._ask(hello.requests, hello.agent, wire.Request("roster"))

    def _read_roster(self, frame: wire.Frame) -> None:
        try:
            roster = wire.decode("roster", frame.raw)
        except wire.Unreadable:
            return
        assert isinstance(roster, wire.Roster)
        for peer in roster.peers:
            if peer.agent not in self._peers:
                self._follow(_peer_of(peer))

    def _follow_run_file(self, hello: wire.Hello, *, is_dead: bool) -> None:
        listed = wire.Peer(
            hello.agent,
            hello.process_index,
            hello.hostname,
            hello.pid,
            hello.process_started_ticks,
            hello.boot,
            hello.pid_namespace,
            hello.telemetry,
            hello.requests,
        )
        roster = wire.Roster(hello.agent, (listed,), hello.run, hello.name, hello.process_count)
        self._out.append(self._local("", "roster", roster))
        peer = _peer_of(hello)
        self._follow(peer, connect=not is_dead)
        if is_dead:
            self._tell(peer, "dead", "its process is gone")

    def _follow(self, peer: _Peer, *, up: bool = False, connect: bool = True) -> None:
        self._peers[peer.agent] = peer
        before = self._by_endpoint.get(peer.endpoint)
        self._by_endpoint[peer.endpoint] = peer
        if before is not None and before.told not in ("closed", "dead"):
            self._tell(before, "closed", "another process has its address")
        if connect and before is None:
            self._telemetry.connect(peer.endpoint)
        self._tell(peer, "up" if up else "connecting")

    # Links

    def _take_changes(self) -> None:
        for change in self._telemetry.changes():
            peer = self._by_endpoint.get(change.endpoint)
            if peer is not None:
                self._change(peer, change.what)

    def _change(self, peer: _Peer, what: str) -> None:
        now = self._clock()
        if what == changes.UP:
            peer.failure, peer.probe_due = "", None
            self._drop_probe(peer)
            self._tell(peer, "up")
        elif what == changes.NOT_ADMITTED:
            peer.retry_due = now + RETRY_REFUSED_AFTER
            peer.probe_due = None
            self._tell(peer, "refused", "this key is not admitted")
        else:
            if what != changes.DOWN:
                peer.failure = what
            if peer.probe is None and peer.probe_due is None:
                peer.probe_due = now

    def _take_care_of_peers(self, now: float) -> None:
        for peer in self._peers.values():
            if peer.retry_due is not None and now >= peer.retry_due:
                peer.retry_due = None
                self._telemetry.disconnect(peer.endpoint)
                self._telemetry.connect(peer.endpoint)
            outcome = self._probe(peer, peer.endpoint, now)
            if outcome is not None:
                self._learn(peer, outcome)

    def _probe(self, who: _Peer | _SeedState, endpoint: str, now: float) -> str | None:
        """Begin a probe when one is due, move it on; its outcome once it is there."""
        if who.probe is None and who.probe_due is not None and now >= who.probe_due:
            who.probe = Probe(endpoint, now)
        if who.probe is None or (outcome := who.probe.advance(now)) is None:
            return None
        self._drop_probe(who)
        who.probe_due = now + PROBE_AGAIN_AFTER
        return outcome

    @staticmethod
    def _drop_probe(who: _Peer | _SeedState) -> None:
        if who.probe is not None:
            who.probe.close()
            who.probe = None

    def _learn(self, peer: _Peer, outcome: str) -> None:
        if outcome == outcomes.SILENT and processes.is_gone(peer.place, peer.pid, peer.started):
            # A forked child may hold a dead parent's socket open, which then looks like a stopped process.
            outcome = outcomes.CLOSED
        state = _link_state(outcome, peer.failure)
        if state:
            self._tell(peer, state)

    def _tell(self, peer: _Peer, state: str, text: str = "") -> None:
        if peer.told not in (state, "dead"):
            peer.told = state
            link = wire.Link(state, peer.endpoint, text)
            self._out.append(self._local(peer.agent, "link", link))

    def _tell_seed(self, seed: _SeedState, state: str, text: str = "") -> None:
        if seed.told != state:
            seed.told = state
            self._out.append(self._local("", "link", wire.Link(state, seed.seed.endpoint, text)))

    def _local(self, agent: str, kind: str, message: wire.Message) -> wire.Frame:
        return wire.Frame(self._clock(), agent, kind, wire.Frame.LOCAL, wire.encode(message))

    # Questions

    def _ask(
        self,
        endpoint: str,
        agent: str,
        request: wire.Request,
        done: Callable[[wire.Reply | None], None] | None = None,
    ) -> _Asked | None:
        if done is None and any(a.agent == agent and a.what == request.what for a in self._asked):
            return None  # the answer is on its way
        socket = Question(self._context, self._keys, self._owner, endpoint, wire.encode(request))
        asked = _Asked(socket, agent, request.what, self._clock() + ANSWER_WITHIN, done)
        self._asked.append(asked)
        return asked

    def _take_answers(self, now: float) -> None:
        for asked in list(self._asked):
            for seed in self._seeds.values():
                if seed.question is asked:
                    self._watch_seed(seed, asked)
            parts = asked.socket.answer()
            if parts is None and now < asked.until:
                continue
            self._asked.remove(asked)
            asked.socket.close()
            self._read_answer(asked, parts, now)

    def _read_answer(self, asked: _Asked, parts: list[bytes] | None, now: float) -> None:
        reply = None
        frames: list[wire.Frame] = []
        if parts:
            try:
                reply = wire.decode_as(wire.Reply, parts[0])
            except wire.Unreadable as error:
                self.rejected[f"unreadable answer: {error}"[:200]] += 1
            for i in range(1, len(parts) - 2, 3):
                frame = self._unpack(parts[i : i + 3], now)
                if frame is not None:
                    frames.append(frame)
        for seed in [s for s in self._seeds.values() if s.question is asked]:
            self._answered_seed(seed, frames, now)
        for frame in frames:
            if frame.kind != "roster":
                self._sequence[frame.agent, frame.kind] = frame.sequence
            self._emit(frame)
        if asked.done is not None:
            asked.done(reply)

    # Seeds

    def _take_care_of_seeds(self, now: float) -> None:
        for seed in list(self._seeds.values()):
            if seed.question is None and now >= seed.ask_due:
                seed.question = self._ask(seed.seed.endpoint, f"seed {seed.seed.endpoint}", wire.Request("roster"))
            outcome = self._probe(seed, seed.seed.endpoint, now)
            if outcome is not None:
                state = _link_state(outcome, seed.failure)
                if state:
                    self._tell_seed(seed, state)

    def _watch_seed(self, seed: _SeedState, asked: _Asked) -> None:
        for change in asked.socket.changes():
            if change.what == changes.NOT_ADMITTED:
                self._tell_seed(seed, "refused", "this key is not admitted")
                asked.until = 0.0
            elif change.what != changes.UP:
                seed.failure = change.what if change.what != changes.DOWN else seed.failure
                if seed.probe is None and seed.probe_due is None:
                    seed.probe_due = self._clock()

    def _answered_seed(self, seed: _SeedState, frames: list[wire.Frame], now: float) -> None:
        seed.question = None
        seed.ask_due = now + ASK_AGAIN_AFTER
        roster = next((frame for frame in frames if frame.kind == "roster"), None)
        if roster is None:
            return
        self._drop_probe(seed)
        del self._seeds[seed.seed.endpoint]
        self._follow_through(seed.seed.endpoint, roster)
        self._tell_seed(seed, "merged", roster.agent)

    def _follow_through(self, typed: str, frame: wire.Frame) -> None:
        """Reach the agent behind a typed address at that address: it may stand behind a tunnel."""
        try:
            roster = wire.decode("roster", frame.raw)
        except wire.Unreadable:
            return
        assert isinstance(roster, wire.Roster)
        for listed in roster.peers:
            if listed.agent == frame.agent and listed.agent not in self._peers:
                peer = _peer_of(listed)
                host = typed.rpartition(":")[0]
                peer.endpoint = f"{host}:{peer.endpoint.rpartition(':')[2]}"
                peer.requests = typed
                self._follow(peer)


def _link_state(outcome: str, failure: str) -> str | None:
    if outcome != outcomes.GREETS:
        return outcome
    # It runs, so it is our handshake that fails: for want of the key, or because Python does not answer it.
    return {changes.OTHER_KEY: "refused", changes.NO_ANSWER: "deaf"}.get(failure)


def _peer_of(who: wire.Hello | wire.Peer) -> _Peer:
    return _Peer(
        agent=who.agent,
        endpoint=who.telemetry,
        requests=who.requests,
        place=processes.Place(who.boot, who.pid_namespace),
        pid=who.pid,
        started=who.process_started_ticks,
    )
