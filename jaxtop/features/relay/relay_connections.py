"""Relays at an address: a viewer dials one as it dials an agent, and sees all agents behind it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import zmq
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base import debuglog
from jaxtop.features.relay import stream
from jaxtop.features.relay.conversation import Conversation, NoRelay, shown
from jaxtop.transport import RelayConnection
from jaxtop.transport.client import UP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtop.base.keys import KeyPair
    from jaxtop.sources.descriptors import Descriptors

# The relay must say within this time that frames will follow.
OPEN_WITHIN_S = 10.0
# The most messages of one poll: a relay that never stops sending must not hold up the viewer.
MESSAGES_AT_ONCE = 256
# The socket, its monitor, and what ZeroMQ needs for them.
DESCRIPTORS_EACH = 6
# The most relays that are followed.
MAX_RELAYS = 64


class _DialledRelay:
    """One relay: where it was found, and the conversation with it."""

    def __init__(self, target: str, endpoint: str, dialogue: RelayConnection, now: float) -> None:
        self.target, self.endpoint = target, endpoint
        self.dialogue = dialogue
        self.conversation = Conversation(f"the relay at {endpoint}", self._send, now)
        self.open_by = now + OPEN_WITHIN_S
        # The targets of the relay behind which no agent was met yet.
        self.unmet: set[str] = set()
        self._send(stream.Open(version=wire.VERSION))

    def _send(self, message: stream.Message) -> None:
        self.dialogue.send(stream.encode(message))

    def take(self, now: float) -> None:
        """Process what has come; raise `NoRelay` if the connection is lost or makes no sense."""
        try:
            for raw in self.dialogue.take(MESSAGES_AT_ONCE):
                self.conversation.process(stream.decode(raw), now)
        except stream.Garbled as error:
            raise NoRelay(f"the relay at {self.endpoint} makes no sense: {shown(str(error))}") from None
        for change in self.dialogue.changes():
            if change.what != UP:
                raise NoRelay(f"the connection to it ended ({change.what})")
        self.conversation.advance(now)
        if not self.conversation.is_open and now > self.open_by:
            raise NoRelay(f"it answered, but did not open within {OPEN_WITHIN_S:.0f} s")


class DialledRelays:
    """The relays that were found, by their ids.

    `seek` looks for a lost relay at its address again; `own_id` is the id of this process if it is a relay.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keys: KeyPair,
        server: bytes,
        descriptors: Descriptors,
        seek: Callable[[str, tuple[str, ...]], None],
        *,
        own_id: str = "",
    ) -> None:
        self._context, self._keys, self._server = context, keys, server
        self._descriptors, self._seek, self._own_id = descriptors, seek, own_id
        self._relays: dict[str, _DialledRelay] = {}
        self._why_lost: dict[str, tuple[float, str]] = {}
        self._why_not: dict[str, str] = {}

    @property
    def is_settled(self) -> bool:
        """Whether every relay has sent what it knows, and its own source is settled."""
        return all(
            each.conversation.is_open and each.conversation.status.is_settled
            for each in self._relays.values()
        )

    def notes(self, now: float) -> list[str]:
        """Return notes for the user about the relays and from them, one per line."""
        lost = [
            f"the relay at {endpoint} was lost {round(now - at)} s ago: {why}"
            for endpoint, (at, why) in self._why_lost.items()
        ]
        said = [
            f"{each.conversation.name}: {shown(note)}"
            for each in self._relays.values()
            for note in each.conversation.status.notes
        ]
        left_out = [f"{endpoint} is not followed: {why}" for endpoint, why in self._why_not.items()]
        return lost + left_out + said

    def rejected(self) -> Counter[str]:
        """Return what the relays rejected."""
        return sum((each.conversation.rejected for each in self._relays.values()), Counter())

    def found(self, target: str, endpoint: str, relay: str, now: float) -> bool:
        """Follow the relay that answered at an address; return False if that must be tried again later."""
        self._why_lost.pop(endpoint, None)
        if relay in self._relays:
            return True
        if relay == self._own_id or len(self._relays) >= MAX_RELAYS:
            is_own = relay == self._own_id
            self._why_not[endpoint] = "it is this relay" if is_own else f"more than {MAX_RELAYS} relays"
            return True
        if not self._descriptors.take(DESCRIPTORS_EACH):
            return False
        try:
            dialogue = RelayConnection(self._context, self._keys, self._server, endpoint)
        except zmq.ZMQError:  # other code has taken the last descriptors
            return False
        self._relays[relay] = _DialledRelay(target, endpoint, dialogue, now)
        return True

    def wait_with(self, poller: zmq.Poller) -> None:
        """Let messages wake this poller."""
        for each in self._relays.values():
            poller.register(each.dialogue.socket, zmq.POLLIN)
            poller.register(each.dialogue.monitor, zmq.POLLIN)

    def take(self, now: float) -> Iterator[tuple[str, wire.Frame]]:
        """Yield the frames that have come, each with the id of its relay."""
        for relay, each in list(self._relays.items()):
            try:
                each.take(now)
            except NoRelay as error:
                self._lose(relay, each, str(error), now)
            for frame in each.conversation.take():
                yield relay, self._noted(each, frame) if not frame.agent else frame
            if relay not in self._relays:
                for endpoint in each.unmet:
                    yield relay, wire.local_frame(now, "", wire.Link(wire.LinkState.MERGED, endpoint))
                self._seek(each.target, (each.endpoint,))

    def request(
        self,
        relay: str,
        agent: str,
        request: wire.Request,
        now: float,
        done: Callable[[wire.Reply | None], None],
    ) -> None:
        each = self._relays.get(relay)
        if each is None:
            done(None)
        else:
            each.conversation.request(agent, request, now, done)

    def close(self) -> None:
        for each in self._relays.values():
            each.dialogue.close()
        self._relays.clear()

    def _lose(self, relay: str, each: _DialledRelay, why: str, now: float) -> None:
        debuglog.warning("relay", f"lost at {each.endpoint}", why)
        each.conversation.end(now)
        each.dialogue.close()
        del self._relays[relay]
        self._why_lost[each.endpoint] = now, why

    def _noted(self, each: _DialledRelay, frame: wire.Frame) -> wire.Frame:
        """Return a frame about a target of the relay; its name says behind which relay it is."""
        link = wire.link_of(frame)
        if link is None:
            return frame
        endpoint = f"{link.endpoint} behind {each.endpoint}"
        if link.state is wire.LinkState.MERGED or (self._own_id and self._own_id in link.path):
            each.unmet.discard(endpoint)
            merged = replace(link, state=wire.LinkState.MERGED, endpoint=endpoint)
            return wire.local_frame(frame.at, "", merged)
        each.unmet.add(endpoint)
        return wire.local_frame(frame.at, "", replace(link, endpoint=endpoint))
