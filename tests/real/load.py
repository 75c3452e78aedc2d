"""A load generator: hundreds of agents in one process, with real sockets, keys and messages, at 1 Hz each.

    python -m tests.real.load HOSTS [DEVICES] [SECONDS] [ARRAYS] [FIGURES] [NUMBER] [EVERY]

Of several generators each needs a NUMBER: it has agents, a run and an address of its own. Each agent sends a
pulse EVERY so many seconds (1).

Devices report six figures, or with `all` as FIGURES every one that there is. Of the ARRAYS of each host the
first thousand are listed by name, the others as a sum; now and then one goes and comes back. Each host has a
program with collectives; every few seconds all tell a window of the profiler, in which one host comes late.
Prints the address of one agent, which is all that a viewer needs.
"""

from __future__ import annotations

import random
import resource
import socket
import sys
import time
from contextlib import suppress

import msgspec
import zmq

from jaxtop import wire
from jaxtop.base import keys, processes
from jaxtop.transport.authenticator import DOMAIN, Authenticator
from jaxtop.transport.telemetry import TelemetrySocket
from tests import builders
from tests.made import windows as made_windows

LISTED = 1000
# Each host's census changes every so many pulses, as one of 10,000 arrays does.
CHANGE_EVERY = 20
# The figures that devices report only if they are asked to report all.
USUAL = {"used_bytes", "peak_bytes", "limit_bytes", "utilization_permille", "power_mw", "temperature_c"}
OTHERS = tuple(name for name in wire.DeviceSample.__struct_fields__ if name not in USUAL)
# Each host tells a window every so many pulses, all of the same launches.
WINDOW_EVERY = 5


