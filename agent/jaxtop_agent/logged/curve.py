"""The curves of scalars since the start of the script, as means over equal times: the longer, the fewer."""

from __future__ import annotations

from array import array
from collections import defaultdict
from math import inf, isfinite, isnan, nan

from jaxtop.wire import Curves, is_loss
from jaxtop.wire.scalars import FLOAT, MOST_CURVES, MOST_VALUES, ScalarCurve

# The first values are means over this time. Once there are too many, each two become one.
FIRST_MS = 2_000
# The longest time of a mean. A longer one would not fit into a message; it would take weeks to get there.
LONGEST_MS = 86_400_000
LONGEST_NAME = 200
# The largest value of a float of four bytes; larger values are drawn as infinite ones.
MAX_VALUE = 3e38
# A time in a file may be rounded.
CLOCKS_DIFFER_MS = 1_000
# Seconds between two messages with curves: fewer at first, and more with more processes or bytes.
SEND_EVERY_S, SOON_S, SEND_EACH_S, BYTES_A_SECOND = 20.0, 4.0, 0.5, 100


class AllCurves:
    """The curves of the first scalars, losses before others."""

    def __init__(self, since_ms: int = 0) -> None:
        """Begin at the start of the process: what a file says about earlier times is of another one."""
        self._since_ms = since_ms
        # By name and origin.
        self._builders: dict[tuple[str, str], CurveBuilder] = {}
        self._new: dict[tuple[str, str], list[tuple[float, float | None]]] = defaultdict(list)
        self._came_ms: dict[tuple[str, str], int] = {}
        self._sent = 0

    def note(self, name: str, origin: str, value: float, at: float | None = None) -> None:
        """Note a value, with the time at which the script logged it if that is known."""
        self._new[name, origin].append((value, at))

    def gather(self, now_ms: int) -> bool:
        """Add what was noted since the last time; return whether anything was.

        A writer writes many values at once. Those without a time of their own, or with one before the last
        values or after now, are spread over the time since its last ones.
        """
        new, self._new = self._new, defaultdict(list)
        for key, values in new.items():
            if key not in self._builders and not self._makes_room(key[0]):
                continue
            at_ms = _times(values, self._came_ms.get(key), self._since_ms, now_ms)
            builder = self._builders.setdefault(key, CurveBuilder(key[0], at_ms[0]))
            self._came_ms[key] = at_ms[-1]
            for (value, _), at in zip(values, at_ms, strict=True):
                builder.add(value, at)
        return bool(new)

    def pause(self, processes: int) -> float:
        """Return how many seconds to wait after curves were sent."""
        size = sum(map(len, self._builders.values()))
        usual = min(SEND_EVERY_S, SOON_S * self._sent)
        return max(usual, SEND_EACH_S * processes, size / BYTES_A_SECOND)

    def message(self, now_ms: int) -> Curves:
        self._sent += 1
        return Curves(now_ms, tuple(each.curve() for each in self._builders.values()))

    def _makes_room(self, name: str) -> bool:
        """Return whether there is room for a new curve; the curve of a loss replaces another one."""
        if len(self._builders) < MOST_CURVES:
            return True
        others = [key for key in self._builders if not is_loss(key[0])]
        if not is_loss(name) or not others:
            return False
        del self._builders[others[-1]]
        return True


def _times(
    values: list[tuple[float, float | None]], before_ms: int | None, since_ms: int, now_ms: int
) -> list[int]:
    """Return when values were logged: at the latest now, and not before the last ones."""
    earliest = since_ms if before_ms is None else before_ms
    own = [round(at * 1000) for _, at in values if at is not None and isfinite(at)]
    if len(own) == len(values) and earliest <= min(own) and max(own) <= now_ms + CLOCKS_DIFFER_MS:
        return [min(each, now_ms) for each in own]
    before = now_ms if before_ms is None else before_ms
    return [before + (now_ms - before) * number // len(values) for number in range(1, len(values) + 1)]


class CurveBuilder:
    """Adds the values of one scalar to its curve."""

    def __init__(self, name: str, now_ms: int) -> None:
        self._name = name[:LONGEST_NAME]
        self._since_ms, self._every_ms = now_ms, FIRST_MS
        self._means = array(FLOAT)
        self._counts = array("L")

    def add(self, value: float, now_ms: int) -> None:
        """Add a value; a time with one that is not finite is infinite."""
        while (place := max(0, now_ms - self._since_ms) // self._every_ms) >= MOST_VALUES:
            if self._every_ms >= LONGEST_MS:
                return
            self._halve()
        missing = place + 1 - len(self._means)
        if missing > 0:
            self._means.extend([nan] * missing)
            self._counts.extend([0] * missing)
        count = self._counts[place] = self._counts[place] + 1
        before = self._means[place]
        mean = value if count == 1 else before + (value - before) / count
        self._means[place] = mean if isfinite(mean) and abs(mean) <= MAX_VALUE else inf

    def _halve(self) -> None:
        """Make one value of each two, over twice the time."""
        pairs = [(i, min(i + 1, len(self._means) - 1)) for i in range(0, len(self._means), 2)]
        means = [_mean_of(self._means[i], self._means[j]) for i, j in pairs]
        counts = [self._counts[i] + (self._counts[j] if j > i else 0) for i, j in pairs]
        self._means, self._counts = array(FLOAT, means), array("L", counts)
        self._every_ms *= 2

    def __len__(self) -> int:
        """How many bytes its values take."""
        return len(self._means) * self._means.itemsize

    def curve(self) -> ScalarCurve:
        return ScalarCurve(self._name, self._since_ms, self._every_ms, self._means.tobytes())


def _mean_of(first: float, second: float) -> float:
    known = [each for each in (first, second) if not isnan(each)]
    return sum(known) / len(known) if known else nan
