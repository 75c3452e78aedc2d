"""A whole session in brief: how many hosts were live, how full the fullest device was, what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.hosts import runs
from jaxtop.model.liveness import State

if TYPE_CHECKING:
    from jaxtop.model.state import ClusterState, LoggedEvent

# Enough for any terminal. Beyond it, neighbouring bins are merged.
MAX_BINS = 2_000
MAX_EVENTS = 5_000


class Bin(NamedTuple):
    """A period: the fewest live hosts, the expected hosts, the most bytes on a device, and all launches."""

    at: float
    until: float
    live: int
    expected: int
    used_bytes: int | None
    launches: int


@dataclass(frozen=True)
class SessionSummary:
    """The bins and events of a session, in order."""

    bins: tuple[Bin, ...] = ()
    events: tuple[LoggedEvent, ...] = ()

    def followed_by(self, later: SessionSummary) -> SessionSummary:
        """Return both summaries as one, with bins merged as needed."""
        both = SessionSummary((*self.bins, *later.bins), (*self.events, *later.events)[-MAX_EVENTS:])
        return both.coarser(MAX_BINS)

    def coarser(self, most: int) -> SessionSummary:
        """Return the same summary with at most this many bins."""
        bins = self.bins
        while len(bins) > most:
            pairs = [_joined(*bins[i : i + 2]) for i in range(0, len(bins) - 1, 2)]
            bins = *pairs, *bins[len(pairs) * 2 :]
        return SessionSummary(bins, self.events)


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


def bin_of(cluster: ClusterState, at: float, until: float) -> Bin:
    """Return the state of a cluster at the end of a period."""
    used, launches, live, expected = [], 0, 0, 0
    for run in runs(cluster, until):
        expected += max(run.process_count or 0, len(run.hosts))
        for view in run.hosts:
            if view.state is not State.LIVE:
                continue
            live += 1
            launches += sum(view.current.launches.values())
            used += [each for each in view.current.pulse.devices.used_bytes or () if each is not None]
    return Bin(at, until, live, expected, max(used, default=None), launches)


@dataclass
class SummarySampler:
    """Sample a cluster as it is folded, and return what happened between two calls of `take`."""

    every: float = 2.0
    _since: float | None = None
    _bins: tuple[Bin, ...] = ()
    _seen: LoggedEvent | None = None

    def sample(self, cluster: ClusterState, now: float) -> None:
        """Add a bin if the last one is `every` seconds old."""
        if self._since is None:
            self._since = now
        elif now - self._since >= self.every:
            self._bins += (bin_of(cluster, self._since, now),)
            self._since = now

    def take(self, cluster: ClusterState) -> SessionSummary:
        events = tuple(cluster.events_after(self._seen))
        if events:
            self._seen = events[-1]
        taken, self._bins = SessionSummary(self._bins, events), ()
        return taken