class Agents:
    """Agents that share a context and an authenticator; each has its own two sockets, as real ones do."""

    def __init__(
        self, hosts: int, devices: int, arrays: int, figures: str = "", *, number: int = 0, every: float = 1.0
    ) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.context = zmq.Context(io_threads=1)
        self.context.max_sockets = 20_000
        self.pair = keys.load()
        self.authenticator = Authenticator(self.context, self.pair, frozenset)
        self.devices = devices
        self.others = OTHERS if figures == "all" else ()
        self.every = every
        self.address = f"127.0.0.{1 + number}"
        self.run = f"load{number or ''}"
        self.random = random.Random(7)
        self.telemetry, self.requests, self.peers = [], [], []
        for index in range(hosts):
            telemetry, telemetry_at = self._open()
            requests, requests_at = self._open()
            self.telemetry.append(TelemetrySocket(telemetry))
            self.requests.append(requests)
            self.peers.append(_peer(index, telemetry_at, requests_at, number))
        self.sequence = [0] * hosts
        self.steps = 0
        self.greeting = set(range(hosts))
        self.roster = wire.encode(
            wire.Roster(self.peers[0].agent, tuple(self.peers), self.run, self.run, hosts)
        )
        self.arrays = _arrays(hosts, devices, arrays)
        self.changes = [0] * hosts
        self.made = made_windows.Made(hosts, devices, late=hosts // 3 if hosts > 1 else None)

    def _open(self) -> tuple[zmq.Socket[bytes], str]:
        opened = self.context.socket(zmq.ROUTER)
        opened.linger = 0
        opened.sndhwm = 16
        opened.zap_domain = DOMAIN
        opened.curve_server = True
        opened.curve_secretkey = self.pair.secret
        port = opened.bind_to_random_port(f"tcp://{self.address}")
        return opened, f"{self.address}:{port}"

    def serve(self, until: float) -> None:
        """Answer handshakes and roster questions, greet subscribers, send each agent's pulse in its slot."""
        poller = zmq.Poller()
        poller.register(self.authenticator.socket, zmq.POLLIN)
        for each in self.requests[:1]:
            poller.register(each, zmq.POLLIN)
        hosts, index, due = len(self.telemetry), 0, time.monotonic()
        while time.time() < until:
            wait = max(0.0, due - time.monotonic())
            ready = dict(poller.poll(int(wait * 1000)))
            while self.authenticator.socket in ready and self.authenticator.socket.poll(0):
                self.authenticator.answer()
            if self.requests[0] in ready:
                self._answer()
            if time.monotonic() >= due:
                self._speak(index)
                index = (index + 1) % hosts
                due += self.every / hosts
                self.steps += index == 0

    def _answer(self) -> None:
        with suppress(zmq.Again):
            while True:
                sender, _ = self.requests[0].recv_multipart(zmq.NOBLOCK)
                parts = wire.pack("roster", wire.Header(wire.VERSION, self.peers[0].agent, 0), self.roster)
                self.requests[0].send_multipart([sender, wire.encode(wire.Reply("roster")), *parts])

    def _speak(self, index: int) -> None:
        if self.telemetry[index].take():
            self._send(index, "hello", wire.encode(self._hello(index)))
            whole = msgspec.structs.replace(self.arrays, number=self.changes[index])
            self._send(index, "arrays", wire.encode(whole))
            self._send(index, "programs", wire.encode(wire.Programs(1, (made_windows.program(self.made),))))
            self._send(index, "inventory", wire.encode(made_windows.inventory(self.made, index)))
        self.sequence[index] += 1
        if self.sequence[index] % CHANGE_EVERY == index % CHANGE_EVERY:
            self._change(index)
        if self.steps and self.steps % WINDOW_EVERY == 0:
            self._window(index)
        self._send(index, "pulse", wire.encode(self._pulse()))

    def _hello(self, index: int) -> wire.Hello:
        return _hello(self.peers[index], self.devices, len(self.peers), self.run, self.every)

    def _change(self, index: int) -> None:
        self.changes[index] += 1
        now, is_there = time.time_ns() // 1_000_000, self.changes[index] % 2 == 0
        change = wire.ArraysChange(now, 1, self.changes[index], ((0, int(is_there)),))
        self._send(index, "arrays_change", wire.encode(change))

    def _window(self, index: int) -> None:
        now, number = time.time_ns() // 1_000_000, self.steps // WINDOW_EVERY
        seen = made_windows.window(self.made, index, number, at_ms=now)
        self._send(index, "window", wire.encode(seen))

    def _send(self, index: int, kind: str, payload: bytes) -> None:
        header = wire.Header(wire.VERSION, self.peers[index].agent, self._number(index, kind))
        self.telemetry[index].send(wire.pack(kind, header, payload))

    def _number(self, index: int, kind: str) -> int:
        counted = {
            "pulse": self.sequence[index],
            "arrays_change": self.changes[index],
            "window": self.steps // WINDOW_EVERY,
        }
        return counted.get(kind, 1)

    def _pulse(self) -> wire.Pulse:
        figure = self.random.randrange
        now = time.time_ns() // 1_000_000
        used = tuple(figure(40 << 30, 70 << 30) for _ in range(self.devices))
        return wire.Pulse(
            at_ms=now,
            sampled_ms=now,
            memory_source="allocator",
            devices=wire.DeviceSample(
                used_bytes=used,
                peak_bytes=used,
                limit_bytes=(80 << 30,) * self.devices,
                utilization_permille=tuple(figure(1000) for _ in range(self.devices)),
                power_mw=tuple(figure(100_000, 700_000) for _ in range(self.devices)),
                temperature_c=tuple(figure(30, 80) for _ in range(self.devices)),
                **{name: tuple(figure(1000) for _ in range(self.devices)) for name in self.others},
            ),
            host=wire.HostSample(
                figure(1000), 8 << 30, 90, figure(1000), 60 << 30, 500 << 30, 300, 10**6, 10**6
            ),
            launches={"train_step": self.steps},
            step=wire.Step(self.steps, self.steps, {"loss": 2.5}),
            cost=wire.AgentCost(1000, 0, 1),
        )


def _peer(index: int, telemetry: str, requests: str, number: int = 0) -> wire.Peer:
    name, boot = f"node{index:04}", processes.here().boot  # whose loopback these addresses are
    agent = f"{number << 32 | index:016x}"
    return wire.Peer(agent, index, name, 1000 + index, index, boot, "pid:[1]", telemetry, requests)


def _hello(peer: wire.Peer, devices: int, hosts: int, run: str = "load", every: float = 1.0) -> wire.Hello:
    index = peer.process_index or 0
    own = tuple(wire.Device(index * devices + i, "H100", "gpu", i) for i in range(devices))
    names = {"name": run, "run": run, "platform": "gpu", "sources": {"arrays": "on"}}
    more = {**names, "interval_ms": round(every * 1000), **msgspec.structs.asdict(peer)}
    return builders.hello(index, hosts, own, started_ms=1, **more)


def _arrays(hosts: int, devices: int, arrays: int) -> wire.Arrays:
    mesh = wire.Mesh((("data", hosts), ("model", devices)), wire.pack_ids(tuple(range(hosts * devices))))
    sharding = wire.Sharding("named", "P('data', 'model')", 0, (), "device")
    listed = min(arrays, LISTED)
    groups = [
        wire.ArrayGroup(
            (1024, 512 + i), "float32", 0, 2 << 20, 2 << 10,
            f"state.params['layers'][{i // 4}]['w{i % 4}']", "train", "parameters", "train.py:57 init",
        )
        for i in range(listed)
    ]  # fmt: skip
    counts = [1] * listed
    if arrays > listed:
        groups.append(
            wire.ArrayGroup(
                (), "", 0, 1 << 30, 1 << 20, "state", "train", "optimizer", groups=arrays - listed
            )
        )
        counts.append(arrays - listed)
    return wire.Arrays(1, 1, 0, (mesh,), (sharding,), tuple(groups), tuple(counts))


def main() -> None:
    words = (*sys.argv[1:], *("256", "8", "600", "50", "usual", "0", "1")[len(sys.argv) - 1 :])
    hosts, devices, seconds, arrays = map(int, words[:4])
    agents = Agents(hosts, devices, arrays, words[4], number=int(words[5]), every=float(words[6]))
    print(agents.peers[0].requests, flush=True)
    with suppress(KeyboardInterrupt):
        agents.serve(time.time() + seconds)
    agents.context.destroy(linger=0)


if __name__ == "__main__":
    with suppress(BrokenPipeError, socket.error):
        main()
