"""Hosts in sentences: their noun, their numbers as ranges, their verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.host import HOST, PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.host import Host

_MANY = {PROCESS: "processes", HOST: "hosts"}
# The ranges in a text with many hosts.
MAX_RANGES = 6


def noun_of(hosts: Iterable[Host]) -> str:
    """Return the word for any of these: "host" only if it is that of all."""
    nouns = {host.noun for host in hosts}
    return HOST if nouns == {HOST} else PROCESS


def several(hosts: Iterable[Host]) -> str:
    """Return the word for several of these."""
    return _MANY[noun_of(hosts)]


def counted(count: int, hosts: Iterable[Host]) -> str:
    """Return a text such as "1 process" or "1,024 hosts"."""
    return f"{count:,} {noun_of(hosts) if count == 1 else several(hosts)}"


def host_names(hosts: Sequence[Host]) -> str:
    """Return a text such as "host 7" or "processes 0–6, 9"; those without a number have their label."""
    indices = [host.process_index for host in hosts if host.process_index is not None]
    others = [host.label for host in hosts if host.process_index is None]
    parts = [f"{several(hosts) if len(indices) > 1 else noun_of(hosts)} {ranges(indices)}"] if indices else []
    return " and ".join([*parts, *others[:2], *([f"{len(others) - 2} more"] if len(others) > 2 else [])])


def acting(hosts: Sequence[Host], one: str, many: str) -> str:
    """Return hosts as the subject of a sentence, with its verb for one or for many: "host 7 has"."""
    return f"{host_names(hosts)} {one if len(hosts) == 1 else many}"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as "0–6, 9"; of many ranges the first, and a count of the other numbers."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    shown = [f"{first}" if first == last else f"{first}–{last}" for first, last in found[:MAX_RANGES]]
    rest = sum(last - first + 1 for first, last in found[MAX_RANGES:])
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


# Agents look for launches about once a second: what comes more often looks like that.
_RESOLUTION_S = 1.5


def how_often(seconds: float) -> str:
    """Return the usual time between launches in words, as agents measure it."""
    return "at least once a second" if seconds <= _RESOLUTION_S else f"every {seconds:.1f} s"
