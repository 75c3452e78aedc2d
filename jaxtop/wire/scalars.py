"""How scalars of a script have developed: the agent sees each value, viewers only some."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Annotated, Final

from msgspec import Meta, Struct

from jaxtop.wire.bounds import (  # noqa: TC001 - msgspec reads the annotations
    Count,
    IntervalMs,
    TimeMs,
    WireInteger,
)

# The curves of a script, and the values of each.
MOST_CURVES, MOST_VALUES = 16, 128
FLOAT: Final = "f"
_BYTES_OF_FLOAT = array(FLOAT).itemsize

# Metrics with these words are settings of a loss, which change by factors on purpose.
_SETTINGS = ("scale", "weight", "coef", "lossless")
# Names with these words are layers that normalise, or something else.
_NO_NORMS = ("normal", "layer", "batch", "rms")


@lru_cache(maxsize=1024)
def is_loss(scalar: str) -> bool:
    """Return whether a scalar is a loss, by its name."""
    name = scalar.lower()
    return "loss" in name and not any(word in name for word in _SETTINGS)


@lru_cache(maxsize=1024)
def is_norm(scalar: str) -> bool:
    """Return whether a scalar is the norm of gradients, updates or parameters, by its name."""
    name = scalar.lower()
    return "norm" in name and not any(word in name for word in _NO_NORMS)


class Rise(Struct, frozen=True, array_like=True):
    """A scalar is far above its usual values: from `step` on, up to `value` at `value_step`.

    `low` and `high` are the range of its usual values, without the lowest and the highest twentieth.
    `led_by` is the norm that had already risen `led_steps` before, if there is one.
    """

    step: WireInteger
    value: float
    value_step: WireInteger
    low: float
    high: float
    median: float
    led_by: str = ""
    led_steps: Count = 0


class Scalar(Struct, frozen=True, array_like=True):
    """One scalar: its last value, and what is notable about it.

    `bad` counts the last values in a row that were not finite, from `bad_step` on; `finite` is the one before
    them. With `is_exact`, every value was seen, so that the first of them was at `bad_step`; otherwise it was
    after `finite_step` and at `bad_step` at the latest. Parts of trees (`agent.norms`) have `nonfinite`: how
    many elements are not finite. Since `same_step`, as many values as `same` were exactly the same.
    """

    name: str
    step: WireInteger
    value: float
    bad: Count = 0
    bad_step: WireInteger | None = None
    finite: float | None = None
    finite_step: WireInteger | None = None
    is_exact: bool = True
    rise: Rise | None = None
    nonfinite: float | None = None
    same: Count = 0
    same_step: WireInteger | None = None


class Scalars(Struct, frozen=True, omit_defaults=True, tag="scalars"):
    """The scalars of a script that are not finite or far above their usual values, and parts of trees."""

    at_ms: TimeMs
    scalars: tuple[Scalar, ...] = ()


class ScalarCurve(Struct, frozen=True, array_like=True):
    """A scalar over time: its means over equal times, the first from `since_ms` on, each `every_ms` long.

    `packed` has them as floats of four bytes, little-endian: NaN where there was no value, infinity where one
    was not finite.
    """

    name: Annotated[str, Meta(max_length=1000)]
    since_ms: TimeMs
    every_ms: IntervalMs
    packed: Annotated[bytes, Meta(max_length=MOST_VALUES * _BYTES_OF_FLOAT)] = b""

    @property
    def values(self) -> array[float]:
        whole = len(self.packed) // _BYTES_OF_FLOAT * _BYTES_OF_FLOAT
        return array(FLOAT, self.packed[:whole])


class Curves(Struct, frozen=True, omit_defaults=True, tag="curves"):
    """The scalars of a script since its start."""

    at_ms: TimeMs
    curves: Annotated[tuple[ScalarCurve, ...], Meta(max_length=MOST_CURVES)] = ()
