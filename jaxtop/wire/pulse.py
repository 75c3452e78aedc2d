"""The pulse: the figures of a process and its machine over one interval."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import Count, TimeMs, WireInteger

Column = tuple[WireInteger | None, ...] | None


class DeviceSample(Struct, frozen=True, array_like=True):
    """One column per figure, one entry per device in the order of Hello.devices; unknown columns are None.

    `driver_…` is memory as the driver counts it, of all processes. `memory_activity` is the share of time in
    which the memory was busy; `dram` is the share of its bandwidth in use. `tensor` is the share of the
    matrix units in use; `occupancy` is that of the slots for warps. `slowed` has a bit for each of `SLOWED`.
    Energy and ECC errors are counters. `link_…` is the traffic between devices (NVLink, XGMI, ICI), summed
    over the links of a device. `queued` counts programs that wait for the device; `idle` is for
    how long its core has run nothing. `program_…` is the duration of programs, `transfer_…` of transfers
    between hosts, `from_host_…` and `to_host_…` of transfers between host and device, `collective_…` of
    collectives between hosts.
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
    idle_ms: Column = None
    program_p50_us: Column = None
    program_p99_us: Column = None
    from_host_p50_us: Column = None
    from_host_p99_us: Column = None
    to_host_p50_us: Column = None
    to_host_p99_us: Column = None
    collective_p50_us: Column = None
    collective_p99_us: Column = None
    peak_reserved_bytes: Column = None


# Reasons why a device runs slower than it could, one bit each, the lowest bit first.
SLOWED = ("power limit", "heat", "hardware slowdown", "power brake", "other devices", "clocks set by hand")


class BusyThread(Struct, frozen=True, array_like=True):
    """A thread that uses much CPU, in permille of one core; a Python thread contends for the GIL."""

    name: str
    cpu_permille: WireInteger
    is_python: bool


class HostSample(Struct, frozen=True, array_like=True):
    """The process and its machine: CPU in permille of one core, the machine's in permille of all cores.

    Where a container has limits, its "machine" is the container: `cores_milli` is what it may use, and its
    memory and CPU are relative to that. Pressure is the share of time in which a task waited for CPU, memory
    or disks; `held_back` is the share in which the kernel kept the container from running. `process_…` disk
    figures are the process's own, the others the machine's.

    Memory by holder: resident pages of the process by kind (`rss_…`), and how many are locked or pinned; of
    glibc's malloc what is in use in its arenas, what is mapped in blocks of its own, and what is free but
    held; all descendants of the process together. Memory that processes share, and that forked ones have in
    common, counts for each of them.
    """

    process_cpu_permille: WireInteger | None = None
    rss_bytes: WireInteger | None = None
    threads: WireInteger | None = None
    machine_cpu_permille: WireInteger | None = None
    memory_used_bytes: WireInteger | None = None
    memory_total_bytes: WireInteger | None = None
    load_centi: WireInteger | None = None
    received_bytes_per_s: WireInteger | None = None
    sent_bytes_per_s: WireInteger | None = None
    cores_milli: WireInteger | None = None
    is_container: bool = False
    cpu_pressure_permille: WireInteger | None = None
    memory_pressure_permille: WireInteger | None = None
    io_pressure_permille: WireInteger | None = None
    held_back_permille: WireInteger | None = None
    disk_read_bytes_per_s: WireInteger | None = None
    disk_written_bytes_per_s: WireInteger | None = None
    process_read_bytes_per_s: WireInteger | None = None
    process_written_bytes_per_s: WireInteger | None = None
    busy_threads: tuple[BusyThread, ...] = ()
    rss_anonymous_bytes: WireInteger | None = None
    rss_file_bytes: WireInteger | None = None
    rss_shared_bytes: WireInteger | None = None
    locked_bytes: WireInteger | None = None
    pinned_bytes: WireInteger | None = None
    malloc_used_bytes: WireInteger | None = None
    malloc_mapped_bytes: WireInteger | None = None
    malloc_free_bytes: WireInteger | None = None
    children: WireInteger | None = None
    children_rss_bytes: WireInteger | None = None
    children_anonymous_bytes: WireInteger | None = None
    machine_anonymous_bytes: WireInteger | None = None
    machine_file_bytes: WireInteger | None = None
    machine_shared_bytes: WireInteger | None = None


class Step(Struct, frozen=True, array_like=True):
    """The progress that the script reported with agent.step()."""

    index: WireInteger
    calls: Count
    metrics: dict[str, float] = {}


