"""Lists of visible devices, in the format of CUDA_VISIBLE_DEVICES and similar variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
