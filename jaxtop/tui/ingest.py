"""The folding of incoming frames, one time slice after another, so that keys respond quickly."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import Cluster

SLICE_SECONDS = 0.02
# While this many frames wait here, further frames stay in the feed, which is bounded. The app falls this
# far behind when its terminal is suspended.
MAX_WAITING = 20_000


class Feed(Protocol):
    """A source of frames, filled by a thread of its own and drained by the app. By default it is empty."""

    def drain(self) -> list[Any]:
        """Return the frames that arrived since the last call."""
        return []

    def folded(self, frames: Sequence[Any], cluster: Cluster) -> None:
        """Receive the frames that the cluster has folded, to store them."""

    def failure(self) -> str | None:
        """Return why no more frames will come, in one line; None if they may."""
        return None

    def rejected(self) -> dict[str, int]:
        """Return the messages that could not be read, by kind of error, with their counts."""
        return {}

    def notes(self) -> list[str]:
        """Return notes for the user about the source itself, one line each."""
        return []


class NoFeed(Feed):
    """A feed without frames."""

    def folded(self, frames: Sequence[Any], cluster: Cluster) -> None:
        pass


class FrameIngest:
    """Folds the frames of a feed into a cluster. Frames come in bursts, as when all hosts send a window."""

    def __init__(self, feed: Feed, cluster: Cluster) -> None:
        self._feed = feed
        self._cluster = cluster
        self._waiting: deque[Any] = deque()
        self._taken: list[Any] = []

    def fetch(self) -> None:
        if len(self._waiting) < MAX_WAITING:
            self._waiting.extend(self._feed.drain())

    @property
    def behind_at(self) -> float | None:
        """The time of the oldest waiting frame; None if no frame waits. Later frames are not folded yet."""
        return self._waiting[0].at if self._waiting else None

    def take(self) -> bool:
        """Fold waiting frames for one time slice. Return whether none are left.

        Folded frames are handed on only at a change of time, so that a consumer can tell by time alone which
        frames the cluster contains.
        """
        until = time.perf_counter() + SLICE_SECONDS
        is_late = bool(self._taken)
        is_time_up = False
        while self._waiting and not is_time_up:
            frame = self._waiting.popleft()
            self._cluster.feed(frame)
            self._taken.append(frame)
            is_time_up = time.perf_counter() >= until
            if self._waiting and (is_time_up or is_late) and self._waiting[0].at != frame.at:
                self._hand_on()
                is_late = False
        if not self._waiting:
            self._hand_on()
        return not self._waiting

    def _hand_on(self) -> None:
        taken, self._taken = self._taken, []
        self._feed.folded(taken, self._cluster)
