"""Lists of visible devices, as CUDA_VISIBLE_DEVICES and its relatives have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def visible(text: str | None, names: Sequence[str], numbered: int) -> list[int] | None:
    """The places of the devices that a list lets through, in its order; None where it makes no sense.

    An entry is the index of one of the first, numbered devices, or the beginning of a name that only one
    device has; the first entry that is neither ends the list. A device twice makes all of it invalid.
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
    """Whether devices are counted, rather than named."""
    return text is None or any(entry.strip().isdecimal() for entry in text.split(","))


def _place(entry: str, names: Sequence[str], numbered: int) -> int | None:
    if entry.isdecimal():
        return int(entry) if int(entry) < numbered else None
    if "-" not in entry[1:]:  # also -1, which is how nothing is spelled
        return None
    fitting = [place for place, name in enumerate(names) if name.lower().startswith(entry.lower())]
    return fitting[0] if len(fitting) == 1 else None
