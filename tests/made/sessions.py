"""Hours of a run that never was, as the frames that a viewer would have received.

Figures move as real ones do: memory rarely, and by whole blocks; utilisation, power and temperature of each
device with noise at every pulse; counters steadily. Now and then the census changes, something is told, and
windows of the profiler come. Where there is trouble, one host is stopped for a while, all stand still for a
while, and one dies.
"""

from __future__ import annotations

import random
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.wire import LinkState
from tests.made import windows as made_windows
from tests.real import load

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30
# The first windows come one after the other, later ones are rarer.
WINDOWS_AT, WINDOW_EVERY = (4, 8, 12, 16, 20), 64
CHANGE_EVERY, EVENT_EVERY = 20, 300
LAUNCHES_PER_SECOND = 5


class Made(NamedTuple):
    """A session: how large, how long, and whether all goes well."""

    hosts: int = 2
    devices: int = 2
    seconds: int = 120
    start: float = 1_800_000_000.0
    arrays: int = 50
    has_trouble: bool = True
    seed: int = 7


def agent_id(index: int) -> str:
    return f"{index:016x}"


def frames(made: Made) -> list[wire.Frame]:
    """All of a short session."""
    return [frame for batch in batches(made) for frame in batch]


def batches(made: Made, together: int = 1) -> Iterator[list[wire.Frame]]:
    """What each poll of a viewer brings: frames of one time, or of several if it was busy."""
    times = _times(made)
    while batch := [frame for of_one_time in islice(times, together) for frame in of_one_time]:
        yield batch


def _times(made: Made) -> Iterator[list[wire.Frame]]:
    hosts = [_Host(made, index) for index in range(made.hosts)]
    yield _beginning(made, hosts)
    for second in range(made.seconds):
        batches = [batch for host in hosts if (batch := host.frames(second))]
        yield from sorted(batches, key=lambda batch: batch[0].at)


def _beginning(made: Made, hosts: list[_Host]) -> list[wire.Frame]:
    peers = tuple(host.peer for host in hosts)
    messages: list[tuple[str, wire.Message]] = [
        ("", wire.Link(LinkState.CONNECTING, "login:7410")),
        ("", wire.Link(LinkState.UNREACHABLE, "elsewhere:7410")),
        (hosts[0].agent, wire.Roster(hosts[0].agent, peers, "r1", "made", made.hosts)),
        ("", wire.Link(LinkState.MERGED, "login:7410", hosts[0].agent)),
    ]
    windows = made_windows.Made(made.hosts, made.devices)
    for host in hosts:
        first = (
            wire.Link(LinkState.UP, host.peer.telemetry),
            load._hello(host.peer, made.devices, made.hosts),
            host.arrays,
            wire.Programs(1, (made_windows.program(windows),), (1,), (12_400,)),
            made_windows.inventory(windows, host.index),
        )
        messages += [(host.agent, each) for each in first]
    return [
        wire.Frame(made.start, agent, wire.kind_of(each), wire.LOCAL_SEQUENCE, wire.encode(each))
        for agent, each in messages
    ]


