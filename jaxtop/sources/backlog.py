"""A bounded queue of frames; the state of agents whose frames were dropped is requested again."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base import debuglog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.sources.source import Source

# A stopped terminal (Ctrl-S) must not fill the memory.
MOST_FRAMES, MOST_BYTES = 200_000, 64 << 20
# The most agents asked at a time to resend their state after frames were dropped.
MEND_AT_ONCE = 16
# Messages that no agent sends again.
_SENT_ONCE = frozenset({"bye"})


class Backlog:
    """A queue between two threads. If it overflows, the oldest messages of agents are dropped.

    The last link and the last bye of each agent are kept, because they are not sent again. An agent sends
    everything else again when its state is requested; `lost` returns the agents to ask.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: deque[wire.Frame] = deque()
        self._bytes = 0
        self._lost: dict[str, None] = {}
        self.dropped = 0

    def put(self, frames: Iterable[wire.Frame]) -> None:
        with self._lock:
            for frame in frames:
                self._frames.append(frame)
                self._bytes += len(frame.raw)
            if len(self._frames) > MOST_FRAMES or self._bytes > MOST_BYTES:
                self._drop_oldest()

    def take(self) -> list[wire.Frame]:
        """Remove and return all frames, oldest first."""
        with self._lock:
            taken, self._frames, self._bytes = list(self._frames), deque(), 0
        return taken

    def lost(self, most: int) -> list[str]:
        """Return up to `most` agents whose state must be requested, once most of the queue has been taken."""
        with self._lock:
            if not self._lost or len(self._frames) > MOST_FRAMES // 4 or self._bytes > MOST_BYTES // 4:
                return []
            agents = list(self._lost)[:most]
            for agent in agents:
                del self._lost[agent]
        return agents

    def mend(self, source: Source) -> None:
        """Request the state of agents whose frames were dropped, a few at a time."""
        for agent in self.lost(MEND_AT_ONCE):
            debuglog.info("source", "frames were dropped; the whole state is requested", agent)
            source.request(agent, wire.Request("state"), lambda _: None)

    def _drop_oldest(self) -> None:
        """Drop half of the queue, so that this happens rarely."""
        kept: dict[object, wire.Frame] = {}
        while len(self._frames) > MOST_FRAMES // 2 or self._bytes > MOST_BYTES // 2:
            frame = self._frames.popleft()
            self._bytes -= len(frame.raw)
            if frame.sequence == wire.LOCAL_SEQUENCE or frame.kind in _SENT_ONCE:
                key = (frame.kind, frame.agent or frame.raw)
                kept.pop(key, None)
                kept[key] = frame  # only the last of each key, in order
            else:
                self.dropped += 1
                self._lost[frame.agent] = None
        self._frames.extendleft(reversed(kept.values()))
        self._bytes += sum(len(frame.raw) for frame in kept.values())
