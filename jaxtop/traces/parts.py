"""The types and functions that all readers of traces share."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base.protobuf import UNSIGNED, signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# The events between two pauses.
BETWEEN_BREATHS = 100

# A trace with more events than this is not read: each takes some microseconds.
MOST_READ = 300_000

# The names that compilers and JAX give collectives, for programs without an inventory.
COLLECTIVE = re.compile(
    r"(ragged[-_]all[-_]to[-_]all|all[-_](reduce|gather|to[-_]all)|reduce[-_]scatter|psum[-_]scatter"
    r"|collective[-_](permute|broadcast)|ppermute|psum|pmean|pmax|pmin|pbroadcast)(_invariant)?"
    r"(-start|-done)?(\.\d+)*"
)
# In these, a device may have sent its part long before another one receives it.
ONE_WAY = frozenset({"collective-permute", "collective-broadcast", "send", "recv"})
_ONE_WAY = re.compile(r"permute|broadcast|send|recv")
# Operations that only enclose others: their time is that of the operations inside.
CONTAINER = re.compile(r"(while|conditional|cond|call|async-start|async-update|async-done)(\.\d+)*")

# Why device time belongs to no launch.
NO_CALL = "nothing in the trace names the launch"
NOT_MATCHED = "the launches of several devices could not be matched"
ENDS_APART = "collectives of a launch ended at different times"


class DeviceLaunch(NamedTuple):
    """A launch on one device. Run ids and launches are numbered per program, so the module is part of it."""

    module: str
    run: int
    device: int


class LaunchSpan(NamedTuple):
    """A launch on one device, with its start and end in nanoseconds since the start of the window.

    `number` is the compiler's module number, if the trace has it.
    """

    module: str
    run: int
    device: int
    start: int
    end: int
    number: int | None = None

    @property
    def device_launch(self) -> DeviceLaunch:
        return DeviceLaunch(self.module, self.run, self.device)


class Op(NamedTuple):
    """A collective on one device, with the same times as a span.

    `waited` is how long the device waited for the others just before it, if the program has a barrier there
    that the trace shows apart from the collective; None where the trace lacks that barrier.
    """

    module: str
    run: int
    device: int
    name: str
    start: int
    end: int
    waited: int | None = 0
    has_barrier: bool = False

    @property
    def device_launch(self) -> DeviceLaunch:
        return DeviceLaunch(self.module, self.run, self.device)

    @property
    def arrived(self) -> int:
        """When the device arrived, as far as the trace shows."""
        return self.start - (self.waited or 0)

    @property
    def duration(self) -> int | None:
        """The time from the arrival of the device to the end; None where the trace lacks the arrival."""
        return None if self.waited is None else self.end - self.start + self.waited


def no_pause() -> None:
    """Do nothing: the reader has its thread for itself."""


class TooLarge(Exception):
    """The trace has more events than may be read."""


class OperationRuns:
    """The runs of an operation in a launch on a device: their number, and their total time."""

    __slots__ = ("count", "ns")

    def __init__(self) -> None:
        self.count = self.ns = 0


@dataclass
class TraceContents:
    """The contents of a trace: whole launches, collectives, and the times of other work on a device.

    With `has_names`, that work is also noted by the names of operations. At most `most` events are read.
    `pause` is called between them, so that others can take the GIL.
    """

    has_names: bool = False

    spans: list[LaunchSpan] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    busy: dict[DeviceLaunch, list[tuple[int, int]]] = field(default_factory=dict)
    # The transfers in flight meanwhile, if the trace has them apart from the operations that wait for them.
    flights: dict[DeviceLaunch, list[tuple[int, int]]] = field(default_factory=dict)
    # The waits before collectives, if the trace has them apart from the collectives.
    barriers: dict[DeviceLaunch, list[tuple[int, int]]] = field(default_factory=dict)
    named: dict[DeviceLaunch, dict[str, OperationRuns]] = field(default_factory=dict)
    shows_runs: bool = True  # each run of an operation is one event
    cut: set[tuple[str, int]] = field(default_factory=set)  # (module, run) that the window cuts off
    # Whether all processes number a launch alike. Otherwise a run counts the launches in this trace.
    is_shared: bool = False
    # When the host made each launch, by (module, run), where the trace shows it.
    executed: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    # The number that all processes give a launch, where the trace has one: JAX 0.10 notes it on the host.
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    assigned_ns: int = 0  # the device time of operations that belong to a launch
    cut_ns: int = 0  # that of launches that the trace cuts off
    left_ns: dict[str, int] = field(default_factory=dict)  # that of all others, by the reason
    events: int = 0
    is_too_large: bool = False  # the trace has more events than were read
    most: int = MOST_READ
    pause: Callable[[], object] = no_pause

    def work(self, launch: DeviceLaunch, start: int, end: int, name: str, lasted: int | None = None) -> None:
        """Note work of a launch on a device; the name is that of the operation.

        `lasted` is how long it took, where that is known better than from its start and end.
        """
        self.busy.setdefault(launch, []).append((start, end))
        if self.has_names:
            named = self.named.setdefault(launch, {})
            runs = named.get(name)
            if runs is None:
                runs = named[name] = OperationRuns()
            runs.count += 1
            runs.ns += end - start if lasted is None else lasted

    def leave(self, why: str, ns: int) -> None:
        """Note device time of a program that belongs to no launch."""
        self.left_ns[why] = self.left_ns.get(why, 0) + ns

    @property
    def unassigned(self) -> float | None:
        """The share of the programs' device time that belongs to no launch; None if there was none."""
        left = sum(self.left_ns.values())
        if not left:
            return 0.0 if self.spans or self.cut else None
        return left / (self.assigned_ns + left)


