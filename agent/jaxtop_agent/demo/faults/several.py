"""Faults that are there together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from jaxtop_agent.demo.faults.fault import Fault
from jaxtop_agent.demo.faults.memory import ArrayLeak
from jaxtop_agent.demo.faults.slow import SlowProcess

if TYPE_CHECKING:
    from collections.abc import Sequence


class TwoAtOnce(Fault):
    name = "two_at_once"
    text = "the last host sleeps for 400 ms before each launch, and keeps an array of 256 KiB of each step"
    parts: ClassVar[Sequence[type[Fault]]] = (SlowProcess, ArrayLeak)
    rules = tuple(rule for each in parts for rule in each.rules)
    costs_time = True

    def __init__(self, process: int, processes: int, mesh: Any) -> None:
        super().__init__(process, processes, mesh)
        self.members = [each(process, processes, mesh) for each in self.parts]

    def begin(self, state: Any) -> Any:
        for each in self.members:
            state = each.begin(state)
        return state

    def before_launch(self, i: int) -> None:
        for each in self.members:
            each.before_launch(i)

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:
        for each in self.members:
            each.after_launch(i, loss, kept)


FAULTS = (TwoAtOnce,)