class Rhythm(Struct, frozen=True, array_like=True):
    """The step that the run repeats, found from its launches or from the script's own calls.

    `functions` is the group of launches that makes a step, in order; empty if the script reports its steps.
    `steps` counts the steps of this rhythm, with this `serial`, also those that nobody watched: they follow
    from the number of launches of its last function. The mean and the pace cover the last seconds, the
    percentiles the last `samples` steps. `p90_us` and `p99_us` are None where most steps share a wait with
    others: only their mean is known, which `p50_us` then is. They exclude work between steps, such as an
    evaluation, except for the pace, which includes it. `flops` is what a step computes on one device
    according to its compiled programs, averaged over the devices of the process; a lower bound if
    `flops_at_least`.

    All of this is since the step times last changed for good, at `since_ms`; `before_us` is the mean step
    before that. `pauses` counts the long gaps of the last minute, without those much shorter than the latest,
    and without one that is long ago and alone; `pauses_ms` is the time from the first to the last of them,
    and `lost_us` what each step loses by them.
    `pause_steps` is the number of steps from one to the next, if that is always about the same, else 0.
    """

    serial: Count
    functions: tuple[str, ...] = ()
    steps: Count = 0
    launches_centi: Count = 0
    mean_us: Count | None = None
    milli_per_s: Count | None = None
    samples: Count = 0
    p50_us: Count | None = None
    p90_us: Count | None = None
    p99_us: Count | None = None
    flops: Count | None = None
    flops_at_least: bool = False
    since_ms: TimeMs = 0
    before_us: Count | None = None
    pauses: Count = 0
    pauses_ms: Count = 0
    lost_us: Count = 0
    pause_steps: Count = 0


class Compiling(Struct, frozen=True, array_like=True):
    """A compilation that is running now."""

    function: str
    since_ms: TimeMs


class AgentCost(Struct, frozen=True, array_like=True):
    """What the agent itself uses: CPU in millionths of one core, messages dropped, viewers connected."""

    cpu_ppm: WireInteger | None = None
    dropped: WireInteger = 0
    viewers: WireInteger = 0


class Stall(Struct, frozen=True, array_like=True):
    """Nothing was launched for far longer than usual: since when, the last launch, the usual time."""

    function: str
    since_ms: TimeMs
    usual_ms: WireInteger


class IoTotals(Struct, frozen=True, array_like=True):
    """Bytes that a process has moved, and how many it moves per second, over the last ten seconds.

    `read` and `written` count since the process started, with files that caches or network file systems
    serve. `received` is the network traffic of the machine since the agent started. None is unknown.
    """

    read: Count | None = None
    written: Count | None = None
    received: Count | None = None
    read_per_s: Count | None = None
    written_per_s: Count | None = None
    received_per_s: Count | None = None


class Lull(Struct, frozen=True, array_like=True):
    """Nothing was launched, compiled or reported for some seconds: since when, and the last launch.

    `function` is empty if there was no launch at all. `longest_ms` is the longest lull before this one.
    """

    function: str
    since_ms: TimeMs
    longest_ms: WireInteger = 0
    moved: IoTotals = IoTotals()


class Pulse(Struct, frozen=True, array_like=True, tag="pulse"):
    """The figures of one interval. Launch counters are totals; only those that changed are listed.

    `step` is what the script reports to the agent, `logged` what it logs by other means: the scalars with
    their latest step, and `calls` counts their values. `served` are figures of an engine, which has no steps.
    """

    at_ms: TimeMs
    sampled_ms: TimeMs | None = None
    memory_source: str | None = None
    devices: DeviceSample = DeviceSample()
    host: HostSample = HostSample()
    launches: dict[str, Count] = {}
    compiling: tuple[Compiling, ...] = ()
    step: Step | None = None
    cost: AgentCost = AgentCost()
    stall: Stall | None = None
    rhythm: Rhythm | None = None
    counted_ms: TimeMs | None = None  # the last census
    lull: Lull | None = None
    logged: Step | None = None
    served: dict[str, float] = {}

    @property
    def values(self) -> dict[str, float]:
        """The latest values of all scalars: of the script, and of an engine."""
        reported = self.reported
        return self.served if reported is None else {**self.served, **reported.metrics}

    @property
    def reported(self) -> Step | None:
        """What the script reported, with what it logged elsewhere: the latest values, and their step."""
        step, logged = self.step, self.logged
        if step is None or logged is None:
            return step or logged
        calls = step.calls if step.metrics else logged.calls
        return Step(step.index, calls, {**logged.metrics, **step.metrics})
