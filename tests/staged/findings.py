"""Runs for rules: processes that train for some seconds, each second as a test stages it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import Cluster, reported_findings
from jaxtop.model.finding import Finding, FindingCost, Severity, Subject
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, frame

if TYPE_CHECKING:
    from collections.abc import Callable


class Staged:
    """A run of several processes, and the time up to which it was staged."""

    def __init__(self, processes: int = 2, at: float = NOW, **hello) -> None:
        self.cluster, self.at, self.processes = Cluster(), at, processes
        self.frames: list[wire.Frame] = []
        self.sent = 0
        for index in range(processes):
            self.tell(index, wire.Link(LinkState.UP, f"10.0.0.{index}:7411"))
            self.tell(index, builders.hello(index, processes, started_ms=int(at * 1000), **hello))

    def tell(self, index: int | None, message: wire.Message) -> None:
        self.sent += 1
        agent = "" if index is None else agent_id(index)
        told = frame(agent, message, self.at, self.sent)
        self.frames.append(told)
        self.cluster.feed(told)

    def train(
        self,
        seconds: float,
        pulse: Callable[[int, float, int], wire.Pulse | None] | None = None,
        every: float = 1.0,
    ) -> None:
        """Let each process report a pulse each second; None from a process that is silent."""
        for _ in range(round(seconds / every)):
            self.at += every
            step = round(self.at - NOW) * 10
            for index in range(self.processes):
                told = (pulse or trains)(index, self.at, step)
                if told is not None:
                    self.tell(index, told)

    def found(self, rule: str) -> list[Finding]:
        return [each for each in reported_findings(self.cluster) if each.rule == rule]

    def the(self, rule: str) -> Finding:
        (finding,) = self.found(rule)
        assert len(finding.text) <= 130, finding.text
        return finding


def trains(index: int, at: float, step: int) -> wire.Pulse:
    return builders.pulse(index, at, launches=step)


LATE = Finding(
    Severity.WARNING,
    1.0,
    "host 1 is late: the others wait 84 ms for all_reduce_*",
    Subject(agent_id(1), 1),
    cost=FindingCost(84.0, 0.5, 3 << 30, 12.4),
    rule="straggler",
    run="r1",
    since=NOW + 10,
)


def reports(loss, *, on=None, name="loss"):
    """Pulses whose loss is a value, or a function of the time since the start."""

    def pulse(index, at, step):
        value = loss(at - NOW) if callable(loss) else loss
        if on is not None and index != on:
            value = 2.0
        metrics = {} if value is None else {name: value}
        return replace(builders.pulse(index, at, launches=step), step=wire.Step(step, step, metrics))

    return pulse
