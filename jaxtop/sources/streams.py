"""The files of one writer as one track, and the tracks of several writers merged by time."""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jaxtop import wire
from jaxtop.base import processes
from jaxtop.wire.bounds import NANOSECONDS, to_ns, to_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtop.recording import KeyframeAt, Recording

# A file that was not written to for this many seconds counts as no longer growing.
STILL_AFTER = 10.0
# A killed agent is reported dead this long after its last frame.
DEAD_AFTER_NS = 1_000_000
# Frames with the last time of a growing file may not all be written yet: the span ends before that time.
NOT_ALL_THERE_NS = 1_000
# The span of a file without frames: it sorts as the newest.
NOT_YET = (math.inf, math.inf)
# The number of frames remembered to detect those that are in two tracks.
MAX_REMEMBERED_FRAMES = 4096


class WriterStream:
    """The recordings of one writer. Times are those of process 0 of the run if the clock offset is known."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.recordings = sorted(recordings, key=lambda each: each.span or NOT_YET)
        self.about = self.recordings[0].about
        clocks = [each.index.clock for each in self.recordings if each.index.clock is not None]
        self.clock = clocks[-1] if clocks else None
        self._ahead = round(self.clock.offset_s * NANOSECONDS) if self.clock is not None else 0

    @property
    def is_black_box(self) -> bool:
        """Whether an agent wrote it, about itself only."""
        return "agent" in self.about

    @property
    def span(self) -> tuple[float, float] | None:
        spans = [span for each in self.recordings if (span := each.span) is not None]
        if not spans:
            return None
        first, last = spans[0][0], max(last for _, last in spans)
        last_ns = to_ns(last) + self._ahead
        if self.has_died:
            last_ns += DEAD_AFTER_NS
        elif self.is_growing:
            last_ns -= NOT_ALL_THERE_NS
        return to_seconds(to_ns(first) + self._ahead), to_seconds(last_ns)

    @property
    def is_growing(self) -> bool:
        """Whether its writer may still be writing."""
        last = self.recordings[-1]
        if last.index.is_finished:
            return False
        if (is_gone := self._is_writer_gone()) is not None:
            return not is_gone
        try:
            return time.time() - last.path.stat().st_mtime < STILL_AFTER
        except OSError:
            return False

    @property
    def has_died(self) -> bool:
        """Whether it is from an agent that was killed while it wrote."""
        return self.is_black_box and not self.recordings[-1].index.is_finished and not self.is_growing

    def _is_writer_gone(self) -> bool | None:
        """Return whether the writing process has ended; None if this machine cannot tell."""
        about = self.about
        place = processes.Namespace(about.get("boot", ""), about.get("pid_namespace", ""))
        pid, ticks = about.get("pid", ""), about.get("process_started_ticks", "")
        is_named = pid.isdecimal() and ticks.isdecimal()
        return processes.is_gone(place, int(pid), int(ticks)) if is_named else None

    def refresh(self) -> bool:
        """Read what was written since the last call; return whether there was something."""
        last = self.recordings[-1]
        return not last.index.is_finished and last.refresh()

    def keyframe_before(self, ns: int) -> tuple[Recording, KeyframeAt] | None:
        """Return the last keyframe at or before this time, with its file."""
        for recording in reversed(self.recordings):
            found = recording.keyframe_before(ns - self._ahead)
            if found is not None:
                return recording, found
        return None

    @property
    def _first_keyframe(self) -> tuple[Recording, KeyframeAt] | None:
        return next(
            ((each, each.index.keyframes[0]) for each in self.recordings if each.index.keyframes), None
        )

    def time_of(self, keyframe: KeyframeAt) -> int:
        return keyframe.at + self._ahead

    def state(self, recording: Recording, keyframe: KeyframeAt) -> list[wire.Frame]:
        return [self._moved(frame) for frame in recording.state(keyframe)]

    def opening(self) -> list[wire.Frame]:
        """Return the messages from before the first file, which only its first keyframe has."""
        first, span = self._first_keyframe, self.span
        if self.is_black_box or first is None or span is None:
            return []
        state = self.state(*first)
        return [each for each in state if each.at < span[0] and each.kind not in wire.OWN_KINDS - {"link"}]

    def frames(self, after: int | None, until: int | None) -> Iterator[tuple[int, wire.Frame]]:
        """Yield the frames after one time and up to another, with their times."""
        since = None if after is None else after - self._ahead
        up_to = None if until is None else until - self._ahead
        begin = self._first_keyframe if self.is_black_box else None
        if begin is not None and (after is None or after < self.time_of(begin[1])):
            # Older files were deleted: the first keyframe has the messages that were sent only once, in them.
            at = self.time_of(begin[1])
            since = begin[1].at
            if until is None or at <= until:
                yield from ((at, frame) for frame in self.state(*begin))
        for recording in self.recordings:
            for at, frame in recording.frames(since, up_to):
                yield at + self._ahead, self._moved(frame)
        if self.has_died and (span := self.span) is not None:
            at = to_ns(span[1])
            if (after is None or at > after) and (until is None or at <= until):
                link = wire.Link(wire.LinkState.DEAD, "")
                yield at, wire.local_frame(span[1], self.about["agent"], link)

    def following(self, ns: int) -> int | None:
        """Return a lower bound of the time of the next frame; None if there is none."""
        found = [each.following(ns - self._ahead) for each in self.recordings]
        return min((at + self._ahead for at in found if at is not None), default=None)

    def _moved(self, frame: wire.Frame) -> wire.Frame:
        return frame._replace(at=to_seconds(to_ns(frame.at) + self._ahead)) if self._ahead else frame


def tracks(recordings: Sequence[Recording]) -> list[WriterStream]:
    named = [(each.about.get("writer") or str(each.path), i, each) for i, each in enumerate(recordings)]
    by_writer = groupby(sorted(named, key=lambda each: each[:2]), key=lambda each: each[0])
    return [WriterStream([each for *_, each in members]) for _, members in by_writer]


def side_by_side(
    streams: Sequence[Iterator[tuple[int, wire.Frame]]],
    is_folded: Callable[[int, int, wire.Frame], bool],
) -> Iterator[tuple[int, wire.Frame]]:
    """Yield the frames of several tracks in the order of their times; frames in two tracks only once.

    Args:
        streams: The frames of each track.
        is_folded: Takes a time, a track number and a frame; returns whether the frame is already folded.
    """
    order: deque[tuple[Any, ...]] = deque()
    seen: dict[tuple[Any, ...], int] = {}
    numbered = map(_numbered, streams, range(len(streams)))
    for at, number, frame in heapq.merge(*numbered, key=lambda each: each[0]):
        key = frame.agent, frame.kind, frame.sequence, frame.raw
        if seen.setdefault(key, number) != number:
            continue
        order.append(key)
        if len(order) > MAX_REMEMBERED_FRAMES:
            seen.pop(order.popleft(), None)
        if not is_folded(at, number, frame):
            yield at, frame


def _numbered(stream: Iterator[tuple[int, wire.Frame]], number: int) -> Iterator[tuple[int, int, wire.Frame]]:
    return ((at, number, frame) for at, frame in stream)


def clock_notes(found: Sequence[WriterStream]) -> list[str]:
    """Return notes on how well the times of several tracks agree."""
    boxes = [track for track in found if track.is_black_box]
    if len(boxes) < 2 or len({track.about.get("boot") for track in boxes}) == 1:
        return []
    unknown = [track.about.get("hostname", "?") for track in boxes if track.clock is None]
    if unknown:
        return [
            f"the clocks of {', '.join(sorted(set(unknown)))} were not compared: their times are uncorrected"
        ]
    errors = [track.clock.error_s for track in boxes if track.clock and track.clock.error_s is not None]
    return [f"times of {len(boxes)} processes agree within {1000 * 2 * max(errors):.1f} ms"] if errors else []
