"""What the script says of its own progress with `agent.step()`."""

from __future__ import annotations

from typing import Any

from jaxtop.wire import Step

MOST_METRICS = 16


class Progress:
    """`step` runs on the user's thread and only stores; arrays are read later, and only once they are ready.

    One step's arrays are held at a time, until they can be read: while JAX computes ahead of the device, the
    newest step's would never be ready.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._index: int | None = None
        self._metrics: dict[str, float] = {}
        self._waiting: dict[str, Any] = {}

    def step(self, index: int, metrics: dict[str, object]) -> None:
        """Note the step."""
        self._calls += 1
        try:
            self._index = int(index)
            waiting = {}
            for name, value in list(metrics.items())[:MOST_METRICS]:
                if isinstance(value, int | float):
                    self._metrics[name] = float(value)
                elif getattr(value, "size", 0) == 1:
                    waiting[name] = value
            if not self._waiting:
                self._waiting = waiting
        except Exception:  # a strange index is no reason to end a training run
            pass

    def read(self) -> Step | None:
        """The latest step and metrics; on an agent's thread."""
        for name, value in list(self._waiting.items()):
            if _is_ready(value):
                number = _number(value)
                if number is not None:
                    self._metrics[name] = number
                self._waiting.pop(name, None)
        if self._index is None:
            return None
        return Step(self._index, self._calls, dict(self._metrics))

    def clear(self) -> None:
        """Hold nothing any more."""
        self._waiting = {}


def _is_ready(value: Any) -> bool:
    try:
        return bool(value.is_ready()) if hasattr(value, "is_ready") else True
    except Exception:  # deleted or donated: there is nothing left to wait for
        return True


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except Exception:  # deleted, not a number, on another host
        return None
