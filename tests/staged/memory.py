"""Staged runs for the rules about memory: devices with allocators, arrays on a mesh of 2 × 4, programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.model import Cluster, reported_findings
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import DEVICES, NOW, PROCESSES, agent_id, frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model import Finding

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LIMIT = 80 * GIB
RHYTHM = wire.Rhythm(1, ("step",), 100, 100, 100_000, 10_000, 50, 100_000, 105_000, 120_000)
MESH = wire.Mesh((("data", 2), ("model", 4)), wire.pack_ids(tuple(range(8))))
SPLIT, DATA, MODEL, WHOLE, ALONE, PINNED = range(6)
SHARDINGS = (
    wire.Sharding("named", "P('data', 'model')", 0, (), "device", (("data",), ("model",))),
    wire.Sharding("named", "P('data',)", 0, (), "device", (("data",),)),
    wire.Sharding("named", "P(None, 'model')", 0, (), "device", ((), ("model",))),
    wire.Sharding("named", "P()", 0, (), "device", ()),
    wire.Sharding("single", "", None, ((1, 1),), "device", None, ()),
    wire.Sharding("single", "", None, ((1, 1),), "pinned_host", None, ()),
)
_PIECES = (8, 2, 4, 1, 1, 1)


def array(
    name: str | None,
    shape: tuple[int, ...],
    sharding: int,
    role: str | None = None,
    created: str = "t.py:5 main",
) -> wire.ArrayGroup:
    size = math.prod(shape) * 4
    held = size // _PIECES[sharding]
    return wire.ArrayGroup(shape, "float32", sharding, size, held, name, "main", role, created)


def census(at: float, *groups: wire.ArrayGroup, counts: Sequence[int] = (), number: int = 1) -> wire.Arrays:
    at_ms = int(at * 1000)
    return wire.Arrays(at_ms, 1, number, (MESH,), SHARDINGS, groups, tuple(counts) or (1,) * len(groups))


class Run:
    """A run on GPUs, fed second by second. Figures are functions of the second and the device's id."""

    def __init__(
        self, *groups: wire.ArrayGroup, rhythm: wire.Rhythm | None = RHYTHM, limit: int | None = LIMIT
    ) -> None:
        self.cluster, self.seconds, self.rhythm, self.limit = Cluster(), 0, rhythm, limit
        for index in range(PROCESSES):
            ids = range(index * DEVICES, (index + 1) * DEVICES)
            gpus = tuple(wire.Device(each, "H100", "gpu", i) for i, each in enumerate(ids))
            self.tell(index, wire.Link(LinkState.UP, f"10.0.0.{index}:7411"))
            self.tell(index, builders.hello(index, devices=gpus, platform="gpu"))
            if groups:
                self.tell(index, census(NOW, *groups))

    @property
    def now(self) -> float:
        return NOW + self.seconds

    def tell(self, index: int, message: wire.Message) -> None:
        self.cluster.feed(frame(agent_id(index), message, self.now))

    def tell_all(self, message: wire.Message) -> None:
        for index in range(PROCESSES):
            self.tell(index, message)

    def live(
        self,
        seconds: int,
        used: Callable[[int, int], int] = lambda _second, _device: 40 * GIB,
        rss: Callable[[int, int], int] = lambda _second, _process: 4 * GIB,
        machine: Callable[[int], int] = lambda _second: 100 * GIB,
        *,
        parts: Callable[[int], dict[str, int | None]] = lambda _second: {},
        launches: dict[str, int] | None = None,
        then: Callable[[int], None] = lambda _second: None,
        **figures: int,
    ) -> Run:
        """Feed a pulse of each process each second, and after each second what `then` feeds."""
        for _ in range(seconds):
            self.seconds += 1
            for index in range(PROCESSES):
                ids = range(index * DEVICES, (index + 1) * DEVICES)
                columns = {"used_bytes": tuple(used(self.seconds, each) for each in ids)}
                if self.limit is not None:
                    columns["limit_bytes"] = (self.limit,) * DEVICES
                columns |= {name: (value,) * DEVICES for name, value in figures.items()}
                pulse = wire.Pulse(
                    at_ms=int(self.now * 1000),
                    memory_source="allocator",
                    devices=wire.DeviceSample(**columns),
                    host=wire.HostSample(
                        rss_bytes=rss(self.seconds, index),
                        memory_used_bytes=machine(self.seconds),
                        memory_total_bytes=512 * GIB,
                        **parts(self.seconds),
                    ),
                    launches={"step": 10 * self.seconds} if launches is None else launches,
                    rhythm=self.rhythm,
                    counted_ms=int(self.now * 1000),
                )
                self.tell(index, pulse)
            then(self.seconds)
        return self

    def found(self, rule: str) -> Finding | None:
        """Return the finding of a rule, whether it is explained by another or not."""
        ongoing = [each for each in self.cluster.findings.ongoing.values() if each.finding.rule == rule]
        assert len(ongoing) <= 1
        return ongoing[0].finding if ongoing and ongoing[0].is_reported else None

    def all_found(self, rule: str) -> list[Finding]:
        return [each for each in reported_findings(self.cluster) if each.rule == rule]

    def why_not(self, rule: str) -> str | None:
        return self.cluster.findings.unchecked.get(("r1", rule))
