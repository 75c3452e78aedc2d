"""The framework of the measurements: rows, their figures, statistics, and the printed table."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

RESAMPLES = 2000
CONFIDENCE = 0.95
RATIO = "x"


class Estimate(NamedTuple):
    """A value and its spread; the row says which kind of spread it is."""

    value: float
    low: float
    high: float


def median(samples: Sequence[float]) -> Estimate:
    """Return the median, with its bootstrap confidence interval."""
    return _bootstrapped(statistics.median, samples)


def mean(samples: Sequence[float]) -> Estimate:
    """Return the mean, with its bootstrap confidence interval, for costs that occur in bursts."""
    return _bootstrapped(statistics.fmean, samples)


def ratio(pairs: Iterable[tuple[float, float]]) -> Estimate:
    """Return the median of paired ratios, first ÷ second, with its bootstrap confidence interval."""
    return median([first / second for first, second in pairs])


def difference(pairs: Iterable[tuple[float, float]]) -> Estimate:
    """Return the median of paired differences, first - second, with its bootstrap confidence interval."""
    return median([first - second for first, second in pairs])


def whole(samples: Sequence[float]) -> Estimate:
    """Return the median, with minimum and maximum, if there are too few repetitions for an interval."""
    return Estimate(statistics.median(samples), min(samples), max(samples))


def one(value: float) -> Estimate:
    """Return a count or a single long measurement, which has no spread."""
    return Estimate(value, value, value)


def _bootstrapped(of: Callable[[Sequence[float]], float], samples: Sequence[float]) -> Estimate:
    # Seeded, so that equal samples have equal intervals.
    dice = random.Random(0)
    again = sorted(of(dice.choices(samples, k=len(samples))) for _ in range(RESAMPLES))
    tail = int(len(again) * (1 - CONFIDENCE) / 2)
    return Estimate(of(samples), again[tail], again[-1 - tail])


@dataclass(frozen=True)
class Figure:
    """One line of the table: a figure, its control and its budget."""

    what: str
    measured: Estimate
    unit: str
    control: Estimate | None = None
    budget: float | str | None = None
    # Set only if the budget is not a number.
    holds: bool | None = None

    @property
    def within(self) -> bool | None:
        """Whether the figure is within its budget; None if it has none."""
        return self.measured.value <= self.budget if isinstance(self.budget, int | float) else self.holds


@dataclass(frozen=True)
class Setting:
    """The input of a row: how thorough to be, and a home folder without the user's files."""

    quick: bool
    home: Path

    def pick(self, full: Any, quick: Any) -> Any:
        """Return one of the two values, depending on how thorough this run is."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Row:
    """A measurement: its name, what it measures, its control and its kind of spread."""

    name: str
    what: str
    control: str
    spread: str
    measure: Callable[[Setting], Iterator[Figure]]


HEADINGS = ("", "measured", "spread", "control", "spread", "at most", "within")


def table(figures: Sequence[Figure]) -> str:
    """Return the figures of a row as text."""
    lines = [HEADINGS, *(_cells(figure) for figure in figures)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            (line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)))
        )
        for line in lines
    )


def _cells(figure: Figure) -> tuple[str, ...]:
    within = {True: "yes", False: "NO", None: "n.a."}[figure.within]
    budget = figure.budget
    at_most = "" if budget is None else budget if isinstance(budget, str) else _text(budget, figure.unit)
    measured, control = figure.measured, figure.control
    return (
        figure.what,
        _text(measured.value, figure.unit),
        _spread(measured, figure.unit),
        "" if control is None else _text(control.value, figure.unit),
        "" if control is None else _spread(control, figure.unit),
        at_most,
        within,
    )


def _spread(estimate: Estimate, unit: str) -> str:
    if estimate.low == estimate.high:
        return "-"
    return f"{_text(estimate.low)} .. {_text(estimate.high, unit)}"


def _text(value: float, unit: str = "") -> str:
    """Format a number with three significant digits; ratios, which are near 1, have four."""
    if unit == RATIO or 0.9 < abs(value) < 1.1:
        number = f"{value:.4f}".rstrip("0").rstrip(".")
    else:
        number = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


def as_json(row: Row, figures: Sequence[Figure]) -> dict[str, Any]:
    """Return a row and its figures as plain values."""
    return {
        "name": row.name,
        "what": row.what,
        "control": row.control,
        "spread": row.spread,
        "figures": [
            {
                "what": figure.what,
                "unit": figure.unit,
                "measured": figure.measured._asdict(),
                "control": figure.control._asdict() if figure.control else None,
                "budget": figure.budget,
                "within": figure.within,
            }
            for figure in figures
        ],
    }
