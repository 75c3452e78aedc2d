"""All thresholds of devices and hosts: the value from which a figure stands out, and the reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from jaxtop.wire import SLOWED

if TYPE_CHECKING:
    from jaxtop.model.figures import Figure
    from jaxtop.wire import Pulse


class Level(IntEnum):
    """How serious a figure is."""

    FINE = 0
    WARNING = 1
    BAD = 2


@dataclass(frozen=True)
class Threshold:
    """A value, or a share of the maximum, from which a figure stands out; with a word and a reason."""

    figure: str
    reach: float
    level: Level
    word: str
    reason: str
    is_of_full: bool = False


THRESHOLDS = (
    Threshold(
        "used_bytes", 0.9, Level.WARNING, "nearly full",
        "what a step needs for a moment may not fit any more", is_of_full=True,
    ),
    Threshold(
        "driver_used_bytes", 0.98, Level.WARNING, "nearly full",
        "libraries beside JAX, NCCL's among them, find no memory", is_of_full=True,
    ),
    Threshold(
        "power_w", 0.97, Level.WARNING, "at its limit",
        "the driver lowers the clocks to stay below it", is_of_full=True,
    ),
    Threshold(
        "temperature_c", 0.95, Level.WARNING, "near its limit",
        "a few degrees more, and the device slows down", is_of_full=True,
    ),
    Threshold(
        "temperature_c", 1.0, Level.BAD, "at its limit",
        "the device slows down to cool", is_of_full=True,
    ),
    Threshold(
        "memory_used_bytes", 0.9, Level.WARNING, "nearly full",
        "files are read from disk again that memory had room for", is_of_full=True,
    ),
    Threshold(
        "memory_used_bytes", 0.97, Level.BAD, "full",
        "the kernel ends processes when none is left", is_of_full=True,
    ),
    Threshold(
        "cpu_pressure", 0.5, Level.WARNING, "high",
        "half of the time something that could run waits for a core",
    ),
    Threshold(
        "memory_pressure", 0.1, Level.WARNING, "high",
        "processes stand still while memory is looked for",
    ),
    Threshold(
        "io_pressure", 0.3, Level.WARNING, "high",
        "processes stand still while disks work: input and checkpoints are late",
    ),
    Threshold(
        "held_back", 0.05, Level.WARNING, "often",
        "the container has used up its share of CPU, and its threads stand still",
    ),
)  # fmt: skip
IDLE = Threshold(
    "idle", 0.2, Level.WARNING, "high", "the devices wait for the script: for input, or for Python"
)
# The causes of a slowdown: a device's own heat and faults are worse than a limit that a person set.
_SLOWED = dict.fromkeys(SLOWED, Level.WARNING) | dict.fromkeys(
    ("heat", "hardware slowdown", "power brake"), Level.BAD
)
_OF_FIGURE: dict[str, tuple[Threshold, ...]] = {}
for _each in THRESHOLDS:
    _OF_FIGURE[_each.figure] = (*_OF_FIGURE.get(_each.figure, ()), _each)


def judged(figure: Figure, pulse: Pulse, position: int = 0) -> Threshold | None:
    """Return the most severe threshold that a figure has reached, if any."""
    thresholds = _OF_FIGURE.get(figure.name)
    if thresholds is None:
        return None
    value, full = figure.read(pulse, position), figure.full(pulse, position)
    if value is None:
        return None
    reached = [
        each
        for each in thresholds
        if (
            value >= each.reach * full
            if each.is_of_full and full
            else not each.is_of_full and value >= each.reach
        )
    ]
    return max(reached, key=lambda each: each.level, default=None)


def slowed(pulse: Pulse, position: int) -> tuple[tuple[str, ...], Level] | None:
    """Return why a device runs slower than it could, most severe first; None where unknown."""
    column = pulse.devices.slowed
    bits = column[position] if column is not None and position < len(column) else None
    if bits is None:
        return None
    words = sorted((word for i, word in enumerate(SLOWED) if bits >> i & 1), key=_SLOWED.__getitem__)
    return tuple(reversed(words)), _SLOWED[words[-1]] if words else Level.FINE


def errors(pulse: Pulse, position: int) -> tuple[int | None, int | None, Level]:
    """Return the corrected and the uncorrected memory errors of a device; the latter make results wrong."""
    sample = pulse.devices
    found = [
        column[position] if column is not None and position < len(column) else None
        for column in (sample.ecc_corrected, sample.ecc_uncorrected)
    ]
    return found[0], found[1], Level.BAD if found[1] else Level.FINE
