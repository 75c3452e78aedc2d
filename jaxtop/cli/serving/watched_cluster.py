"""A cluster that one thread folds while others write pages and messages from copies of it."""

from __future__ import annotations

import threading
import time
import zlib
from typing import TYPE_CHECKING

from jaxtop.base.clock import steady
from jaxtop.cli.serving.http_server import Page
from jaxtop.model import State, host_views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop.model import Cluster
    from jaxtop.sources import Source

    # Returns the pieces of a page, and its content type.
    Writer = Callable[[Cluster, float], tuple[Iterable[bytes], str]]

POLL = 0.25
# Seconds in which all clients get the same page.
SHARED_S = 1.0
TEXT = "text/plain; charset=utf-8"
# The fastest level takes a fourth of the time of the usual one. Metrics repeat themselves, so both make a
# page more than ten times smaller. 31: the format of gzip.
_LEVEL, _GZIP = 1, 31


class ServedMoment:
    """The cluster at one time, with its pages; each page is written once, on the first request."""

    def __init__(self, cluster: Cluster, now: float) -> None:
        self._now = now
        self._cluster = cluster
        self._pages: dict[tuple[str, bool], Page] = {}
        self._lock = threading.Lock()

    def is_current(self, now: float) -> bool:
        """Return whether clients still get these pages: for a second, and while one is being written."""
        return now - self._now < SHARED_S or self._lock.locked()

    def page(self, name: str, write: Writer, is_compressed: bool) -> Page:
        with self._lock:
            if (name, True) not in self._pages:
                pieces, content_type = write(self._cluster, self._now)
                # A large page is never whole in memory, unless a client wants it so.
                self._pages[name, True] = Page(_compressed(pieces), content_type, encoding="gzip")
            if (name, is_compressed) not in self._pages:
                packed = self._pages[name, True]
                whole = zlib.decompress(packed.body, _GZIP)
                self._pages[name, False] = packed._replace(body=whole, encoding="")
            return self._pages[name, is_compressed]


def _compressed(pieces: Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    return b"".join([*map(packer.compress, pieces), packer.flush()])


class WatchedCluster:
    """A cluster that one thread folds. Other threads read copies, so the fold does not wait for them."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = steady) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = threading.Lock()
        self._moment: ServedMoment | None = None
        self._notes: list[str] = []

    def take(self, source: Source) -> None:
        """Fold what arrives within a moment."""
        frames = source.poll(POLL)
        with self._lock:
            for frame in frames:
                self._cluster.feed(frame)
            now = self._clock()
            self._cluster.check_if_overdue(now)
            self._notes = source.notes
            if self._moment is not None and not self._moment.is_current(now):
                self._moment = None  # frees the memory of the copy
        time.sleep(0)  # a thread that waits for the lock gets it now

    def copy(self) -> tuple[Cluster, float]:
        """Return a copy of the cluster, and its time."""
        with self._lock:
            return self._cluster.frozen(), self._clock()

    def page(self, name: str, write: Writer, is_compressed: bool = False) -> Page:
        """Return a page, the same to all clients of the moment."""
        with self._lock:
            now = self._clock()
            if self._moment is None or not self._moment.is_current(now):
                self._moment = ServedMoment(self._cluster.frozen(), now)
            moment = self._moment
        return moment.page(name, write, is_compressed)

    def health(self) -> Page:
        """Return 200 while a process is live, else 503; it never waits for another page."""
        with self._lock:
            states = [view.state for view in host_views(self._cluster, self._clock())]
            notes = self._notes
        live = states.count(State.LIVE)
        words = f"{live} of {len(states)} processes are live"
        return Page("\n".join([words, *notes, ""]).encode(), TEXT, 200 if live else 503)
