"""The course of one scalar: when it stopped being finite, and when it rose far above its usual values."""

from __future__ import annotations

from array import array
from collections import deque
from math import isfinite
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from jaxtop.wire import Rise, Scalar

# With fewer values than this, the usual range is unknown.
FEWEST_VALUES = 40
# The most samples that stand for all values; when there are more, every second one is dropped.
MOST_SAMPLES = 256
# The last values are not part of what is usual yet, or a loss that rises slowly would set its own limit: a
# sixteenth of all values, within these bounds.
FEWEST_RECENT, MOST_RECENT = 16, 256
# A high value exceeds the median by this many usual deviations.
RISE_DEVIATIONS = 10.0
# A high value exceeds the median by this share of the median.
RISE_SHARE = 0.5
# A high value exceeds the highest usual value by this share of the distance of that value from the median.
RISE_ABOVE_MAX = 0.5
# The median deviation of normally distributed values, times this, is their standard deviation.
_DEVIATION = 1.4826
# A rise is this many high values in a row, and ends after as many that are not high.
IN_A_ROW = 3
# A rise becomes the usual range after this many values, and half as many as there were before.
LONGEST_RISE = 200
# High values with fewer others between them belong together.
MAX_VALUES_BETWEEN = 8


class Streak(NamedTuple):
    """High values that are close together: the steps of the first and of the last."""

    first: int
    last: int


