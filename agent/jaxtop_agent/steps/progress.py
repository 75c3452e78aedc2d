"""What the script says of its own progress with `agent.step()`."""

from __future__ import annotations

import operator
from collections import deque
from itertools import islice
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtop.wire import Step
    from jaxtop_agent.steps.finder import Call

MOST_METRICS = 16
LONGEST_NAME = 100
# Calls of which the time is remembered.
REMEMBERED = 1024
# The index stands among the metrics, under a key that no metric can have: it may be an array, too.
INDEX = None


class Progress:
    """`step` runs on the user's thread and only stores; JAX's arrays are read later, once they are ready.

    One array a name is held at a time, until it can be read: while JAX computes ahead of the device, the
    newest step's would never be ready.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._values: dict[str | None, float | None] = {}
        self._waiting: dict[str | None, Any] = {}
        self._is_closed = False
        self._times: deque[tuple[int, int | None]] = deque(maxlen=REMEMBERED)

    def step(self, index: object, metrics: dict[str, object]) -> None:
        """Note the step."""
        self._calls += 1
        if self._is_closed:
            return
        self._times.append((monotonic_ns(), index if type(index) is int else None))
        self._note(INDEX, index)
        for name, value in islice(metrics.items(), MOST_METRICS):
            self._note(name[:LONGEST_NAME], value)
        while len(self._values) > MOST_METRICS + 1:  # a script may invent names for ever
            self._values.pop(next(name for name in self._values if name is not INDEX), None)

    @property
    def calls(self) -> int:
        """How often the script told of a step."""
        return self._calls

    @property
    def last_at(self) -> float:
        """When the script last told of a step, by the monotonic clock; 0 before it did."""
        return self._times[-1][0] / 1e9 if self._times else 0.0

    def recent(self) -> list[Call]:
        """The last calls, in nanoseconds of the monotonic clock."""
        from jaxtop_agent.steps.finder import Call  # as below

        return [Call(*each) for each in self._times.copy()]

    def _note(self, name: str | None, value: Any) -> None:
        # By its type: no property of a foreign object is called here, and no tracer of JAX is kept.
        try:
            if isinstance(value, int | float):
                self._values[name] = value if name is INDEX else float(value)
            elif type(value).__module__ in {"numpy", "ml_dtypes"}:
                self._values[name] = float(value.item())
            elif hasattr(type(value), "is_ready") and value.size == 1 and len(self._waiting) <= MOST_METRICS:
                self._values.setdefault(name, None)  # so that the other thread never changes the size
                self._waiting.setdefault(name, value)
        except Exception:  # no number, or far too large a one: no reason to end a training run
            pass

    def gather(self) -> None:
        """Read the arrays that are ready, and let go of them; on the thread that may touch JAX."""
        for name, value in list(self._waiting.items()):
            if _is_ready(value):
                number = _number(value)
                if number is not None and name in self._values:
                    self._values[name] = number
                self._waiting.pop(name, None)

    def read(self) -> Step | None:
        """The latest step and metrics."""
        from jaxtop.wire import Step  # loaded with the agent's threads; without JAX nobody needs it

        values = self._values.copy()
        index = values.pop(INDEX, None)
        if index is None or not abs(index) < 1 << 63:
            return None
        metrics = {name: value for name, value in values.items() if name is not None and value is not None}
        return Step(int(index), self._calls, metrics)

    def close(self) -> None:
        """Hold nothing any more: nobody will read it."""
        self._is_closed = True
        self._waiting.clear()


def _is_ready(value: Any) -> bool:
    """Whether nothing is to be waited for: also true of what was deleted, donated, or failed."""
    try:
        # JAX crashes when asked whether a deleted array is ready. So both are asked in one go, inside `any`:
        # between two calls of ours the script might delete it.
        return any(map(operator.call, (value.is_deleted, value.is_ready)))
    except Exception:
        return True


def _number(value: Any) -> float | None:
    try:
        return float(value.item())
    except Exception:  # deleted, not one number, on another host
        return None
