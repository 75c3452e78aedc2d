"""A trace of the profiler, read piece by piece with JAX's own reader.

That reader holds the GIL for 0.25 µs per event while it parses, and again when its result is dropped. With
one piece at a time, the script waits for less than a millisecond, however large the trace is.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jaxtop.protobuf import bytes_field, encoded, places
from jaxtop.traces.xspace import EVENT, LINE, LINE_NAME, PLANE, PLANE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# About two thousand events of a CPU. Each piece repeats the names of its plane, so it is at least as large.
PIECE_BYTES = 100_000


class Trace:
    """A trace with the interface of JAX's `ProfileData`, as far as the readers in `jaxtop.traces` need it.

    `parse` makes JAX's own from bytes. If the events of so many seconds have more than `most_bytes`, it is as
    if the session had been stopped earlier: those that end after `until_ns` are left out.
    """

    def __init__(
        self, raw: bytes, parse: Callable[[bytes], Any], seconds: float, most_bytes: float = math.inf
    ) -> None:
        self.planes = [
            Plane(self, raw, first, last, parse)
            for field, first, last in places(raw, 0, len(raw))
            if field == PLANE and last is not None
        ]
        size = sum(line.size for plane in self.planes for line in plane.lines)
        self.until_ns = math.inf if size <= most_bytes else seconds * 1e9 * most_bytes / size


class Plane:
    """The lines of a device, or of the host."""

    def __init__(
        self, trace: Trace, raw: bytes, first: int, last: int, parse: Callable[[bytes], Any]
    ) -> None:
        self.name = ""
        self.trace = trace
        self.lines: list[Line] = []
        self._parse = parse
        self._raw = raw
        self._others: list[tuple[int, int, int]] = []  # what is no line: field, start and end
        for field, start, end in places(raw, first, last):
            if end is None:
                continue
            if field == LINE:
                self.lines.append(Line(self, raw, start, end))
                continue
            if field == PLANE_NAME:
                self.name = raw[start:end].decode(errors="replace")
            self._others.append((field, start, end))

    @cached_property
    def _names(self) -> bytes:
        # Only of planes with events: another plane has the programs, which may be large.
        return b"".join(bytes_field(field, self._raw[start:end]) for field, start, end in self._others)

    @property
    def piece_bytes(self) -> int:
        return max(PIECE_BYTES, len(self._names))

    def events(self, line: bytes) -> Iterator[Any]:
        """Yield the events of a line that has only some of them."""
        profile = self._parse(bytes_field(PLANE, self._names + bytes_field(LINE, line)))
        for plane in profile.planes:
            for each in plane.lines:
                yield from each.events


class Line:
    """The events of a thread, a stream or another sequence, in the order of their starts."""

    def __init__(self, plane: Plane, raw: bytes, first: int, last: int) -> None:
        self.name = ""
        self._plane = plane
        self._raw = raw
        self._first, self._begin, self._last = first, last, last  # of the line, and of its events
        for field, start, end in places(raw, first, last):
            if field == EVENT and end is not None:
                self._begin = start - len(encoded(end - start)) - 1
                return
            if field == LINE_NAME and end is not None:
                self.name = raw[start:end].decode(errors="replace")

    @property
    def size(self) -> int:
        """The number of bytes of its events."""
        return self._last - self._begin

    @property
    def events(self) -> Iterator[Any]:
        until = self._plane.trace.until_ns
        for piece in self._pieces():
            for event in self._plane.events(piece):
                start = event.start_ns
                if start > until:
                    return
                if start + event.duration_ns <= until:
                    yield event

    def _pieces(self) -> Iterator[bytes]:
        """Yield the line as lines of fewer events."""
        raw, size, begin = self._raw, self._plane.piece_bytes, self._begin
        head, until = raw[self._first : begin], begin
        for field, _, end in places(raw, begin, self._last):
            if field != EVENT or end is None:
                continue
            if end - begin > size and until > begin:
                yield head + raw[begin:until]
                begin = until
            until = end
        if until > begin:
            yield head + raw[begin:until]
