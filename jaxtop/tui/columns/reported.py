"""The figures that have columns: those that some process has reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model import reported

if TYPE_CHECKING:
    from jaxtop.model import Pulse
    from jaxtop.tui.moment import Moment


class Reported:
    """The names of the figures reported since the current runs are shown.

    Names are only added, so that columns do not move when a host is late or gone.
    """

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        self._runs: list[str] = []
        self._seen: dict[str, Pulse] = {}

    def see(self, moment: Moment) -> frozenset[str]:
        """Add the new figures of this moment, and return all names."""
        runs = [run.id for run in moment.runs]
        if runs != self._runs:
            self._runs, self._seen, self.names = runs, {}, frozenset()
        seen = self._seen
        news = {}
        for view in moment.hosts:
            agent, pulse = view.host.agent, view.last.pulse
            if seen.get(agent) is not pulse:
                news[agent] = pulse
        if news:
            seen.update(news)
            found = reported(news.values())
            if not found <= self.names:
                self.names |= found
        return self.names
