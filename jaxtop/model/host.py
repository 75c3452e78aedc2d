"""The state of one agent, as a frozen value that the fold replaces."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - keyframes read the annotations
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jaxtop.model.past_values import (
    BestPace,
    FunctionLaunches,
    LaunchCounts,
    LossValues,
    PeakRises,
    RhythmChange,
    StepCounts,
)
from jaxtop.wire import (
    Activity,
    Arrays,
    Bye,
    Compile,
    Curves,
    Device,
    Hello,
    Inventory,
    Ledger,
    Link,
    LinkState,
    Nccl,
    NcclTimes,
    Operations,
    Peak,
    Peer,
    Programs,
    Pulse,
    Scalars,
    Stacks,
    TpuCores,
    Uncaught,
    Window,
)
from jaxtop.wire.bounds import Count, TimeS  # noqa: TC001 - keyframes read the annotations

if TYPE_CHECKING:
    from jaxtop.wire.pulse import Column, Lull, Stall

NO_LINK = Link(LinkState.CONNECTING, "")
NO_PULSE = Pulse(at_ms=0)
# The source of a limit that the owner of a run set where its devices report none.
SIMULATED = "simulated"
NO_ARRAYS = Arrays(at_ms=0)
NO_PROGRAMS = Programs(at_ms=0)
NO_STACKS = Stacks(at_ms=0, threads=())
NO_ACTIVITY = Activity(at_ms=0, span_ms=0)
NO_SCALARS, NO_CURVES = Scalars(at_ms=0), Curves(at_ms=0)
NO_LEDGER = Ledger(at_ms=0, started_ms=0)
NO_NCCL = Nccl(at_ms=0)
NO_NCCL_TIMES = NcclTimes(at_ms=0)
NO_CORES = TpuCores(at_ms=0)
NO_WINDOW = Window(at_ms=0, duration_us=0)
NO_RISES = PeakRises()
NO_CHANGE = RhythmChange()
PROCESS, HOST = "process", "host"


@dataclass(frozen=True)
class Host:
    """One agent in its process. Facts come from its hello or, before the hello, from the roster."""

    agent: str
    hello: Hello | None = None
    peer: Peer | None = None
    run: str | None = None
    run_name: str | None = None
    process_count: int | None = None
    # What its run calls its processes, see `naming/nouns.py`.
    noun: str = PROCESS
    pulse: Pulse = NO_PULSE
    arrays: Arrays = NO_ARRAYS
    # For each group of the census, the first of the censuses in a row that found some; 0 if there is none.
    arrays_since: tuple[int, ...] = ()
    # When the allocators' peaks of its devices last rose, and what was alive then.
    rises: PeakRises = NO_RISES
    programs: Programs = NO_PROGRAMS
    # Its last compilation that ended, which may be newer than its programs.
    compiled: Compile | None = None
    # The collectives of its programs, by name and fingerprint of the program.
    inventories: Mapping[tuple[str, str | None], Inventory] = field(
        default_factory=lambda: MappingProxyType({})
    )
    # The operations of its programs in the last window that showed them, by the same names.
    operations: Mapping[tuple[str, str | None], Operations] = field(
        default_factory=lambda: MappingProxyType({})
    )
    # What holds memory at the peaks of its programs, by name and fingerprint, where a viewer asked.
    peaks: Mapping[tuple[str, str | None], Peak] = field(default_factory=lambda: MappingProxyType({}))
    window: Window = NO_WINDOW
    # The launches that windows saw, by the name of the programs.
    launches_in_windows: Mapping[str, FunctionLaunches] = field(default_factory=lambda: MappingProxyType({}))
    stacks: Stacks = NO_STACKS
    # What the libraries of its devices reported in its last stall.
    nccl: Nccl = NO_NCCL
    cores: TpuCores = NO_CORES
    nccl_times: NcclTimes = NO_NCCL_TIMES
    activity: Activity = NO_ACTIVITY
    # Scalars of its script that are not finite or have risen, and parts of trees.
    scalars: Scalars = NO_SCALARS
    # All its scalars since its start.
    curves: Curves = NO_CURVES
    # What it has spent its time on, with earlier points.
    ledger: Ledger = NO_LEDGER
    bye: Bye | None = None
    link: Link = NO_LINK
    link_at: float = 0.0
    heard_at: float | None = None
    pulse_at: float | None = None
    launches: Mapping[str, Count] = field(default_factory=lambda: MappingProxyType({}))
    # The time of the first report of launches; earlier ones were not counted.
    launches_since: TimeS | None = None
    steps: StepCounts | None = None
    losses: tuple[LossValues, ...] = ()
    best: BestPace | None = None
    rhythm_change: RhythmChange = NO_CHANGE
    # Rates are measured from the older of the two.
    past_launches: tuple[LaunchCounts, ...] = ()

    def but(self, **changes: Any) -> Host:
        """Return a changed copy, much faster than `dataclasses.replace`: it runs for every message."""
        changed = object.__new__(Host)
        changed.__dict__.update(self.__dict__)
        changed.__dict__.update(changes)
        return changed

    @property
    def process_index(self) -> int | None:
        spoken = self.hello.process_index if self.hello else None
        return spoken if spoken is not None else (self.peer.process_index if self.peer else None)

    @property
    def hostname(self) -> str | None:
        return self.hello.hostname if self.hello else (self.peer.hostname if self.peer else None)

    @property
    def pid(self) -> int | None:
        return self.hello.pid if self.hello else (self.peer.pid if self.peer else None)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Its devices in the order of JAX; none until it says hello."""
        return self.hello.devices if self.hello else ()

    @property
    def limit_source(self) -> str:
        """What set the limits of its devices' memory: their allocators, or the owner of the run."""
        is_set = self.hello is not None and self.hello.simulated_limit_bytes is not None
        return SIMULATED if is_set and self.pulse.memory_source != "allocator" else "allocator"

    @property
    def is_lone_worker(self) -> bool:
        """Whether another process has started it and its run has no other one: its parent may end it."""
        is_child = self.hello is not None and self.hello.parent_pid is not None
        return is_child and self.process_count in (None, 1)

    @property
    def is_on_cpu(self) -> bool:
        """Whether its devices are CPUs: these take turns on the same cores, in the memory of the process."""
        return self.hello is not None and self.hello.platform == "cpu"

    def is_off(self, source: str) -> bool:
        """Return whether its agent reports that a source of figures is off."""
        return self.hello is not None and self.hello.sources.get(source, "").startswith("off")

    @property
    def label(self) -> str:
        """The name of the host on screen: "host 1 (node01)" or "process 1 on node01"."""
        return self.labels[self.noun]

    @property
    def labels(self) -> Mapping[str, str]:
        """Its names by what its run calls its processes; earlier texts may have another than `label`."""
        index, where = self.process_index, self.hostname or self.link.endpoint or self.agent
        if index is None:
            return {PROCESS: where, HOST: where}
        return {PROCESS: f"process {index} on {where}", HOST: f"host {index} ({where})"}

    @property
    def number(self) -> str:
        """Its shortest name: "host 1" or "process 1", or where it is if it has no number."""
        index = self.process_index
        return self.labels[self.noun] if index is None else f"{self.noun} {index}"

    @property
    def black_box_trouble(self) -> str:
        """Why the black box that it was configured for is not written; empty if there is no problem."""
        said = self.hello.sources.get("recording", "on") if self.hello else "on"
        return "" if said.startswith("on") else f"writes no black box: {said.partition(': ')[2] or said}"

    @property
    def error(self) -> Uncaught | None:
        """The exception with which its script ended; None if there was none, or it is unknown."""
        return None if self.bye is None else self.bye.error

    def without_figures(self) -> Host:
        """Return the host reduced to its identity and how it ended."""
        return Host(**{name: getattr(self, name) for name in _FACTS})


