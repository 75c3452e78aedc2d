"""A writer of Perfetto's trace format (perfetto_trace.proto): processes, tracks, slices, flows between them.

Each host is a sequence of packets with a clock of its own, which begins with its trace. The header says how
these clocks relate, so the packets of a host can be written before the hosts are aligned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.protobuf import bytes_field, fixed_field, number_field, text_field

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

# Field numbers: of the trace; of a packet; of a description of a track; of an event; of interned names.
_PACKET = 1
_CLOCKS, _AT, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DEFAULTS, _TRACK = 6, 8, 10, 11, 12, 13, 59, 60
_UUID, _NAME, _PROCESS, _PARENT, _RANK = 1, 2, 3, 5, 12
_PID, _PROCESS_NAME = 1, 6
_ANNOTATION, _TYPE, _NAME_IID, _ON, _FLOW = 4, 9, 10, 11, 47
_EVENT_NAMES, _ANNOTATION_NAMES, _ANNOTATION_TEXTS = 2, 3, 29
_CLOCK, _CLOCK_ID, _CLOCK_AT = 1, 1, 2
_DEFAULT_CLOCK = 58
# Of an annotation: the number of its name, and its value.
_NAMED, _INTEGER, _TEXT_IID = 1, 4, 17

BEGIN, END, INSTANT = 1, 2, 3
# The clock of a sequence, and the one that the trace is shown in.
OWN_CLOCK, BOOTTIME = 64, 6
_CLEARED, _NEEDS = 1, 2
_OF_EVENTS = number_field(_FLAGS, _NEEDS)
# The tracks of a thread or stream whose events cross: an event that fits none of them is left out.
MAX_LANES = 64


class Slice(NamedTuple):
    """Something with a duration on a track, in nanoseconds of the clock of its host; None: an instant."""

    start: int
    end: int | None
    name: str
    program: str = ""
    run: int | None = None
    flow: int | None = None


class Sequence:
    """Writes the packets of one host."""

    def __init__(self, file: BinaryIO, number: int) -> None:
        self._file = file
        self._number = number_field(_SEQUENCE, number)
        self._next_uuid = number << 32
        self._names: dict[tuple[int, str], int] = {}
        self._new: list[bytes] = []

    def process(self, pid: int, name: str) -> int:
        """Describe a process, and return its track."""
        process = number_field(_PID, pid) + text_field(_PROCESS_NAME, name)
        return self._described(bytes_field(_PROCESS, process) + number_field(_RANK, pid))

    def track(self, parent: int, name: str, rank: int = 0) -> int:
        """Describe a track below another one, and return it; siblings are in the order of their ranks."""
        return self._described(
            text_field(_NAME, name) + number_field(_PARENT, parent) + number_field(_RANK, rank)
        )

    def slices(self, track: int, slices: Iterable[Slice]) -> None:
        """Write slices, each inside of or after the one before, in the order of their starts."""
        open_until: list[int] = []
        track_field = number_field(_ON, track)
        instant, begin, end = (track_field + number_field(_TYPE, kind) for kind in (INSTANT, BEGIN, END))
        # What events of one name, program and run have in common.
        alike: dict[tuple[str, str, int | None], bytes] = {}
        for each in slices:
            while open_until and open_until[-1] <= each.start:
                self._event(open_until.pop(), end)
            key = each.name, each.program, each.run
            if key not in alike:
                alike[key] = self._common(*key)
            body = (instant if each.end is None else begin) + alike[key]
            if each.flow is not None:
                body += fixed_field(_FLOW, each.flow)
            self._event(each.start, body)
            if each.end is not None:
                open_until.append(each.end)
        while open_until:
            self._event(open_until.pop(), end)

    def _common(self, name: str, program: str, run: int | None) -> bytes:
        body = number_field(_NAME_IID, self._interned(_EVENT_NAMES, name))
        if program:
            body += self._annotated("program", _TEXT_IID, self._interned(_ANNOTATION_TEXTS, program))
        if run is not None:
            body += self._annotated("run", _INTEGER, run)
        return body

    def _event(self, at: int, body: bytes) -> None:
        packet = number_field(_AT, at) + bytes_field(_EVENT, body) + _OF_EVENTS
        if self._new:
            packet += bytes_field(_INTERNED, b"".join(self._new))
            self._new.clear()
        self._write(packet)

    def _described(self, body: bytes) -> int:
        self._next_uuid += 1
        self._write(bytes_field(_TRACK, number_field(_UUID, self._next_uuid) + body))
        return self._next_uuid

    def _annotated(self, name: str, field: int, value: int) -> bytes:
        named = number_field(_NAMED, self._interned(_ANNOTATION_NAMES, name))
        return bytes_field(_ANNOTATION, named + number_field(field, value))

    def _interned(self, kind: int, name: str) -> int:
        """Return the number of a name; a new one is written with the next packet."""
        number = self._names.get((kind, name))
        if number is None:
            number = self._names[kind, name] = len(self._names) + 1
            raw = text_field(2, name)
            self._new.append(bytes_field(kind, number_field(1, number) + raw))
        return number

    def _write(self, packet: bytes) -> None:
        self._file.write(bytes_field(_PACKET, packet + self._number))


def header(number: int, began_ns: int) -> bytes:
    """Return the first packet of a host: its clock shows 0 at this time since the epoch."""
    clocks = b"".join(
        bytes_field(_CLOCK, number_field(_CLOCK_ID, clock) + number_field(_CLOCK_AT, at))
        for clock, at in ((OWN_CLOCK, 0), (BOOTTIME, began_ns))
    )
    defaults = number_field(_DEFAULT_CLOCK, OWN_CLOCK)
    return b"".join(
        bytes_field(_PACKET, each + number_field(_SEQUENCE, number))
        for each in (
            bytes_field(_CLOCKS, clocks),
            bytes_field(_DEFAULTS, defaults) + number_field(_FLAGS, _CLEARED),
        )
    )


def lanes(slices: Iterable[Slice]) -> tuple[list[list[Slice]], int]:
    """Distribute slices over as few tracks as it takes to have each inside of or after the others.

    Return the tracks, and the number of slices that fit none of `MAX_LANES` tracks.
    """
    found: list[list[Slice]] = []
    crossing = 0
    stacks: list[list[int]] = []
    for each in sorted(slices, key=lambda one: (one.start, -(one.end or one.start))):
        end = each.start if each.end is None else each.end
        number = next((i for i, stack in enumerate(stacks) if _fits(stack, each.start, end)), len(found))
        if number == MAX_LANES:
            crossing += 1
            continue
        if number == len(found):
            found.append([])
            stacks.append([])
        found[number].append(each)
        if each.end is not None:
            stacks[number].append(end)
    return found, crossing


def _fits(stack: list[int], start: int, end: int) -> bool:
    """Return whether a slice is inside of or after those that end at these times; drop those before it."""
    while stack and stack[-1] <= start:
        stack.pop()
    return not stack or end <= stack[-1]
