"""Plants the faults of a run at the steps that all processes agree on, and prints when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jaxtop_agent.demo.faults.fault import Fault

if TYPE_CHECKING:
    from collections.abc import Callable


class Planting:
    """The fault that is at work in this process: none until one has begun."""

    def __init__(
        self,
        place: tuple[int, int, Any],
        rebuild: Callable[[str, Any], Any],
        show: Callable[[str], None],
    ) -> None:
        """Take the process, the number of processes and the mesh; how to build another form; how to print."""
        self.fault = Fault(*place)
        self._place = place
        self._rebuild = rebuild
        self._show = show
        self._costs = True

    def begin(self, planted: type[Fault], i: int, state: Any, kept: dict[str, Any]) -> Any:
        """Begin at step `i`, and end the fault before it; return the state with which the run continues."""
        if self.fault.name:
            self.fault.end(kept)
            self._print("ends")
        before, self.fault = self.fault, planted(*self._place)
        if self.fault.is_here and self.fault.variant != before.variant:
            state = self._rebuild(self.fault.variant, state)
        state = self.fault.begin(state)
        self._costs = self.fault.costs(i)
        if self.fault.name:
            self._print("begins")
        return state

    def load_batch(self, i: int) -> None:
        if not self._costs and self.fault.costs(i):
            self._costs = True
            self._print("first costs something")
        self.fault.load_batch(i)

    def _print(self, what: str) -> None:
        now, fault = time.time(), self.fault
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        memory = "" if fault.bytes_per_device is None else f" {fault.bytes_per_device:.0f} bytes per device"
        self._show(f"fault {fault.name} {what}{memory} at {clock} ({now:.3f}): {fault.text}")
