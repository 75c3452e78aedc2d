"""The mean of a metric by each axis of the mesh, and a sentence about the axis along which it differs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model import DeviceView
    from jaxtop.tui.draw.reading import MetricReading

# The means of an axis differ if they are apart by this share of the scale.
AXIS_DIFFERENCE = 0.05
# They must be apart this many times as far as the means of any other axis.
AXIS_DIFFERENCE_RATIO = 2.0
# Below this share of the scale, means are as good as the same.
MIN_DIFFERENCE = 0.01


@dataclass(frozen=True, eq=False)
class Axis:
    """What devices have in common: an axis of a mesh, or their host; and the devices of each place on it."""

    name: str
    places: tuple[tuple[int, ...], ...]
    # The word for its places where they are neither rows nor columns of the picture.
    plural: str = ""

    @cached_property
    def getters(self) -> tuple[Callable[[Sequence[float | None]], Sequence[float | None]], ...]:
        """Read the values of the devices of each place, fast enough for thousands at each paint."""
        return tuple(_getter(place) for place in self.places)


def _getter(devices: tuple[int, ...]) -> Callable[[Sequence[float | None]], Sequence[float | None]]:
    if len(devices) > 1:
        return itemgetter(*devices)
    return lambda values: [values[each] for each in devices]


@dataclass(frozen=True)
class AxisNames:
    """How axes are called: those that are the rows and columns of the picture are called so."""

    rows: str = ""
    columns: str = ""

    def role(self, axis: Axis) -> str:
        if axis.plural:
            return axis.plural
        return {self.columns: "columns", self.rows: "rows"}.get(axis.name, axis.name)

    def title(self, axis: Axis) -> str:
        role = self.role(axis)
        return axis.name if axis.plural or role == axis.name else f"{axis.name} ({role})"


class AxisMeans(NamedTuple):
    """The means of a metric along an axis; None where no device has a value."""

    axis: Axis
    means: tuple[float | None, ...]

    @property
    def spread(self) -> float:
        known = [each for each in self.means if each is not None]
        return max(known) - min(known) if known else 0.0


class Difference(NamedTuple):
    """The axis along which a metric differs most, and the place there that is unlike the others."""

    axis: Axis
    place: int


def means(axes: Sequence[Axis], reading: MetricReading) -> list[AxisMeans]:
    values = reading.values
    return [AxisMeans(axis, tuple(mean_of(getter(values)) for getter in axis.getters)) for axis in axes]


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of those that are known; None if none is."""
    known = values if None not in values else [value for value in values if value is not None]
    return sum(known) / len(known) if known else None  # type: ignore[arg-type]


def difference(found: Sequence[AxisMeans], reading: MetricReading, late: frozenset[int]) -> Difference | None:
    """Return where the metric differs; None if no axis stands out."""
    ordered = sorted(found, key=lambda each: -each.spread)
    if not ordered or not reading.end or ordered[0].spread < AXIS_DIFFERENCE * reading.end:
        return None
    if len(ordered) > 1 and ordered[0].spread < AXIS_DIFFERENCE_RATIO * ordered[1].spread:
        return None
    axis, values = ordered[0]
    known = [(value, place) for place, value in enumerate(values) if value is not None]
    middle = median([value for value, _ in known])
    apart = max(abs(value - middle) for value, _ in known)
    # Of two that are as far apart, the one with late devices, or the larger one.
    odd = [(value, place) for value, place in known if abs(value - middle) >= apart]
    _, _, place = max((len(late.intersection(axis.places[place])), value, place) for value, place in odd)
    return Difference(axis, place)


def sentence(
    found: Sequence[AxisMeans],
    reading: MetricReading,
    devices: Sequence[DeviceView],
    odd: Difference | None,
    spoken: AxisNames,
) -> str:
    """Return by how much the axes differ, and where to look."""
    if not found or reading.end is None:
        return ""
    ordered = sorted(found, key=lambda each: -each.spread)
    first, *others = ordered
    if reading.end and first.spread < MIN_DIFFERENCE * reading.end:
        roles = " and ".join(spoken.role(each.axis) for each in ordered)
        by = (
            f"hardly differ: by {_spread(reading, first.spread)} at most" if first.spread else "do not differ"
        )
        return f"{roles[0].upper()}{roles[1:]} {by}."
    spreads = [f"{spoken.role(first.axis)} differ by {_spread(reading, first.spread)}"]
    spreads += [f"{spoken.role(each.axis)} by {_spread(reading, each.spread)}" for each in others]
    words = ", ".join(spreads)
    words = words[0].upper() + words[1:]
    if odd is None:
        return f"{words}: no axis stands out." if others else f"{words}."
    there = [devices[each] for each in odd.axis.places[odd.place]]
    host = there[0] if len({each.agent for each in there}) == 1 else None
    is_numbered = host is not None and host.process_index is not None
    where = f"{host.noun} {host.process_index}" if host and is_numbered else f"{odd.axis.name} {odd.place}"
    along = "look " if odd.axis.plural else f"look along {odd.axis.name}, "
    return f"{words}: {along}at {where}."


def _spread(reading: MetricReading, value: float) -> str:
    """Return a difference with its unit; one of shares is in points."""
    if reading.metric.write(1.0) == "100%":
        return f"{value * 100:.0f} point{'' if round(value * 100) == 1 else 's'}"
    return reading.metric.write(value)
