"""The cluster: the state of the model, and how a message changes it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from jaxtop import wire
from jaxtop.model import exited
from jaxtop.model.collectives import stragglers
from jaxtop.model.collectives.joining import WINDOWS_KEPT
from jaxtop.model.findings import observer as findings
from jaxtop.model.fold import fold
from jaxtop.model.stalls import reports
from jaxtop.model.state import ClusterState

# Each looks at the state after a message was folded, keeps its own part of it, and returns events.
_OBSERVERS = (stragglers.observe, reports.observe, exited.observe, findings.observe)

# The windows of all agents that are kept take no more than this.
MOST_WINDOW_BYTES = 16 << 20


@dataclass
class Cluster(ClusterState):
    """The model that live views, replays and tests share. Read it through the views of `jaxtop.model`."""

    def feed(self, frame: wire.Frame) -> None:
        """Decode a frame and apply it. Unreadable frames are counted and skipped."""
        if frame.kind not in wire.KINDS:
            wire.tally(self.rejected, f"unknown message {frame.kind[:32]!r}")
            return
        try:
            message = wire.decode(frame.kind, frame.raw)
            self.apply(frame.agent, message, frame.at)
        except wire.Unreadable as error:
            wire.tally(self.rejected, f"unreadable {frame.kind}: {error}")
            return
        if isinstance(message, wire.Window) and frame.agent in self.hosts:
            self._remember(frame)

    def _remember(self, window: wire.Frame) -> None:
        """Keep the last windows of each agent as they came: a recording that begins now needs them."""
        past = self.past_windows.setdefault(window.agent, deque(maxlen=WINDOWS_KEPT))
        past.append(window)
        while len(past) > 1 and sum(len(each.raw) for each in past) * len(self.hosts) > MOST_WINDOW_BYTES:
            past.popleft()

    def apply(self, agent: str, message: wire.Message, at: float) -> None:
        """Apply one message from, or about, an agent."""
        self.changes += 1
        if agent in self.dropped.agents and not isinstance(message, wire.Hello):
            return
        events = fold(self, agent, message, at)
        for observe in _OBSERVERS:
            events += observe(self, agent, message, at)
        self.events.extend(events)

    def check(self, at: float) -> None:
        """Check the rules of findings at this time, for a command that shows the cluster only once."""
        self.events.extend(findings.check(self, at))

    def check_if_silent(self, at: float) -> None:
        """Check the rules if no message has led to a check for long: all processes are silent."""
        if at - self.findings.checked_at >= 2 * findings.check_every(self):
            self.check(at)

    def frozen(self) -> Cluster:
        """Return a copy of the current cluster. Hosts are frozen values, so only the tables are copied."""
        return replace(
            self,
            hosts=dict(self.hosts),
            machines=dict(self.machines),
            unmet=dict(self.unmet),
            events=self.events.copy(),
            rejected=self.rejected.copy(),
            history={agent: samples.copy() for agent, samples in self.history.items()},
            figures={agent: past.copy() for agent, past in self.figures.items()},
            past_windows={agent: past.copy() for agent, past in self.past_windows.items()},
            past_arrays={agent: past.copy() for agent, past in self.past_arrays.items()},
            inventories=self.inventories.copy(),
            windows=self.windows.copy(),
            stalls=dict(self.stalls),
            stall_checks=dict(self.stall_checks),
            findings=self.findings.copy(),
            dropped=self.dropped.copy(),
            derived=self.derived.copy(),
        )
