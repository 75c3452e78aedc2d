"""A session in recordings: the cluster at any of its times, folded from the files that hold it."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jaxtop import wire
from jaxtop.cluster import Cluster
from jaxtop.cluster.fold import HISTORY, LoggedEvent
from jaxtop.cluster.overview import Bin, Observer, Overview
from jaxtop.recordings import Recording
from jaxtop.sources.tracks import clock_notes, side_by_side, tracks
from jaxtop.wire.times import NANOSECONDS, to_ns, to_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from jaxtop.sources.tracks import Track

LOOK_AGAIN_AFTER = 0.5
# To go on from where one stands may be dearer than to begin at a keyframe, from about so many seconds on.
FARTHEST_ON = 30.0


class Session:
    """One recording, or several that belong together. Each place is folded from a keyframe before it."""

    def __init__(self, paths: Sequence[Path]) -> None:
        recordings: list[Recording] = []
        try:
            recordings.extend(Recording(path) for path in paths)
        except BaseException:
            for recording in recordings:
                recording.close()
            raise
        self._tracks = tracks(recordings)
        self._cluster = Cluster()
        self._at: int | None = None
        self._starts: dict[int, int] = {}
        self._looked = time.monotonic()
        self._glance: _Glance | None = None

    def close(self) -> None:
        for track in self._tracks:
            for recording in track.recordings:
                recording.close()

    @property
    def span(self) -> tuple[float, float] | None:
        """The first and the last moment."""
        self._refresh()
        spans = [span for track in self._tracks if (span := track.span) is not None]
        return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None

    @property
    def is_growing(self) -> bool:
        return any(track.is_growing for track in self._tracks)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the state of the files, and of how well their clocks agree."""
        notes = [
            note
            for track in self._tracks
            for recording in track.recordings
            for note in recording.notes
            if not (track.is_growing and recording is track.recordings[-1])
        ]
        return (*notes, *clock_notes(self._tracks))

    @property
    def overview(self) -> Overview:
        """The whole session at a glance."""
        if self._glance is None:
            self._glance = _Glance(self._tracks)
        return self._glance.overview

    def at(self, when: float) -> Cluster:
        """The cluster as it was then. Going forward, the one of the call before goes on."""
        ns = to_ns(when)
        if self._at is None or not ns - self._at >= 0 or self._is_far(self._at, ns):
            self._cluster, self._starts = self._begin(ns)
        for _, frame in _frames(self._tracks, self._starts, self._at, ns):
            self._cluster.feed(frame)
        self._at = ns
        return self._cluster

    def frames(self, after: float | None = None, until: float | None = None) -> Iterator[wire.Frame]:
        """The frames of all files in the order of their times."""
        bounds = [None if each is None else to_ns(each) for each in (after, until)]
        return (frame for _, frame in _frames(self._tracks, {}, *bounds))

    def _is_far(self, now: int, ns: int) -> bool:
        """Whether it is quicker to begin at a keyframe than to go on."""
        if ns - now <= FARTHEST_ON * NANOSECONDS:
            return False
        keyframes = [(track, track.keyframe_before(ns)) for track in self._tracks]
        return any(found is not None and track.time_of(found[1]) > now for track, found in keyframes)

    def _begin(self, ns: int) -> tuple[Cluster, dict[int, int]]:
        self._at = None
        cluster, starts = _begun(self._tracks, ns)
        if starts and any(track.is_black_box for track in self._tracks):
            # Its keyframes do not tell of the past.
            since = to_seconds(min(starts.values()))
            past = [wire.PastEvent(*each) for each in self.overview.events if each.at <= since]
            cluster.apply("", wire.PastEvents(tuple(past)), since)
        return cluster, starts

    def refresh(self) -> None:
        """Take in what was written since."""
        self._looked = time.monotonic()
        for track in self._tracks:
            track.refresh()

    def _refresh(self) -> None:
        if time.monotonic() - self._looked >= LOOK_AGAIN_AFTER:
            self.refresh()


class _Glance:
    """The overview: what keyframes tell, and from the last of them on what the fold of the frames tells."""

    def __init__(self, found: list[Track]) -> None:
        self._tracks = found
        happened = [
            keyframe.happened
            for track in found
            if not track.is_black_box
            for recording in track.recordings
            for keyframe in recording.index.keyframes
        ]
        self._told = _joined(happened)
        self._observer = Observer()
        bins = self._told.bins
        self._at = to_ns(bins[-1].until) if bins else None
        self._cluster, self._starts = _begun(found if bins else [], self._at or 0)
        if self._at is not None:
            self._observer.take(self._cluster)

    @property
    def overview(self) -> Overview:
        cluster, observer, moved = self._cluster, self._observer, False
        for at, frame in _frames(self._tracks, self._starts, self._at, None):
            cluster.feed(frame)
            observer.observe(cluster, frame.at)
            self._at, moved = at, True
        if moved:
            self._told = self._told.followed_by(observer.take(cluster))
        return self._told


def _begun(found: list[Track], ns: int) -> tuple[Cluster, dict[int, int]]:
    """A cluster from the last keyframe of each track, and where these are; without one, from the start."""
    cluster = Cluster()
    starts: dict[int, int] = {}
    states = []
    for number, track in enumerate(found):
        # The keyframes of an agent have no history: that is folded from frames.
        keyframe = track.keyframe_before(ns - (HISTORY * NANOSECONDS if track.is_black_box else 0))
        if keyframe is not None:
            starts[number] = track.time_of(keyframe[1])
            states.append((starts[number], number, keyframe))
    with _no_collection():
        for _, number, (recording, keyframe_at) in sorted(states, key=lambda each: each[:2]):
            for frame in found[number].state(recording, keyframe_at):
                cluster.feed(frame)
    return cluster, starts


@contextmanager
def _no_collection() -> Iterator[None]:
    """All that a state consists of stays: to look through it for garbage takes a quarter of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _frames(
    found: list[Track], starts: dict[int, int], after: int | None, until: int | None
) -> Iterator[tuple[int, wire.Frame]]:
    streams = []
    for number, track in enumerate(found):
        bounds = [each for each in (after, starts.get(number)) if each is not None]
        streams.append(track.frames(max(bounds, default=None), until))
    return side_by_side(streams) if streams else iter(())


def _joined(happened: list[dict[str, Any]]) -> Overview:
    bins = [Bin(*each) for told in happened for each in told.get("bins", ())]
    events = [LoggedEvent(*each) for told in happened for each in told.get("events", ())]
    return Overview().followed_by(Overview(tuple(bins), tuple(events)))
