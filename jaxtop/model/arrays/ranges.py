"""Many hosts in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.host import Host

MOST_RANGES = 6


def named(hosts: Sequence[Host]) -> str:
    """These hosts: "host 7", "hosts 0–6, 9"; by what else they are called where they have no number."""
    indices = sorted(host.process_index for host in hosts if host.process_index is not None)
    others = [host.label for host in hosts if host.process_index is None]
    parts = [f"host{'s' * (len(indices) > 1)} {ranges(indices)}"] if indices else []
    return " and ".join([*parts, *others[:2], *([f"{len(others) - 2} more"] if len(others) > 2 else [])])


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in ascending order: "0–6, 9"; of very many ranges the first few, and how many numbers more."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    shown = [f"{first}" if first == last else f"{first}–{last}" for first, last in found[:MOST_RANGES]]
    rest = sum(last - first + 1 for first, last in found[MOST_RANGES:])
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
