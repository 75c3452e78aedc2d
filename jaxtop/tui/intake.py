"""How the app takes in what arrives: a slice at a time, so that no key waits for long."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.cluster import Cluster

SLICE_SECONDS = 0.02


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


class Intake:
    """Folds the frames of a feed into a cluster. Many come at once: when all hosts tell of a window, say."""

    def __init__(self, feed: Feed, cluster: Cluster) -> None:
        self._feed = feed
        self._cluster = cluster
        self._waiting: deque[Any] = deque()

    def fetch(self) -> None:
        """Have what arrived wait here, behind what waits already."""
        self._waiting.extend(self._feed.drain())

    def take(self) -> bool:
        """Fold some of what waits; whether that was all."""
        until = time.perf_counter() + SLICE_SECONDS
        taken = []
        while self._waiting:
            frame = self._waiting.popleft()
            self._cluster.feed(frame)
            taken.append(frame)
            if time.perf_counter() >= until:
                break
        self._feed.folded(taken, self._cluster)
        return not self._waiting
