"""The frames for one viewer of a relay: every frame while it keeps up, the last frames where it does not."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.relay import stream
from jaxtop.store.last_frames import BULKY, ONCE, ORDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtop import wire
    from jaxtop.features.relay.agent_frames import LastFramesByAgent

# A message ends with the frame that exceeds this, so that it stays below `stream.MAX_BYTES`.
BATCH_BYTES = 1 << 18
# The fewest bytes on the way to a viewer.
MIN_AHEAD = 1 << 16
# The most bytes on the way to a viewer. More is sent ahead only while messages arrive fast: so the newest
# frame is never much later than `SLOW_S`.
MAX_AHEAD = 4 << 20
# A message that arrives within this many seconds is fast.
FAST_S = 0.5
# A message that takes longer than this many seconds is slow.
SLOW_S = 1.5
# Frames that wait longer than this many seconds are replaced by the last frames.
LATE_S = 1.0
# More bytes of frames that wait are replaced by the last frames, too.
MAX_READY = 4 << 20
# The most bytes of log events that wait. Older ones are dropped.
MAX_EVENTS = 4 << 20
# An answer follows the frames that came with it, but must not come too late behind others.
ANSWER_WITHIN_S = 5.0
# The most seconds between two statuses, and the fewest if it changed. One follows at once when all is sent.
STATUS_EVERY_S, STATUS_SOONEST_S = 2.0, 0.5
_LIGHT = tuple(kind for kind in ORDER if kind not in BULKY)


class Batch(NamedTuple):
    """Frames that are sent together, and the message. All viewers share it."""

    at: float
    frames: Sequence[wire.Frame]
    raw: bytes


def batches(frames: Iterable[wire.Frame], at: float) -> Iterator[Batch]:
    """Pack frames into messages."""
    batch: list[wire.Frame] = []
    size = 0
    for frame in frames:
        batch.append(frame)
        size += len(frame.raw)
        if size > BATCH_BYTES:
            yield _packed(batch, at)
            batch, size = [], 0
    if batch:
        yield _packed(batch, at)


def _packed(frames: Sequence[wire.Frame], at: float) -> Batch:
    message = stream.RelayedFrames(tuple((each.agent, each.kind, each.sequence, each.raw) for each in frames))
    return Batch(at, frames, stream.encode(message))


class ViewerFeed:
    """The frames, answers and states for one viewer.

    `send` sends a message without waiting; it returns False if there is no room for it.
    """

    def __init__(self, latest: LastFramesByAgent, send: Callable[[bytes], bool]) -> None:
        self._latest, self._send = latest, send
        # Messages of last frames, and then of new frames.
        self._chosen: deque[Batch] = deque()
        self._ready: deque[Batch] = deque()
        # The kinds of last frames that are to be sent, by agent: small ones, which are sent in turns with the
        # large ones. A newcomer gets all.
        self._light: dict[str, set[str]] = {}
        self._bulky: dict[str, set[str]] = {}
        for agent in latest.agents:
            self.owe(agent)
        self._is_turn_of_bulky = False
        self._events: deque[wire.Frame] = deque()
        self._event_bytes = 0
        self._answers: deque[tuple[float, stream.Answer]] = deque()
        self._status: stream.Status | None = None
        self._status_due = 0.0
        # The sizes and times of the messages on the way.
        self._sent: deque[tuple[int, float]] = deque()
        self._ahead = self._arrived = 0
        self._most_ahead = MIN_AHEAD
        self.asked = 0  # requests without an answer so far
        self.missed = 0  # log events that were dropped

    @property
    def is_up_to_date(self) -> bool:
        """Whether everything was sent."""
        return not (self._chosen or self._ready or self._light or self._bulky or self._events)

    def offer(self, made: Iterable[Batch]) -> None:
        """Take new frames, which `latest` has already stored."""
        for batch in made:
            if self._light or self._bulky or self._events:
                self._owe(batch.frames)
            else:
                self._ready.append(batch)
        if sum(len(batch.raw) for batch in self._ready) > MAX_READY:
            self._conflate()

    def owe(self, agent: str) -> None:
        """Send the last frames of an agent again."""
        self._light[agent], self._bulky[agent] = set(_LIGHT), set(BULKY)

    def answer(self, number: int, reply: wire.Reply | None, now: float) -> None:
        self._answers.append((now, stream.Answer(number, reply)))

    def arrived(self, count: int, now: float) -> None:
        """Note how many messages with frames have arrived."""
        while self._arrived < count and self._sent:
            self._arrived += 1
            size, at = self._sent.popleft()
            self._ahead -= size
            if now - at > SLOW_S:
                self._most_ahead = max(MIN_AHEAD, self._most_ahead // 2)
            elif now - at < FAST_S:
                self._most_ahead = min(MAX_AHEAD, self._most_ahead + size)

    def pump(self, now: float, is_settled: bool, notes: Iterable[str], rejected: dict[str, int]) -> None:
        """Send what there is room for: frames, then the answers and the state, which are about them."""
        while self._ahead < self._most_ahead and (batch := self._next(now)) is not None:
            if not self._send(batch.raw):
                self._chosen.appendleft(batch)
                break
            self._sent.append((len(batch.raw), now))
            self._ahead += len(batch.raw)
        if self._ready and now - self._ready[0].at > LATE_S:
            self._conflate()
        self._pass_answers(now)
        if self.missed:
            rejected = {**rejected, "the connection to the viewer was too slow": self.missed}
        status = stream.status_of(is_settled and self.is_up_to_date, notes, rejected)
        if self._is_due(status, now) and self._send(stream.encode(status)):
            self._status, self._status_due = status, now + STATUS_EVERY_S

    def _is_due(self, status: stream.Status, now: float) -> bool:
        if self._status is None or status.is_settled != self._status.is_settled:
            return True
        soonest = self._status_due - STATUS_EVERY_S + STATUS_SOONEST_S
        return now >= self._status_due or (now >= soonest and status != self._status)

    def _pass_answers(self, now: float) -> None:
        while self._answers and (self.is_up_to_date or self._answers[0][0] < now - ANSWER_WITHIN_S):
            if not self._send(stream.encode(self._answers[0][1])):
                return
            self._answers.popleft()
            self.asked -= 1

    def _conflate(self) -> None:
        late, self._ready = self._ready, deque()
        for batch in late:
            self._owe(batch.frames)

    def _owe(self, frames: Iterable[wire.Frame]) -> None:
        for frame in frames:
            if frame.kind in ONCE:
                self._events.append(frame)
                self._event_bytes += len(frame.raw)
            else:
                owed = self._bulky if frame.kind in BULKY else self._light
                owed.setdefault(frame.agent, set()).add(frame.kind)
        while self._event_bytes > MAX_EVENTS:
            self._event_bytes -= len(self._events.popleft().raw)
            self.missed += 1

    def _next(self, now: float) -> Batch | None:
        """Return the next message with frames, if there is one."""
        if not self._chosen and not self._ready:
            self._chosen.extend(batches(self._last_values(now), now))
        queue = self._chosen or self._ready
        return queue.popleft() if queue else None

    def _last_values(self, now: float) -> list[wire.Frame]:
        """Return some of the frames that are owed; empty if none are."""
        found: list[wire.Frame] = []
        size, most = 0, min(BATCH_BYTES, self._most_ahead)
        while size < most and self._events:
            found.append(self._events.popleft())
            size += len(found[-1].raw)
            self._event_bytes -= len(found[-1].raw)
        self._is_turn_of_bulky = bool(self._bulky) and (not self._light or not self._is_turn_of_bulky)
        owed = self._bulky if self._is_turn_of_bulky else self._light
        while size < most and owed:
            agent = next(iter(owed))
            frames = self._latest.frames(agent, owed.pop(agent), now)
            found += frames
            size += sum(len(each.raw) for each in frames)
        return found if found or not (self._light or self._bulky) else self._last_values(now)
