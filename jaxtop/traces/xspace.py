"""A reader of the profiler's own format (xplane.proto of XLA), with the interface of JAX's `ProfileData`.

So the readers in `jaxtop.traces` can read a trace where there is no JAX. Times are relative to the start of
the trace.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING

from jaxtop.base.protobuf import places, signed
from jaxtop.traces.parts import TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

# XSpace, XPlane, XLine, XEvent, XStat and the metadata of events and stats, by field number.
PLANE, _ERROR, _WARNING = 1, 2, 3
PLANE_NAME, LINE, EVENT_NAME, STAT_NAME, _PLANE_STAT = 2, 3, 4, 5, 6
_LINE_ID, LINE_NAME, _LINE_START_NS, EVENT, _LINE_SHOWN = 1, 2, 3, 4, 11
EVENT_OF, _OFFSET_PS, _DURATION_PS, STAT = 1, 2, 3, 4
STAT_OF, _DOUBLE, _UNSIGNED, SIGNED, _TEXT, _RAW, _NAME = 1, 2, 3, 4, 5, 6, 7
KEY, VALUE = 1, 2
ID, _ITS_NAME, _ITS_SHOWN, _ITS_STAT = 1, 2, 4, 5
_DOUBLE_FORMAT = struct.Struct("<d")

# The plane that says when the trace was taken.
ENVIRONMENT, STARTED = "Task Environment", "profile_start_time"
Value = int | float | str | bytes
MOST_WARNINGS = 100
# The stats that are stored once read: how many of a plane, and of how many bytes.
MOST_CACHED, LONGEST_CACHED = 20_000, 32


class XEvent:
    """Something that happened on a line. `duration_ps` is None for what has no duration."""

    __slots__ = ("_plane", "_stats", "duration_ps", "name", "start_ps")

    def __init__(
        self, plane: XPlane, name: str, start_ps: int, duration_ps: int | None, stats: list[int]
    ) -> None:
        self._plane = plane
        self._stats = stats
        self.name = name
        self.start_ps = start_ps
        self.duration_ps = duration_ps

    @property
    def start_ns(self) -> float:
        return self.start_ps / 1000

    @property
    def duration_ns(self) -> float:
        return (self.duration_ps or 0) / 1000

    @property
    def stats(self) -> list[tuple[str, Value]]:
        ends = iter(self._stats)
        return [self._plane.stat(first, last) for first, last in zip(ends, ends, strict=True)]


class XLine:
    """Events of a thread, a stream or another sequence, in the order of their starts."""

    def __init__(self, plane: XPlane, number: int, name: str, start_ps: int, events: list[int]) -> None:
        self._plane = plane
        self._places = events
        self._start_ps = start_ps
        self._events: list[XEvent] | None = None
        self.number = number
        self.name = name

    @property
    def events(self) -> list[XEvent]:
        if self._events is None:
            self._events = [*self._read()]
        return self._events

    @property
    def size(self) -> int:
        """The number of its events."""
        return len(self._places) // 2

    def is_copy_of(self, other: XLine) -> bool:
        """Return whether another line has the same events at the same times."""
        return all(
            (one.start_ps, one.duration_ps, one.name)
            == (other_event.start_ps, other_event.duration_ps, other_event.name)
            for one, other_event in zip(self._read(), other._read(), strict=True)
        )

    def _read(self) -> Iterator[XEvent]:
        ends = iter(self._places)
        return (self._event(first, last) for first, last in zip(ends, ends, strict=True))

    def _event(self, first: int, last: int) -> XEvent:
        number = offset = 0
        duration: int | None = None
        stats: list[int] = []
        for field, value, end in places(self._plane.raw, first, last):
            if field == EVENT_OF and end is None:
                number = value
            elif field == _OFFSET_PS and end is None:
                offset = signed(value)
            elif field == _DURATION_PS and end is None:
                duration = signed(value)
            elif field == STAT and end is not None:
                stats += (value, end)
        name = self._plane.event_names.get(number, "")
        return XEvent(self._plane, name, self._start_ps + offset, duration, stats)


class XPlane:
    """The lines of a device, or of the host."""

    def __init__(self, raw: bytes, first: int, last: int, most: int = sys.maxsize) -> None:
        self.raw = raw
        self.name = ""
        self.event_names: dict[int, str] = {}
        self._extent = first, last
        # The events on its lines, with all that is listed with them: what reading it takes.
        self.events = 0
        self._most = most
        self._stat_names: dict[int, str] = {}
        self._lines: list[tuple[int, int]] = []
        self._stats: list[tuple[int, int]] = []
        self._known: dict[bytes, tuple[str, Value]] = {}
        for field, value, end in places(raw, first, last):
            if end is None:
                continue
            self.events += 1
            if self.events > most:
                raise TooLarge
            if field == PLANE_NAME:
                self.name = _text(raw, value, end)
            elif field == LINE:
                self._lines.append((value, end))
            elif field == EVENT_NAME:
                number, name = _entry(raw, value, end)
                self.event_names[number] = name
            elif field == STAT_NAME:
                number, name = _entry(raw, value, end)
                self._stat_names[number] = name
            elif field == _PLANE_STAT:
                self._stats.append((value, end))
        self.lines = [self._line(*each) for each in self._lines]

    @property
    def stats(self) -> dict[str, Value]:
        return dict(self.stat(*each) for each in self._stats)

    def described(self) -> Iterator[dict[str, Value]]:
        """Yield the stats of each description of an event: the profiler keeps programs in some."""
        for field, value, end in places(self.raw, *self._extent):
            if field == EVENT_NAME and end is not None:
                for its_field, first, last in places(self.raw, value, end):
                    if its_field == VALUE and last is not None:
                        yield dict(
                            self.stat(start, until)
                            for one, start, until in places(self.raw, first, last)
                            if one == _ITS_STAT and until is not None
                        )

    def stat(self, first: int, last: int) -> tuple[str, Value]:
        """Return a stat by name. Most stats of events repeat, so short ones are read once."""
        if last - first > LONGEST_CACHED:
            return self._stat(first, last)
        raw = self.raw[first:last]
        known = self._known.get(raw)
        if known is None:
            if len(self._known) >= MOST_CACHED:
                self._known.clear()
            known = self._known[raw] = self._stat(first, last)
        return known

    def _stat(self, first: int, last: int) -> tuple[str, Value]:
        number, found = 0, 0
        result: Value = 0
        for field, value, end in places(self.raw, first, last):
            if field == STAT_OF:
                number = value
                continue
            found = field
            if end is None:
                result = signed(value) if field == SIGNED else value
            elif field == _DOUBLE:
                (result,) = _DOUBLE_FORMAT.unpack_from(self.raw, value)
            else:
                result = self.raw[value:end]
        if found == _NAME and isinstance(result, int):
            result = self._stat_names.get(result, "")
        elif found == _TEXT and isinstance(result, bytes):
            result = result.decode(errors="replace")
        return self._stat_names.get(number, ""), result

    def _line(self, first: int, last: int) -> XLine:
        number = start_ns = 0
        name = shown = ""
        events: list[int] = []
        # Each event has two places.
        most = 2 * (self._most - self.events)
        for field, value, end in places(self.raw, first, last):
            if end is None:
                number = signed(value) if field == _LINE_ID else number
                start_ns = signed(value) if field == _LINE_START_NS else start_ns
            elif field == EVENT:
                events += (value, end)
                if len(events) > most:
                    raise TooLarge
            elif field == LINE_NAME:
                name = _text(self.raw, value, end)
            elif field == _LINE_SHOWN:
                shown = _text(self.raw, value, end)
        self.events += len(events) // 2
        return XLine(self, number, name or shown, start_ns * 1000, events)


class Trace:
    """A trace of one process; raises `Malformed` if the bytes are something else.

    With `most`, it raises `TooLarge` if there are more events, before it takes much memory.
    """

    def __init__(self, raw: bytes, most: int = sys.maxsize) -> None:
        self.planes: list[XPlane] = []
        # What the profiler could not do, in its words: events that it dropped, above all.
        self.warnings: list[str] = []
        # When the trace began by the clock of its machine, in nanoseconds since the epoch; 0 if unknown.
        self.started_ns = 0
        for field, value, end in places(raw, 0, len(raw)):
            if field == PLANE and end is not None:
                plane = XPlane(raw, value, end, most)
                self.planes.append(plane)
                most -= plane.events + 1
                if most < 0:
                    raise TooLarge
            elif field in {_ERROR, _WARNING} and end is not None and len(self.warnings) < MOST_WARNINGS:
                self.warnings.append(_text(raw, value, end))
        # The lines that were there before: tools that join traces repeat some.
        self.copies = _leave_copies_out(self.planes)
        for plane in self.planes:
            if plane.name == ENVIRONMENT:
                started = plane.stats.get(STARTED, 0)
                self.started_ns = started if isinstance(started, int) else 0


def _leave_copies_out(planes: list[XPlane]) -> int:
    """Leave out the lines of planes of a name that have the same events as others, and return how many."""
    known: dict[tuple[str, str, int], list[XLine]] = {}
    copies = 0
    for plane in planes:
        kept = []
        for line in plane.lines:
            alike = known.setdefault((plane.name, line.name, line.size), [])
            if line.size and any(line.is_copy_of(other) for other in alike):
                copies += 1
                continue
            alike.append(line)
            kept.append(line)
        plane.lines = kept
    return copies


def _entry(raw: bytes, first: int, last: int) -> tuple[int, str]:
    """Return the number and the name of an entry of a table of names."""
    number, name, shown = 0, "", ""
    for field, value, end in places(raw, first, last):
        if field == KEY and end is None:
            number = value
        elif field == VALUE and end is not None:
            for its_field, its_value, its_end in places(raw, value, end):
                if its_end is None:
                    continue
                if its_field == _ITS_NAME:
                    name = _text(raw, its_value, its_end)
                elif its_field == _ITS_SHOWN:
                    shown = _text(raw, its_value, its_end)
    return number, name or shown


def _text(raw: bytes, first: int, last: int) -> str:
    return raw[first:last].decode(errors="replace")
