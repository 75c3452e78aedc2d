"""A session on a reel that is kept in memory: its frames are folded anew for each jump back."""

from __future__ import annotations

import math

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import Cluster
from jaxtop.model.session.summary import SessionSummary, SummarySampler
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.staged import devices as staged_devices

LONG = 200
COMPILES, WARNS, DIES = 20, 60, 150


class Reel:
    """All that is asked of it is counted, to tell how often something was sought."""

    def __init__(self, *frames: wire.Frame, is_growing: bool = False, notes: tuple[str, ...] = ()) -> None:
        self.frames = list(frames)
        self.is_growing = is_growing
        self.notes = notes
        self.asked: list[float] = []
        self._cluster, self._next, self._until = Cluster(), 0, -math.inf
        self._overview: tuple[int, SessionSummary] = (0, SessionSummary())

    @property
    def span(self) -> tuple[float, float] | None:
        return (self.frames[0].at, self.frames[-1].at) if self.frames else None

    @property
    def start(self) -> float | None:
        return self.frames[0].at if self.frames else None

    @property
    def overview(self) -> SessionSummary:
        if self._overview[0] != len(self.frames):
            cluster, sampler, whole = Cluster(), SummarySampler(), SessionSummary()
            for each in self.frames:
                cluster.feed(each)
                sampler.sample(cluster, each.at)
                whole = whole.followed_by(sampler.take(cluster))
            self._overview = len(self.frames), whole
        return self._overview[1]

    def at(self, when: float) -> Cluster:
        self.asked.append(when)
        if when < self._until:
            self._cluster, self._next = Cluster(), 0
        self._until = when
        while self._next < len(self.frames) and self.frames[self._next].at <= when:
            self._cluster.feed(self.frames[self._next])
            self._next += 1
        return self._cluster


class Recorder:
    """Writes nothing."""

    def __init__(self) -> None:
        self.is_on = False
        self.status = ""
        self._ended: list[str] = []

    def ended(self) -> list[str]:
        ended, self._ended = self._ended, []
        return ended

    def toggle(self) -> str:
        self.is_on = not self.is_on
        self.status = "1.2M, 0:35" if self.is_on else ""
        if not self.is_on:
            self._ended.append("recorded 1.2M to run.mcap")
        return "recording to run.mcap" if self.is_on else "finishing run.mcap"


def session(seconds: int = LONG, start: float = NOW) -> list[wire.Frame]:
    """Two processes: memory rises and falls, one compiles, one warns, one dies; their arrays become more."""
    frames: list[wire.Frame] = []
    for index in range(builders.PROCESSES):
        agent = agent_id(index)
        frames += [
            frame(agent, wire.Link(LinkState.UP, f"10.0.0.{index}:7411"), start, 0),
            frame(agent, builders.hello(index), start),
            frame(agent, builders.census(start), start),
            staged_devices.programs(index, staged_devices.STEP, at=start),
        ]
    for second in range(seconds + 1):
        at = start + second
        for index in range(builders.PROCESSES):
            agent = agent_id(index)
            if index == 1 and second >= DIES:
                continue
            frames.append(frame(agent, _pulse(index, second, at), at, second + 1))
            if second == 100:
                frames.append(frame(agent, builders.census(at, leaked=40), at))
                frames.append(
                    staged_devices.programs(index, staged_devices.STEP, staged_devices.EVALUATE, at=at)
                )
        at_ms = int(at * 1000)
        if second == COMPILES:
            frames.append(frame(agent_id(0), wire.Compile(at_ms, "train_step", 12_400), at))
        if second == WARNS:
            frames.append(
                frame(agent_id(1), wire.Event(at_ms, "warning", "disk", "the disk is nearly full"), at)
            )
        if second == DIES:
            frames.append(frame(agent_id(1), wire.Link(LinkState.CLOSED, "10.0.0.1:7411"), at, 0))
    return frames


def _pulse(index: int, second: int, at: float) -> wire.Pulse:
    wave = 40 + round(30 * math.sin(second / 15)) + (60 if 95 <= second <= 110 else 0)
    used = tuple((index * 4 + i + wave) << 20 for i in range(builders.DEVICES))
    pulse = builders.pulse(index, at, launches=second * 10)
    return replace(pulse, devices=wire.DeviceSample(used_bytes=used))
