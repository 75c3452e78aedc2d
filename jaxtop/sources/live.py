"""The live cluster: follows every agent of the runs that the seeds lead to."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import zmq

from jaxtop import processes, wire
from jaxtop.clock import steady
from jaxtop.sources.connection import Connection
from jaxtop.sources.questions import Questions
from jaxtop.transport import Subscriber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtop.keys import KeyPair
    from jaxtop.sources.seed import Seed
    from jaxtop.transport.client import Change

QUEUE = 10_000
BATCH = 2_000
SEED_AGAIN_AFTER = 1.0
# While fewer processes are up than the run has: one of its agents is asked again for the others' addresses.
ROSTER_AGAIN_AFTER = 2.0
IDLE_STEP = 0.25
PROBING_STEP = 0.05
# Of a thousand hosts something comes every millisecond: it is looked at no oftener than this, and together.
REST = 0.02


@dataclass
class _Peer:
    """An agent that is followed."""

    agent: str
    requests: str
    telemetry: Connection
    run: str | None = None


@dataclass
class _Run:
    """A run, and when its roster is to be asked for again."""

    process_count: int | None = None
    ask_due: float = 0.0


@dataclass
class _Address:
    """One of the addresses that a seed may mean, behind which nobody has been met yet."""

    connection: Connection
    ask_due: float = 0.0


class LiveSource:
    """Frames of live agents, and of what becomes of the connections to them.

    Everything happens on the thread that calls `poll`, which is to be called often: a viewer that does not
    take its messages loses them.
    """

    def __init__(
        self,
        seeds: Sequence[Seed],
        keys: KeyPair,
        owner: bytes | None = None,
        clock: Callable[[], float] = steady,
    ) -> None:
        self._clock = clock
        self._now = clock()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.max_sockets = 16_384
        self.rejected: Counter[str] = Counter()
        self._telemetry = Subscriber(self._context, keys, owner or keys.public, QUEUE)
        self._questions = Questions(self._context, keys, owner or keys.public, self.rejected)
        self._peers: dict[str, _Peer] = {}
        self._at_endpoint: dict[str, _Peer] = {}
        # Those whose connections have something to be done now or later.
        self._restless: dict[str, _Peer] = {}
        # As many processes were up as each run has, and nobody came or went since.
        self._rosters_complete = False
        self._runs: dict[str, _Run] = {}
        self._unmet: dict[str, list[_Address]] = {}
        self._unmet_told: dict[str, str] = {}
        self._sequence: dict[tuple[str, str], int] = {}
        self._out: list[wire.Frame] = []
        for seed in seeds:
            if seed.hello is not None:
                self._follow_run_file(seed.hello, is_dead=seed.is_dead)
            else:
                self._unmet[seed.target] = [_Address(Connection(each)) for each in seed.endpoints]
                self._tell_unmet(seed.target)

    @property
    def is_settled(self) -> bool:
        """Whether every address has answered, or has a reason not to."""
        states = [peer.telemetry.state for peer in self._peers.values()]
        return "connecting" not in (*states, *self._unmet_told.values())

    def poll(self, timeout: float) -> list[wire.Frame]:
        """Frames that have arrived, waiting for the first at most so long."""
        if not self._out:
            self._wait(timeout)
        # One time for all that comes together: frames stand in the order of their times.
        now = self._now = self._clock()
        for parts in self._telemetry.take(BATCH):
            self._take(parts, now)
        for change in self._telemetry.changes():
            self._take_change(change, now)
        self._questions.take(now)
        for peer in list(self._restless.values()):
            self._advance_peer(peer, now)
        for target in list(self._unmet):
            self._advance_unmet(target, now)
        self._ask_for_rosters(now)
        out, self._out = self._out, []
        return out

    def request(self, agent: str, request: wire.Request, done: Callable[[wire.Reply | None], None]) -> None:
        """Ask an agent for something; `done` hears of it in a later `poll`, or None if no answer came."""
        peer = self._peers.get(agent)
        if peer is None:
            done(None)
            return

        def answered(reply: wire.Reply | None, frames: list[wire.Frame]) -> None:
            self._take_all(frames)
            done(reply)

        self._questions.ask(peer.requests, request, self._clock(), answered)

    def close(self) -> None:
        """Leave."""
        for connection in self._connections(self._peers.values()):
            connection.close()
        self._questions.close()
        self._telemetry.close()
        self._context.destroy(linger=0)

    def _connections(self, peers: Iterable[_Peer]) -> list[Connection]:
        followed = [peer.telemetry for peer in peers]
        return followed + [each.connection for addresses in self._unmet.values() for each in addresses]

    def _wait(self, timeout: float) -> None:
        poller = zmq.Poller()
        poller.register(self._telemetry.socket, zmq.POLLIN)
        poller.register(self._telemetry.monitor, zmq.POLLIN)
        self._questions.wait_with(poller)
        probing = [connection.wait_with(poller) for connection in self._connections(self._restless.values())]
        longest = min(timeout, PROBING_STEP if any(probing) else IDLE_STEP)
        time.sleep(max(0.0, min(longest, self._now + REST - self._clock())))
        poller.poll(int(max(0.0, longest) * 1000))

    # Messages

    def _take(self, parts: list[bytes], now: float) -> None:
        try:
            frame = wire.unpack(parts, now)
        except wire.NewerVersion as error:
            self.rejected[f"a newer jaxtop speaks {error}"] += 1
        except wire.Unreadable as error:
            self.rejected[f"unreadable message: {error}"[:200]] += 1
        else:
            self._see_gap(frame)
            self._pass_on(frame)

    def _see_gap(self, frame: wire.Frame) -> None:
        """Ask for the whole state where messages of an agent are missing."""
        key = (frame.agent, frame.kind)
        last = self._sequence.get(key)
        self._sequence[key] = frame.sequence
        peer = self._peers.get(frame.agent)
        if last is not None and frame.sequence > last + 1 and peer is not None:
            self._questions.ask(
                peer.requests, wire.Request("state"), frame.at, lambda _, frames: self._take_all(frames)
            )

    def _take_all(self, frames: list[wire.Frame]) -> None:
        for frame in frames:
            self._pass_on(frame)

    def _pass_on(self, frame: wire.Frame) -> None:
        if frame.kind in wire.OWN_KINDS:
            self.rejected["an agent told what only a viewer may tell"] += 1
            return
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

    # Agents

    def _meet(self, who: wire.Hello | wire.Peer, run: str | None, process_count: int | None) -> _Peer:
        peer = self._peers.get(who.agent)
        if peer is None:
            peer = self._follow(who, who.telemetry, who.requests)
        peer.run = run or peer.run
        if peer.run is not None:
            known = self._runs.setdefault(peer.run, _Run())
            known.process_count = process_count or known.process_count
            self._rosters_complete = False
        return peer

    def _follow(self, who: wire.Hello | wire.Peer, telemetry: str, requests: str) -> _Peer:
        place = processes.Place(who.boot, who.pid_namespace)
        gone = partial(processes.is_gone, place, who.pid, who.process_started_ticks)
        peer = self._peers[who.agent] = _Peer(who.agent, requests, Connection(telemetry, gone))
        self._restless[who.agent] = peer
        before = self._at_endpoint.get(telemetry)
        self._at_endpoint[telemetry] = peer
        if before is None:
            is_address = self._telemetry.connect(telemetry)
            self._tell(peer, peer.telemetry.become("connecting" if is_address else "unreachable"))
        else:
            # Started again at the address of another, who is no more; the connection is there already.
            self._tell(before, before.telemetry.become("closed"))
            self._tell(peer, peer.telemetry.become("up"))
        return peer

    def _follow_run_file(self, hello: wire.Hello, *, is_dead: bool) -> None:
        listed = wire.Peer(
            agent=hello.agent,
            process_index=hello.process_index,
            hostname=hello.hostname,
            pid=hello.pid,
            process_started_ticks=hello.process_started_ticks,
            boot=hello.boot,
            pid_namespace=hello.pid_namespace,
            telemetry=hello.telemetry,
            requests=hello.requests,
        )
        roster = wire.Roster(hello.agent, (listed,), hello.run, hello.name, hello.process_count)
        self._say("", roster)
        peer = self._meet(listed, hello.run, hello.process_count)
        if is_dead:
            self._tell(peer, peer.telemetry.become("dead"))

    def _ask_for_rosters(self, now: float) -> None:
        if self._rosters_complete:
            return
        up: dict[str, list[_Peer]] = {}
        for peer in self._peers.values():
            if peer.run is not None and peer.telemetry.state == "up":
                up.setdefault(peer.run, []).append(peer)
        self._rosters_complete = True
        for run_id, members in up.items():
            run = self._runs[run_id]
            if len(members) == run.process_count:
                continue
            self._rosters_complete = False
            if now >= run.ask_due:
                run.ask_due = now + ROSTER_AGAIN_AFTER
                self._questions.ask(
                    members[0].requests, wire.Request("roster"), now, lambda _, frames: self._take_all(frames)
                )

    # Connections

    def _take_change(self, change: Change, now: float) -> None:
        peer = self._at_endpoint.get(change.endpoint)
        if peer is not None:
            self._restless[peer.agent] = peer
            self._tell(peer, peer.telemetry.change(change.what, now))

    def _advance_peer(self, peer: _Peer, now: float) -> None:
        connection = peer.telemetry
        self._tell(peer, connection.advance(now))
        if connection.is_retry_due(now):
            self._telemetry.disconnect(connection.endpoint)
            self._telemetry.connect(connection.endpoint)
        if connection.is_at_rest:
            del self._restless[peer.agent]

    def _tell(self, peer: _Peer, state: str | None) -> None:
        if state is not None:
            self._rosters_complete = False
            self._say(peer.agent, wire.Link(state, peer.telemetry.endpoint))

    def _say(self, agent: str, message: wire.Message) -> None:
        """Put a frame of our own into the stream."""
        self._out.append(
            wire.Frame(self._now, agent, wire.kind_of(message), wire.LOCAL_SEQUENCE, wire.encode(message))
        )

    # Addresses behind which nobody has been met

    def _advance_unmet(self, target: str, now: float) -> None:
        for address in self._unmet[target]:
            connection = address.connection
            connection.advance(now)
            if now >= address.ask_due:
                address.ask_due = now + SEED_AGAIN_AFTER
                self._questions.ask(
                    connection.endpoint,
                    wire.Request("roster"),
                    now,
                    partial(self._answered, target, connection),
                    partial(self._noticed, connection),
                )
        self._tell_unmet(target)

    def _noticed(self, connection: Connection, change: Change) -> None:
        connection.change(change.what, self._clock())

    def _answered(
        self, target: str, connection: Connection, _reply: wire.Reply | None, frames: list[wire.Frame]
    ) -> None:
        for frame in frames:
            if frame.kind == "roster" and target in self._unmet:
                self._reach_through(connection.endpoint, frame)
                self._take_all([frame])
                for address in self._unmet.pop(target):
                    address.connection.close()
                self._say("", wire.Link("merged", target, frame.agent))
                del self._unmet_told[target]

    def _reach_through(self, typed: str, frame: wire.Frame) -> None:
        """Follow the agent behind a typed address at that address: it may stand behind a tunnel."""
        try:
            roster = wire.decode("roster", frame.raw)
        except wire.Unreadable:
            return
        for listed in roster.peers if isinstance(roster, wire.Roster) else ():
            if listed.agent == frame.agent and listed.agent not in self._peers:
                host, port = typed.rpartition(":")[0], listed.telemetry.rpartition(":")[2]
                self._follow(listed, f"{host}:{port}", typed)

    def _tell_unmet(self, target: str) -> None:
        states = {address.connection.state or "connecting" for address in self._unmet[target]}
        if "up" in states:  # somebody is there, and has yet to say who
            states.add("connecting")
        # Of several addresses the one that says most speaks for all.
        state = next(each for each in _MOST_TELLING if each in states)
        if self._unmet_told.get(target) != state:
            self._unmet_told[target] = state
            self._say("", wire.Link(state, target))


_MOST_TELLING = ("connecting", "refused", "deaf", "silent", "unreachable", "closed")
