"""When which fault is at work: one fault of a run, or several in turn, between which the run heals."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.demo.faults.fault import Fault
from jaxtop_agent.demo.faults.memory import ArrayLeak
from jaxtop_agent.demo.faults.programs import ChangingShapes
from jaxtop_agent.demo.faults.slow import SlowProcess

if TYPE_CHECKING:
    from collections.abc import Iterator


class FaultTurn(NamedTuple):
    """A fault, and the seconds before it begins; `Fault` itself stands for no fault: the run is healthy."""

    after: float
    fault: type[Fault]


class SlowerProcess(SlowProcess):
    name = "slow_host"
    text = "the last host sleeps for 800 ms before each launch"
    SLEEPS = 0.8  # far longer than a step, even while the machine does other work


class FewShapes(ChangingShapes):
    name = "few_shapes"
    text = "the batches get another shape every 30 steps, and the step is compiled again"
    STEPS = 30


class SteadyLeak(ArrayLeak):
    name = "steady_leak"
    text = "the last host keeps two more arrays of 256 KiB each second in a list"
    PER_SECOND = 2  # nears the simulated limit within a minute, even while the machine does other work

    def begin(self, state: Any) -> Any:
        self.began = time.monotonic()
        return super().begin(state)

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:
        due = self.PER_SECOND * (time.monotonic() - self.began) if self.is_here else 0
        while len(kept.get("history", ())) < due:
            super().after_launch(i, loss, kept)


TOUR = "tour"
TOUR_TEXT = "in turn: a slow host, new shapes of batches, arrays that grow; between them the run heals"
TURNS = (
    FaultTurn(20.0, SlowerProcess),
    FaultTurn(50.0, Fault),
    FaultTurn(65.0, FewShapes),
    FaultTurn(95.0, Fault),
    FaultTurn(105.0, SteadyLeak),
    FaultTurn(165.0, Fault),
)
# After this many seconds the tour begins again.
PERIOD = 180.0


def of_fault(fault: type[Fault] | None, after: float | None) -> Iterator[FaultTurn]:
    """Yield the turn of one fault; `after` replaces its own, unless it begins before the first step."""
    if fault is not None:
        yield FaultTurn(fault.after if after is None or not fault.after else after, fault)


def of_tour(after: float | None) -> Iterator[FaultTurn]:
    """Yield the turns of the tour, again and again; `after` is how long the run is healthy before it."""
    shift = 0.0 if after is None else after - TURNS[0].after
    for round_ in count():
        for turn in TURNS:
            yield turn._replace(after=turn.after + shift + round_ * PERIOD)
