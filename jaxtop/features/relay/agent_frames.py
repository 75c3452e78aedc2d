"""The last frames of all agents of a relay: bounded, and forgotten after a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jaxtop import wire
from jaxtop.store.last_frames import BULKY, ONCE, LastFrames

if TYPE_CHECKING:
    from collections.abc import Collection

# The most agents.
MAX_AGENTS = 16_384
# The most bytes of all agents. Beyond them, only small frames are stored.
MAX_BYTES = 1 << 30
# Seconds after which processes that exited or cannot be reached are forgotten.
AWAY_S = 3600.0
# The most processes that exited or cannot be reached.
MAX_AWAY = 1024


class _Agent:
    """The last frames of one agent, and whether it is heard, or since when it is away."""

    __slots__ = ("away_at", "is_up", "last")

    def __init__(self) -> None:
        self.last = LastFrames()
        self.is_up = False
        self.away_at: float | None = None

    def note(self, frame: wire.Frame) -> None:
        """Note what a frame says about whether it is there."""
        if frame.kind == "bye":
            self.away_at = self.away_at or frame.at
        elif (link := wire.link_of(frame)) is not None:
            self.is_up = link.state is wire.LinkState.UP
            if link.state.is_away:
                self.away_at = self.away_at or frame.at
            elif self.is_up and "bye" not in self.last:
                self.away_at = None


class LastFramesByAgent:
    """The last frames of each agent. Frames without an agent are those of targets and of run files."""

    def __init__(self) -> None:
        self._agents: dict[str, _Agent] = {}
        self.size = 0  # the number of bytes stored
        self._left_out: set[str] = set()
        # Agents whose state is not complete: it must be requested.
        self.broken: dict[str, None] = {}

    def __len__(self) -> int:
        """Return the number of agents."""
        return len(self._agents) - ("" in self._agents)

    def __contains__(self, agent: str) -> bool:
        return agent in self._agents

    @property
    def agents(self) -> list[str]:
        return list(self._agents)

    @property
    def up(self) -> int:
        """The number of agents that are heard."""
        return sum(held.is_up for held in self._agents.values())

    def unmet(self) -> list[wire.Link]:
        """Return the targets behind which no agent was met yet."""
        found = map(wire.link_of, self.frames("", ("link",), 0.0))
        return [link for link in found if link is not None and link.state is not wire.LinkState.MERGED]

    @property
    def notes(self) -> list[str]:
        count = len(self._left_out)
        what = f"the relay does not hold all of {count} processes: they are too many or too large"
        return [what] if count else []

    def take(self, frame: wire.Frame) -> bool:
        """Store a frame of `poll`; return False if it cannot be read, or its agent is one too many."""
        if frame.kind in ONCE:
            return True
        held = self._agents.get(frame.agent)
        if held is None:
            if len(self._agents) >= MAX_AGENTS:
                self._leave_out(frame.agent)
                return False
            held = self._agents[frame.agent] = _Agent()
        last, before = held.last, held.last.size
        try:
            last.take(frame)
            if frame.agent:
                held.note(frame)
        except (msgspec.DecodeError, wire.Unreadable, RecursionError):
            if last.is_broken:
                self.broken[frame.agent] = None
            return False
        finally:
            self.size += last.size - before
        self._check(frame, last)
        return True

    def _check(self, frame: wire.Frame, last: LastFrames) -> None:
        """Keep within the bounds, and note whose state is complete again, or no longer."""
        before = last.size
        while frame.kind in BULKY and self.size - before + last.size > MAX_BYTES and last.drop_oldest():
            pass
        self.size += last.size - before
        if not last.is_complete:
            self._leave_out(frame.agent)
        if not last.is_broken:
            self.broken.pop(frame.agent, None)

    def frames(self, agent: str, kinds: Collection[str], now: float) -> list[wire.Frame]:
        """Return the last frames of these kinds, in the order of a newcomer."""
        held = self._agents.get(agent)
        return [] if held is None else held.last.frames(now, kinds)

    def forget(self, now: float) -> list[str]:
        """Forget processes that left long ago, or too many of them; return their agents."""
        away = sorted((held.away_at, agent) for agent, held in self._agents.items() if held.away_at)
        many = len(away) - MAX_AWAY
        gone = [agent for i, (at, agent) in enumerate(away) if i < many or now - at > AWAY_S]
        for agent in gone:
            self.size -= self._agents.pop(agent).last.size
            self.broken.pop(agent, None)
        return gone

    def _leave_out(self, agent: str) -> None:
        if len(self._left_out) < MAX_AGENTS:
            self._left_out.add(agent)
