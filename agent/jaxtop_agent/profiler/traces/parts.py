"""What all readers of traces have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.core.waiting import Slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# An event is read in some microseconds: so many between two looks at the clock.
BETWEEN_BREATHS = 100

# Reading takes some microseconds an event, dropping a trace 0.4 µs under the GIL.
MOST_READ = 50_000

# What compilers and JAX call collectives, where no inventory tells.
COLLECTIVE = re.compile(
    r"(ragged[-_]all[-_]to[-_]all|all[-_](reduce|gather|to[-_]all)|reduce[-_]scatter|psum[-_]scatter"
    r"|collective[-_](permute|broadcast)|ppermute|psum|pmean|pmax|pmin|pbroadcast)(_invariant)?"
    r"(-start|-done)?(\.\d+)*"
)
# Their time is that of what runs inside them.
CONTAINER = re.compile(r"(while|conditional|cond|call|async-start|async-update|async-done)(\.\d+)*")


class Span(NamedTuple):
    """A launch on one device, from its start to its end in nanoseconds since the window's start.

    `number` is the compiler's for the module, where the trace has it.
    """

    module: str
    run: int
    device: int
    start: int
    end: int
    number: int | None = None


class Op(NamedTuple):
    """A collective on one device, likewise."""

    module: str
    run: int
    device: int
    name: str
    start: int
    end: int


class TooLarge(Exception):
    """A trace of more events than may be read."""


@dataclass
class Seen:
    """What a trace holds: whole launches, collectives, and when a device was busy with other things."""

    spans: list[Span] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    busy: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    # What was in flight beside that, where the trace has it apart from the operations that wait for it.
    flights: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    cut: set[tuple[str, int]] = field(default_factory=set)  # (module, run) that the window's edges cut
    events: int = 0
    is_too_large: bool = False  # more than was read
    strays: int = 0  # of a program, but of which launch the trace does not say

    def work(self, run: int, device: int, start: int, end: int) -> None:
        self.busy.setdefault((run, device), []).append((start, end))


class Wanted:
    """Which operations are collectives: by the inventories, else by their names.

    `known` leads, program by program, from each of its collectives to the name that the inventory has for it,
    and from the operation that ends one, too. Of `partial` programs the inventory does not have them all.
    """

    def __init__(
        self,
        known: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        partial: frozenset[str] = frozenset(),
    ) -> None:
        self._known = known
        self._partial = partial
        self._all = frozenset(op for ops in known.values() for op in ops)
        self._likely: dict[str, bool] = {}

    def maybe(self, name: str) -> bool:
        """Whether it is worth asking to which program this operation belongs."""
        likely = self._likely.get(name)
        if likely is None:
            likely = name in self._all or COLLECTIVE.fullmatch(name) is not None
            self._likely[name] = likely
        return likely

    def op(self, module: str, name: str) -> str | None:
        """The name that the inventory has for it; None of what is no collective of this program."""
        known = self._known.get(module)
        if known is not None and (name in known or module not in self._partial):
            return known.get(name)
        return name.replace("-done", "-start", 1) if COLLECTIVE.fullmatch(name) else None


def reading(seen: Seen, events: Iterable[Any]) -> Iterator[Any]:
    """These events, counted, with pauses; `TooLarge` once there are more than may be read."""
    for event in breathing(events):
        seen.events += 1
        if seen.events > MOST_READ:
            raise TooLarge
        yield event


def breathing(events: Iterable[Any]) -> Iterator[Any]:
    """These events, with pauses in which the script has the GIL."""
    slices = Slices()
    for number, event in enumerate(events):
        yield event
        if not number % BETWEEN_BREATHS:
            slices.pause()


def stats(event: Any) -> dict[str, Any]:
    """What the trace says of an event; dear, so only of those that matter."""
    return dict(event.stats)


def merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time as intervals that do not touch."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def length(intervals: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in intervals)


def shared(ones: list[tuple[int, int]], others: list[tuple[int, int]]) -> int:
    """How long both lasted; each list merged."""
    total = i = j = 0
    while i < len(ones) and j < len(others):
        total += max(0, min(ones[i][1], others[j][1]) - max(ones[i][0], others[j][0]))
        if ones[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return total
