"""How often a process launches its programs: by function as counted, by variant as windows tell.

Launches are counted by function. Where several programs of a function are loaded, windows of the profiler say
which of them ran; their shares of the launches there are their shares of the function's rate.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import names
from jaxtop.model.host import Launched
from jaxtop.model.liveness import is_over
from jaxtop.model.views import figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.host import Host
    from jaxtop.wire import Window

# Over less than this a rate says nothing.
SHORTEST_RATE_MS = 1000


# Names of which it is kept which programs were launched.
MOST_NAMES = 256


class Unsplit(NamedTuple):
    """The launches a second of so many programs of one name together, where nobody knows of which."""

    per_second: float
    programs: int


class Rates(NamedTuple):
    """Launches a second: of functions, by the name of their programs; of programs; and what is left."""

    of_function: Mapping[str, float]
    of_program: Mapping[tuple[str, str | None], float]
    unsplit: Mapping[str, Unsplit]

    def of(self, name: str, fingerprint: str | None) -> float | None:
        """Those of a program; None while they are not known, or not known apart."""
        return self.of_program.get((name, fingerprint))


NO_RATES = Rates({}, {}, {})


@lru_cache(maxsize=4096)
def program_of(function: str) -> str:
    """As `names.program_of`."""
    return names.program_of(function)


def rates(host: Host) -> Rates:
    """How often a process launches each program, as far as its launches are seen."""
    if is_over(host):
        return NO_RATES
    of_function: dict[str, float] = {}
    for function, count in host.launches.items():
        rate = _rate(host, function, count)
        if rate is not None:
            name = program_of(function)
            of_function[name] = max(rate, of_function.get(name, 0.0))
    variants = _variants(host)
    of_program: dict[tuple[str, str | None], float] = {}
    unsplit: dict[str, Unsplit] = {}
    for name, rate in of_function.items():
        loaded = variants.get(name) or {key[1]: 0 for key in host.inventories if key[0] == name}
        counts = _counted(host, name, loaded)
        total = sum(counts.get(each, 0) for each in loaded)
        if len(loaded) == 1:
            of_program[name, next(iter(loaded))] = rate
        elif loaded and total and None not in counts:
            of_program.update({(name, each): rate * counts.get(each, 0) / total for each in loaded})
        else:
            unsplit[name] = Unsplit(rate, len(loaded))
    return Rates(of_function, of_program, unsplit)


def _variants(host: Host) -> dict[str, dict[str | None, int]]:
    """The fingerprints of the loaded programs by their name, and when each was seen first.

    Programs without a fingerprint cannot be told apart: several of a name stand as one more, of None.
    """
    found: dict[str, dict[str | None, int]] = {}
    for i, program in enumerate(host.programs.programs):
        of_name = found.setdefault(program.name, {})
        if None in of_name and program.fingerprint is None:
            of_name.setdefault("", 0)
        of_name[program.fingerprint] = figure(host.programs.seen_ms, i) or 0
    return found


def _counted(host: Host, name: str, loaded: Mapping[str | None, int]) -> Mapping[str | None, int]:
    """The launches of each variant in windows, if one was taken since the last of them was compiled."""
    told = host.launched.get(name)
    return told.counts if told is not None and told.at_ms >= max(loaded.values(), default=0) else {}


def launched(host: Host, window: Window) -> Mapping[str, Launched]:
    """What windows saw launched by a process, this one included."""
    found = dict(host.launched)
    for name, counts in window.launched().items():
        before = found.pop(name, None)  # the latest stand last
        older = before.counts if before is not None else {}
        counted = {each: counts.get(each, 0) + older.get(each, 0) // 2 for each in (*older, *counts)}
        found[name] = Launched(window.at_ms, {each: count for each, count in counted.items() if count})
    return MappingProxyType(dict(list(found.items())[-MOST_NAMES:]))


def _rate(host: Host, function: str, count: int) -> float | None:
    before = host.past_launches[0] if host.past_launches else None
    if before is None or host.pulse.at_ms - before.at_ms < SHORTEST_RATE_MS:
        return None
    if function not in before.launches:
        return None  # what is told for the first time was counted before, who knows when
    return (count - before.launches[function]) * 1000 / (host.pulse.at_ms - before.at_ms)
