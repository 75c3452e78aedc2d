"""Thresholds, from which a figure stands out; and what slows a device down or makes its results wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from jaxtop.model.host import figure
from jaxtop.wire import SLOWED

if TYPE_CHECKING:
    from jaxtop.wire import Pulse


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


# The causes of a slowdown: a device's own heat and faults are worse than a limit that a person set.
_SLOWED = dict.fromkeys(SLOWED, Level.WARNING) | dict.fromkeys(
    ("heat", "hardware slowdown", "power brake"), Level.BAD
)


def slowed(pulse: Pulse, position: int) -> tuple[tuple[str, ...], Level] | None:
    """Return why a device runs slower than it could, most severe first; None where unknown."""
    bits = figure(pulse.devices.slowed, position)
    if bits is None:
        return None
    words = sorted((word for i, word in enumerate(SLOWED) if bits >> i & 1), key=_SLOWED.__getitem__)
    return tuple(reversed(words)), _SLOWED[words[-1]] if words else Level.FINE


def errors(pulse: Pulse, position: int) -> tuple[int | None, int | None, Level]:
    """Return the corrected and the uncorrected memory errors of a device; the latter make results wrong."""
    uncorrected = figure(pulse.devices.ecc_uncorrected, position)
    level = Level.BAD if uncorrected else Level.FINE
    return figure(pulse.devices.ecc_corrected, position), uncorrected, level
