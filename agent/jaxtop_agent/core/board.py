"""The state that the agent's threads share.

Each group of fields has one writer, the thread that its type is named after, which replaces a field as a
whole, so that readers need no lock.
"""

from __future__ import annotations

import errno
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jaxtop import wire
from jaxtop.base import names
from jaxtop.base.clock import now_ms
from jaxtop_agent.core.capture import CaptureExchange
from jaxtop_agent.core.threads import WakeEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop_agent.programs.compiles.compilations import FunctionCompilations
    from jaxtop_agent.programs.compiles.recompilations import Recompilations
    from jaxtop_agent.programs.executed_operations import ExecutedOperation
    from jaxtop_agent.programs.loaded_executables import LoadedExecutable

    # The name of a program and its fingerprint.
    ProgramKey = tuple[str, str | None]


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

    @property
    def vendor(self) -> str | None:
        """The vendor of the accelerators: JAX calls both NVIDIA's and AMD's "gpu"."""
        platform = self.platform.lower()
        if platform == "gpu":
            kinds = {device.kind.lower() for device in self.devices}
            is_amd = any(kind.startswith(("amd", "gfx", "radeon", "instinct")) for kind in kinds)
            return "amd" if is_amd else "nvidia"
        return {"cuda": "nvidia", "rocm": "amd", "tpu": "tpu"}.get(platform)


class Outbox:
    """Messages for the publisher; if it does not fetch them in time, the oldest are dropped and counted."""

    def __init__(self, size: int = 64) -> None:
        self._messages: deque[wire.Message] = deque(maxlen=size)
        self.dropped = 0

    def put(self, message: wire.Message) -> None:
        if len(self._messages) == self._messages.maxlen:
            self.dropped += 1
        self._messages.append(message)

    @property
    def waiting(self) -> int:
        return len(self._messages)

    def take(self) -> wire.Message | None:
        try:
            return self._messages.popleft()
        except IndexError:
            return None


class SamplerState(msgspec.Struct):
    """The figures of the process and its devices, which the sampler's collectors read."""

    topology: Topology | None = None
    sampled_ms: int | None = None
    memory_source: str | None = None
    devices: wire.DeviceSample = wire.DeviceSample()
    host: wire.HostSample = wire.HostSample()
    moved: wire.IoTotals = wire.IoTotals()
    rhythm: wire.Rhythm | None = None
    # The full census, for new viewers; changes are sent as messages.
    arrays: wire.Arrays | None = None
    counted_ms: int | None = None
    costs: dict[str, float] = msgspec.field(default_factory=dict)  # CPU seconds that each collector used

    @property
    def process_count(self) -> int:
        """How many processes the run has; 1 until that is known."""
        return self.topology.process_count if self.topology is not None else 1


class SamplerPrograms(msgspec.Struct):
    """The programs of the process, which the sampler reads, too."""

    listed: wire.Programs | None = None  # the latest list, for new viewers
    recompiling: frozenset[str] = frozenset()  # those that are currently compiled again and again
    # Of the loaded programs, while a viewer is connected or the agent records: their collectives, for each
    # operation that waits for a started collective the name of that collective, and each operation that a
    # launch runs.
    inventories: Mapping[ProgramKey, wire.Inventory] = msgspec.field(default_factory=dict)
    ends: Mapping[ProgramKey, Mapping[str, str]] = msgspec.field(default_factory=dict)
    executed: Mapping[ProgramKey, Mapping[str, ExecutedOperation]] = msgspec.field(default_factory=dict)
    # All loaded programs in the order in which they were compiled; empty until all have been read.
    loaded: tuple[LoadedExecutable, ...] = ()
    # How many trace events one launch of each program produces in this process, by name; None where that is
    # unknown. The whole mapping is None until all programs have been read.
    recorded: Mapping[str, int | None] | None = None


class CompilesState(msgspec.Struct):
    """Notes of JAX's threads while they compile, in values that they share with the readers."""

    compiled: dict[str, FunctionCompilations] = msgspec.field(default_factory=dict)  # by program name
    # The latest compilations with their causes; None if this JAX does not report compilations.
    history: Recompilations | None = None


class RegistrarState(msgspec.Struct):
    """The processes that the registrar found, and the offset from our clock to that of process 0."""

    roster: wire.Roster | None = None
    family_peers: tuple[wire.Peer, ...] = ()  # agents of the same family in other runs
    clock_offset: float = 0.0
    clock_error: float | None = None  # None: the clocks were not compared


class PublisherState(msgspec.Struct):
    """Who is served where, and whether the process hangs, as the publisher knows."""

    viewers: int = 0
    is_recording: bool = False
    telemetry: str = ""
    requests: str = ""
    is_placed: bool = False  # the two addresses are final; earlier ones may be unreachable from other hosts
    is_stuck: bool = False  # the process launches nothing for longer than is usual


