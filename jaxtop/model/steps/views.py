"""The step of a run: its duration, its operations, and its utilisation of the devices' peak."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from jaxtop.model.devices import scaled
from jaxtop.model.hardware.peaks import peak_of
from jaxtop.model.host import NO_WINDOW, still_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState
    from jaxtop.wire import Launch

# The name of the metric that counts the tokens of a step, in `agent.step(i, tokens=…)`.
TOKENS = "tokens"
# After this many times the longest step without a launch, the figures of steps are no longer current.
TIMES_A_STEP = 3
# With fewer launches in a window, the idle share is unknown.
MIN_LAUNCHES = 3


@dataclass(frozen=True)
class StepView:
    """The step of one process. Operations, power and tokens are totals over all its devices.

    `functions` is the group of launches of a step; it is empty if the script reports its steps itself. The
    operations are counted in the compiled programs and the peak is the vendor's, so utilisation is an
    estimate. `launches` is the number of launches in a step, repetitions included; None if none were seen.
    """

    functions: tuple[str, ...]
    is_reported_by_script: bool
    steps: int
    launches: float | None
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    per_second: float | None
    idle: float | None
    flops: int | None
    flops_per_second: float | None
    utilization: float | None
    peak_source: str
    watts: float | None
    tokens_per_second: float | None
    # Whether the operations, and the figures derived from them, are lower bounds.
    flops_at_least: bool = False
    # For how long no step has ended, if that is far longer than a step takes. The times are then those of the
    # past, and there is no pace and no idle share.
    past_s: float | None = None

    @property
    def name(self) -> str:
        return "agent.step()" if self.is_reported_by_script else " + ".join(self.functions)

    @property
    def jitter(self) -> float | None:
        """By how much the 90th percentile of step times exceeds the median, as a share of the median."""
        return None if not self.p50_s or self.p90_s is None else self.p90_s / self.p50_s - 1

    @property
    def joules_per_step(self) -> float | None:
        return _ratio(self.watts, self.per_second)

    @property
    def joules_per_token(self) -> float | None:
        return _ratio(self.watts, self.tokens_per_second)


@dataclass(frozen=True)
class RunStep:
    """The steps of all processes of a run: the median, and the process whose steps take longest."""

    p50_s: float
    slowest: Host
    slowest_s: float


def pace_of(host: Host) -> float | None:
    """Return steps a second, from the rhythm or else the script's reports; None if steps have stopped."""
    if past_of(host) is not None:
        return None
    rhythm = host.pulse.rhythm
    if rhythm is not None:
        return scaled(rhythm.milli_per_s, 1000)
    return host.steps.per_second if host.steps else None


def past_of(host: Host) -> float | None:
    """Return for how long no step has ended, by the process's own clock; None unless that is very long."""
    still, rhythm = still_of(host), host.pulse.rhythm
    if still is None:
        return None
    seconds = (host.pulse.at_ms - still.since_ms) / 1000
    known = () if rhythm is None else (rhythm.p99_us, rhythm.p50_us, rhythm.mean_us)
    longest = max((each for each in known if each is not None), default=0) / 1e6
    return seconds if host.pulse.stall is not None or seconds > TIMES_A_STEP * longest else None


def steps_of(host: Host) -> int | None:
    """Return how many steps a host made: as the script reported, or else as the rhythm counted."""
    reported, rhythm = host.pulse.step, host.pulse.rhythm
    if reported is not None:
        return reported.calls
    return None if rhythm is None else rhythm.steps


def step_of(host: Host) -> StepView | None:
    """Return the step of a host; None while it is unknown."""
    rhythm, hello = host.pulse.rhythm, host.hello
    if rhythm is None or hello is None:
        return None
    per_second, past = pace_of(host), past_of(host)
    flops = None if rhythm.flops is None else rhythm.flops * len(hello.devices)
    achieved = None if flops is None or per_second is None else flops * per_second
    peaks = [peak_of(hello, device) for device in hello.devices]
    known = [each for each in peaks if each is not None]
    peak = sum(each.flops for each in known) if known and len(known) == len(peaks) else None
    reported = host.pulse.reported
    tokens = None if reported is None else reported.metrics.get(TOKENS)
    return StepView(
        functions=rhythm.functions,
        is_reported_by_script=not rhythm.functions,
        steps=rhythm.steps,
        launches=scaled(rhythm.launches_centi or None, 100),
        mean_s=scaled(rhythm.mean_us, 1_000_000),
        # Without a spread this is the mean of steps that share a wait, and no percentile.
        p50_s=None if rhythm.p90_us is rhythm.p99_us is None else scaled(rhythm.p50_us, 1_000_000),
        p90_s=scaled(rhythm.p90_us, 1_000_000),
        p99_s=scaled(rhythm.p99_us, 1_000_000),
        per_second=per_second,
        # The last window shows the time before a stall.
        idle=idle_share(host.window.launches) if host.window is not NO_WINDOW and past is None else None,
        flops=flops,
        flops_per_second=achieved,
        utilization=_ratio(achieved, peak),
        peak_source=known[0].source if peak is not None else "",
        watts=_watts(host),
        tokens_per_second=None if tokens is None or per_second is None else tokens * per_second,
        flops_at_least=rhythm.flops_at_least,
        past_s=past,
    )


def step_in(cluster: ClusterState, host: Host) -> StepView | None:
    """Return the step of a host of this cluster, derived once until the host changes."""
    return cluster.derived.of("step", host.agent, cluster.hosts, (host,), lambda: step_of(host))


def step_of_run(hosts: Iterable[Host]) -> RunStep | None:
    """Return the step of these hosts together; None while none of them reports one."""
    took = [
        (host.pulse.rhythm.p50_us, host)
        for host in hosts
        if host.pulse.rhythm is not None and host.pulse.rhythm.p50_us is not None
    ]
    if not took:
        return None
    longest, slowest = max(took, key=lambda each: each[0])
    return RunStep(median(each for each, _ in took) / 1e6, slowest, longest / 1e6)


def pace_of_run(hosts: Iterable[Host]) -> float | None:
    """Return the steps a second that these hosts make: their median; None while unknown."""
    paces = [pace for host in hosts if (pace := pace_of(host)) is not None]
    return median(paces) if paces else None


def wall_time_of_run(hosts: Iterable[Host]) -> float | None:
    """Return the seconds from step to step of these hosts, pauses included; None while unknown.

    Shares of wall time are shares of this, and not of the median step, which has no pauses.
    """
    pace = pace_of_run(hosts)
    return 1 / pace if pace else None


def _ratio(amount: float | None, whole: float | None) -> float | None:
    return None if amount is None or not whole else amount / whole


def _watts(host: Host) -> float | None:
    """Return the power of all devices of a host; None if that of any device is unknown."""
    column = host.pulse.devices.power_mw
    known = [each for each in column or () if each is not None]
    return sum(known) / 1000 if column and len(known) == len(column) else None


def idle_share(launches: Iterable[Launch]) -> float | None:
    """Return the share of a window, from its first launch to the end of its last, in which no program ran."""
    spans = sorted((each.start_us, each.start_us + each.duration_us) for each in launches)
    if len(spans) < MIN_LAUNCHES:
        return None
    first, until = spans[0]
    idle = 0
    for start, end in spans:
        idle += max(0, start - until)
        until = max(until, end)
    return idle / (until - first) if until > first else None
