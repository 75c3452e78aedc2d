"""A recorded session: the cluster at any time, folded from one or more recordings."""

from __future__ import annotations

import gc
import time
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from jaxtop.model import Cluster, State, state_of
from jaxtop.model.keyframe import PastEvents
from jaxtop.model.tuning import AS_DECLARED
from jaxtop.recording import NotARecording, Recording
from jaxtop.sources.overview import SessionOverview
from jaxtop.sources.starts import Starts, begun, frames_between
from jaxtop.sources.streams import clock_notes, tracks
from jaxtop.wire.bounds import NANOSECONDS, to_ns, to_seconds

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from pathlib import Path

    from jaxtop import wire
    from jaxtop.model import Tuning
    from jaxtop.model.session.summary import SessionSummary

LOOK_AGAIN_AFTER = 0.5
# To go forward by more than about this many seconds, beginning at a keyframe may be quicker than folding on.
FARTHEST_ON = 30.0
# A host that appears later than this after the start of a recording is not waited for.
SETTLES_WITHIN_NS = 3 * NANOSECONDS
# The kinds that decide whether a host is connected.
_OF_STATES = frozenset({"hello", "roster", "link", "pulse", "bye"})


class Session:
    """One recording, or several of the same session. Each moment is folded from an earlier keyframe."""

    def __init__(
        self, paths: Sequence[Path], skippable: Container[Path] = (), tuning: Tuning = AS_DECLARED
    ) -> None:
        """Open these files. A skippable file that is not a recording only adds a note."""
        recordings, self._skipped = _opened(paths, skippable)
        self._tracks = tracks(recordings)
        self._tuning = tuning
        self._cluster = Cluster(tuning=tuning)
        self._at: int | None = None
        self._starts = Starts()
        self._looked = time.monotonic()

    def close(self) -> None:
        for recording in self.recordings:
            recording.close()

    @property
    def recordings(self) -> Iterator[Recording]:
        return (each for track in self._tracks for each in track.recordings)

    @property
    def span(self) -> tuple[float, float] | None:
        """The times of the first and the last moment."""
        if time.monotonic() - self._looked >= LOOK_AGAIN_AFTER:
            self.refresh()
        spans = [span for track in self._tracks if (span := track.span) is not None]
        return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None

    @property
    def start(self) -> float | None:
        """The first moment worth showing: each host that appeared at the start is connected."""
        span = self.span
        if span is None:
            return None
        first = to_ns(span[0])
        cluster, starts = begun(self._tracks, first, self._tuning)
        known: set[str] = set()
        awaited: list[str] = []
        for _, frame in frames_between(self._tracks, starts, None, first + SETTLES_WITHIN_NS):
            if frame.kind not in _OF_STATES:
                continue
            cluster.feed(frame)
            if len(cluster.hosts) > len(known):
                awaited += cluster.hosts.keys() - known
                known.update(awaited)
            if frame.kind != "pulse":
                continue
            while awaited and state_of(cluster.hosts[awaited[-1]], frame.at) is not State.CONNECTING:
                awaited.pop()
            if not awaited:
                return frame.at
        return span[0]

    @property
    def is_growing(self) -> bool:
        return any(track.is_growing for track in self._tracks)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on the state of the files and on how well their clocks agree."""
        notes = [
            note
            for track in self._tracks
            for recording in track.recordings
            for note in recording.notes
            if not (track.is_growing and recording is track.recordings[-1])
        ]
        return (*self._skipped, *notes, *clock_notes(self._tracks))

    @cached_property
    def _overview(self) -> SessionOverview:
        return SessionOverview(self._tracks)

    @property
    def overview(self) -> SessionSummary:
        return self._overview.summary

    def at(self, when: float) -> Cluster:
        """Return the cluster at this time. A later time continues the cluster of the previous call."""
        ns = to_ns(when)
        if self._at is None or ns < self._at or self._is_far(self._at, ns):
            with _no_collection():
                self._cluster, self._starts = self._begin(ns)
                self._go_on(ns)
        else:
            self._go_on(ns)
        return self._cluster

    def _go_on(self, ns: int) -> None:
        for _, frame in frames_between(self._tracks, self._starts, self._at, ns):
            self._cluster.feed(frame)
        self._at = ns

    def frames(self, after: float | None = None, until: float | None = None) -> Iterator[wire.Frame]:
        """Return the frames of all files in the order of their times."""
        bounds = [None if each is None else to_ns(each) for each in (after, until)]
        return (frame for _, frame in frames_between(self._tracks, Starts(), *bounds))

    def opening(self) -> Iterator[wire.Frame]:
        """Yield what was sent before the recordings began; of black boxes `frames` has it."""
        return (frame for track in self._tracks for frame in track.opening())

    def following(self, when: float) -> float | None:
        """Return a lower bound of the time of the next frame after `when`; None if there is none."""
        found = [at for track in self._tracks if (at := track.following(to_ns(when))) is not None]
        return to_seconds(min(found)) if found else None

    def _is_far(self, now: int, ns: int) -> bool:
        """Return whether beginning at a keyframe is quicker than folding forward."""
        if ns - now <= FARTHEST_ON * NANOSECONDS:
            return False
        keyframes = [(track, track.keyframe_before(ns)) for track in self._tracks]
        return any(found is not None and track.time_of(found[1]) > now for track, found in keyframes)

    def _begin(self, ns: int) -> tuple[Cluster, Starts]:
        self._at = None
        cluster, starts = begun(self._tracks, ns, self._tuning)
        if starts.of_tracks and (len(self._tracks) > 1 or self._tracks[0].is_black_box):
            # Keyframes of an agent have no past events, and each viewer records only the events it has seen.
            since = min(starts.of_tracks.values())
            past = [
                each
                for each in self.overview.events
                if to_ns(each.at) <= starts.of_agents.get(each.agent, since)
            ]
            cluster.apply("", PastEvents(tuple(past)), to_seconds(since))
        return cluster, starts

    def refresh(self) -> None:
        self._looked = time.monotonic()
        for track in self._tracks:
            track.refresh()


def _opened(paths: Sequence[Path], skippable: Container[Path]) -> tuple[list[Recording], tuple[str, ...]]:
    """Return the recordings, and a note for each file that was skipped; raise if no file can be read."""
    recordings: list[Recording] = []
    skipped: list[NotARecording] = []
    with ExitStack() as opened:
        for path in paths:
            try:
                recordings.append(opened.enter_context(Recording(path)))
            except NotARecording as error:
                if path not in skippable:
                    raise
                skipped.append(error)
        if skipped and not recordings:
            raise skipped[0]
        opened.pop_all()  # they stay open
    return recordings, tuple(f"skipped: {error}" for error in skipped)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection: a state has no garbage, and the search would take a quarter of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # The state joins the oldest generation: else the next collection would search all of it.
            gc.freeze()
            gc.unfreeze()
            gc.enable()
