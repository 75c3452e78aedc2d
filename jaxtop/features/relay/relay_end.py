"""The relay end: it follows agents from inside their network, and passes the frames on."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop import __version__, wire
from jaxtop.base.clock import steady
from jaxtop.features.relay import stream
from jaxtop.features.relay.outlet import Outlet

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.features.relay.feed import ViewerFeed
    from jaxtop.sources.source import Source

POLL_S = 0.05
# The viewer end must say within this time what to follow; a terminal says nothing.
OPEN_WITHIN_S = 60.0
# The viewer end sends something every few seconds. After this time without it, the connection was cut.
LOST_AFTER_S = 60.0
LAST_WORDS_S = 10.0
# The most bytes that wait for the pipe before no more are taken.
MAX_WAITING = 1 << 18


class RelayEnd:
    """Speaks with the viewer end over two descriptors, on the thread that calls `run`.

    The relay end stops when `reading` ends. The viewer end shows the text of exceptions of type `refuse`
    that `open_source` raises.
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
        self._waiting = bytearray(stream.FIRST_LINE)
        self._heard_at = time.monotonic()
        os.set_blocking(writing, False)

    def run(self) -> None:
        """Pass on frames until the viewer end ends or sends nothing for a minute."""
        with suppress(BrokenPipeError, EOFError):
            try:
                self._follow()
            except self._refuse as error:
                self._end_with(stream.RelayRefused(str(error)))
            except stream.Garbled as error:
                self._end_with(stream.RelayRefused(f"the viewer does not say what to follow: {error}"))

    def _follow(self) -> None:
        self._flush()
        source = self._open_source(self._opened())
        self._waiting += stream.pack(stream.Opened(__version__, wire.VERSION))
        self._heard_at = time.monotonic()
        outlet = Outlet(source)
        feed = outlet.add(self._send)
        try:
            while time.monotonic() - self._heard_at < LOST_AFTER_S:
                self._listen(outlet, feed)
                outlet.poll(POLL_S)
                self._pass_on(outlet, feed)
        finally:
            source.close()

    def _opened(self) -> stream.Open:
        """Wait for the first message of the viewer end; raise `Garbled` if another or none comes."""
        end = time.monotonic() + OPEN_WITHIN_S
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._reading], [], [], left)[0]:
                continue
            for message in self._read():
                if isinstance(message, stream.Open):
                    return message
                raise stream.Garbled(f"it sent another message ({type(message).__name__})")
        raise stream.Garbled(f"nothing complete came within {OPEN_WITHIN_S:.0f} s")

    def _pass_on(self, outlet: Outlet, feed: ViewerFeed) -> None:
        """Write as fast as the viewer end reads, but not for long: the source must be polled."""
        end = time.monotonic() + POLL_S
        outlet.pump(feed)
        self._flush()
        while self._waiting and (left := end - time.monotonic()) > 0:
            reads, writes, _ = select.select([self._reading], [self._writing], [], left)
            if reads:
                self._listen(outlet, feed)
            if writes:
                self._flush()
                outlet.pump(feed)

    def _listen(self, outlet: Outlet, feed: ViewerFeed) -> None:
        if select.select([self._reading], [], [], 0)[0]:
            for message in self._read():
                if isinstance(message, stream.RelayedRequest):
                    outlet.ask(feed, message, is_owner=True)
                elif isinstance(message, stream.Alive):
                    feed.arrived(message.arrived, steady())

    def _send(self, raw: bytes) -> bool:
        self._flush()
        if len(self._waiting) >= MAX_WAITING:
            return False
        self._waiting += stream.framed(raw)
        return True

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
        """Send a last message; wait until the viewer end has taken it, within bounds."""
        self._waiting += stream.pack(message)
        end = time.monotonic() + LAST_WORDS_S
        while self._waiting and (left := end - time.monotonic()) > 0:
            select.select([], [self._writing], [], left)
            self._flush()
