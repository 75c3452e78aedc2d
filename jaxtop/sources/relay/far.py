"""The far half: it follows agents from inside their network, and passes the frames on."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop import __version__, wire
from jaxtop.sources.backlog import Backlog
from jaxtop.sources.relay import stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jaxtop.sources.source import Source

POLL_S = 0.05
# The near half must say within this time what to follow; a terminal says nothing.
OPEN_WITHIN_S = 60.0
STATUS_EVERY_S = 2.0
# So many bytes wait for a slow connection. Further frames wait in the backlog, which drops the oldest.
MOST_WAITING, AT_ONCE = 1 << 20, 64
# A message ends with the frame that exceeds this, so that it stays below `stream.MOST_BYTES`.
BATCH_BYTES = 1 << 18
MEND_AT_ONCE = 16


class FarHalf:
    """Speaks with the near half over two descriptors, on the thread that calls `run`.

    Args:
        reading: The descriptor from which requests come; its end ends the far half.
        writing: The descriptor to which frames go.
        open_source: Opens a source for what the near half wants to follow.
        refuse: The exceptions of `open_source` whose text the near half shows.
    """

    def __init__(
        self,
        reading: int,
        writing: int,
        open_source: Callable[[stream.Open], Source],
        refuse: type[Exception],
    ) -> None:
        self._reading, self._writing = reading, writing
        self._open_source, self._refuse = open_source, refuse
        self._reader = stream.Reader()
        self._backlog = Backlog()
        self._waiting = bytearray(stream.FIRST_LINE)
        self._status: stream.Status | None = None
        self._status_due = 0.0
        os.set_blocking(writing, False)

    def run(self) -> None:
        """Pass on frames until the near half ends."""
        with suppress(BrokenPipeError, EOFError):
            self._flush()
            wanted = self._opened()
            if wanted is None:
                return
            try:
                source = self._open_source(wanted)
            except self._refuse as error:
                self._end_with(stream.Refused(str(error)))
                return
            self._waiting += stream.pack(stream.Opened(__version__))
            try:
                while True:
                    self._turn(source)
            finally:
                source.close()

    def _opened(self) -> stream.Open | None:
        """Wait for what the near half wants to follow; None if it says something else or nothing."""
        end = time.monotonic() + OPEN_WITHIN_S
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._reading], [], [], left)[0]:
                continue
            for message in self._read():
                return message if isinstance(message, stream.Open) else None
        return None

    def _turn(self, source: Source) -> None:
        self._backlog.put(source.poll(POLL_S))
        for agent in self._backlog.lost(MEND_AT_ONCE):
            source.request(agent, wire.Request("state"), lambda _: None)
        if select.select([self._reading], [], [], 0)[0]:
            for message in self._read():
                if isinstance(message, stream.Ask):
                    source.request(message.agent, message.request, self._answer(message.number))
        self._tell_status(source)
        self._flush()
        while len(self._waiting) < MOST_WAITING and (frames := self._backlog.take(AT_ONCE)):
            for batch in _batches(frames):
                self._waiting += stream.pack(stream.Frames(batch))
            self._flush()

    def _answer(self, number: int) -> Callable[[wire.Reply | None], None]:
        def answered(reply: wire.Reply | None) -> None:
            self._waiting += stream.pack(stream.Answer(number, reply))

        return answered

    def _tell_status(self, source: Source) -> None:
        status = stream.Status(source.is_settled, tuple(source.notes), dict(source.rejected))
        now = time.monotonic()
        if (status != self._status or now >= self._status_due) and len(self._waiting) < MOST_WAITING:
            self._status, self._status_due = status, now + STATUS_EVERY_S
            self._waiting += stream.pack(status)

    def _read(self) -> list[stream.Message]:
        data = os.read(self._reading, 1 << 16)
        if not data:
            raise EOFError
        return list(self._reader.feed(data))

    def _flush(self) -> None:
        with suppress(BlockingIOError):
            while self._waiting:
                del self._waiting[: os.write(self._writing, self._waiting[: 1 << 16])]

    def _end_with(self, message: stream.Message) -> None:
        """Send a last message; wait until the near half has taken it."""
        os.set_blocking(self._writing, True)
        self._waiting += stream.pack(message)
        self._flush()


def _batches(frames: Iterable[wire.Frame]) -> Iterator[tuple[tuple[str, str, int, bytes], ...]]:
    batch, size = [], 0
    for frame in frames:
        batch.append((frame.agent, frame.kind, frame.sequence, frame.raw))
        size += len(frame.raw)
        if size > BATCH_BYTES:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)
