"""The buffers of a program at its peak, from the compiler's buffer assignment and its schedule."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import protobuf
from jaxtop_agent.programs.buffers.liveness import Liveness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jaxtop_agent.programs.buffers.schedule import ModuleSchedule, Spot

# The numbers of fields in XLA's `BufferAssignmentProto` and the messages inside it.
_BUFFERS, _ALLOCATIONS = 1, 3
_ID, _SIZE, _DEFINED_AT = 1, 2, 3
_INSTRUCTION, _INDEX = 4, 3
_THREAD_LOCAL, _PARAMETER, _LIVE_OUT, _ASSIGNED, _CONSTANT = 3, 5, 7, 9, 12

Span = tuple[int, int]
# The number of an allocation, and an offset in it.
Place = tuple[int, int]
KINDS = ARGUMENT, RESULT, CONSTANT, TEMPORARY = "argument", "result", "constant", "temporary"


class PlacedBuffer(NamedTuple):
    """A buffer: where it is defined, and its place in an allocation."""

    spot: Spot
    offset: int
    bytes: int


class Allocation(NamedTuple):
    """Memory that a launch holds from its start to its end, and the buffers that use it in turn."""

    kind: str
    bytes: int
    buffers: tuple[PlacedBuffer, ...]


class _Slot(NamedTuple):
    """A temporary: its place, and from when until when it is alive."""

    place: Place
    bytes: int
    spot: Spot
    begin: int
    end: int


class Held(NamedTuple):
    """A buffer that holds memory at the peak, and what it is; None if nothing says where it is defined."""

    kind: str
    bytes: int
    spot: Spot | None


class BufferPeak(NamedTuple):
    """The moment at which the temporaries that are alive need most, and all that holds memory then.

    Arguments, results and constants hold theirs during the whole launch. `at` is the instruction that runs at
    that moment; None if the program has no temporaries, or no schedule.
    """

    at: int | None
    held: tuple[Held, ...]


def read(raw: bytes) -> list[Allocation]:
    """Return the allocations of a program on one device, without the scratch memory of threads."""
    assignment = protobuf.read(raw)
    spots: dict[int, Spot] = {}
    for each in assignment.messages(_BUFFERS):
        where = each.message(_DEFINED_AT)
        if where is not None:
            spots[each.number(_ID) or 0] = where.number(_INSTRUCTION) or 0, tuple(where.numbers(_INDEX))
    return [
        Allocation(_kind(each), each.number(2) or 0, tuple(_placed(each, spots)))
        for each in assignment.messages(_ALLOCATIONS)
        if not each.number(_THREAD_LOCAL)
    ]


def _kind(allocation: protobuf.ProtobufMessage) -> str:
    for field, kind in ((_PARAMETER, ARGUMENT), (_LIVE_OUT, RESULT), (_CONSTANT, CONSTANT)):
        if allocation.number(field):
            return kind
    return TEMPORARY


def _placed(allocation: protobuf.ProtobufMessage, spots: Mapping[int, Spot]) -> Iterable[PlacedBuffer]:
    for each in allocation.messages(_ASSIGNED):
        if (spot := spots.get(each.number(1) or 0)) is not None:
            yield PlacedBuffer(spot, each.number(2) or 0, each.number(3) or 0)


def peak(
    allocations: Sequence[Allocation],
    schedule: ModuleSchedule | None,
    pause: Callable[[], None] = lambda: None,
) -> BufferPeak:
    """Return what holds memory at the peak, the largest first.

    Without a schedule, each allocation of temporaries counts as one buffer.
    """
    if schedule is None:
        return BufferPeak(None, _largest_first(_whole(each, {}) for each in allocations))
    spots = {buffer.spot for each in allocations for buffer in each.buffers}
    liveness = Liveness(schedule, spots, pause)
    spans = liveness.spans()
    moment, alive = _fullest([each for each in allocations if each.kind == TEMPORARY], spans, pause)
    rest = (_whole(each, spans) for each in allocations if each.kind != TEMPORARY)
    at = None if moment is None else liveness.order[moment]
    return BufferPeak(at, _largest_first((*rest, *alive)))


def _whole(allocation: Allocation, spans: Mapping[Spot, Span]) -> Held:
    """Return an allocation as one buffer: the last of its buffers that is alive."""
    last = max(
        allocation.buffers, key=lambda each: (spans.get(each.spot, (0, 0))[1], each.bytes), default=None
    )
    return Held(allocation.kind, allocation.bytes, last and last.spot)


def _largest_first(held: Iterable[Held]) -> tuple[Held, ...]:
    return tuple(sorted((each for each in held if each.bytes), key=lambda each: -each.bytes))


def _fullest(
    temporaries: Sequence[Allocation], spans: Mapping[Spot, Span], pause: Callable[[], None]
) -> tuple[int | None, list[Held]]:
    """Return the moment at which the temporaries that are alive need most, and these temporaries."""
    slots = [
        _Slot((number, buffer.offset), buffer.bytes, buffer.spot, *spans[buffer.spot])
        for number, allocation in enumerate(temporaries)
        for buffer in allocation.buffers
        if buffer.spot in spans
    ]
    slots.sort(key=lambda each: each.begin)
    moment = _fullest_moment(slots, pause)
    places: dict[Place, _Slot] = {}
    for each in slots:
        pause()
        if moment is not None and each.begin <= moment <= each.end:
            known = places.setdefault(each.place, each)
            if known.bytes < each.bytes:
                places[each.place] = each
    return moment, [Held(TEMPORARY, each.bytes, each.spot) for each in places.values()]


def _fullest_moment(slots: Sequence[_Slot], pause: Callable[[], None]) -> int | None:
    """Return the first moment at which the buffers that are alive need most; `slots` are sorted by `begin`.

    A buffer that takes the place of another, where that one is read last, counts once with it.
    """
    by_end = sorted(slots, key=lambda each: each.end)
    heaps: dict[Place, list[tuple[int, int]]] = {}  # the largest buffer in each place, and its end
    counted: dict[Place, int] = {}
    total, best, fullest, ended = 0, -1, None, 0
    for moment, begun in groupby(slots, key=lambda each: each.begin):
        changed: set[Place] = set()
        while by_end[ended].end < moment:
            changed.add(by_end[ended].place)
            ended += 1
            pause()
        for each in begun:
            heappush(heaps.setdefault(each.place, []), (-each.bytes, each.end))
            changed.add(each.place)
            pause()
        for place in changed:
            heap = heaps[place]
            while heap and heap[0][1] < moment:
                heappop(heap)
            size = -heap[0][0] if heap else 0
            total += size - counted.get(place, 0)
            counted[place] = size
            pause()
        if total > best:
            best, fullest = total, moment
    return fullest
