"""Frames on their way to the app: bounded, and asked for again where some gave way."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from jaxtop import wire

if TYPE_CHECKING:
    from collections.abc import Iterable

# A terminal that stands still (Ctrl-S) must not fill the memory.
MOST_FRAMES, MOST_BYTES = 200_000, 64 << 20
# What no agent tells again.
_TOLD_ONCE = frozenset({"bye"})


class Backlog:
    """A queue between two threads. Where it overflows, the oldest messages of agents give way.

    Links and farewells stay, the last of each agent: nobody would tell them again. All else an agent tells
    again when it is asked for its state; `lost` names those to be asked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: deque[wire.Frame] = deque()
        self._bytes = 0
        self._lost: dict[str, None] = {}
        self.dropped = 0

    def put(self, frames: Iterable[wire.Frame]) -> None:
        """Add frames behind the others."""
        with self._lock:
            for frame in frames:
                self._frames.append(frame)
                self._bytes += len(frame.raw)
            if len(self._frames) > MOST_FRAMES or self._bytes > MOST_BYTES:
                self._give_way()

    def take(self) -> list[wire.Frame]:
        """All frames, oldest first."""
        with self._lock:
            taken, self._frames, self._bytes = list(self._frames), deque(), 0
        return taken

    def lost(self, most: int) -> list[str]:
        """Some agents whose state is to be asked for, once what waits has been taken."""
        with self._lock:
            if not self._lost or len(self._frames) > MOST_FRAMES // 4 or self._bytes > MOST_BYTES // 4:
                return []
            agents = list(self._lost)[:most]
            for agent in agents:
                del self._lost[agent]
        return agents

    def _give_way(self) -> None:
        """Halve the queue, so that this is rare."""
        kept: dict[object, wire.Frame] = {}
        while len(self._frames) > MOST_FRAMES // 2 or self._bytes > MOST_BYTES // 2:
            frame = self._frames.popleft()
            self._bytes -= len(frame.raw)
            if frame.sequence == wire.LOCAL_SEQUENCE or frame.kind in _TOLD_ONCE:
                key = (frame.kind, frame.agent or frame.raw)
                kept.pop(key, None)
                kept[key] = frame  # the last of each, in their order
            else:
                self.dropped += 1
                self._lost[frame.agent] = None
        self._frames.extendleft(reversed(kept.values()))
        self._bytes += sum(len(frame.raw) for frame in kept.values())