class Course:
    """One scalar. `is_judged` says whether it can rise: for losses and norms, that is bad."""

    def __init__(self, name: str, *, is_judged: bool = False, is_part: bool = False) -> None:
        self.name, self.is_judged, self.is_part = name, is_judged, is_part
        self.step, self.value = 0, 0.0
        self.spacing = 1  # steps between the last two values
        self._bad, self._bad_step, self._is_exact = 0, 0, True
        self._finite: tuple[int, float] | None = None
        self._nonfinite = 0.0
        self._same, self._same_step = 0, 0
        self._history = UsualValues()
        self._high: list[tuple[int, float]] = []  # high values in a row, up to a rise
        self._rise: Rise | None = None
        self._length = self._low_again = 0  # of the rise
        self.streak: Streak | None = None
        self._since_streak = 0

    @property
    def rise(self) -> Rise | None:
        return self._rise

    @property
    def is_notable(self) -> bool:
        return bool(self._bad or self._rise or self.is_part)

    @property
    def verdict(self) -> tuple[object, ...]:
        """The part of the course that viewers must know at once."""
        rise = self._rise
        return self._bad > 0, self._bad > 1, self._bad_step, rise and rise.step, rise and rise.led_by

    def note(self, step: int, value: float, *, has_gap: bool = False, nonfinite: float = 0.0) -> None:
        """Note a value; `has_gap` says that values before it were not seen."""
        is_first = self._finite is None and not self._bad
        if value != self.value or is_first:
            self._same, self._same_step = 0, step
        self._same += 1
        if not is_first and step > self.step:
            self.spacing = step - self.step
        self.step, self.value, self._nonfinite = step, value, nonfinite
        if isfinite(value):
            self._bad = self._bad_step = 0
            self._finite = step, value
            if self.is_judged:
                self._judge(step, value)
            return
        if not self._bad:
            self._bad_step, self._is_exact = step, not has_gap
        self._bad += 1

    def led_by(self, name: str, steps: int) -> None:
        """Note which norm rose before the loss, and by how many steps."""
        if self._rise is not None:
            self._rise = replace(self._rise, led_by=name, led_steps=steps)

    def message(self) -> Scalar:
        finite_step, finite = self._finite or (None, None)
        return Scalar(
            name=self.name,
            step=self.step,
            value=self.value,
            bad=self._bad,
            bad_step=self._bad_step if self._bad else None,
            finite=finite,
            finite_step=finite_step,
            is_exact=self._is_exact,
            rise=self._rise,
            nonfinite=self._nonfinite if self.is_part else None,
            same=self._same if self.is_part else 0,
            same_step=self._same_step if self.is_part else None,
        )

    def _judge(self, step: int, value: float) -> None:
        history = self._history
        is_high = value > history.limit
        self._note_streak(step, is_high=is_high)
        if self._rise is not None:
            self._follow_rise(step, value, is_high=is_high)
        elif is_high:
            self._high.append((step, value))
            if len(self._high) >= IN_A_ROW:
                peak_step, peak = max(self._high, key=lambda each: each[1])
                self._rise = Rise(self._high[0][0], peak, peak_step, *history.usual)
                self._length, self._low_again = len(self._high), 0
                self._high.clear()
        else:
            for _, each in self._high:
                history.add(each)
            self._high.clear()
            history.add(value)

    def _follow_rise(self, step: int, value: float, *, is_high: bool) -> None:
        rise = self._rise
        assert rise is not None
        self._length += 1
        self._low_again = 0 if is_high else self._low_again + 1
        if self._low_again >= IN_A_ROW:
            self._rise = None
        elif self._length >= max(LONGEST_RISE, self._history.count // 2):
            self._rise, self._history = None, UsualValues()
        elif value > rise.value:
            self._rise = replace(rise, value=value, value_step=step)

    def _note_streak(self, step: int, *, is_high: bool) -> None:
        self._since_streak += 1
        if not is_high:
            return
        is_same = self.streak is not None and self._since_streak <= MAX_VALUES_BETWEEN
        self.streak = Streak(self.streak.first if is_same and self.streak else step, step)
        self._since_streak = 0


class UsualValues:
    """The usual range: samples of the values so far, evenly spaced, and the highest value around each."""

    def __init__(self) -> None:
        self.count = 0
        self.limit = float("inf")  # a value above it is high
        self._samples, self._highest = array("d"), array("d")
        self._stride, self._in_sample, self._top = 1, 0, float("-inf")
        self._middle, self._due = 0.0, FEWEST_VALUES
        self._recent: deque[float] = deque()

    def add(self, value: float) -> None:
        self._recent.append(value)
        while len(self._recent) > min(MOST_RECENT, max(FEWEST_RECENT, self.count // 16)):
            self._add(self._recent.popleft())

    def _add(self, value: float) -> None:
        self.count += 1
        self._in_sample += 1
        self._top = max(self._top, value)
        if self._in_sample >= self._stride:
            self._sample(value)
        if self.count >= self._due:
            self._due = self.count + max(4, self.count // 32)
            self._set_limit()
        elif (beyond := value + RISE_ABOVE_MAX * (value - self._middle)) > self.limit:
            self.limit = beyond

    @property
    def usual(self) -> tuple[float, float, float]:
        """The range of the usual values, and their median."""
        values = sorted(self._last_half(self._samples))
        edge = len(values) // 20
        return values[edge], values[-1 - edge], median(values)

    def _sample(self, value: float) -> None:
        self._samples.append(value)
        self._highest.append(self._top)
        self._in_sample, self._top = 0, float("-inf")
        if len(self._samples) >= MOST_SAMPLES:
            self._stride *= 2
            self._samples = self._samples[1::2]
            pairs = zip(self._highest[::2], self._highest[1::2], strict=True)
            self._highest = array("d", map(max, pairs))

    @staticmethod
    def _last_half(values: array[float]) -> array[float]:
        """Return the later half: the first values of a training are far above all others."""
        return values[len(values) // 2 :]

    def _set_limit(self) -> None:
        values = self._last_half(self._samples)
        middle = self._middle = median(values)
        spread = _DEVIATION * median([abs(each - middle) for each in values])
        if not spread:  # it has no noise, so nothing says which change is large
            self.limit = float("inf")
            return
        # Of three quarters: what happens now and then is in a longer time.
        top = max(*self._highest[len(self._highest) // 4 :], self._top)
        margin = max(
            RISE_DEVIATIONS * spread, RISE_SHARE * abs(middle), (1 + RISE_ABOVE_MAX) * (top - middle)
        )
        self.limit = middle + margin
