"""The part that both kinds of relays share: one source, and the feeds of all viewers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base import debuglog
from jaxtop.base.clock import now_ms, steady
from jaxtop.features.relay.agent_frames import LastFramesByAgent
from jaxtop.features.relay.feed import ViewerFeed, batches
from jaxtop.sources.backlog import MEND_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.features.relay import stream
    from jaxtop.sources.source import Source

FORGET_EVERY_S = 60.0
MAX_FORGOTTEN = 10_000
NOT_OWNER = "only the owner of the relay may do this"


class Outlet:
    """Passes the frames of a source on to viewers; used by one thread."""

    def __init__(self, source: Source, own_id: str = "") -> None:
        self.source = source
        self.latest = LastFramesByAgent()
        self._own_id = own_id
        self._feeds: list[ViewerFeed] = []
        self._forget_due = 0.0
        # Agents whose state must be requested if they come back.
        self._forgotten: dict[str, None] = {}
        self._unreadable = 0
        # Whether the source is settled, its notes, and what was rejected: for all viewers the same.
        self._said: tuple[bool, list[str], dict[str, int]] = (False, [], {})

    def add(self, send: Callable[[bytes], bool]) -> ViewerFeed:
        """Begin to send to a viewer: first the last frames of all agents."""
        feed = ViewerFeed(self.latest, send)
        self._feeds.append(feed)
        return feed

    def remove(self, feed: ViewerFeed) -> None:
        self._feeds.remove(feed)

    def poll(self, timeout: float) -> None:
        """Take what the source has, waiting for at most `timeout` seconds, and offer it to the viewers."""
        frames = []
        for frame in self.source.poll(timeout):
            passed = self._through_this(frame)
            if frame.agent in self._forgotten:
                del self._forgotten[frame.agent]
                self.latest.broken[frame.agent] = None
            if self.latest.take(passed):
                frames.append(passed)
            else:
                self._unreadable += 1
        now = steady()
        made = list(batches(frames, now))
        for feed in self._feeds:
            feed.offer(made)
        for agent in list(self.latest.broken)[:MEND_AT_ONCE]:
            del self.latest.broken[agent]
            debuglog.info("relay", "the state is not complete; it is requested", agent)
            self.source.request(agent, wire.Request("state"), lambda _: None)
        if now >= self._forget_due:
            self._forget_due = now + FORGET_EVERY_S
            self._forgotten.update(dict.fromkeys(self.latest.forget(now)))
            for agent in list(self._forgotten)[:-MAX_FORGOTTEN]:
                del self._forgotten[agent]
        rejected = dict(self.source.rejected)
        if self._unreadable:
            rejected["a relay could not read or store them"] = self._unreadable
        self._said = self.source.is_settled, [*self.source.notes, *self.latest.notes], rejected

    def pump(self, feed: ViewerFeed) -> None:
        """Send to a viewer what it has room for."""
        feed.pump(steady(), *self._said)

    def ask(self, feed: ViewerFeed, asked: stream.RelayedRequest, *, is_owner: bool) -> None:
        """Pass a request on to its agent, and the reply to the viewer. States are answered from here."""
        what = asked.request.what
        feed.asked += 1

        def done(reply: wire.Reply | None) -> None:
            feed.answer(asked.number, reply, steady())

        if not is_owner and what not in wire.READING:
            done(wire.Reply(what, NOT_OWNER, now_ms()))
        elif what == "state" and asked.agent in self.latest:
            feed.owe(asked.agent)
            done(wire.Reply(what, at_ms=now_ms()))
        else:
            self.source.request(asked.agent, asked.request, done)

    def _through_this(self, frame: wire.Frame) -> wire.Frame:
        """Return the frame; a link says that it is seen through this relay."""
        link = wire.link_of(frame) if self._own_id else None
        if link is None:
            return frame
        path = (self._own_id, *link.path)[: wire.MAX_PATH]
        return frame._replace(raw=wire.encode(replace(link, path=path)))
