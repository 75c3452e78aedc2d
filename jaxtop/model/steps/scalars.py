"""What the agents have noted of scalars: which are not finite and since when, and which have risen."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model.host import Host
    from jaxtop.wire import Scalar

LONGEST_NAME = 30
# Evidence has no larger numbers.
_LARGEST = float(1 << 62)


class ScalarOn(NamedTuple):
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


def shortened(name: str) -> str:
    """Return a name; of a very long one the end, which differs most."""
    return name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}"


def measure(value: float | None) -> float | str | None:
    """Return a number as evidence; a huge one as text."""
    return value if value is None or abs(value) <= _LARGEST else f"{value:.4g}"


def scalars_on(hosts: Iterable[Host]) -> list[ScalarOn]:
    """Return all scalars that agents have sent."""
    return [ScalarOn(host, each) for host in hosts for each in host.scalars.scalars]


def first_bad(scalars: Iterable[ScalarOn]) -> ScalarOn | None:
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
