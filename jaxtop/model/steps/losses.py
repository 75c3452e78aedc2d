"""The losses that a script reports: their last values, what is usual, and when one is not finite."""

from __future__ import annotations

from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from jaxtop.model.past_values import LossValues
from jaxtop.wire import is_loss

if TYPE_CHECKING:
    from jaxtop.wire import Pulse, Step

# The interval between two values that are kept.
VALUE_EVERY_MS = 2_000
# The most values that are kept: those of two minutes.
MAX_VALUES = 60
# What is usual is unknown with fewer values than this.
MIN_VALUES = 8
# The median deviation of normally distributed values, times this, is their standard deviation.
_DEVIATION = 1.4826


class UsualLoss(NamedTuple):
    """The median of a loss, and the value above which it is high."""

    median: float
    limit: float


def followed(losses: tuple[LossValues, ...], before: Pulse, pulse: Pulse) -> tuple[LossValues, ...]:
    """Return the losses after a pulse; the same object if nothing is added."""
    reported = pulse.reported
    if reported is None or (not losses and not any(map(is_loss, reported.metrics))):
        return losses
    known = {each.name: each for each in losses}
    found = tuple(
        [
            _followed(known.get(name) or LossValues(name), value, before, pulse.at_ms, reported)
            for name, value in reported.metrics.items()
            if is_loss(name)
        ]
    )
    return losses if list(map(id, found)) == list(map(id, losses)) else found


def _followed(loss: LossValues, value: float, before: Pulse, at_ms: int, reported: Step) -> LossValues:
    index, calls = reported.index, reported.calls
    if not isfinite(value):
        if loss.bad and calls == loss.calls:
            return loss
        if not loss.bad and (then := before.reported) is not None:  # the last finite value is worth knowing
            last = then.metrics.get(loss.name)
            if last is not None and isfinite(last) and then.index != loss.last_step:
                loss = _with_value(loss, last, then.index, before.at_ms)
        return replace(loss, bad=loss.bad + 1, bad_step=loss.bad_step if loss.bad else index, calls=calls)
    if loss.bad:
        loss = replace(loss, bad=0, bad_step=None)
    is_due = not 0 <= at_ms - loss.at_ms < VALUE_EVERY_MS
    if not is_due or calls == loss.calls:
        return loss
    return replace(_with_value(loss, value, index, at_ms), calls=calls)


def _with_value(loss: LossValues, value: float, index: int, at_ms: int) -> LossValues:
    return replace(loss, values=(*loss.values[1 - MAX_VALUES :], value), last_step=index, at_ms=at_ms)


def may_be_high(loss: LossValues, value: float, share: float) -> bool:
    """Return whether a value may exceed the limit: a test that is much cheaper than the limit."""
    if len(loss.values) <= MIN_VALUES:
        return False
    least = min(loss.values)
    return least <= 0 or value > (1 + share) * least


def usual(loss: LossValues, share: float, spreads: float) -> UsualLoss | None:
    """Return what was usual before the last value; None while that is unknown.

    A value is high if it exceeds the median by this share of it, and by this many times the usual spread.
    """
    values = loss.values[:-1]
    if len(values) < MIN_VALUES:
        return None
    middle = median(values)
    spread = _DEVIATION * median([abs(each - middle) for each in values])
    margin = max(spreads * spread, share * abs(middle))
    return UsualLoss(middle, middle + margin) if margin else None  # a loss of 0 has no scale
