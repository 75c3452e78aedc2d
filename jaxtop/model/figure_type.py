"""The type of the figures of tables: names, unit and reading, the places that show it, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from jaxtop.model.host import device_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model.host import Host
    from jaxtop.wire import Pulse

    Reader = Callable[[Pulse, int], float | None]


class Unit(StrEnum):
    """The base unit of a figure, as the names of metrics spell it."""

    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes_per_second"
    SHARE = "ratio"
    WATTS = "watts"
    JOULES = "joules"
    DEGREES = "celsius"
    HERTZ = "hertz"
    SECONDS = "seconds"
    FLOPS = "flops"
    FLOPS_PER_SECOND = "flops_per_second"
    TOKENS_PER_SECOND = "tokens_per_second"
    LOSS = "loss"
    NUMBER = ""


class Level(IntEnum):
    """How serious a figure is."""

    FINE = 0
    WARNING = 1
    BAD = 2


@dataclass(frozen=True)
class Threshold:
    """A value, or a share of the maximum, from which a figure stands out; with a word and a reason."""

    reach: float
    level: Level
    word: str
    reason: str
    is_of_full: bool = False

    def is_reached(self, value: float | None, full: float | None) -> bool:
        """Return whether a value reaches it; a share of an unknown maximum is not reached."""
        limit = self.reach if not self.is_of_full else self.reach * full if full else None
        return value is not None and limit is not None and value >= limit


class Scope(StrEnum):
    """What a figure belongs to."""

    DEVICE = "device"
    HOST = "host"
    STEP = "step"
    SCRIPT = "script"


# The rank of most figures; those that people look for first have a lower one.
DEFAULT_RANK = 5


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure: what it is called, how it is read, and where it is shown.

    `name` is its name in JSON and CSV; `metric` that in OpenMetrics, without the prefix `jaxtop_`, or empty
    if it is not exported. `field` is the field of `DeviceSample`, `HostSample` or `StepView` that holds it;
    figures of scripts have `of_host` instead, which derives them from a host. The pace has both: a script may
    report it without a step.

    Columns stand in the order of `rank`, then of the table. `pane` is the line of a host's figure in the pane
    below the hosts, and its label there; by default it has none. `json` is the object that holds it in the
    JSON of a device, if it is not the device itself.
    """

    scope: Scope
    name: str
    title: str
    unit: Unit
    field: str
    metric: str
    source: str
    help: str
    # By default the title. It has at most eight characters.
    short_title: str = ""
    # A field of the same sample, or a number. By default 1 for shares.
    maximum: str | float | None = None
    # A field of the same sample that takes from the maximum, too: thresholds count both.
    beside: str = ""
    thresholds: tuple[Threshold, ...] = ()
    aliases: tuple[str, ...] = ()
    json: str = ""
    rank: int = DEFAULT_RANK
    pane: tuple[int, str] | None = None
    # False: it is exported, but has no column and, unless it belongs to a step, no plot.
    has_column: bool = True
    # The field of `Rhythm` from which a plot of a step's figure is made.
    rhythm: str = ""
    is_counter: bool = False
    is_estimate: bool = False
    # Whether it is a lower bound if the operations of the step are.
    is_operation_bound: bool = False
    of_host: Callable[[Host], float | None] | None = None
    # Whether the last value of an exited process is shown.
    outlasts: bool = False
    # The column appears once a figure of a step or a script is known; or, with this, once one is this large.
    shown_from: float | None = None

    @property
    def short(self) -> str:
        return self.short_title or self.title

    @property
    def has_history(self) -> bool:
        """Whether it has a plot and, if it belongs to devices, a metric of the mesh."""
        return bool(self.rhythm) if self.scope is Scope.STEP else self.has_column and self.of_host is None

    @property
    def filters(self) -> tuple[str, ...]:
        """The names that filters accept: its aliases and, if it has a column, its names."""
        names = (self.name, self.short, self.title) if self.has_column else ()
        return tuple(dict.fromkeys((*(name.lower().replace(" ", "_") for name in names), *self.aliases)))

    @cached_property
    def read(self) -> Reader:
        """The function that reads it from a pulse, in the base unit; the second argument is a position."""
        return _reader(self.scope, self.rhythm if self.scope is Scope.STEP else self.field)

    @cached_property
    def full(self) -> Reader:
        """The function that reads its maximum from a pulse; None if it has none or it is unknown."""
        maximum = 1.0 if self.maximum is None and self.unit is Unit.SHARE else self.maximum
        return _reader(self.scope, maximum) if isinstance(maximum, str) else lambda _pulse, _position: maximum

    def share(self, pulse: Pulse, position: int = 0) -> float | None:
        """Return its value in a pulse as a share of its maximum; None if either is unknown."""
        value, full = self.read(pulse, position), self.full(pulse, position)
        return None if value is None or not full else value / full

    def of_step(self, step: object) -> float | None:
        """Return its value in a `StepView`."""
        value: float | None = getattr(step, self.field)
        return value

    def reached(self, pulse: Pulse, position: int = 0) -> Threshold | None:
        """Return the most severe threshold that it has reached in a pulse, if any."""
        if not self.thresholds:
            return None
        value = self.read(pulse, position)
        if self.beside and value is not None:
            value += _reader(self.scope, self.beside)(pulse, position) or 0.0
        return self.judged(value, self.full(pulse, position))

    def judged(self, value: float | None, full: float | None = None) -> Threshold | None:
        """Return the most severe threshold that this value has reached, if any."""
        found = [each for each in self.thresholds if each.is_reached(value, full)]
        return max(found, key=lambda each: each.level, default=None)


# How many of the unit in a field's name make one base unit.
_PER_BASE_UNIT = {
    "permille": 1000, "milli": 1000, "mw": 1000, "mj": 1000, "ms": 1000, "centi": 100,
    "us": 1_000_000, "ppm": 1_000_000, "mhz": 1e-6,
}  # fmt: skip


def _reader(scope: Scope, field: str) -> Reader:
    if scope is Scope.SCRIPT:
        return lambda pulse, _: pulse.values.get(field)
    per = next((_PER_BASE_UNIT[part] for part in field.split("_") if part in _PER_BASE_UNIT), None)

    def of_device(pulse: Pulse, position: int) -> float | None:
        value = device_entry(getattr(pulse.devices, field), position)
        return value if value is None or per is None else value / per

    def of_others(pulse: Pulse, _position: int) -> float | None:
        value = getattr(pulse.host if scope is Scope.HOST else pulse.rhythm, field, None)
        return value if value is None or per is None else value / per

    return of_device if scope is Scope.DEVICE else of_others
