"""The progress that the script reports with `agent.step()`."""

from __future__ import annotations

from collections import deque
from itertools import islice, takewhile
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from jaxtop_agent.steps.reports import Reports, is_ready, number_of
from jaxtop_agent.trees import Norms

if TYPE_CHECKING:
    from jaxtop.wire import Step
    from jaxtop_agent.steps.finder import StepCall
    from jaxtop_agent.steps.reports import ReadValue

MOST_METRICS = 16
LONGEST_NAME = 100
# The calls whose times are remembered.
MAX_CALL_TIMES = 1024
# The index is stored among the metrics, because it may be an array too. No metric can have this key.
INDEX = None


class Progress:
    """The latest step and metrics. `step` runs on the user's thread and only stores the values.

    JAX's arrays are read later, when they are ready. One array per name is held until it can be read: while
    launches run ahead of the device, the array of the newest step would never be ready. Besides these,
    `Reports` keeps the values of the last calls.
    """

    def __init__(self) -> None:
        self.calls = 0  # how many steps the script has reported
        self._values: dict[str | None, float | None] = {}
        self._waiting: dict[str | None, Any] = {}
        self._is_closed = False
        self._reports = Reports()
        self._times: deque[tuple[int, int | None]] = deque(maxlen=MAX_CALL_TIMES)

    def step(self, index: object, metrics: dict[str, object]) -> None:
        self.calls += 1
        if self._is_closed:
            return
        self._times.append((monotonic_ns(), index if type(index) is int else None))
        at = self._note(INDEX, index)
        values = [
            (short, noted)
            for name, value in islice(metrics.items(), MOST_METRICS)
            if (noted := self._note(short := name[:LONGEST_NAME], value)) is not None
        ]
        if values and at is not None:
            self._reports.keep(at, values)
        while len(self._values) > MOST_METRICS + 1:  # a script may use new names forever
            # Of a copy: `gather` and other threads of the script may add a name meanwhile.
            self._values.pop(next(name for name in list(self._values) if name is not INDEX), None)

    @property
    def last_at(self) -> float:
        """The monotonic time in seconds of the last reported step; 0 before the first one."""
        return self._times[-1][0] / 1e9 if self._times else 0.0

    def calls_since(self, at: int) -> list[StepCall]:
        """Return the remembered calls after a time, in nanoseconds of the monotonic clock."""
        from jaxtop_agent.steps.finder import StepCall  # not needed without JAX, as in `read`

        newest_first = takewhile(lambda each: each[0] > at, reversed(self._times.copy()))
        return [StepCall(*each) for each in newest_first][::-1]

    def _note(self, name: str | None, value: Any) -> Any:
        """Note a value; return it as a number or an array, or None if it is neither."""
        # The type decides, so that no property of a foreign object runs here and no tracer of JAX is held.
        try:
            if isinstance(value, int | float):
                noted = value if name is INDEX else float(value)
                self._values[name] = noted
                return noted
            if type(value) is Norms:
                self._values.setdefault(name, None)
                return value if value.is_computed else None
            if type(value).__module__ in {"numpy", "ml_dtypes"}:
                self._values[name] = number = float(value.item())
                return number
            if hasattr(type(value), "is_ready") and value.size == 1:
                if len(self._waiting) <= MOST_METRICS:
                    self._values.setdefault(name, None)  # so that the other thread never resizes the dict
                    self._waiting.setdefault(name, value)
                return value
        except Exception:  # not a number, or too large: this must not end a training run
            pass
        return None

    def gather(self) -> None:
        """Read and release the arrays that are ready; call it on the thread that may use JAX."""
        for name, value in list(self._waiting.items()):
            if is_ready(value):
                number = number_of(value)
                if number is not None and name in self._values:
                    self._values[name] = number
                self._waiting.pop(name, None)
        for name, number in self._reports.gather().items():
            if name in self._values:
                self._values[name] = number

    def taken(self) -> list[ReadValue]:
        """Return the numbers that were read since the last time, each with its step."""
        return self._reports.taken()

    def read(self) -> Step | None:
        """Return the latest step and metrics; None if no valid step was reported."""
        from jaxtop.wire import Step  # loaded with the agent's threads; not needed without JAX

        values = self._values.copy()
        index = values.pop(INDEX, None)
        if index is None or not abs(index) < 1 << 63:
            return None
        metrics = {name: value for name, value in values.items() if name is not None and value is not None}
        return Step(int(index), self.calls, metrics)

    def close(self) -> None:
        """Release the held arrays: nothing will read them."""
        self._is_closed = True
        self._waiting.clear()
        self._reports.clear()
