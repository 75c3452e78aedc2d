"""A process and its figures."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import AgentId, Count, Figure, IntervalMs, Process, TimeMs


class Device(Struct, frozen=True, omit_defaults=True):
    """A device as JAX names it; only the process's own devices are listed.

    `uuid` is the name of the hardware by its driver, where figures of it are read from there.
    """

    id: int
    kind: str
    platform: str
    local_id: int | None = None
    coords: tuple[int, ...] | None = None
    core_on_chip: int | None = None
    slice_index: int | None = None
    uuid: str | None = None


class Hello(Struct, frozen=True, omit_defaults=True, tag="hello"):
    """Who an agent is. Sent on start, to each new viewer, and whenever any of it changes.

    `peak_flops` is what the run's owner says that each of its devices can do at most.
    """

    agent: AgentId
    hostname: str
    pid: int
    process_started_ticks: int | None
    boot: str
    pid_namespace: str
    started_ms: TimeMs
    telemetry: str
    requests: str
    interval_ms: IntervalMs
    jaxtop: str
    python: str
    argv: tuple[str, ...] = ()
    name: str | None = None
    run: str | None = None
    process_index: Process | None = None
    process_count: Process | None = None
    jax: str | None = None
    jaxlib: str | None = None
    platform: str | None = None
    devices: tuple[Device, ...] = ()
    sources: dict[str, str] = {}
    peak_flops: int | None = None


Column = tuple[Figure | None, ...] | None


class DeviceSample(Struct, frozen=True, array_like=True):
    """One column a figure, one entry a device in the order of Hello.devices; a column nobody knows: None.

    `driver_…` is memory as the driver counts it, of all processes. `memory_activity` is the share of time in
    which the memory was busy, `dram` that of its bandwidth; `tensor` of the units that multiply matrices,
    `occupancy` of the places for warps. `slowed` has a bit for each of `SLOWED`. Energy and ECC errors are
    counters. `link_…` is the traffic between devices (NVLink, XGMI, ICI), all links of a device together.
    `queued` counts programs that wait for the device, `transfer_…` is how long transfers between hosts take.
    """

    used_bytes: Column = None
    peak_bytes: Column = None
    limit_bytes: Column = None
    utilization_permille: Column = None
    power_mw: Column = None
    temperature_c: Column = None
    reserved_bytes: Column = None
    largest_free_bytes: Column = None
    pool_bytes: Column = None
    driver_used_bytes: Column = None
    driver_total_bytes: Column = None
    power_limit_mw: Column = None
    temperature_limit_c: Column = None
    clock_mhz: Column = None
    clock_max_mhz: Column = None
    memory_clock_mhz: Column = None
    memory_activity_permille: Column = None
    tensor_permille: Column = None
    occupancy_permille: Column = None
    dram_permille: Column = None
    slowed: Column = None
    energy_mj: Column = None
    pcie_received_bytes_per_s: Column = None
    pcie_sent_bytes_per_s: Column = None
    link_received_bytes_per_s: Column = None
    link_sent_bytes_per_s: Column = None
    ecc_corrected: Column = None
    ecc_uncorrected: Column = None
    queued: Column = None
    transfer_p50_us: Column = None
    transfer_p99_us: Column = None


# Why a device runs slower than it could, a bit each from the lowest on.
SLOWED = ("power limit", "heat", "hardware slowdown", "power brake", "other devices", "clocks set by hand")


class BusyThread(Struct, frozen=True, array_like=True):
    """A thread that takes much CPU, in permille of one core; one of Python's contends for its lock."""

    name: str
    cpu_permille: int
    is_python: bool


