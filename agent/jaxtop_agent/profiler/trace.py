"""A trace of the profiler, read piece by piece with JAX's own reader.

That reader holds the GIL for 0.25 µs per event while it parses, and again when its result is dropped. With
one piece at a time, the script waits for one or two milliseconds, however large the trace is.

There are no reference cycles: a script may have switched off the garbage collector, and a trace is large.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jaxtop.base.protobuf import bytes_field, encoded, number_field, places, run_end
from jaxtop.traces.xspace import EVENT, LINE, LINE_NAME, PLANE, PLANE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# About two thousand events of a CPU. Each piece repeats the names of its plane, so it is at least as large.
PIECE_BYTES = 100_000


class ProfileTrace:
    """A trace with the interface of JAX's `ProfileData`, as far as the readers in `jaxtop.traces` need it.

    `parse` is JAX's own reader. If the events of this many seconds have more than `most_bytes`, the trace
    omits those that end after `until_ns`, as if the session had been stopped earlier.
    """

    def __init__(
        self, raw: bytes, parse: Callable[[bytes], Any], seconds: float, most_bytes: float = math.inf
    ) -> None:
        self.raw = raw
        self.parse = parse
        self._places = [
            (first, last)
            for field, first, last in places(raw, 0, len(raw))
            if field == PLANE and last is not None
        ]
        size = sum(line.size for plane in self.planes for line in plane.lines)
        self.until_ns = math.inf if size <= most_bytes else seconds * 1e9 * most_bytes / size

    @property
    def planes(self) -> list[Plane]:
        return [Plane(self, *each) for each in self._places]


class Plane:
    """The lines of a device, or of the host."""

    def __init__(self, trace: ProfileTrace, first: int, last: int) -> None:
        self.name = ""
        self.trace = trace
        self._lines: list[tuple[int, int]] = []
        self._others: list[tuple[int, int, int]] = []  # fields that are not lines: number, start and end
        for field, start, end in places(trace.raw, first, last):
            if end is None:
                continue
            if field == LINE:
                self._lines.append((start, end))
                continue
            if field == PLANE_NAME:
                self.name = trace.raw[start:end].decode(errors="replace")
            self._others.append((field, start, end))

    @property
    def lines(self) -> list[TraceLine]:
        return [TraceLine(self, *each) for each in self._lines]

    @cached_property
    def _names(self) -> bytes:
        # Copied only for planes with events: another plane has the programs, which may be large.
        return b"".join(bytes_field(field, self.trace.raw[start:end]) for field, start, end in self._others)

    @property
    def piece_bytes(self) -> int:
        return max(PIECE_BYTES, len(self._names))

    def events(self, line: bytes) -> Iterator[Any]:
        """Yield the events of a line, or of a piece of one."""
        profile = self.trace.parse(bytes_field(PLANE, self._names + bytes_field(LINE, line)))
        for plane in profile.planes:
            for each in plane.lines:
                yield from each.events


class TraceLine:
    """The events of a thread, a stream or another sequence, in the order of their starts."""

    def __init__(self, plane: Plane, first: int, last: int) -> None:
        self.name = ""
        self._plane = plane
        # The fields before the events, without the name. JAX's reader may abort the process if a name is no
        # UTF-8, and Linux cuts the names of threads after 15 bytes.
        self._head = b""
        self._begin = self._last = last  # of its events
        raw = plane.trace.raw
        for field, start, end in places(raw, first, last):
            if end is None:
                self._head += number_field(field, start)
            elif field == EVENT:
                self._begin = start - len(encoded(end - start)) - 1
                return
            elif field == LINE_NAME:
                self.name = raw[start:end].decode(errors="replace")

    @property
    def size(self) -> int:
        """The number of bytes of its events."""
        return self._last - self._begin

    @property
    def events(self) -> Iterator[Any]:
        until = self._plane.trace.until_ns
        for piece in self._pieces():
            if until == math.inf:
                yield from self._plane.events(piece)
                continue
            for event in self._plane.events(piece):
                start = event.start_ns
                if start > until:
                    return
                if start + event.duration_ns <= until:
                    yield event

    def _pieces(self) -> Iterator[bytes]:
        """Yield the line in pieces: lines with fewer events."""
        raw, size, begin = self._plane.trace.raw, self._plane.piece_bytes, self._begin
        while (until := run_end(raw, begin, self._last, EVENT, size)) > begin:
            yield self._head + raw[begin:until]
            begin = until
        for field, _, end in places(raw, begin, self._last):  # where other fields are between them
            if field != EVENT or end is None:
                continue
            if end - begin > size and until > begin:
                yield self._head + raw[begin:until]
                begin = until
            until = end
        if until > begin:
            yield self._head + raw[begin:until]
