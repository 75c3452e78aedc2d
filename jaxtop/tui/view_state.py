"""The run that the app follows: its frames, the cluster that they make, and the time that is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model import Cluster
from jaxtop.model.tuning import AS_DECLARED, Tuning
from jaxtop.tui.core.moment import Moment
from jaxtop.tui.ingest import Feed, FrameIngest, NoFeed
from jaxtop.tui.playback import Playback, Start

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model import Finding, State
    from jaxtop.model.finding import FindingKey
    from jaxtop.store.probe_figures import Probe
    from jaxtop.tui.history import History


class ViewState:
    """The state that all parts of the app share: the followed run, and the shown time and moment."""

    feed: Feed
    cluster: Cluster
    playback: Playback

    def __init__(
        self,
        feed: Feed | None,
        clock: Callable[[], float],
        *,
        history: History | None = None,
        start: Start | None = None,
        probe: Probe | None = None,
        tuning: Tuning = AS_DECLARED,
    ) -> None:
        """Follow a feed, show a history, or both."""
        self._clock, self._probe, self._tuning = clock, probe, tuning
        self.follow(feed, history, start)

    def follow(self, feed: Feed | None, history: History | None, start: Start | None = None) -> None:
        """Begin with this run. No finding of it is muted."""
        self.muted: set[FindingKey] = set()
        self.cluster = Cluster(tuning=self._tuning)
        self.feed = NoFeed() if feed is None else feed
        self._ingest = FrameIngest(self.feed, self.cluster)
        self.playback = Playback(None if feed is None else self.cluster, history, start, self._probe)
        self.playback.tick(self._clock())

    def mute(self, finding: Finding) -> None:
        """Leave this finding out of all screens, notifications and counts until another run is followed."""
        self.muted.add(finding.key)

    def fetch(self) -> None:
        self._ingest.fetch()

    def take(self) -> bool:
        """Fold waiting frames for one time slice. Return whether none are left."""
        return self._ingest.take()

    def now(self) -> float:
        """Return the time up to which all frames are folded.

        With a later time, a host whose frames are still waiting would appear silent.
        """
        behind = self._ingest.behind_at
        return self._clock() if behind is None else min(behind, self._clock())

    def tick(self) -> None:
        """Let the playback go on until now."""
        self.playback.tick(self.now())

    @property
    def moment(self) -> Moment:
        """The moment that is shown."""
        return self.playback.moment

    @property
    def states(self) -> dict[str, State]:
        """The current state of each agent, whichever time is shown."""
        return Moment(self.cluster, self.now()).states
