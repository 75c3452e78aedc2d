"""The state that the agent's threads share.

Each field has one writer, which replaces it whole, so that readers need no lock.
"""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base import names
from jaxtop.base.clock import now_ms
from jaxtop_agent.core.capture import CaptureExchange
from jaxtop_agent.core.threads import Bell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop_agent.programs.compilations import Compiled
    from jaxtop_agent.programs.executed import Executed
    from jaxtop_agent.programs.loaded import Loaded
    from jaxtop_agent.programs.recompilations import Recompilations


# How the state of `programs` begins until all loaded programs have been read.
READING = "on: reading programs, "


@dataclass(frozen=True)
class Readings:
    """Figures, the time of the reading, and how long they count as current."""

    at: float = 0.0
    valid_s: float = 0.0
    columns: Mapping[str, wire.pulse.Column] = field(default_factory=dict)


NOTHING = Readings()


@dataclass(frozen=True)
class Topology:
    """How JAX sees this process: its index, its devices and the coordinator."""

    process_index: int
    process_count: int
    platform: str
    devices: tuple[wire.Device, ...]
    coordinator: str | None


class Outbox:
    """Messages for the publisher; if it does not fetch them in time, the oldest are dropped and counted."""

    def __init__(self, size: int = 64) -> None:
        self._messages: deque[wire.Message] = deque(maxlen=size)
        self.dropped = 0

    def put(self, message: wire.Message) -> None:
        if len(self._messages) == self._messages.maxlen:
            self.dropped += 1
        self._messages.append(message)

    def take(self) -> wire.Message | None:
        try:
            return self._messages.popleft()
        except IndexError:
            return None


@dataclass
class Board:
    """The shared state of one agent."""

    identity: wire.Hello  # what never changes

    # Written by the sampler.
    topology: Topology | None = None
    sampled_ms: int | None = None
    memory_source: str | None = None
    # The full census, for new viewers; changes are sent as messages.
    arrays: wire.Arrays | None = None
    counted_ms: int | None = None
    programs: wire.Programs | None = None
    rhythm: wire.Rhythm | None = None
    # Of the loaded programs, while a viewer is connected or the agent records, by name and fingerprint: their
    # collectives, and for each operation that waits for a started collective the name of that collective.
    # Then the names of the programs that call into Python.
    inventories: Mapping[tuple[str, str | None], wire.Inventory] = field(default_factory=dict)
    ends: Mapping[tuple[str, str | None], Mapping[str, str]] = field(default_factory=dict)
    calls_back: frozenset[str] = frozenset()
    # Of the same programs, each operation that a launch runs.
    executed: Mapping[tuple[str, str | None], Mapping[str, Executed]] = field(default_factory=dict)
    # All loaded programs in the order in which they were compiled; empty until all have been read.
    loaded: tuple[Loaded, ...] = ()
    # How many trace events one launch of each program produces in this process, by name; None where that is
    # unknown. The whole mapping is None until all programs have been read.
    recorded: Mapping[str, int | None] | None = None
    devices: wire.DeviceSample = field(default_factory=wire.DeviceSample)
    host: wire.HostSample = field(default_factory=wire.HostSample)
    moved: wire.Moved = field(default_factory=wire.Moved)
    costs: dict[str, float] = field(default_factory=dict)  # CPU seconds that each collector used
    # Written by JAX's threads while they compile, by program name.
    compiled: dict[str, Compiled] = field(default_factory=dict)
    # The latest compilations with their causes; None if this JAX does not report compilations.
    history: Recompilations | None = None
    # Written by the sampler: the programs that are currently compiled again and again.
    recompiling: frozenset[str] = frozenset()
    # Written by the registrar: the processes of the run, and the offset from our clock to that of process 0.
    roster: wire.Roster | None = None
    clock_offset: float = 0.0
    clock_error: float | None = None  # None: the clocks were not compared
    # Set by any thread whose change must be sent at once; reset by the publisher.
    pulse_now: bool = False
    # Written by the publisher.
    viewers: int = 0
    is_recording: bool = False
    telemetry: str = ""
    requests: str = ""
    is_stuck: bool = False  # the process launches nothing for longer than is usual
    is_placed: bool = False  # the two addresses are final; earlier ones may be unreachable from other hosts
    interval: float = 1.0
    peak_flops: int | None = None
    peaks_asked: int = 0  # how often viewers have requested the peaks of programs
    captures_asked: int = 0  # how many profiler windows viewers have requested
    capture_at: float | None = None  # when the last of these is to begin
    # Written by the thread that takes profiler windows.
    can_capture: bool = True
    # The latest windows, and what they showed of the operations of programs, for new viewers.
    windows: tuple[wire.Window, ...] = ()
    operations: tuple[wire.Operations, ...] = ()
    # Written by the thread that reads the drivers: its readings, the drivers' names of the devices, and since
    # when, on the monotonic clock, a driver has not answered.
    hardware: Readings = NOTHING
    uuids: tuple[str | None, ...] = ()
    hardware_asked: float | None = None
    # The state of each source of figures: "on", "off: why", "waiting: for what". Each key has one writer.
    sources: dict[str, str] = field(default_factory=dict)

    capture: CaptureExchange = field(default_factory=CaptureExchange)
    outbox: Outbox = field(default_factory=Outbox)
    publisher_bell: Bell = field(default_factory=Bell)
    sampler_bell: Bell = field(default_factory=Bell)
    registrar_bell: Bell = field(default_factory=Bell)
    windows_bell: Bell = field(default_factory=Bell)
    hardware_bell: Bell = field(default_factory=Bell)
    libraries_bell: Bell = field(default_factory=Bell)
    activity_bell: Bell = field(default_factory=Bell)
    stopping: bool = False

    @property
    def is_watched(self) -> bool:
        """Whether a viewer is connected or the agent records; expensive figures are read only then."""
        return self.viewers > 0 or self.is_recording

    def send(self, message: wire.Message) -> None:
        self.outbox.put(message)
        self.publisher_bell.ring()

    def report(self, severity: str, kind: str, text: str) -> None:
        """Send an event."""
        self.send(wire.Event(now_ms(), severity, kind, text))

    def switch_off(self, source: str, error: BaseException) -> None:
        """Show a source as off, with the reason."""
        self.sources[source] = reason(error)

    def peer(self) -> wire.Peer:
        """Return this agent's entry in the roster."""
        own = self.identity
        return wire.Peer(
            agent=own.agent,
            process_index=None if self.topology is None else self.topology.process_index,
            hostname=own.hostname,
            pid=own.pid,
            process_started_ticks=own.process_started_ticks,
            boot=own.boot,
            pid_namespace=own.pid_namespace,
            telemetry=self.telemetry,
            requests=self.requests,
        )

    def stop(self) -> None:
        """Make all threads of the agent end."""
        self.stopping = True
        for bell in self.bells():
            bell.ring()

    def bells(self) -> list[Bell]:
        return [value for name, value in vars(self).items() if name.endswith("_bell")]


# What to do if the system refuses something, by the number of its error.
_REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EADDRNOTAVAIL: "give an address of this machine (--bind, or JAXTOP_BIND)",
    errno.ENOSPC: "free some space",
}


def reason(error: BaseException) -> str:
    """Return in one line why a source is off, and what to do where that is known."""
    remedy = _REMEDIES.get(error.errno or 0) if isinstance(error, OSError) else None
    return f"off: {names.reason(error)}{f'; {remedy}' if remedy else ''}"
