"""A metric read from all devices: what each cell shows, the end of the scale, the device with most."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from jaxtop.model import DeviceView, State
from jaxtop.tui.core.palette import STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.tui.core.metrics import DeviceMetric

# Places without a device: one that has not been seen yet, and one that does not exist.
UNSEEN, NO_PLACE = -1, -2
# Values from this share of the largest one on may be written alike.
SAME_TEXT_SHARE = 0.9
_STATES = tuple(State)


class CellCode(IntEnum):
    """What a cell shows besides a step of the ramp, whose code is its number, and a state."""

    UNKNOWN = 100
    ABSENT = 101
    EMPTY = 102
    MARKED = 103


# The states follow.
_FIRST_STATE = 110
_OF_STATE = {state: _FIRST_STATE + i for i, state in enumerate(_STATES)}


class Scale(Enum):
    """What the steps of a reading mean: a share of a limit, of the largest value, or categories."""

    LIMITED = "limited"
    OPEN = "open"
    CATEGORY = "category"


@dataclass(frozen=True)
class MetricReading:
    """The values of a metric, in the order of the devices.

    `codes` ends with entries for places without a device. A plan refers to these by negative numbers
    (`UNSEEN`, `NO_PLACE`, `placeholder`), which are indices from the end.
    """

    metric: DeviceMetric
    values: tuple[float | None, ...]
    codes: tuple[int, ...]
    end: float | None
    most: int | None
    scale: Scale
    # The devices that the metric highlights, and the codes without their marks.
    marked: frozenset[int]
    steps: tuple[int, ...]

    def like_most(self) -> int:
        """Return how many devices have a value that is written as the largest one is."""
        if self.most is None:
            return 0
        largest, write = self.values[self.most] or 0.0, self.metric.write
        written = write(largest)
        counts = Counter(
            each for each in self.values if each is not None and each >= SAME_TEXT_SHARE * largest
        )
        return sum(count for each, count in counts.items() if each == largest or write(each) == written)

    def share(self, device: int) -> float | None:
        value = self.values[device]
        if value is None or self.end is None:
            return None
        return min(1.0, value / self.end) if self.end > 0 else 0.0


def read(devices: Sequence[DeviceView], metric: DeviceMetric) -> MetricReading:
    """Read the metric of each device, and find the common scale."""
    live = State.LIVE
    figure = metric.read
    # The cell of an exited device shows its state only, even where the metric is a slice or a group.
    values = tuple(
        [
            figure(device) if device.state is live or not device.state.has_exited else None
            for device in devices
        ]
    )
    known = [value for value in values if value is not None]
    largest = max(known, default=None)
    limit = metric.limit_of(devices) if known else None
    end = None if largest is None else (limit or largest)
    per_step = STEPS / end if end else 0.0
    scale = Scale.CATEGORY if not metric.is_amount else Scale.OPEN if limit is None else Scale.LIMITED
    codes = [
        code if device.state is live else _OF_STATE[device.state]
        for device, code in zip(devices, _codes(values, per_step if metric.is_amount else None), strict=True)
    ]
    codes.extend(_OF_STATE[state] for state in reversed(_STATES))
    codes.extend((CellCode.EMPTY, CellCode.ABSENT))
    steps, marked = tuple(codes), []
    if metric.is_marked is not None:
        marked = [i for i, device in enumerate(devices) if codes[i] < STEPS and metric.is_marked(device)]
        for i in marked:
            codes[i] = CellCode.MARKED
    most = None if largest is None else values.index(largest)
    marks = tuple(codes) if marked else steps
    return MetricReading(metric, values, marks, end, most, scale, frozenset(marked), steps)


def _codes(values: Sequence[float | None], per_step: float | None) -> list[int]:
    """Return the codes of values; `per_step` is how many steps a unit has, None where values are categories.

    There are as many as devices, so no function is called for each.
    """
    last, unknown = STEPS - 1, CellCode.UNKNOWN
    if per_step is None:
        return [unknown if value is None else int(value) % STEPS for value in values]
    return [unknown if value is None else min(last, int(value * per_step)) for value in values]


def placeholder(state: State) -> int:
    """Return the number that a plan uses for a device of a host that has not reported its devices."""
    return min(UNSEEN, NO_PLACE) - 1 - _STATES.index(state)


def state_of_code(code: int) -> State | None:
    """Return the state that a code means; None if it is not one of a state."""
    return _STATES[code - _FIRST_STATE] if _FIRST_STATE <= code < _FIRST_STATE + len(_STATES) else None
