"""The live source: follow every agent of the runs that the seeds lead to."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import zmq

from jaxtop import wire
from jaxtop.clock import steady
from jaxtop.sources.descriptors import Descriptors
from jaxtop.sources.peers import Peer, Peers
from jaxtop.sources.requests import RequestPool
from jaxtop.sources.seeking import Seed, Seeking
from jaxtop.transport import Subscriber

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.keys import KeyPair

QUEUE = 10_000
BATCH = 2_000
# While fewer processes are up than the run has, ask one of its agents again for the others' addresses. The
# interval grows with the time for which processes have been missing.
ROSTER_AGAIN_AFTER, RAREST_ROSTER, SHARE_OF_LACK = 2.0, 30.0, 0.1
IDLE_STEP = 0.25
PROBING_STEP = 0.05
# With a thousand hosts something arrives every millisecond: poll at most every 20 ms, in batches.
REST = 0.02


@dataclass
class _Run:
    """A run, and the time of its next roster request."""

    process_count: int | None = None
    lacks_since: float = 0.0
    ask_due: float = 0.0


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
        clock: Callable[[], float] = steady,
    ) -> None:
        self._clock = clock
        self._now = clock()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.max_sockets = 16_384
        self.rejected: Counter[str] = Counter()
        self._telemetry = Subscriber(self._context, keys, owner or keys.public, QUEUE)
        self._descriptors = Descriptors()
        self._questions = RequestPool(
            self._context, keys, owner or keys.public, self.rejected, self._descriptors
        )
        self._seeking = Seeking(self._descriptors, self._questions, partial(self._emit, ""), self._found)
        self._peers = Peers(self._telemetry, self._descriptors, self._emit)
        # The value of `Peers.changes` at which every run had all its processes up.
        self._rosters_complete: int | None = None
        self._runs: dict[str, _Run] = {}
        self._sequence: dict[tuple[str, str], int] = {}
        self._out: list[wire.Frame] = []
        for seed in seeds:
            if seed.hello is not None:
                self._follow_run_file(seed.hello, is_dead=seed.is_dead)
            else:
                self._seeking.seek(seed.target, seed.endpoints)

    @property
    def is_settled(self) -> bool:
        """Whether every address has answered or has a known reason not to."""
        states = [peer.telemetry.state for peer in self._peers]
        return self._seeking.is_settled and "connecting" not in states

    @property
    def notes(self) -> list[str]:
        """Notes on the source itself for the user, one per line."""
        count = self._peers.without_descriptor
        limit = self._descriptors.limit
        who = f"{count} agents are" if count > 1 else "1 agent is"
        return [f"{who} not followed: this process may open only {limit} files (ulimit -n)"] if count else []

    def poll(self, timeout: float) -> list[wire.Frame]:
        """Return the frames that have arrived; wait for the first for at most `timeout` seconds."""
        if not self._out:
            self._wait(timeout)
        # Frames of one poll share one time, so that frames are in the order of their times.
        now = self._now = self._clock()
        for parts in self._telemetry.take(BATCH):
            self._take(parts, now)
        self._peers.take_changes(now)
        self._questions.take(now)
        self._peers.advance(now)
        self._seeking.advance(now)
        self._ask_for_rosters(now)
        self._forget()
        out, self._out = self._out, []
        return out

    def request(self, agent: str, request: wire.Request, done: Callable[[wire.Reply | None], None]) -> None:
        """Send a request to an agent; a later `poll` calls `done` with the reply, or None if none came."""
        peer = self._peers.get(agent)
        if peer is None:
            done(None)
            return

        def answered(reply: wire.Reply | None, frames: list[wire.Frame]) -> None:
            self._answered(reply, frames)
            done(reply)

        self._questions.ask(peer.requests, request, self._clock(), answered)

    def close(self) -> None:
        self._peers.close()
        self._seeking.close()
        self._questions.close()
        self._telemetry.close()
        self._context.destroy(linger=0)

    def _wait(self, timeout: float) -> None:
        poller = zmq.Poller()
        poller.register(self._telemetry.socket, zmq.POLLIN)
        poller.register(self._telemetry.monitor, zmq.POLLIN)
        self._questions.wait_with(poller)
        probing = [self._peers.wait_with(poller), self._seeking.wait_with(poller)]
        longest = min(timeout, PROBING_STEP if any(probing) else IDLE_STEP)
        time.sleep(max(0.0, min(longest, self._now + REST - self._clock())))
        poller.poll(int(max(0.0, longest) * 1000))

    # Messages

    def _take(self, parts: list[bytes], now: float) -> None:
        try:
            frame = wire.unpack(parts, now)
        except wire.NewerVersion as error:
            wire.tally(self.rejected, f"a newer jaxtop speaks {error}")
        except wire.Unreadable as error:
            wire.tally(self.rejected, f"unreadable message: {error}")
        else:
            self._see_gap(frame)
            self._peers.hear(frame)
            self._pass_on(frame)

    def _see_gap(self, frame: wire.Frame) -> None:
        """Ask an agent for its full state if messages from it are missing."""
        key = (frame.agent, frame.kind)
        last = self._sequence.get(key)
        self._sequence[key] = frame.sequence
        peer = self._peers.get(frame.agent)
        if last is not None and frame.sequence > last + 1 and peer is not None:
            self._questions.ask(peer.requests, wire.Request("state"), frame.at, self._answered)

    def _answered(self, _reply: wire.Reply | None, frames: list[wire.Frame]) -> None:
        for frame in frames:
            self._pass_on(frame)

    def _pass_on(self, frame: wire.Frame) -> None:
        if frame.kind in wire.OWN_KINDS:
            self.rejected["sent by an agent, although only viewers may"] += 1
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

    def _meet(self, who: wire.Hello | wire.Peer, run: str | None, process_count: int | None) -> None:
        peer = self._peers.meet(who)
        if peer is None:
            return
        peer.run = run or peer.run
        if peer.run is not None:
            entry = self._runs.setdefault(peer.run, _Run())
            entry.process_count = process_count or entry.process_count
            self._rosters_complete = None

    def _follow_run_file(self, hello: wire.Hello, *, is_dead: bool) -> None:
        listed = wire.Peer(*(getattr(hello, name) for name in wire.Peer.__struct_fields__))
        roster = wire.Roster(hello.agent, (listed,), hello.run, hello.name, hello.process_count)
        self._emit("", roster)
        self._meet(listed, hello.run, hello.process_count)
        if is_dead:
            self._peers.is_dead(hello.agent)

    def _ask_for_rosters(self, now: float) -> None:
        if self._rosters_complete == self._peers.changes:
            return
        up: dict[str, list[Peer]] = {}
        for peer in self._peers:
            if peer.run is not None and peer.telemetry.state == "up":
                up.setdefault(peer.run, []).append(peer)
        self._rosters_complete = self._peers.changes
        for run_id, members in up.items():
            run = self._runs[run_id]
            if len(members) == run.process_count:
                run.lacks_since = 0.0
                continue
            self._rosters_complete = None
            run.lacks_since = run.lacks_since or now
            if now >= run.ask_due:
                lacking = (now - run.lacks_since) * SHARE_OF_LACK
                run.ask_due = now + min(max(ROSTER_AGAIN_AFTER, lacking), RAREST_ROSTER)
                self._questions.ask(members[0].requests, wire.Request("roster"), now, self._answered)

    def _found(self, typed: str, frames: list[wire.Frame]) -> str | None:
        """Process the answer of an agent at a typed address; return the agent."""
        for frame in frames:
            if frame.kind == "roster":
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
                host, port = typed.rpartition(":")[0], listed.telemetry.rpartition(":")[2]
                self._peers.follow(listed, f"{host}:{port}", typed)

    def _forget(self) -> None:
        """Discard what is stored about agents that are no longer followed."""
        for peer in self._peers.let_go:
            for kind in wire.KINDS:
                self._sequence.pop((peer.agent, kind), None)
            if peer.run is not None and all(each.run != peer.run for each in self._peers):
                self._runs.pop(peer.run, None)
        self._peers.let_go.clear()

    def _emit(self, agent: str, message: wire.Message) -> None:
        """Add a frame made by this viewer to the stream."""
        self._out.append(wire.local_frame(self._now, agent, message))
