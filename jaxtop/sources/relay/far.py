"""The far half: it follows agents from inside their network, and passes the frames on."""

from __future__ import annotations

import os
import select
import time
from collections import deque
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
# The near half sends something every few seconds. After this time without it, the connection was cut.
SILENT_S = 60.0
STATUS_EVERY_S = 2.0
# A slow connection delays the newest frames by the time that it takes for these bytes. The backlog drops the
# oldest frames beyond them.
MOST_BACKLOG, MOST_WAITING, AT_ONCE = 4 << 20, 1 << 18, 64
# An answer follows the frames that came with it, but must not come too late behind the backlog.
ANSWER_WITHIN_S = 5.0
# A message ends with the frame that exceeds this, so that it stays below `stream.MOST_BYTES`.
BATCH_BYTES = 1 << 18
LAST_WORDS_S = 10.0


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
        self._backlog = Backlog(MOST_BACKLOG)
        self._answers: deque[tuple[float, stream.Answer]] = deque()
        self._waiting = bytearray(stream.FIRST_LINE)
        self._heard_at = time.monotonic()
        self._status: stream.Status | None = None
        self._status_due = 0.0
        os.set_blocking(writing, False)

    def run(self) -> None:
        """Pass on frames until the near half ends or is silent."""
        with suppress(BrokenPipeError, EOFError):
            try:
                self._follow()
            except self._refuse as error:
                self._end_with(stream.Refused(str(error)))
            except stream.Garbled as error:
                self._end_with(stream.Refused(f"the viewer does not say what to follow: {error}"))

    def _follow(self) -> None:
        self._flush()
        source = self._open_source(self._opened())
        self._waiting += stream.pack(stream.Opened(__version__))
        self._heard_at = time.monotonic()
        try:
            while time.monotonic() - self._heard_at < SILENT_S:
                self._turn(source)
        finally:
            source.close()

    def _opened(self) -> stream.Open:
        """Wait for what the near half wants to follow; raise `Garbled` if something else or nothing comes."""
        end = time.monotonic() + OPEN_WITHIN_S
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._reading], [], [], left)[0]:
                continue
            for message in self._read():
                if isinstance(message, stream.Open):
                    return message
                raise stream.Garbled(f"it sent another message ({type(message).__name__})")
        raise stream.Garbled(f"nothing complete came within {OPEN_WITHIN_S:.0f} s")

    def _turn(self, source: Source) -> None:
        if select.select([self._reading], [], [], 0)[0]:
            for message in self._read():
                if isinstance(message, stream.Ask):
                    source.request(message.agent, message.request, self._answer(message.number))
        self._backlog.put(source.poll(POLL_S))
        self._backlog.mend(source)
        # The order is that of a source that is polled here: frames, then what is said about them.
        self._pass_frames()
        self._pass_answers()
        self._tell_status(source)
        self._flush()

    def _pass_frames(self) -> None:
        self._flush()
        while len(self._waiting) < MOST_WAITING and (frames := self._backlog.take(AT_ONCE)):
            for batch in _batches(frames):
                self._waiting += stream.pack(stream.Frames(batch))
            self._flush()

    def _answer(self, number: int) -> Callable[[wire.Reply | None], None]:
        return lambda reply: self._answers.append((time.monotonic(), stream.Answer(number, reply)))

    def _pass_answers(self) -> None:
        latest = time.monotonic() - ANSWER_WITHIN_S
        while self._answers and (self._backlog.is_empty or self._answers[0][0] < latest):
            self._waiting += stream.pack(self._answers.popleft()[1])

    def _tell_status(self, source: Source) -> None:
        rejected = dict(source.rejected)
        if self._backlog.dropped:
            rejected["the connection to the viewer was too slow"] = self._backlog.dropped
        is_settled = source.is_settled and self._backlog.is_empty
        status = stream.Status(is_settled, tuple(source.notes), rejected)
        now = time.monotonic()
        if (status != self._status or now >= self._status_due) and len(self._waiting) < MOST_WAITING:
            self._status, self._status_due = status, now + STATUS_EVERY_S
            self._waiting += stream.pack(status)

    def _read(self) -> list[stream.Message]:
        data = os.read(self._reading, 1 << 16)
        if not data:
            raise EOFError
        self._heard_at = time.monotonic()
        return list(self._reader.feed(data))

    def _flush(self) -> None:
        with suppress(BlockingIOError):
            while self._waiting:
                del self._waiting[: os.write(self._writing, self._waiting[: 1 << 16])]

    def _end_with(self, message: stream.Message) -> None:
        """Send a last message; wait until the near half has taken it, within bounds."""
        self._waiting += stream.pack(message)
        end = time.monotonic() + LAST_WORDS_S
        while self._waiting and (left := end - time.monotonic()) > 0:
            select.select([], [self._writing], [], left)
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
