"""The values of the last calls of `agent.step()`, kept until they can be read.

A number that is not finite belongs to a step, and so does a rise; the last value in a pulse shows neither.
"""

from __future__ import annotations

import operator
from collections import deque
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.trees import Norms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The most calls that are kept, and the most values of all of them.
MOST_CALLS, MOST_HELD = 64, 256
# The most arrays read in a turn, spread over the calls; the others only if one of these is not finite.
MOST_READS = 16
# Where there are more calls than can be kept, every 2nd, 4th, … is kept; at least one in this many.
MAX_CALL_STRIDE = 1024
# The numbers that were read and that nobody has taken yet.
MOST_TAKEN = 4096


class KeptCall(NamedTuple):
    """The values of one call; `has_gap` if there were calls before it that are not kept."""

    index: Any
    values: list[tuple[str, Any]]
    has_gap: bool


class ReadValue(NamedTuple):
    """A number of a step; of a part of a tree, with the number of its elements that are not finite."""

    name: str
    step: int
    value: float
    has_gap: bool = False
    nonfinite: float | None = None


class Reports:
    """Keeps calls on the script's thread, reads them on the thread that may use JAX."""

    def __init__(self) -> None:
        self._calls: deque[KeptCall] = deque()
        self._has_gap = self._has_overflowed = False
        self._every = self._turn = 1
        # Of calls that are not kept: the first numbers that are not finite, with their steps.
        self._bad: dict[str, tuple[Any, float]] = {}
        self._read: deque[ReadValue] = deque(maxlen=MOST_TAKEN)
        # The arrays of each name that were passed over since one was read, with their steps.
        self._passed: dict[str, list[tuple[int, Any]]] = {}
        self._gaps: set[str] = set()

    def keep(self, index: Any, values: list[tuple[str, Any]]) -> None:
        """Keep the values of a call, if there is room. It runs on the script's thread."""
        self._turn += 1
        if self._turn >= self._every:
            # As if all values were arrays.
            if len(self._calls) < min(MOST_CALLS, MOST_HELD // len(values)):
                self._turn = 0
                self._calls.append(KeptCall(index, values, self._has_gap))
                self._has_gap = False
                return
            self._has_overflowed = True
        self._has_gap = True
        for name, value in values:
            if type(value) is float and not isfinite(value):
                self._bad.setdefault(name, (index, value))

    def clear(self) -> None:
        self._calls.clear()
        self._passed.clear()

    def taken(self) -> list[ReadValue]:
        """Return the numbers that were read since the last time, in order."""
        return [self._read.popleft() for _ in range(len(self._read))]

    def gather(self) -> dict[str, float]:
        """Read the calls whose arrays are ready; return the last norms of whole trees, by name."""
        if self._has_overflowed:
            self._has_overflowed = False
            self._every = min(MAX_CALL_STRIDE, self._every * 2)
        elif len(self._calls) < MOST_CALLS // 4:
            self._every = max(1, self._every // 2)
        bad, self._bad = self._bad, {}
        ready: list[KeptCall] = []
        arrays = 0
        while self._calls:
            of_call = _arrays(self._calls[0])
            if not all(map(is_ready, of_call)):
                break
            ready.append(self._calls.popleft())
            arrays += len(of_call)
        wholes: dict[str, float] = {}
        found: list[ReadValue] = []
        chosen = _chosen(len(ready), arrays)
        for number, call in enumerate(ready):
            step = _step(call.index)
            if step is None:
                continue
            if call.has_gap:
                self._gaps.update(name for name, _ in call.values)
            for name, value in call.values:
                if type(value) is float:
                    found.append(ReadValue(name, step, value))
                elif number not in chosen:
                    self._passed.setdefault(name, []).append((step, value))
                else:
                    found += self._values_of(name, step, value, wholes)
        self._passed.clear()  # the last call is always read
        found += [
            ReadValue(name, step, value)
            for name, (index, value) in list(bad.items())
            if (step := _step(index)) is not None
        ]
        if bad:
            found.sort(key=lambda each: each.step)
        self._read.extend(found)
        return wholes

    def _values_of(self, name: str, step: int, value: Any, wholes: dict[str, float]) -> Iterable[ReadValue]:
        """Read an array; where it is not finite, also those before it that were passed over."""
        passed = self._passed.pop(name, [])
        if not passed and type(value) is not Norms:  # nearly always: this runs for each step
            number = number_of(value)
            if number is None:
                return ()
            has_gap = name in self._gaps
            self._gaps.discard(name)
            return (ReadValue(name, step, number, has_gap),)
        return self._values_with(passed, list(_read(name, step, value)), name, value, wholes)

    def _values_with(
        self,
        passed: list[tuple[int, Any]],
        numbers: list[ReadValue],
        name: str,
        value: Any,
        wholes: dict[str, float],
    ) -> Iterator[ReadValue]:
        """Yield the numbers of an array or a tree, with those of arrays that were passed over before it."""
        if not numbers:
            return
        has_gap = name in self._gaps
        if passed and not all(isfinite(each.value) for each in numbers):
            for earlier_step, earlier in passed:
                for each in _read(name, earlier_step, earlier):
                    yield each._replace(has_gap=has_gap)
                has_gap = False
        else:
            has_gap = has_gap or bool(passed)
        self._gaps.discard(name)
        for each in numbers:
            yield each._replace(has_gap=has_gap)
        if type(value) is Norms:
            wholes[name] = numbers[0].value


def _chosen(calls: int, arrays: int) -> set[int]:
    """Return which of the calls, with this many arrays, are read: all, or some at even distances."""
    stride = max(1, -(-arrays // MOST_READS))
    return set(range(calls - 1, -1, -stride))  # the last one always


def _arrays(call: KeptCall) -> list[Any]:
    found = [] if type(call.index) is int or type(call.index) is float else [call.index]
    for _, value in call.values:
        if type(value) is Norms:
            found += (value.norm, value.nonfinite)
        elif type(value) is not float and type(value) is not int:
            found.append(value)
    return found


def _step(index: Any) -> int | None:
    if type(index) is int:
        return index
    number = float(index) if isinstance(index, float) else number_of(index)
    return None if number is None or not isfinite(number) else int(number)


def _read(name: str, step: int, value: Any) -> Iterator[ReadValue]:
    """Yield the number of an array, or those of a tree: of the whole, then of its parts."""
    if type(value) is not Norms:
        number = number_of(value)
        if number is not None:
            yield ReadValue(name, step, number)
        return
    try:
        norms, nonfinite = value.norm.tolist(), value.nonfinite.tolist()
    except Exception:  # deleted, or on another host
        return
    for part, norm, bad in zip(value.names, norms, nonfinite, strict=False):
        yield ReadValue(f"{name}/{part}" if part else name, step, nan if bad else norm, nonfinite=bad)


def is_ready(value: Any) -> bool:
    """Return whether a read would not wait; also true for deleted, donated and failed arrays."""
    try:
        # `is_ready` crashes on a deleted array. Both calls are made inside `any`, because the script might
        # delete the array between two calls from Python code.
        return any(map(operator.call, (value.is_deleted, value.is_ready)))
    except Exception:
        return True


def number_of(value: Any) -> float | None:
    """Return the number in an array; of one with a copy on each device, from the first copy."""
    try:
        if getattr(value, "is_fully_replicated", False) and len(value.sharding.device_set) > 1:
            value = value.addressable_data(0)  # half as expensive as to read the whole array
        return float(value.item())
    except Exception:  # deleted, not a single number, or on another host
        return None
