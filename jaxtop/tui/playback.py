"""The position of the view in time: following the live run, or at any time of its history."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.model import Cluster
from jaxtop.model.hosts import interval
from jaxtop.model.session.difference import PastCluster
from jaxtop.model.session.summary import SessionSummary
from jaxtop.tui.core.moment import Mode, Moment

if TYPE_CHECKING:
    from jaxtop.model.state import LoggedEvent
    from jaxtop.store.probe_figures import Probe
    from jaxtop.tui.history import History

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
# Playback advances by at most this many seconds a tick, so a suspended app resumes at its old position.
LONGEST_TICK = 2.0
SHORTEST_SAMPLE = 0.01
# Two times that differ by less than this are equal.
_TIME_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Start:
    """The start position, speed and looping of a replay."""

    at: float | None = None
    speed: float = 1.0
    loop: bool = False
    is_playing: bool = True


class Playback:
    """Plays a history, or follows a live cluster. No other part depends on which of the two it is."""

    def __init__(
        self,
        live: Cluster | None,
        history: History | None = None,
        start: Start | None = None,
        probe: Probe | None = None,
    ) -> None:
        """Start at the present of a live cluster, or at the start of a history."""
        start = start or Start()
        self._probe = probe
        self._live = live
        self._history = history
        self._now = 0.0
        self._begun_at: float | None = None
        # The position. None: at the present.
        self._at: float | None = None if live is not None else (start.at or 0.0)
        self._is_set = live is not None or start.at is not None
        # Paused from the present, and not moved since.
        self._is_held = False
        self.is_playing = live is None and start.is_playing
        self.speed = start.speed
        self.is_looped = start.loop
        self._cluster = Cluster()
        self._moment: Moment | None = None
        # The marked time, to compare others with.
        self.mark: PastCluster | None = None

    @property
    def mode(self) -> Mode:
        if self._live is None:
            return Mode.REPLAY
        if self._at is None:
            return Mode.LIVE
        return Mode.PAUSED if self._is_held else Mode.REWIND

    @property
    def is_live(self) -> bool:
        return self._at is None

    @property
    def has_history(self) -> bool:
        return self._history is not None

    @property
    def has_present(self) -> bool:
        return self._live is not None

    @property
    def position(self) -> float:
        return self._now if self._at is None else self._at

    @property
    def lag(self) -> float:
        return max(0.0, self._now - self.position)

    @property
    def span(self) -> tuple[float, float]:
        span = self._history.span if self._history is not None else None
        first, last = span or (self.position, self.position)
        return first, max(last, self._now) if self._live is not None else last

    @property
    def _start(self) -> float:
        start = None if self._history is None else self._history.start
        return self.span[0] if start is None else start

    @property
    def overview(self) -> SessionSummary:
        return SessionSummary() if self._history is None else self._history.overview

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self._history is None else self._history.notes

    @property
    def moment(self) -> Moment:
        """The moment that is shown: the same object until the position changes, except at the present."""
        if self._live is not None and self._at is None:
            return Moment(self._live, self._now, self._probe, self._live_since)
        if self._moment is None:
            self._moment = self._read_moment()
        return self._moment

    @property
    def _live_since(self) -> float | None:
        return None if self._live is None else self._begun_at

    @property
    def sample(self) -> float:
        """The seconds between two samples of the host that reports most often."""
        # Use the cluster that was loaded last: loading one for each step would slow down fast stepping.
        loaded = self._cluster if self._live is None else self._live
        cluster = loaded if loaded.hosts else self.moment.cluster
        return max(SHORTEST_SAMPLE, interval(cluster))

    @property
    def _is_empty(self) -> bool:
        return self._history is None or self._history.span is None

    @property
    def _is_growing(self) -> bool:
        return self._history is not None and self._history.is_growing

    def _read_moment(self) -> Moment:
        if self._history is not None and self._history.span is not None:
            self._cluster = self._history.at(self.position)
        return Moment(self._cluster, self.position, self._probe, self._live_since)

    def tick(self, now: float) -> None:
        passed = min(LONGEST_TICK, max(0.0, now - self._now)) if self._begun_at is not None else 0.0
        self._now = now
        if self._begun_at is None:
            self._begun_at = now
        if self._at is None or self._history is None or self._history.span is None:
            return
        if not self._is_set:
            self._is_set = True
            self._move(self._start)
        elif self.is_playing and passed:
            self._play(self._at + passed * self.speed)

    def _play(self, to: float) -> None:
        end = self.span[1]
        if to < end:
            self._move(to)
        elif self._live is not None:
            self.to_end()
        elif self._is_growing:
            self._move(end)
        elif self.is_looped and end > (start := self._start):
            self._move(start + (to - end) % (end - start))
        else:
            self._move(end)
            self.is_playing = False

    def _move(self, to: float) -> None:
        if to != self._at:
            self._at = to
            self._moment = None
        self._is_held = False

    def hold_or_play(self) -> None:
        """Pause or resume. A replay that is at its end restarts from its start."""
        if self._at is None and self._live is not None:
            self._at, self._is_held = self._now, True
            self._cluster = self._live.frozen()
            self._moment = Moment(self._cluster, self._now, self._probe, self._live_since)
        elif self._is_held:
            self.to_end()
        elif self.is_playing:
            self.is_playing = False
        else:
            self.is_playing = True
            if self._live is None and self.position >= self.span[1] and not self._is_growing:
                self._move(self._start)

    def seek(self, to: float) -> None:
        """Go to this time, limited to the span. If playing, continue from there."""
        if self._is_empty:
            return
        start, end = self.span
        self._is_set = True
        self._move(min(max(to, start), end))

    def skip(self, seconds: float) -> None:
        """Move by this many seconds. At the present, a move forward does nothing."""
        if seconds < 0 or self._at is not None:
            self.seek(self.position + seconds)

    def step(self, samples: int) -> None:
        """Move by this many samples and pause. Both directions stop at the same times."""
        if self._is_empty or (samples > 0 and self._at is None):
            return
        start, sample = self.span[0], self.sample
        place = (self.position - start) / sample
        if abs(place - round(place)) * sample < _TIME_TOLERANCE:
            place = round(place)
        self.is_playing = False
        to = math.ceil(place) + samples if samples < 0 else math.floor(place) + samples
        self.seek(start + to * sample)

    def to_event(self, way: int) -> LoggedEvent | None:
        """Go to the next or the previous event and pause. Return the event; None if there is none."""
        start, here = self.span[0], self.position
        # A history that has dropped its beginning still lists the events of that time.
        shown = [each for each in self.overview.events if each.at >= start - _TIME_TOLERANCE]
        after = [each for each in shown if (each.at - here) * way > _TIME_TOLERANCE]
        if not after:
            return None
        found = min(after, key=lambda each: each.at * way)
        self.is_playing = False
        self.seek(found.at)
        return found

    def to_start(self) -> None:
        self.seek(self._start)

    def to_end(self) -> None:
        if self._live is None:
            self.seek(self.span[1])
            self.is_playing = self.is_playing and self._is_growing
        else:
            self._at, self._moment = None, None
            self._is_held = self.is_playing = False
            self._cluster = Cluster()

    def faster(self, by: int) -> None:
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(math.log(SPEEDS[i] / self.speed)))
        self.speed = SPEEDS[min(max(nearest + by, 0), len(SPEEDS) - 1)]

    def loop(self) -> None:
        self.is_looped = not self.is_looped

    def set_mark(self) -> None:
        moment = self.moment
        self.mark = PastCluster(moment.now, moment.cluster.frozen())

    @property
    def is_at_mark(self) -> bool:
        return self.mark is not None and abs(self.mark.at - self.position) < _TIME_TOLERANCE

    def drop_mark(self) -> None:
        self.mark = None
