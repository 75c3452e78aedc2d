"""What a reader of hardware is: opened for the devices of a topology, read in turns, closed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from jaxtop_agent.machine.files import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jaxtop.wire.hosts import Column

    # Tells a person something: severity, kind, text.
    Tell = Callable[[str, str, str], None]

# The figures of one device, by the names of the columns of `wire.DeviceSample`; what is unknown is left out.
Figures = dict[str, int]


@dataclass(frozen=True)
class Readings:
    """What was read, when, and for how long it may be shown as what is."""

    at: float = 0.0
    valid_s: float = 0.0
    columns: Mapping[str, Column] = field(default_factory=dict)


NOTHING = Readings()


_UNIT = re.compile(r"_(permille|bytes|(sent|received)_bytes_per_s|mw|mj|c|mhz)$")


class Off(Exception):
    """Nothing can be read here; the text says why, and what mends it."""


class Reader(Protocol):
    """What the thread asks of a reader; any call may hang."""

    # The devices by the driver's names, in the order of the topology.
    uuids: tuple[str | None, ...]

    def read(self, now: float) -> Sequence[Figures]:
        """The figures of each device; `now` is monotonic."""

    def rest(self) -> None:
        """Nobody watches for a while: rates must not reach over that time."""

    def remarks(self) -> str:
        """What is not to be had of these devices, and why; empty if all is."""

    def close(self) -> None:
        """Give back what the driver lent."""


def columns(figures: Sequence[Figures]) -> Mapping[str, Column]:
    """One column a figure that anybody has; what no message could carry is no figure."""
    known = [{name: value for name, value in each.items() if -LARGEST < value < LARGEST} for each in figures]
    names = {name for each in known for name in each}
    return {name: tuple(each.get(name) for each in known) for name in sorted(names)}


def listed(names: Iterable[str]) -> str:
    """Names of columns as a person reads them, units and directions left out."""
    return ", ".join(sorted({_UNIT.sub("", name).replace("_", " ") for name in names}))
