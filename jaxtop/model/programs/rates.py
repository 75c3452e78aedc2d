"""The launch rates of the programs of a process: by function from counters, by variant from windows.

Launches are counted by function. If several programs of a function are loaded, windows of the profiler show
which of them ran. Their shares of the launches in windows are their shares of the function's rate.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import names
from jaxtop.model.host import device_entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.model.host import Host

# Over less time than this, a rate is not meaningful.
SHORTEST_RATE_MS = 1000
# The number of processes of a program whose launches are read.
MAX_SAMPLED = 8


class UnsplitLaunches(NamedTuple):
    """The launches a second of several programs of one name together, where they cannot be split."""

    per_second: float
    programs: int


class LaunchRates(NamedTuple):
    """Launches a second: by name of the programs, by program, and by name where programs cannot be split."""

    of_function: Mapping[str, float]
    of_program: Mapping[tuple[str, str | None], float]
    unsplit: Mapping[str, UnsplitLaunches]

    def rate_of(self, name: str, fingerprint: str | None) -> float | None:
        """Return the rate of a program; None if it is unknown or cannot be split."""
        return self.of_program.get((name, fingerprint))


def sampled(agents: Sequence[str]) -> Sequence[str]:
    """Return some of the processes of a program, which all launch it alike, spread evenly over them."""
    return agents[:: max(1, len(agents) // MAX_SAMPLED)]


@lru_cache(maxsize=4096)
def program_of(function: str) -> str:
    """Return `names.program_of` of the function, from a cache."""
    return names.program_of(function)


def launch_rates_of(host: Host) -> LaunchRates:
    """Return how often a process launches each program, as far as its launches are counted.

    `HostView.current` has no rates if the process has exited or is silent.
    """
    of_function: dict[str, float] = {}
    before, seconds = _period(host)
    for function, count in host.launches.items():
        if function in before:  # a function's first reported count covers launches of an unknown time
            name = program_of(function)
            of_function[name] = max((count - before[function]) / seconds, of_function.get(name, 0.0))
    variants = _variants(host)
    of_program: dict[tuple[str, str | None], float] = {}
    unsplit: dict[str, UnsplitLaunches] = {}
    for name, rate in of_function.items():
        loaded = variants.get(name) or {key[1]: 0 for key in host.inventories if key[0] == name}
        counts = _counted(host, name, loaded)
        total = sum(counts.get(each, 0) for each in loaded)
        if len(loaded) == 1:
            of_program[name, next(iter(loaded))] = rate
        elif loaded and total and None not in counts:
            of_program.update({(name, each): rate * counts.get(each, 0) / total for each in loaded})
        else:
            unsplit[name] = UnsplitLaunches(rate, len(loaded))
    return LaunchRates(of_function, of_program, unsplit)


def least_rate(host: Host, name: str) -> float:
    """Return the launches a second of a program that had not been launched when the rates began."""
    before, seconds = _period(host)
    new = (count for each, count in host.launches.items() if each not in before and program_of(each) == name)
    return sum(new) / seconds if before else 0.0


def _period(host: Host) -> tuple[Mapping[str, int], float]:
    """Return the counts at the start of the time over which rates are measured, and its seconds.

    There are no counts while that time is too short.
    """
    start = host.past_launches[0] if host.past_launches else None
    if start is None or host.pulse.at_ms - start.at_ms < SHORTEST_RATE_MS:
        return {}, 0.0
    return start.launches, (host.pulse.at_ms - start.at_ms) / 1000


def _variants(host: Host) -> dict[str, dict[str | None, int]]:
    """Return the fingerprints of the loaded programs by name, and when each was first seen.

    Programs without a fingerprint cannot be told apart. Several of one name count as one more, with an empty
    fingerprint.
    """
    found: dict[str, dict[str | None, int]] = {}
    for i, program in enumerate(host.programs.programs):
        of_name = found.setdefault(program.name, {})
        if None in of_name and program.fingerprint is None:
            of_name.setdefault("", 0)
        of_name[program.fingerprint] = device_entry(host.programs.seen_ms, i) or 0
    return found


def _counted(host: Host, name: str, loaded: Mapping[str | None, int]) -> Mapping[str | None, int]:
    """Return the launches of each variant in windows, if a window was taken after the last was compiled."""
    launched = host.launches_in_windows.get(name)
    return (
        launched.counts if launched is not None and launched.at_ms >= max(loaded.values(), default=0) else {}
    )