class _Host:
    """One process: its figures go on from pulse to pulse."""

    def __init__(self, made: Made, index: int) -> None:
        self.made, self.index, self.agent = made, index, agent_id(index)
        self.peer = load._peer(index, f"10.0.{index // 250}.{index % 250}:7411", f"10.0.0.{index}:7410")
        self.arrays = load._arrays(made.hosts, made.devices, made.arrays)
        self._dice = random.Random(made.seed * 1_000_003 + index)
        self._phase = self._dice.random() * 0.98
        self._windows = made_windows.Made(
            made.hosts, made.devices, late=made.hosts // 3 if made.has_trouble and made.hosts > 1 else None
        )
        self._sequence = {"pulse": 0, "arrays_change": 0, "window": 0, "event": 0, "compile": 0}
        self._used = [60 * GIB + i * (GIB >> 4) for i in range(made.devices)]
        self._peak = list(self._used)
        self._heat = [self._dice.randrange(48, 66) for _ in range(made.devices)]
        self._rss = 8 * GIB
        self._memory = 200 * GIB
        self._launches = self._steps = self._changes = 0

    def frames(self, second: int) -> list[wire.Frame]:
        made, dice = self.made, self._dice
        at = made.start + second + self._phase + dice.random() * 0.004
        messages: list[tuple[str, wire.Message]] = []
        trouble = self._trouble(second) if made.has_trouble else ""
        if trouble in ("dead", "stopped"):
            return []
        if trouble:
            messages.append(("link", wire.Link(trouble, self.peer.telemetry)))
            if trouble in ("closed", "silent"):
                return self._framed(at, messages)
        at_ms = int(at * 1000) - 2
        stall = self._stall(second, at_ms) if made.has_trouble else None
        if stall is None:
            self._launches += LAUNCHES_PER_SECOND
            self._steps += LAUNCHES_PER_SECOND
        messages.append(("pulse", self._pulse(at_ms, stall)))
        if second % CHANGE_EVERY == self.index % CHANGE_EVERY:
            self._changes += 1
            count = self._changes % 2 * 3
            messages.append(("arrays_change", wire.ArraysChange(at_ms, 1, self._changes, ((0, count),))))
        if second % EVENT_EVERY == (7 * self.index) % EVENT_EVERY:
            messages.append(("event", wire.Event(at_ms, "info", "checkpoint", f"saved step {self._steps}")))
            messages.append(("compile", wire.Compile(at_ms, "evaluate", 1500 + dice.randrange(200))))
        if stall is None and (second in WINDOWS_AT or (second and second % WINDOW_EVERY == 0)):
            seen = made_windows.window(self._windows, self.index, second, at_ms=at_ms)
            messages.append(("window", seen))
        return self._framed(at, messages)

    def _framed(self, at: float, messages: list[tuple[str, wire.Message]]) -> list[wire.Frame]:
        found = []
        for kind, message in messages:
            number = wire.LOCAL_SEQUENCE
            if kind in self._sequence:
                number = self._sequence[kind] = self._sequence[kind] + 1
            found.append(wire.Frame(at, self.agent, kind, number, wire.encode(message)))
        return found

    def _trouble(self, second: int) -> str:
        """The last host dies in the end; the one before it is stopped for a while, and comes back."""
        part = second / self.made.seconds
        if self.index == self.made.hosts - 1 and part >= 0.8:
            return "closed" if (second - 1) / self.made.seconds < 0.8 else "dead"
        if self.index == self.made.hosts - 2 and 0.3 <= part < 0.45:
            return "silent" if (second - 1) / self.made.seconds < 0.3 else "stopped"
        if self.index == self.made.hosts - 2 and (second - 1) / self.made.seconds < 0.45 <= part:
            return "up"
        return ""

    def _stall(self, second: int, at_ms: int) -> wire.Stall | None:
        since = 0.55 * self.made.seconds
        if not since <= second < 0.65 * self.made.seconds:
            return None
        return wire.Stall("train_step", at_ms - int((second - since) * 1000), 200)

    def _pulse(self, at_ms: int, stall: wire.Stall | None) -> wire.Pulse:
        dice, n = self._dice, self.made.devices
        if dice.random() < 0.03:
            for i in range(n):
                self._used[i] = 60 * GIB + i * (GIB >> 4) + dice.randrange(64) * (2 << 20)
                self._peak[i] = max(self._peak[i], self._used[i])
        for i in range(n):
            if dice.random() < 0.08:
                self._heat[i] = min(70, max(45, self._heat[i] + dice.choice((-1, 1))))
        if dice.random() < 0.2:
            self._rss += dice.randrange(-64, 65) << 12
        self._memory += dice.randrange(-512, 513) << 12
        noise = dice.random
        sample = wire.DeviceSample(
            used_bytes=tuple(self._used),
            peak_bytes=tuple(self._peak),
            limit_bytes=(80 * GIB,) * n,
            utilization_permille=tuple([10 * int(90 + 11 * noise()) for _ in range(n)]),
            power_mw=tuple([int(600_000 + 90_000 * noise()) for _ in range(n)]),
            temperature_c=tuple(self._heat),
            reserved_bytes=(0,) * n,
            largest_free_bytes=tuple([80 * GIB - used for used in self._used]),
            pool_bytes=(80 * GIB,) * n,
        )
        host = wire.HostSample(
            int(1400 + 150 * noise()), self._rss, 143, int(120 + 30 * noise()), self._memory, 1024 * GIB,
            int(1500 + 60 * noise()), int(40_000_000 * noise()), int(40_000_000 * noise()),
        )  # fmt: skip
        return wire.Pulse(
            at_ms,
            at_ms - int(90 * noise()),
            "allocator",
            sample,
            host,
            {} if stall is not None else {"train_step": self._launches},
            step=wire.Step(self._steps, self._steps, {"loss": 2.0 + noise() * 0.01}),
            cost=wire.AgentCost(2500 + int(400 * noise()), 0, 1),
            stall=stall,
        )


def figures(frame: wire.Frame) -> int:
    """How many figures a pulse tells; the columns that nobody knows are none."""
    if frame.kind != "pulse":
        return 0
    pulse = wire.decode("pulse", frame.raw)
    columns = [getattr(pulse.devices, name) for name in wire.DeviceSample.__struct_fields__]
    of_host = [getattr(pulse.host, name) for name in wire.HostSample.__struct_fields__]
    of_step = 0 if pulse.step is None else 2 + len(pulse.step.metrics)
    known = sum(each is not None for column in columns for each in column or ())
    return known + sum(type(each) is int for each in of_host) + len(pulse.launches) + of_step + 3


def later(frame: wire.Frame, seconds: float) -> wire.Frame:
    return frame._replace(at=frame.at + seconds)


__all__ = ["Made", "agent_id", "batches", "figures", "frames", "later"]
