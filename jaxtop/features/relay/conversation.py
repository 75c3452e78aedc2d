"""The viewer end of a relay, whatever connects the two: what has come, what was asked, what a cut means."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.base import debuglog
from jaxtop.base.names import legible, shorten
from jaxtop.features.relay import stream

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_WITHIN_S = 10.0
# The relay drops a viewer from which nothing arrives for longer. `ARRIVED_EVERY_S` limits the reports of
# how much has arrived.
ALIVE_EVERY_S, ARRIVED_EVERY_S = 5.0, 0.1
# The relay sends a status every two seconds. After this time without one, the connection is lost.
LOST_AFTER_S = 20.0
# The viewer was suspended, or the machine slept, if two polls are this far apart.
LATE_S = 5.0
# The most agents whose links are remembered.
MAX_LINKS = wire.MAX_DEVICES
LONGEST_LINE = 300


class NoRelay(Exception):
    """The relay cannot be reached; the text says why and what to do."""


class _OpenRequest(NamedTuple):
    done: Callable[[wire.Reply | None], None]
    until: float


class Conversation:
    """One connection to a relay; `name` is how errors call the way to it."""

    def __init__(self, name: str, send: Callable[[stream.Message], None], now: float) -> None:
        self.name, self._send = name, send
        self.is_open = False
        self.status = stream.Status()
        self.rejected: Counter[str] = Counter()
        self._heard_at = self._polled_at = now
        self._alive_due = now + ALIVE_EVERY_S
        self._arrived = self._arrived_told = 0
        self._asked: dict[int, _OpenRequest] = {}
        self._numbers = 0
        # The endpoints of the agents whose link is up.
        self._up: dict[str, str] = {}
        self._out: list[wire.Frame] = []

    def process(self, message: stream.Message, now: float) -> None:
        """Process a message; raise `NoRelay` or `Garbled` when the conversation is over."""
        self._heard_at = now
        match message:
            case stream.RelayRefused():
                raise NoRelay(f"{shown(message.why)} (through {self.name})")
            case stream.Opened() if message.version != wire.VERSION:
                raise NoRelay(f"{self.name} {stream.other_version(message.version)}")
            case stream.Opened() if not self.is_open:
                self.is_open = True
                debuglog.info("relay", f"open through {self.name}", shown(message.jaxtop))
            case stream.RelayedFrames() if self.is_open:
                self._arrived += 1
                self._out += [self._noted(wire.Frame(now, *each)) for each in message.frames]
            case stream.Answer() if self.is_open:
                asked = self._asked.pop(message.number, None)
                if asked is not None:
                    asked.done(message.reply)
            case stream.Status() if self.is_open:
                self.status = message
                self.rejected = Counter({shown(why): count for why, count in message.rejected.items()})
            case _:
                raise stream.Garbled(f"an unexpected message ({type(message).__name__})")

    def heard(self, now: float) -> None:
        """Note that bytes have come, which may not be a whole message."""
        self._heard_at = now

    def advance(self, now: float) -> None:
        """Report what has arrived, drop overdue requests; raise `NoRelay` if the relay sends nothing."""
        if now - self._polled_at > LATE_S:
            self._heard_at = now  # this side did not read meanwhile
        self._polled_at = now
        is_news = self._arrived != self._arrived_told
        if now >= self._alive_due or (is_news and now >= self._alive_due - ALIVE_EVERY_S + ARRIVED_EVERY_S):
            self._alive_due, self._arrived_told = now + ALIVE_EVERY_S, self._arrived
            self._send(stream.Alive(self._arrived))
        for number in [number for number, asked in self._asked.items() if asked.until < now]:
            self._asked.pop(number).done(None)
        if self.is_open and now - self._heard_at > LOST_AFTER_S:
            raise NoRelay(f"{self.name} said nothing for {LOST_AFTER_S:.0f} s")

    def take(self) -> list[wire.Frame]:
        """Return the frames that have come since the last call."""
        out, self._out = self._out, []
        return out

    def request(
        self, agent: str, request: wire.Request, now: float, done: Callable[[wire.Reply | None], None]
    ) -> None:
        if not self.is_open:
            done(None)
            return
        self._numbers += 1
        self._asked[self._numbers] = _OpenRequest(done, now + ANSWER_WITHIN_S)
        self._send(stream.RelayedRequest(self._numbers, agent, request))

    def end(self, now: float) -> None:
        """Note a cut: every agent is out of reach until the next connection, and no answer comes."""
        for agent, endpoint in self._up.items():
            lost = wire.Link(wire.LinkState.UNREACHABLE, endpoint, f"{self.name} was cut")
            self._out.append(wire.local_frame(now, agent, lost))
        self._up.clear()
        self.is_open = False
        asked, self._asked = self._asked, {}
        for each in asked.values():
            each.done(None)

    def _noted(self, frame: wire.Frame) -> wire.Frame:
        """Return the frame; remember which links are up, because a cut takes them down."""
        if frame.kind == "link":
            link = wire.link_of(frame)
            if link is None or link.state is not wire.LinkState.UP:
                self._up.pop(frame.agent, None)
            elif frame.agent and len(self._up) < MAX_LINKS:
                self._up[frame.agent] = link.endpoint
        elif frame.kind in wire.OWN_KINDS:
            raise stream.Garbled(f"a frame of kind {frame.kind}")
        return frame


def shown(text: str) -> str:
    """Return a text of the other side as one line that is safe on a terminal."""
    return shorten(legible(text.strip()), LONGEST_LINE)
