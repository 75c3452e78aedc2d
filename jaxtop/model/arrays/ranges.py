"""Many hosts in a short text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.host import Host

MOST_RANGES = 6


def named(hosts: Sequence[Host]) -> str:
    """Return a text such as "host 7" or "hosts 0–6, 9"; hosts without a number appear with their label."""
    indices = sorted(host.process_index for host in hosts if host.process_index is not None)
    others = [host.label for host in hosts if host.process_index is None]
    parts = [f"host{'s' * (len(indices) > 1)} {ranges(indices)}"] if indices else []
    return " and ".join([*parts, *others[:2], *([f"{len(others) - 2} more"] if len(others) > 2 else [])])


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as "0–6, 9"; of many ranges the first, and a count of the other numbers."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    shown = [f"{first}" if first == last else f"{first}–{last}" for first, last in found[:MOST_RANGES]]
    rest = sum(last - first + 1 for first, last in found[MOST_RANGES:])
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
