"""How the app takes in what arrives: a slice at a time, so that no key waits for long."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import Cluster

SLICE_SECONDS = 0.02
# What a terminal that stood still has not taken waits where it is bounded: in the feed.
MOST_WAITING = 20_000


class Feed(Protocol):
    """Where frames come from: filled by a thread of its own, emptied by the app."""

    def drain(self) -> list[Any]:
        """The frames that have arrived since the last call."""

    def folded(self, frames: Sequence[Any], cluster: Cluster) -> None:
        """These frames were taken in by the cluster: for whoever keeps them."""

    def failure(self) -> str | None:
        """Why there will be no frames any more, in one line."""

    def rejected(self) -> dict[str, int]:
        """What was received and could not be read, with how often."""

    def notes(self) -> list[str]:
        """What a person should know of the source itself, a line each."""


class Silence:
    """A feed of which nothing ever comes."""

    def drain(self) -> list[Any]:
        return []

    def folded(self, frames: Sequence[Any], cluster: Cluster) -> None:
        pass

    def failure(self) -> str | None:
        return None

    def rejected(self) -> dict[str, int]:
        return {}

    def notes(self) -> list[str]:
        return []


class FrameIngest:
    """Folds the frames of a feed into a cluster. Many come at once: when all hosts tell of a window, say."""

    def __init__(self, feed: Feed, cluster: Cluster) -> None:
        self._feed = feed
        self._cluster = cluster
        self._waiting: deque[Any] = deque()
        self._taken: list[Any] = []

    def fetch(self) -> None:
        """Have what arrived wait here, behind what waits already."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.extend(self._feed.drain())

    @property
    def behind_at(self) -> float | None:
        """The time of the oldest frame that waits: of what came since nothing is known yet."""
        return self._waiting[0].at if self._waiting else None

    def take(self) -> bool:
        """Fold some of what waits; whether that was all.

        What was folded is handed on up to where the time changes: whoever keeps it can tell by the time alone
        what is in the cluster and what is not.
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
