"""Agents and relays in threads, with real sockets and keys; their messages are made up."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base import processes
from jaxtop.features.relay.relay_listener import ListeningRelay, new_id
from jaxtop.model import Cluster, newest_hosts, state_of
from jaxtop.sources import LiveSource
from jaxtop.sources.discovery import seeds
from jaxtop.sources.mapping import NO_MAP
from jaxtop.transport import Server
from jaxtop.transport.hub import Hub
from tests import builders, patience
from tests.made.every_message import HELLO
from tests.support import eventually, free_port

PULSE_EVERY_S = 0.2


class Thread:
    """Something that runs on a thread of its own until it is closed."""

    def __init__(self) -> None:
        self._is_up, self._is_over = threading.Event(), threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded)
        self._thread.start()
        self._is_up.wait(patience.left())

    def _run(self) -> None:
        raise NotImplementedError

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self._is_up.set()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self.failure is None


class Agent(Thread):
    """An agent of its own run. The first pulse lists a function that is not launched again."""

    def __init__(
        self, pair, index, *, says_goodbye: bool = False, advertised: str = "127.0.0.1", port: int = 0
    ):
        self.pair, self.index, self.says_goodbye, self.advertised = pair, index, says_goodbye, advertised
        self.port = port or free_port()
        self.agent = builders.agent_id(index)
        self.asked: list[tuple[str, bool]] = []
        self.requests = self.telemetry = ""
        self._sequence: dict[str, int] = {}
        super().__init__()

    def _run(self) -> None:
        server = Server(self.pair, frozenset)
        requests, telemetry = server.bind("127.0.0.1", self.port)
        self.requests, self.telemetry = f"127.0.0.1:{requests}", f"127.0.0.1:{telemetry}"
        boot, more = processes.here().boot, {"run": f"r{self.index}", "sources": {"arrays": "on"}}
        at = self.advertised
        addresses = {"requests": f"{at}:{requests}", "telemetry": f"{at}:{telemetry}"}
        hello = builders.hello(self.index, 1, boot=boot, process_index=0, **addresses, **more)
        listed = wire.Peer(*(getattr(hello, name) for name in wire.Peer.__struct_fields__))
        roster = wire.Roster(self.agent, (listed,), hello.run, hello.name, 1)
        due, count = 0.0, 0
        self._is_up.set()
        while not self._is_over.is_set():
            came, asked = server.poll(20)
            state: list[wire.Message] = [
                hello,
                builders.arrays(1),
                self._pulse(count, {"warm_up": 7, "train_step": count}),
            ]
            if came:
                for message in state:
                    self._send(server, message)
            for each in asked:
                request = wire.decode_as(wire.Request, each.raw)
                self.asked.append((request.what, each.is_owner))
                found: list[wire.Message] = {"roster": [roster], "state": state}.get(request.what, [])
                parts = [wire.encode(wire.Reply(request.what, at_ms=self.index))]
                for message in found:
                    kind = wire.kind_of(message)
                    header = wire.Header(wire.VERSION, self.agent, self._sequence.get(kind, 0))
                    parts += wire.pack(kind, header, wire.encode(message))
                server.reply(each.sender, parts)
            if time.monotonic() > due:
                due, count = time.monotonic() + PULSE_EVERY_S, count + 1
                self._send(server, self._pulse(count, {"train_step": count}))
        if self.says_goodbye:
            self._send(server, wire.Bye(1, "ended"))
        server.close()

    def _pulse(self, count: int, launches: dict[str, int]) -> wire.Pulse:
        return wire.Pulse(count, count, "arrays", launches=launches)

    def _send(self, server: Server, message: wire.Message) -> None:
        kind = wire.kind_of(message)
        self._sequence[kind] = self._sequence.get(kind, 0) + 1
        header = wire.Header(wire.VERSION, self.agent, self._sequence[kind])
        server.publish(wire.pack(kind, header, wire.encode(message)))


class Relay(Thread):
    """A relay of these targets."""

    def __init__(self, pair, *targets: str, port: int | None = None, guests=frozenset()) -> None:
        self.pair, self.targets, self.guests = pair, targets, guests
        self.port = port or free_port()
        self.at = f"127.0.0.1:{self.port}"
        self.id = new_id()
        super().__init__()

    def _run(self) -> None:
        hub = Hub(self.pair, lambda: self.guests)
        source = LiveSource(seeds(self.targets), self.pair, own_id=self.id)
        try:
            hub.bind("127.0.0.1", self.port, 1)
            self._is_up.set()
            relay = ListeningRelay(source, hub, self.id)
            while not self._is_over.is_set():
                relay.turn(0.02)
        finally:
            source.close()
            hub.close()


class Viewer:
    """A viewer that the thread of the test turns."""

    def __init__(self, pair, *targets: str, owner: bytes | None = None, address_map=NO_MAP) -> None:
        self.source = LiveSource(
            seeds(targets, address_map=address_map), pair, owner, address_map=address_map
        )
        self.cluster = Cluster()
        self.frames: list[wire.Frame] = []

    def look(self) -> None:
        for frame in self.source.poll(0.05):
            self.frames.append(frame)
            self.cluster.feed(frame)

    def states(self) -> dict[str, str]:
        return {each.agent: str(state_of(each, time.time())) for each in newest_hosts(self.cluster)}

    def until(self, check):
        return eventually(lambda: self.look() or check(), every=0)

    def until_states(self, states: dict[Agent, str]) -> None:
        wanted = {agent.agent: state for agent, state in states.items()}
        end = patience.deadline()
        while self.states() != wanted:
            unmet = {each.endpoint: each.why for each in self.cluster.unmet.values()}
            assert end.left() > 0, f"{self.states()} instead of {wanted}; {unmet} {self.source.notes}"
            self.look()

    def until_settled(self) -> None:
        self.until(lambda: self.source.is_settled)

    def ask(self, agent: str, what: str) -> wire.Reply | None:
        replies: list[wire.Reply | None] = []
        self.source.request(agent, wire.Request(what), replies.append)
        self.until(lambda: replies)
        return replies[0]


@contextmanager
def closing(*things):
    """Close all of them at the end, the last first."""
    try:
        yield things
    finally:
        for each in reversed(things):
            each.close() if isinstance(each, Thread) else each.source.close()


def hello_here(agent: str = "a1", pid: int | None = None, **more):
    """What the agent of a process on this machine says; of this very process by default."""
    pid = os.getpid() if pid is None else pid
    place = processes.here()
    ticks = processes.start_ticks(pid)
    more = {"boot": place.boot, "pid_namespace": place.pid_namespace, "process_started_ticks": ticks, **more}
    return replace(HELLO, agent=agent, pid=pid, **more)