# What follows from all earlier messages of a host. A keyframe has these and the last message of each kind.
KEPT = (
    "launches", "launches_since", "past_launches", "steps", "launches_in_windows", "losses", "best", "rises",
    "rhythm_change",
)  # fmt: skip
# What is known of a process that has exited.
_FACTS = (
    "agent", "hello", "peer", "run", "run_name", "process_count", "noun", "ledger", "bye", "link", "link_at",
    "heard_at", "pulse_at",
)  # fmt: skip
EMPTY_HOST = Host(agent="")


REFUSES_KEY = (
    "does not accept your key; copy the run's ~/.config/jaxtop/key, "
    "or have your public key (`jaxtop doctor`) added to its authorized_keys"
)
_WHY_UNMET = {
    LinkState.CLOSED: "nothing listens there; `jaxtop ls` on that host lists its runs",
    LinkState.UNREACHABLE: "no answer from that address; check the name, the network and the firewall",
    LinkState.STOPPED: "something accepts the connection but does not answer; the process may be stopped",
    LinkState.REFUSED: f"the agent there {REFUSES_KEY}",
    LinkState.BLOCKED: "the process there runs, but its Python does not answer",
    LinkState.CONNECTING: "no answer in time; try a longer --wait",
}


@dataclass(frozen=True)
class UnmetAddress:
    """An address that a person gave, behind which no agent has been met yet."""

    endpoint: str
    link: Link = NO_LINK
    link_at: float = 0.0

    @property
    def why(self) -> str:
        """Why no agent was found there, and what to do."""
        return self.link.text or _WHY_UNMET.get(self.link.state, self.link.state)


def device_entry(column: Column, position: int) -> int | None:
    """Return one device's entry of a column that may be unknown as a whole."""
    return column[position] if column is not None and position < len(column) else None


def changed_ms(pulse: Pulse) -> int:
    """Return when the rhythm of the steps last changed, by the agent's clock: what is older is outdated."""
    rhythm = pulse.rhythm
    return 0 if rhythm is None or rhythm.before_us is None else rhythm.since_ms


def longest_compile(pulse: Pulse) -> tuple[float, str] | None:
    """Return for how long the oldest compilation has run, in seconds, and its function; None if none runs."""
    running = (((pulse.at_ms - each.since_ms) / 1000, each.function) for each in pulse.compiling)
    return max(running, default=None)


def still_of(host: Host) -> Stall | Lull | None:
    """Return since when a process makes no progress, and what it launched last; None if it makes some."""
    return host.pulse.stall or host.pulse.lull


def run_of(host: Host) -> str:
    """Return the id of a host's run; a host without one is a run by itself."""
    return host.run or host.agent