class PublisherRequests(msgspec.Struct):
    """The requests of viewers, as the publisher has read them."""

    interval: float = 1.0
    peaks: int = 0  # how often the peaks of programs were requested
    windows: int = 0  # how many profiler windows were requested
    window_at: float | None = None  # when the last of these is to begin


class WindowsState(msgspec.Struct):
    """The results of the thread that takes profiler windows."""

    can_capture: bool = True
    latest: tuple[wire.Window, ...] = ()


class HardwareState(msgspec.Struct):
    """The readings of the thread that calls the drivers, and the drivers' names of the devices."""

    readings: Readings = NOTHING
    uuids: tuple[str | None, ...] = ()
    requested_at: float | None = None  # since when, on the monotonic clock, a driver has not answered


class LedgerState(msgspec.Struct):
    """The sums of the ledger thread, and earlier points for new viewers.

    `logged` are the last values of the scalars that the script logs; `notable` are those of its scalars
    that are not finite or have risen, and parts of trees. `curves` are set at the end.
    """

    latest: wire.Ledger | None = None
    past: tuple[wire.LedgerPoint, ...] = ()
    is_final: bool = False  # nothing follows
    logged: wire.Step | None = None
    notable: tuple[wire.Scalar, ...] = ()
    curves: wire.Curves | None = None


class ServedState(msgspec.Struct):
    """The latest figures of a serving engine, from the thread that reads its text."""

    figures: dict[str, float] = msgspec.field(default_factory=dict)


class WakeEvents(NamedTuple):
    """The events that wake the waiting threads."""

    publisher: WakeEvent
    sampler: WakeEvent
    registrar: WakeEvent
    windows: WakeEvent
    hardware: WakeEvent
    libraries: WakeEvent
    activity: WakeEvent
    ledger: WakeEvent
    stuck: WakeEvent
    reports: WakeEvent
    served: WakeEvent


class Board:
    """The shared state of one agent."""

    def __init__(
        self, identity: wire.Hello, *, interval: float = 1.0, sources: dict[str, str] | None = None
    ) -> None:
        self.identity = identity  # what never changes
        self.sampler = SamplerState()
        self.programs = SamplerPrograms()
        self.compiles = CompilesState()
        self.registrar = RegistrarState()
        self.publisher = PublisherState()
        self.requests = PublisherRequests(interval)
        self.windows = WindowsState()
        self.hardware = HardwareState()
        self.ledger = LedgerState()
        self.served = ServedState()
        # The state of each source of figures: "on", "off: why", "waiting: for what". Each key has one writer.
        self.sources: dict[str, str] = {} if sources is None else sources
        self.capture = CaptureExchange()
        self.outbox = Outbox()
        self.wakeups = WakeEvents(*(WakeEvent() for _ in WakeEvents._fields))
        # Set by any thread whose change must be sent at once; reset by the publisher.
        self.pulse_now = False
        # Whether this process writes reports into the script's own runs of trackers, as the reporter knows.
        self.is_reporting = False
        self.stopping = False

    @property
    def is_watched(self) -> bool:
        """Whether a viewer is connected or the agent records; expensive figures are read only then."""
        return self.publisher.viewers > 0 or self.publisher.is_recording

    def send(self, message: wire.Message, *, at_once: bool = True) -> None:
        """Send a message, or leave it for the next pulse: each wake-up of the publisher has its cost."""
        self.outbox.put(message)
        if at_once:
            self.wakeups.publisher.set()

    def report(self, severity: str, kind: str, text: str) -> None:
        """Send an event."""
        self.send(wire.Event(now_ms(), severity, kind, text))

    def switch_off(self, source: str, error: BaseException) -> None:
        """Show a source as off, with the reason."""
        self.sources[source] = off_reason(error)

    def peer(self) -> wire.Peer:
        """Return this agent's entry in the roster."""
        own, topology = self.identity, self.sampler.topology
        return wire.Peer(
            agent=own.agent,
            process_index=None if topology is None else topology.process_index,
            hostname=own.hostname,
            pid=own.pid,
            process_started_ticks=own.process_started_ticks,
            boot=own.boot,
            pid_namespace=own.pid_namespace,
            telemetry=self.publisher.telemetry,
            requests=self.publisher.requests,
        )

    def stop(self) -> None:
        """Make all threads of the agent end."""
        self.stopping = True
        for wakeup in self.wakeups:
            wakeup.set()


# The advice for a refusal of the system, by the number of its error.
_REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.EADDRNOTAVAIL: "give an address of this machine (--bind, or JAXTOP_BIND)",
    errno.ENOSPC: "free some space",
}


def off_reason(error: BaseException) -> str:
    """Return in one line the reason why a source is off, with advice where there is any."""
    remedy = _REMEDIES.get(error.errno or 0) if isinstance(error, OSError) else None
    return f"off: {names.reason(error)}{f'; {remedy}' if remedy else ''}"
