"""The scalars that agents noted: those that are not finite and since when, and those that have risen."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import isfinite, isnan
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model.host import Host
    from jaxtop.model.state import ScalarSample
    from jaxtop.wire import Scalar, ScalarCurve

LONGEST_NAME = 30
# A viewer that has no pulse within this time of a curve came later, and does not know what was between.
UNSEEN_S = 3.0
# Evidence has no larger numbers.
_LARGEST = float(1 << 62)


class ProcessScalar(NamedTuple):
    """A scalar of a process."""

    host: Host
    scalar: Scalar

    @property
    def name(self) -> str:
        return shortened(self.scalar.name)

    @property
    def bad_step(self) -> int:
        return self.scalar.bad_step or 0

    @property
    def what(self) -> str:
        """What it is instead of a number."""
        return "NaN" if isnan(self.scalar.value) else "infinite"

    @property
    def since(self) -> str:
        """Since which step it is not finite, and what it was before."""
        scalar = self.scalar
        if scalar.finite is None or scalar.finite_step is None:
            return f"since {'' if scalar.is_exact else 'about '}step {self.bad_step:,}, its first value"
        return (
            f"since {'' if scalar.is_exact else 'about '}step {self.bad_step:,}; "
            f"it was {scalar.finite:.4g} at step {scalar.finite_step:,}"
        )


def curve_of(host: Host, name: str, tail: Iterable[ScalarSample] = ()) -> list[tuple[float, float | None]]:
    """Return a scalar of a process over time, by its clock; None where it is not finite, or not known.

    Scripts log rarely: the line goes straight from each value to the next one. What follows the curve that
    the agent has sent comes from its pulses; a viewer that came later knows nothing of the time between.
    """
    place = next((i for i, each in enumerate(host.curves.curves) if each.name == name), None)
    if place is None:
        return []
    found, pulse = list(_points(host.curves.curves[place])), host.pulse
    sent_ms = host.curves.at_ms
    after = [(each.at_ms / 1000, each.values[place]) for each in tail if each.at_ms >= sent_ms]
    last_at, newest = found[-1] if found else (0.0, None)
    if found and after and after[0][0] > sent_ms / 1000 + UNSEEN_S and after[0][1] != newest:
        found.append((max(sent_ms / 1000, last_at), None))
    for at, value in after:
        if value is not None and at > last_at:
            found.append((at, value if isfinite(value) else None))
    last = pulse.values.get(name)
    if last is not None and (not found or pulse.at_ms / 1000 > found[-1][0]):
        found.append((pulse.at_ms / 1000, last if isfinite(last) else None))
    return found


@lru_cache(maxsize=1024)
def _points(curve: ScalarCurve) -> tuple[tuple[float, float | None], ...]:
    """Return the values, each with the middle of its time."""
    every = curve.every_ms / 1000
    known = [
        (curve.since_ms / 1000 + (place + 0.5) * every, value if isfinite(value) else None)
        for place, value in enumerate(curve.values)
        if not isnan(value)
    ]
    found = known[:1]
    for (at, value), (later, then) in pairwise(known):
        if value is not None and then is not None:
            parts = round((later - at) / every)
            found += [(at + i * every, value + i / parts * (then - value)) for i in range(1, parts)]
        found.append((later, then))
    return tuple(found)


def shortened(name: str) -> str:
    """Return a name; of a very long one the end, which differs most."""
    return name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}"


def measure(value: float | None) -> float | str | None:
    """Return a number as evidence; a huge one as text."""
    return value if value is None or abs(value) <= _LARGEST else f"{value:.4g}"


def scalars_on(hosts: Iterable[Host]) -> list[ProcessScalar]:
    """Return all scalars that agents have sent."""
    return [ProcessScalar(host, each) for host in hosts for each in host.scalars.scalars]


def first_bad(scalars: Iterable[ProcessScalar]) -> ProcessScalar | None:
    """Return the scalar that stopped being finite first; of a tree the part, if it was one alone."""
    bad = [each for each in scalars if each.scalar.bad_step is not None]
    if not bad:
        return None
    step = min(each.bad_step for each in bad)
    first = [each for each in bad if each.bad_step == step]
    whole = min(first, key=lambda each: (each.host.process_index or 0, len(each.scalar.name)))
    of_it = [
        each
        for each in first
        if each.host is whole.host and each.scalar.name.startswith(f"{whole.scalar.name}/")
    ]
    return of_it[0] if whole.scalar.nonfinite is not None and len(of_it) == 1 else whole
