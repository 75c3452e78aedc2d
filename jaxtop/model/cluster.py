"""The cluster: the state of the model, and how a message changes it."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop import wire
from jaxtop.model import exited_runs, fold, keyframe
from jaxtop.model.collectives import joining
from jaxtop.model.findings import reducer as findings
from jaxtop.model.stalls import reports
from jaxtop.model.state import ClusterState
from jaxtop.model.wall_time import past

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtop.model.state import LoggedEvent


class Reducer(NamedTuple):
    """What a message does to the state, and the slices that it may write; it returns the events.

    A reducer that `concludes` from the whole state rests while a keyframe is restored: the keyframe has its
    slices.
    """

    reduce: Callable[[ClusterState, str, keyframe.Message, float], list[LoggedEvent]]
    writes: frozenset[str]
    concludes: bool = False


def _writes(*slices: str) -> frozenset[str]:
    return frozenset(slices)


# In this order. Besides them, `Cluster` writes only the last windows as they came, its counts and its events.
REDUCERS = (
    Reducer(
        keyframe.reduce,
        _writes(
            "hosts", "past_pulses", "past_arrays", "meshes", "layout_changes", "events", "stalls", "findings",
            "dropped", "past_steps",
        ),
    ),
    Reducer(
        fold.reduce,
        _writes(
            "hosts", "machines", "unmet", "past_pulses", "past_figures", "scalar_tails", "past_arrays",
            "meshes", "inventories", "layout_changes", "dropped",
        ),
    ),
    Reducer(joining.reduce, _writes("windows")),
    Reducer(reports.reduce, _writes("stalls", "stall_checks"), concludes=True),
    Reducer(
        exited_runs.reduce,
        _writes(
            "hosts", "machines", "past_pulses", "past_figures", "scalar_tails", "past_arrays", "past_windows",
            "meshes", "inventories", "windows", "stalls", "stall_checks", "dropped", "last_sweep",
            "layout_changes",
        ),
        concludes=True,
    ),
    Reducer(findings.reduce, _writes("findings"), concludes=True),
    Reducer(past.reduce, _writes("past_steps"), concludes=True),
)  # fmt: skip

# The windows of all agents that are kept take no more than this.
MAX_WINDOW_BYTES = 16 << 20


@dataclass
class Cluster(ClusterState):
    """The model that live views, replays and tests share. Read it through the views of `jaxtop.model`."""

    def feed(self, frame: wire.Frame) -> None:
        """Decode a frame and apply it. Unreadable frames are counted and skipped."""
        if frame.kind not in wire.KINDS and frame.kind not in keyframe.KINDS:
            wire.tally(self.rejected, f"unknown message {frame.kind[:32]!r}")
            return
        try:
            codec = keyframe if frame.kind in keyframe.KINDS else wire
            message = codec.decode(frame.kind, frame.raw)
            self.apply(frame.agent, message, frame.at)
        except wire.Unreadable as error:
            wire.tally(self.rejected, f"unreadable {frame.kind}: {error}")
            return
        if isinstance(message, wire.Window) and frame.agent in self.hosts:
            self._remember(frame)

    def _remember(self, window: wire.Frame) -> None:
        """Keep the last windows of each agent as they came: a recording that begins now needs them."""
        past = self.past_windows.setdefault(window.agent, deque(maxlen=joining.COUNTED_WINDOWS))
        past.append(window)
        while len(past) > 1 and sum(len(each.raw) for each in past) * len(self.hosts) > MAX_WINDOW_BYTES:
            past.popleft()

    def apply(self, agent: str, message: keyframe.Message, at: float) -> None:
        """Apply one message from, or about, an agent."""
        self.changes += 1
        if agent in self.dropped.agents and not isinstance(message, wire.Hello):
            return
        rests = self.is_restoring or keyframe.is_slice(message)
        events = [
            event
            for each in REDUCERS
            if not (rests and each.concludes)
            for event in each.reduce(self, agent, message, at)
        ]
        self.events.extend(events)

    def check(self, at: float) -> None:
        """Check the rules of findings at this time, for a command that shows the cluster only once."""
        self.events.extend(findings.check(self, at))

    def check_if_overdue(self, at: float) -> None:
        """Check the rules if no message has led to a check for long, as when all processes are silent."""
        if at - self.findings.checked_at >= 2 * findings.check_every(self):
            self.check(at)

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Feed a keyframe meanwhile: it has what was concluded from the state."""
        self.is_restoring = True
        try:
            yield
        finally:
            self.is_restoring = False

    def frozen(self) -> Cluster:
        """Return a copy of the current cluster. Entries are frozen values, so only the tables are copied."""
        return replace(self, **{each.name: _copied(getattr(self, each.name)) for each in fields(self)})


def _copied(table: Any) -> Any:
    """Return a copy of a table, and of the lists in it; any other value is frozen, and returned itself."""
    if isinstance(table, dict):
        is_of_lists = isinstance(next(iter(table.values()), None), deque)
        return {key: each.copy() for key, each in table.items()} if is_of_lists else table.copy()
    return table.copy() if hasattr(table, "copy") else table
