"""A relay at an address: many agents, and other relays, behind one port."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from jaxtop import __version__, wire
from jaxtop.base import debuglog
from jaxtop.base.clock import now_ms, steady
from jaxtop.features.relay import stream
from jaxtop.features.relay.outlet import Outlet
from jaxtop.transport.telemetry import MOST_VIEWERS

if TYPE_CHECKING:
    from jaxtop.features.relay.feed import ViewerFeed
    from jaxtop.sources.source import Source
    from jaxtop.transport.hub import Hub
    from jaxtop.transport.server import ReceivedRequest

# A viewer sends something every five seconds. After this time without it, it is gone.
LOST_AFTER_S = 20.0
# The most requests of a viewer that are under way.
MAX_ASKED = 1024


def new_id() -> str:
    return secrets.token_hex(8)


class _Viewer:
    """A viewer that is connected."""

    def __init__(self, feed: ViewerFeed, now: float) -> None:
        self.feed = feed
        self.heard_at = now


class ListeningRelay:
    """Serves the agents of a source to the viewers of a listening socket; used by one thread."""

    def __init__(self, source: Source, hub: Hub, own_id: str) -> None:
        self._hub, self._own_id = hub, own_id
        self.outlet = Outlet(source, own_id)
        self._viewers: dict[bytes, _Viewer] = {}

    def turn(self, timeout: float) -> None:
        """Pass on what arrives within this time, and answer what viewers asked."""
        self.outlet.poll(timeout)
        now = steady()
        for asked in self._hub.take():
            self._answer(asked, now)
        for address, viewer in list(self._viewers.items()):
            if now - viewer.heard_at > LOST_AFTER_S:
                self._part_with(address)
                continue
            try:
                self.outlet.pump(viewer.feed)
            except ConnectionError:
                self._part_with(address)

    def _answer(self, asked: ReceivedRequest, now: float) -> None:
        viewer = self._viewers.get(asked.sender)
        if viewer is not None:
            viewer.heard_at = now
        try:
            message = stream.decode_asked(asked.raw)
        except stream.Garbled:
            return
        match message:
            case wire.Request():
                self._introduce(asked.sender, message)
            case stream.Open() if viewer is None:
                self._open(asked, message.version, now)
            case stream.Alive() if viewer is not None:
                viewer.feed.arrived(message.arrived, now)
            case stream.RelayedRequest() if viewer is not None and viewer.feed.asked < MAX_ASKED:
                self.outlet.ask(viewer.feed, message, is_owner=asked.is_owner)

    def _introduce(self, sender: bytes, request: wire.Request) -> None:
        """Answer a request to the agent at this address: there is a relay."""
        why = "this is a relay, which this jaxtop does not know: install the version of the relay"
        self._try_send(sender, wire.encode(wire.Reply(request.what, why, now_ms(), self._own_id)))

    def _open(self, asked: ReceivedRequest, version: int, now: float) -> None:
        if version != wire.VERSION:
            why = f"the viewer {stream.other_version(version)}"
            self._try_send(asked.sender, stream.encode(stream.RelayRefused(why)))
        elif len(self._viewers) >= MOST_VIEWERS:
            why = f"the relay has {MOST_VIEWERS} viewers, and takes no more"
            self._try_send(asked.sender, stream.encode(stream.RelayRefused(why)))
        elif self._try_send(asked.sender, stream.encode(stream.Opened(__version__, wire.VERSION))):
            sender = asked.sender
            feed = self.outlet.add(lambda raw: self._hub.send(sender, raw))
            self._viewers[sender] = _Viewer(feed, now)
            debuglog.info("relay", f"viewers: {len(self._viewers)}")

    def _try_send(self, receiver: bytes, raw: bytes) -> bool:
        try:
            return self._hub.send(receiver, raw)
        except ConnectionError:  # it has left
            return False

    def _part_with(self, address: bytes) -> None:
        self.outlet.remove(self._viewers.pop(address).feed)
        debuglog.info("relay", f"viewers: {len(self._viewers)}")
