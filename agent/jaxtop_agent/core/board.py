"""What the agent's threads tell each other: one writer a field, replaced whole, read without locks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jaxtop.wire import DeviceSample, HostSample, Roster
from jaxtop_agent.core.threads import Wake
from jaxtop_agent.hardware.reader import NOTHING, Readings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.wire import Arrays, Device, Inventory, Message, Programs, Rhythm, Window
    from jaxtop_agent.core.identity import Identity
    from jaxtop_agent.programs.compilations import Compiled
    from jaxtop_agent.programs.loaded import Loaded


@dataclass(frozen=True)
class Topology:
    """What this process is to JAX."""

    process_index: int
    process_count: int
    platform: str
    devices: tuple[Device, ...]
    coordinator: str | None


class Outbox:
    """Messages for the publisher; when it does not come to fetch them, the oldest give way."""

    def __init__(self, size: int = 64) -> None:
        self._messages: deque[Message] = deque(maxlen=size)
        self.dropped = 0

    def put(self, message: Message) -> None:
        if len(self._messages) == self._messages.maxlen:
            self.dropped += 1
        self._messages.append(message)

    def take(self) -> Message | None:
        try:
            return self._messages.popleft()
        except IndexError:
            return None


@dataclass
class Board:
    """The agent's blackboard."""

    identity: Identity

    # Written by the sampler.
    topology: Topology | None = None
    sampled_ms: int | None = None
    memory_source: str | None = None
    # The whole census, for viewers that come new; changes go out as messages.
    arrays: Arrays | None = None
    counted_ms: int | None = None
    programs: Programs | None = None
    rhythm: Rhythm | None = None
    # Of the loaded programs, while somebody watches: their collectives, by name and fingerprint; what waits
    # for each that was started; the names of those that call into Python.
    inventories: Mapping[tuple[str, str | None], Inventory] = field(default_factory=dict)
    ends: Mapping[tuple[str, str | None], Mapping[str, str]] = field(default_factory=dict)
    calls_back: frozenset[str] = frozenset()
    # All of them in the order in which they were compiled; empty while some were not read.
    loaded: tuple[Loaded, ...] = ()
    # How many events of a trace a launch of each program makes in this process, by name; None where nobody
    # knows. None altogether before all programs are read.
    recorded: Mapping[str, int | None] | None = None
    devices: DeviceSample = field(default_factory=DeviceSample)
    host: HostSample = field(default_factory=HostSample)
    costs: dict[str, float] = field(default_factory=dict)  # seconds of CPU that each collector took
    # Written by JAX's threads as they compile, by the name of the program.
    compiled: dict[str, Compiled] = field(default_factory=dict)
    # Written by the sampler: those of them that are compiled over and over now.
    recompiling: frozenset[str] = frozenset()
    # Written by the registrar: who is there, and what to add to our clock to have that of process 0.
    roster: Roster | None = None
    clock_offset: float = 0.0
    clock_error: float | None = None  # None: it was not compared
    # Set by whoever has something that cannot wait; taken back by the publisher.
    pulse_now: bool = False
    # Written by the publisher.
    viewers: int = 0
    is_recording: bool = False
    telemetry: str = ""
    requests: str = ""
    is_placed: bool = False  # the two addresses are final: until then others could not reach them
    interval: float = 1.0
    peak_flops: int | None = None
    captures_asked: int = 0  # how often somebody asked for a window of the profiler now
    # Written by the thread that takes windows.
    can_capture: bool = True
    windows: tuple[Window, ...] = ()  # the last ones, for viewers that come new
    # Written by the thread that asks drivers: what it read, the devices by the drivers' names, and since when
    # a driver has not answered, by the monotonic clock.
    hardware: Readings = NOTHING
    uuids: tuple[str | None, ...] = ()
    hardware_asked: float | None = None
    # A key a source of figures: "on", "off: why", "waiting: for what". Each has one writer.
    sources: dict[str, str] = field(default_factory=dict)

    outbox: Outbox = field(default_factory=Outbox)
    publisher_bell: Wake = field(default_factory=Wake)
    sampler_bell: Wake = field(default_factory=Wake)
    registrar_bell: Wake = field(default_factory=Wake)
    windows_bell: Wake = field(default_factory=Wake)
    hardware_bell: Wake = field(default_factory=Wake)
    stopping: bool = False

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks, or will look at what is recorded: costly figures are only read then."""
        return self.viewers > 0 or self.is_recording

    def tell(self, message: Message) -> None:
        """Give the publisher something to send."""
        self.outbox.put(message)
        self.publisher_bell.ring()

    def bells(self) -> tuple[Wake, ...]:
        return (
            self.publisher_bell,
            self.sampler_bell,
            self.registrar_bell,
            self.windows_bell,
            self.hardware_bell,
        )


def reason(error: BaseException) -> str:
    """Why a source is off, in one line."""
    first_line = str(error).strip().split("\n", 1)[0][:200]
    return f"off: {type(error).__name__}: {first_line}" if first_line else f"off: {type(error).__name__}"
