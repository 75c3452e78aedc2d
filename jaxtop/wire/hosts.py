"""A process and its figures."""

from __future__ import annotations

from msgspec import Struct


class Device(Struct, frozen=True, omit_defaults=True):
    """A device as JAX names it; only the process's own devices are listed."""

    id: int
    kind: str
    platform: str
    local_id: int | None = None
    coords: tuple[int, ...] | None = None
    core_on_chip: int | None = None
    slice_index: int | None = None


class Hello(Struct, frozen=True, omit_defaults=True, tag="hello"):
    """Who an agent is. Sent on start, to each new viewer, and whenever any of it changes."""

    agent: str
    hostname: str
    pid: int
    process_started_ticks: int | None
    boot: str
    pid_namespace: str
    started_ms: int
    telemetry: str
    requests: str
    interval_ms: int
    jaxtop: str
    python: str
    argv: tuple[str, ...] = ()
    name: str | None = None
    run: str | None = None
    process_index: int | None = None
    process_count: int | None = None
    jax: str | None = None
    jaxlib: str | None = None
    platform: str | None = None
    devices: tuple[Device, ...] = ()
    sources: dict[str, str] = {}


class DeviceSample(Struct, frozen=True, array_like=True):
    """One column a figure, one entry a device in the order of Hello.devices; a column nobody knows: None."""

    used_bytes: tuple[int | None, ...] | None = None
    peak_bytes: tuple[int | None, ...] | None = None
    limit_bytes: tuple[int | None, ...] | None = None
    utilization_permille: tuple[int | None, ...] | None = None
    power_mw: tuple[int | None, ...] | None = None
    temperature_c: tuple[int | None, ...] | None = None
    reserved_bytes: tuple[int | None, ...] | None = None
    largest_free_bytes: tuple[int | None, ...] | None = None
    pool_bytes: tuple[int | None, ...] | None = None


class HostSample(Struct, frozen=True, array_like=True):
    """The process and its machine: CPU in permille of one core, the machine's in permille of all cores."""

    process_cpu_permille: int | None = None
    rss_bytes: int | None = None
    threads: int | None = None
    machine_cpu_permille: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    load_centi: int | None = None
    received_bytes_per_s: int | None = None
    sent_bytes_per_s: int | None = None


class Step(Struct, frozen=True, array_like=True):
    """What the script said of its own progress with agent.step()."""

    index: int
    calls: int
    metrics: dict[str, float] = {}


class Compiling(Struct, frozen=True, array_like=True):
    """A compilation that is running now."""

    function: str
    since_ms: int


class Cost(Struct, frozen=True, array_like=True):
    """What the agent itself takes: CPU in millionths of one core, messages it had to drop, viewers it has."""

    cpu_ppm: int | None = None
    dropped: int = 0
    viewers: int = 0


class Stall(Struct, frozen=True, array_like=True):
    """Nothing was launched for far longer than usual: since when, what was launched last, what is usual."""

    function: str
    since_ms: int
    usual_ms: int


class Pulse(Struct, frozen=True, array_like=True, tag="pulse"):
    """The figures of one interval. Launch counters are totals, and only those that moved are listed."""

    at_ms: int
    sampled_ms: int | None = None
    memory_source: str | None = None
    devices: DeviceSample = DeviceSample()
    host: HostSample = HostSample()
    launches: dict[str, int] = {}
    compiling: tuple[Compiling, ...] = ()
    step: Step | None = None
    cost: Cost = Cost()
    stall: Stall | None = None


class Compile(Struct, frozen=True, omit_defaults=True, tag="compile"):
    """A compilation that ended."""

    at_ms: int
    function: str
    duration_ms: int


class Event(Struct, frozen=True, omit_defaults=True, tag="event"):
    """Something a person should know."""

    at_ms: int
    severity: str
    kind: str
    text: str


class Bye(Struct, frozen=True, tag="bye"):
    """The agent ends in order; silence after this is no alarm."""

    at_ms: int
    reason: str