class HostSample(Struct, frozen=True, array_like=True):
    """The process and its machine: CPU in permille of one core, the machine's in permille of all cores.

    Where a container has limits, its "machine" is the container: `cores_milli` is what it may use, its memory
    and CPU are counted within that. Pressure is the share of time in which something waited for CPU, memory
    or disks; `held_back` that in which the container was kept from running. `process_…` disk figures are the
    process's own, the others the machine's.
    """

    process_cpu_permille: int | None = None
    rss_bytes: int | None = None
    threads: int | None = None
    machine_cpu_permille: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    load_centi: int | None = None
    received_bytes_per_s: int | None = None
    sent_bytes_per_s: int | None = None
    cores_milli: int | None = None
    is_container: bool = False
    cpu_pressure_permille: int | None = None
    memory_pressure_permille: int | None = None
    io_pressure_permille: int | None = None
    held_back_permille: int | None = None
    disk_read_bytes_per_s: int | None = None
    disk_written_bytes_per_s: int | None = None
    process_read_bytes_per_s: int | None = None
    process_written_bytes_per_s: int | None = None
    busy_threads: tuple[BusyThread, ...] = ()


class Step(Struct, frozen=True, array_like=True):
    """What the script said of its own progress with agent.step()."""

    index: int
    calls: int
    metrics: dict[str, float] = {}


class Rhythm(Struct, frozen=True, array_like=True):
    """The step that the run repeats, as its launches, or the script's own calls, show it.

    `functions` is the group of launches that makes a step, in their order; empty if the script tells of its
    steps itself. `steps` counts them since this rhythm, of this `serial`, was found. The mean and the pace
    are of the last seconds, the percentiles of the last `samples` steps; what is done between steps, such as
    an evaluation, is left out of them, but not out of the pace. `flops` is what a step computes on one
    device, on average over the devices of the process, by its compiled programs; a lower bound if
    `flops_at_least`.
    """

    serial: int
    functions: tuple[str, ...] = ()
    steps: int = 0
    launches_centi: int = 0
    mean_us: int | None = None
    milli_per_s: int | None = None
    samples: int = 0
    p50_us: int | None = None
    p90_us: int | None = None
    p99_us: int | None = None
    flops: int | None = None
    flops_at_least: bool = False


class Compiling(Struct, frozen=True, array_like=True):
    """A compilation that is running now."""

    function: str
    since_ms: TimeMs


class Cost(Struct, frozen=True, array_like=True):
    """What the agent itself takes: CPU in millionths of one core, messages it had to drop, viewers it has."""

    cpu_ppm: int | None = None
    dropped: int = 0
    viewers: int = 0


class Stall(Struct, frozen=True, array_like=True):
    """Nothing was launched for far longer than usual: since when, what was launched last, what is usual."""

    function: str
    since_ms: TimeMs
    usual_ms: int


class Lull(Struct, frozen=True, array_like=True):
    """Nothing was launched, compiled or told for some seconds: since when, and what was launched last.

    `function` is empty where nothing was launched at all. `longest_ms` is the longest lull before this one.
    """

    function: str
    since_ms: TimeMs
    longest_ms: int = 0


class Pulse(Struct, frozen=True, array_like=True, tag="pulse"):
    """The figures of one interval. Launch counters are totals, and only those that moved are listed."""

    at_ms: TimeMs
    sampled_ms: TimeMs | None = None
    memory_source: str | None = None
    devices: DeviceSample = DeviceSample()
    host: HostSample = HostSample()
    launches: dict[str, Count] = {}
    compiling: tuple[Compiling, ...] = ()
    step: Step | None = None
    cost: Cost = Cost()
    stall: Stall | None = None
    rhythm: Rhythm | None = None
    counted_ms: TimeMs | None = None  # the arrays, the last time
    lull: Lull | None = None


class Compile(Struct, frozen=True, omit_defaults=True, tag="compile"):
    """A compilation that ended."""

    at_ms: TimeMs
    function: str
    duration_ms: int


class Event(Struct, frozen=True, omit_defaults=True, tag="event"):
    """Something a person should know."""

    at_ms: TimeMs
    severity: str
    kind: str
    text: str


class Bye(Struct, frozen=True, tag="bye"):
    """The agent ends in order; silence after this is no alarm."""

    at_ms: TimeMs
    reason: str
