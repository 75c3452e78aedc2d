"""The state of the model: data only. The reducers write it (`cluster.py`), views read it."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from jaxtop.model.derived import Derived
from jaxtop.model.finding import FindingKey, Findings, Severity
from jaxtop.model.tuning import AS_DECLARED, Tuning
from jaxtop.model.windows import Windows
from jaxtop.wire.bounds import Count, Process, TimeMs, TimeS  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from jaxtop import wire
    from jaxtop.model.host import Host, UnmetAddress
    from jaxtop.model.shares import PastSteps

MAX_EVENTS = 1000
# Samples that are kept of each host: two minutes at the default interval.
HISTORY = 120
# Pulses whose scalars are kept of each host, until its next curves.
MAX_SCALARS = 32
# Past censuses that are kept of each host.
PAST_ARRAYS = 16


class LoggedEvent(NamedTuple):
    """An event that a person should know, with the agent that it is about.

    One that tells of a finding has the finding's key.
    """

    at: TimeS
    severity: str
    kind: str
    agent: str
    text: str
    key: FindingKey | None = None

    @property
    def rank(self) -> int:
        """The rank of its severity: the larger, the worse."""
        return Severity.of(self.severity).rank

    @property
    def sign(self) -> str:
        return Severity.of(self.severity).sign


class PulseSample(NamedTuple):
    """The entry of one pulse in a host's history; `launches` counts from the start of the history."""

    at: float
    used_bytes: tuple[int | None, ...] | None
    launches: int


class ProcessOfRun(NamedTuple):
    """A process of a run."""

    run: str
    process_index: Process | None


class DroppedProcesses(Struct, array_like=True):
    """The number of dropped processes, the last of them by agent, and how often each process was started."""

    count: Count = 0
    agents: dict[str, ProcessOfRun] = msgspec.field(default_factory=dict)
    starts: dict[ProcessOfRun, Count] = msgspec.field(default_factory=dict)

    def copy(self) -> DroppedProcesses:
        return DroppedProcesses(self.count, self.agents.copy(), self.starts.copy())


class Certainty(IntEnum):
    """How much a diagnosis knows: that a run is stalled, where all hosts are, which is the cause, and why."""

    STANDS = 0
    PLACES = 1
    WHO = 2
    WHY = 3
    LOST = 4


class Diagnosis(Struct, frozen=True, array_like=True):
    """Why a run is stalled. `odd` are the agents considered to be the cause, `waiting` those that wait.

    `began` is the time of the last launch before the stall. `is_moving` says that the cause is slow: it still
    reads or writes.
    """

    run: str
    at_ms: TimeMs
    severity: str
    text: str
    odd: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    certainty: Certainty = Certainty.STANDS
    began: TimeS = 0.0
    is_moving: bool = False

    @property
    def about(self) -> str:
        """The agent that a person should look at first."""
        return next(iter((*self.odd, *self.waiting)), "")


class RunStall(Struct, frozen=True, array_like=True):
    """A stall of a run, when it was last checked, and the diagnosis that was reported."""

    since: TimeS
    checked_at: TimeS
    reported: Diagnosis | None = None
    reported_at: TimeS = 0.0


class ScalarSample(NamedTuple):
    """The scalars of a pulse, in the order of the curves of its agent, by the agent's clock."""

    at_ms: int
    values: tuple[float | None, ...]


@dataclass
class ClusterState:
    """Everything that a viewer knows. Hosts and what they hold are frozen values, which are replaced."""

    hosts: dict[str, Host] = field(default_factory=dict)
    # The machine of each process by run; processes without a number are there by agent.
    machines: dict[str, dict[int | str, str]] = field(default_factory=dict)
    unmet: dict[str, UnmetAddress] = field(default_factory=dict)
    events: deque[LoggedEvent] = field(default_factory=lambda: deque(maxlen=MAX_EVENTS))
    rejected: Counter[str] = field(default_factory=Counter)
    past_pulses: dict[str, deque[PulseSample]] = field(default_factory=dict)
    # All figures of the same pulses, encoded. Keyframes leave them out because they would make a keyframe
    # many times as large. After a jump they start empty, so comparisons of two models ignore them.
    past_figures: dict[str, deque[tuple[float, bytes]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    # The scalars of the pulses since an agent sent its curves, in their order, where they changed. Keyframes
    # leave them out.
    scalar_tails: dict[str, deque[ScalarSample]] = field(default_factory=dict, repr=False, compare=False)
    # Whether plots show figures. Else those of devices are left out: at a thousand hosts they take 100 MB.
    is_drawn: bool = field(default=True, repr=False, compare=False)
    past_arrays: dict[str, deque[wire.Arrays]] = field(default_factory=dict)
    # The last windows of each agent, as they came. Not compared: a recording has other times and numbers.
    past_windows: dict[str, deque[wire.Frame]] = field(default_factory=dict, repr=False, compare=False)
    # Equal meshes and inventories are one object: a thousand hosts report the same mesh of thousands of
    # devices, and views compare them by identity.
    meshes: dict[wire.Mesh, wire.Mesh] = field(default_factory=dict, repr=False)
    inventories: dict[tuple[str, str | None], wire.Inventory] = field(default_factory=dict, repr=False)
    windows: Windows = field(default_factory=Windows)
    # The runs that are stalled, and when each run was last checked for a stall.
    stalls: dict[str, RunStall] = field(default_factory=dict)
    stall_checks: dict[str, float] = field(default_factory=dict, repr=False, compare=False)
    # Not compared: after a jump, rules lack the figures that keyframes leave out.
    findings: Findings = field(default_factory=Findings, repr=False, compare=False)
    # Where a step went over the last hour, by run. Not compared: it is made of what rules read.
    past_steps: dict[str, PastSteps] = field(default_factory=dict, repr=False, compare=False)
    # Whether a keyframe is put back, which has what was concluded from the state.
    is_restoring: bool = field(default=False, repr=False, compare=False)
    # What the user changed of the rules.
    tuning: Tuning = field(default=AS_DECLARED, repr=False, compare=False)
    # The exited processes that were dropped, and the last interval in which they were looked for.
    dropped: DroppedProcesses = field(default_factory=DroppedProcesses)
    last_sweep: float = field(default=0.0, repr=False, compare=False)
    # The number of messages, and how many of them changed what layouts of programs are derived from.
    changes: int = 0
    layout_changes: int = 0
    # What views derived from this state. The fold does not use it.
    derived: Derived = field(default_factory=Derived, repr=False, compare=False)

    def events_after(self, seen: LoggedEvent | None) -> list[LoggedEvent]:
        """Return the events after this one, the oldest first; all if it is no longer there."""
        return list(takewhile(lambda event: event is not seen, reversed(self.events)))[::-1]
