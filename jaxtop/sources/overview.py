"""The summary of a session over time: from its keyframes, and after the last one from the folded frames."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop.model import LoggedEvent  # noqa: TC001 - msgspec reads the annotations
from jaxtop.model.session.summary import Bin, SessionSummary, SummarySampler
from jaxtop.recording.layout import LATEST_NS
from jaxtop.sources.starts import begun, frames_between
from jaxtop.wire.bounds import to_ns, to_seconds

if TYPE_CHECKING:
    from jaxtop.sources.streams import WriterStream

# Two viewers receive a message at about the same time, and their clocks differ by at most this many seconds.
SAME_WITHIN = 2.0


class SessionOverview:
    """The summary of a session, which follows a growing one."""

    def __init__(self, found: list[WriterStream]) -> None:
        self._tracks = found
        happened = [
            keyframe.happened
            for track in found
            if not track.is_black_box
            for recording in track.recordings
            for keyframe in recording.index.keyframes
        ]
        self._summary = _joined(happened)
        self._sampler = SummarySampler()
        bins = self._summary.bins
        self._at = max((to_ns(each.until) for each in bins), default=None)
        self._cluster, self._starts = begun(found if bins else [], self._at or 0)
        if self._at is not None:
            self._sampler.take(self._cluster)

    @property
    def summary(self) -> SessionSummary:
        cluster, sampler, moved = self._cluster, self._sampler, False
        for at, frame in frames_between(self._tracks, self._starts, self._at, None):
            cluster.feed(frame)
            sampler.sample(cluster, frame.at)
            self._at, moved = at, True
        if moved:
            self._summary = self._summary.followed_by(sampler.take(cluster))
        return self._summary


# JSON may have times that no clock shows, such as infinity and NaN.
_LATEST = to_seconds(LATEST_NS)


class _KeyframeSummary(msgspec.Struct):
    """A keyframe's summary of the time since the previous one."""

    bins: list[Bin] = []
    events: list[LoggedEvent] = []


def _joined(happened: list[dict[str, Any]]) -> SessionSummary:
    """Join summaries in order; equal events that two writers saw at about the same time become one."""
    bins: list[Bin] = []
    events: list[LoggedEvent] = []
    for each in happened:
        with suppress(msgspec.ValidationError):
            summary = msgspec.convert(each, _KeyframeSummary)
            bins += [one for one in summary.bins if 0 <= one.at <= one.until <= _LATEST]
            events += [one for one in summary.events if 0 <= one.at <= _LATEST]
    last: dict[tuple[object, ...], float] = {}
    distinct = []
    for event in sorted(events, key=lambda each: each.at):
        if event.at - last.get(event[1:], -math.inf) > SAME_WITHIN or event.at == last.get(event[1:]):
            distinct.append(event)
        last[event[1:]] = event.at
    bins.sort(key=lambda each: each.at)
    return SessionSummary().followed_by(SessionSummary(tuple(bins), tuple(distinct)))
