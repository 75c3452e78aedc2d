"""The interface of a hardware reader: opened for the devices of a topology, read periodically, closed.

Also what readers share: columns, and lists of visible devices.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from jaxtop_agent.machine.files import MAX_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jaxtop.wire.pulse import Column

    # Reports an event: severity, kind, text.
    Report = Callable[[str, str, str], None]

# The figures of one device, by the column names of `wire.DeviceSample`; unknown figures are omitted.
Figures = dict[str, int]


_UNIT = re.compile(r"_(permille|bytes|(sent|received)_bytes_per_s|mw|mj|c|mhz)$")


class Off(Exception):
    """No figures are available; the text gives the reason and the remedy."""


class DriverReader(Protocol):
    """The calls of the hardware thread to a driver; any call may hang."""

    # The driver's UUID of each device, in the order of the topology.
    uuids: tuple[str | None, ...]

    def read(self, now: float) -> Sequence[Figures]:
        """Return the figures of each device; `now` is monotonic."""

    def rest(self) -> None:
        """Prepare for a time without viewers: rates must not span it."""

    def remarks(self) -> str:
        """Return which figures are unavailable for these devices, and why; empty if none."""

    def close(self) -> None:
        """Release the driver's resources."""


def columns(figures: Sequence[Figures]) -> Mapping[str, Column]:
    """Return one column per figure that any device has; values too large for a message become None."""
    sound = [
        {name: value for name, value in each.items() if -MAX_NUMBER < value < MAX_NUMBER} for each in figures
    ]
    names = {name for each in sound for name in each}
    return {name: tuple(each.get(name) for each in sound) for name in sorted(names)}


def listed(names: Iterable[str]) -> str:
    """Return column names for display, without units and directions."""
    return ", ".join(sorted({_UNIT.sub("", name).replace("_", " ") for name in names}))


def visible(text: str | None, names: Sequence[str], numbered: int) -> list[int] | None:
    """Return the positions of the devices that a list selects, in its order; None if a device occurs twice.

    An entry is an index below `numbered`, or the prefix of exactly one name. The first entry that is neither
    ends the list.
    """
    if text is None:
        return list(range(numbered))
    found: list[int] = []
    for entry in text.split(","):
        place = _place(entry.strip(), names, numbered)
        if place is None:
            break
        found.append(place)
    return found if len(set(found)) == len(found) else None


def has_index(text: str | None) -> bool:
    """Return whether the list selects devices by index, not only by name."""
    return text is None or any(entry.strip().isdecimal() for entry in text.split(","))


def _place(entry: str, names: Sequence[str], numbered: int) -> int | None:
    if entry.isdecimal():
        return int(entry) if int(entry) < numbered else None
    if "-" not in entry[1:]:  # also -1, which selects no device
        return None
    fitting = [place for place, name in enumerate(names) if name.lower().startswith(entry.lower())]
    return fitting[0] if len(fitting) == 1 else None
