"""A whole session at a glance: how many hosts lived, how full the fullest device was, what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.liveness import State, state_of
from jaxtop.model.views import runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model.fold import Cluster, LoggedEvent

# Enough for any terminal; neighbours are put together beyond it.
MOST_BINS = 2_000
MOST_EVENTS = 5_000


class Bin(NamedTuple):
    """A stretch of time: the fewest hosts live, of how many; the most bytes on a device; all launches."""

    at: float
    until: float
    live: int
    expected: int
    used_bytes: int | None
    launches: int


@dataclass(frozen=True)
class SessionSummary:
    """Stretches and events of a session, in their order."""

    bins: tuple[Bin, ...] = ()
    events: tuple[LoggedEvent, ...] = ()

    def followed_by(self, later: SessionSummary) -> SessionSummary:
        """Both, one after the other, as coarse as needed."""
        both = SessionSummary((*self.bins, *later.bins), (*self.events, *later.events)[-MOST_EVENTS:])
        return both.coarser(MOST_BINS)

    def coarser(self, most: int) -> SessionSummary:
        """The same in so many stretches at most."""
        bins = self.bins
        while len(bins) > most:
            bins = _halved(bins)
        return SessionSummary(bins, self.events)


def _halved(bins: Sequence[Bin]) -> tuple[Bin, ...]:
    pairs = [_joined(*bins[i : i + 2]) for i in range(0, len(bins) - 1, 2)]
    return (*pairs, *bins[len(pairs) * 2 :])


def _joined(first: Bin, second: Bin) -> Bin:
    known = [each.used_bytes for each in (first, second) if each.used_bytes is not None]
    return Bin(
        first.at,
        second.until,
        min(first.live, second.live),
        max(first.expected, second.expected),
        max(known, default=None),
        max(first.launches, second.launches),
    )


def bin_of(cluster: Cluster, at: float, until: float) -> Bin:
    """What a cluster is like at the end of a stretch of time."""
    used, launches, live, expected = [], 0, 0, 0
    for run in runs(cluster):
        expected += max(run.process_count or 0, len(run.hosts))
        for view in run.hosts:
            if state_of(view.host, until) is not State.LIVE:
                continue
            live += 1
            launches += sum(view.host.launches.values())
            used += [each for each in view.host.pulse.devices.used_bytes or () if each is not None]
    return Bin(at, until, live, expected, max(used, default=None), launches)


@dataclass
class Observer:
    """Watches a cluster as it is folded, and tells what happened since it was asked last."""

    every: float = 2.0
    _since: float | None = None
    _bins: tuple[Bin, ...] = ()
    _seen: LoggedEvent | None = None

    def observe(self, cluster: Cluster, now: float) -> None:
        """Take note of the cluster, now and then."""
        if self._since is None:
            self._since = now
        elif now - self._since >= self.every:
            self._bins += (bin_of(cluster, self._since, now),)
            self._since = now

    def take(self, cluster: Cluster) -> SessionSummary:
        """What happened since the last call."""
        events = tuple(self._new(cluster))
        if events:
            self._seen = events[-1]
        taken, self._bins = SessionSummary(self._bins, events), ()
        return taken

    def _new(self, cluster: Cluster) -> list[LoggedEvent]:
        found = []
        for event in reversed(cluster.events):
            if event is self._seen:
                break
            found.append(event)
        return found[::-1]