class WantedCollectives:
    """The operations that are collectives, by the inventories, else by their names.

    For each program, `names` maps each collective, and each operation that ends one, to the collective's name
    in the inventory. The inventories of `partial` programs are incomplete. `one_way` and `barriers` have the
    collectives, by program and name, that are known to be one-way, or to follow a barrier.
    """

    def __init__(
        self,
        names: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        partial: frozenset[str] = frozenset(),
        one_way: frozenset[tuple[str, str]] = frozenset(),
        barriers: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.barriers = barriers
        self._one_way = one_way
        self._names = names
        self._partial = partial
        self._all = frozenset(op for ops in names.values() for op in ops)
        self._likely: dict[str, bool] = {}

    def maybe(self, name: str) -> bool:
        """Return whether an operation of this name may be a collective of any program."""
        likely = self._likely.get(name)
        if likely is None:
            likely = name in self._all or COLLECTIVE.fullmatch(name) is not None
            self._likely[name] = likely
        return likely

    def op(self, module: str, name: str) -> str | None:
        """Return the inventory's name for an operation; None if it is not a collective of this program."""
        names = self._names.get(module)
        if names is not None and (name in names or module not in self._partial):
            return names.get(name)
        return name.replace("-done", "-start", 1) if COLLECTIVE.fullmatch(name) else None

    def meets(self, module: str, op: str) -> bool:
        """Return whether all members of a group leave this collective together."""
        return (module, op) not in self._one_way and not _ONE_WAY.search(op)


_START = attrgetter("start")


def rounds(ops: Iterable[Op]) -> tuple[dict[tuple[str, int], dict[int, Op]], int]:
    """Return the collectives of a launch by name and round, each by device, and how many are ambiguous.

    The n-th of a name is the same collective on all devices that have it. If a device has fewer of a name
    than others, it lacks events, and nothing says which.
    """
    of_name: defaultdict[str, defaultdict[int, list[Op]]] = defaultdict(lambda: defaultdict(list))
    for op in sorted(ops, key=_START):
        of_name[op.name][op.device].append(op)
    found: dict[tuple[str, int], dict[int, Op]] = {}
    uneven = 0
    for name, of_device in of_name.items():
        counts = {len(ops) for ops in of_device.values()}
        if len(counts) > 1:
            uneven += max(counts)
            continue
        for number in range(*counts):
            found[name, number] = {device: ops[number] for device, ops in of_device.items()}
    return found, uneven


def reading(seen: TraceContents, events: Iterable[Any]) -> Iterator[Any]:
    """Yield and count these events, with pauses; raise `TooLarge` if there are more than may be read."""
    for some in _handfuls(events):
        seen.events += len(some)
        if seen.events > seen.most:
            raise TooLarge
        yield from some
        seen.pause()


def with_pauses(events: Iterable[Any], pause: Callable[[], object]) -> Iterator[Any]:
    """Yield these events, with pauses in which others can take the GIL."""
    for some in _handfuls(events):
        yield from some
        pause()


def _handfuls(events: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield lists of events: a generator for each single event would cost as much as what is read of it."""
    left = iter(events)
    while some := list(islice(left, BETWEEN_BREATHS)):
        yield some


def stats(event: Any) -> dict[str, Any]:
    """Return the stats of an event; this is expensive, so use it only for relevant events."""
    return dict(event.stats)


def run_of(number: int) -> int:
    """Return the number of a launch: some events have it as an unsigned number, others as a signed one."""
    return signed(int(number) & UNSIGNED)


def extent(event: Any) -> tuple[int, int]:
    """Return the start and the end of an event in nanoseconds."""
    return int(event.start_ns), int(event.start_ns + event.duration_ns)


def merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of these intervals, as intervals that do not touch."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def total_length(intervals: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in intervals)


def overlap(ones: list[tuple[int, int]], others: list[tuple[int, int]]) -> int:
    """Return how long both lists of intervals overlap; each list must be merged."""
    total = i = j = 0
    while i < len(ones) and j < len(others):
        total += max(0, min(ones[i][1], others[j][1]) - max(ones[i][0], others[j][0]))
        if ones[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return total
