"""The state of a host, and which of its figures are current. Nothing else decides this."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from jaxtop.model.host import NO_ACTIVITY, NO_NCCL_TIMES, changed_ms, still_of
from jaxtop.wire import DeviceSample, HostSample, LinkState, Pulse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model.host import Host

# A pulse may be late by this many intervals, and by at least this many seconds.
QUIET_INTERVALS = 2.5
QUIET_AT_LEAST = 2.0
# After this time the process is assumed to be blocked: its connection is up, but Python does not report.
BLOCKED_INTERVALS = 5.0
BLOCKED_AT_LEAST = 5.0


class Validity(NamedTuple):
    """For how long an entry describes the present unless it is renewed.

    An entry `of_windows` lasts at least twice the time between two windows. An entry `of_rhythm` also ends
    when the rhythm of the steps changes; it may come from up to `earlier_ms` before the change. An entry
    `of_stop` describes a process that makes no progress, and must be newer than the last progress.
    """

    ms: int
    of_windows: bool = False
    of_rhythm: bool = False
    earlier_ms: int = 0
    of_stop: bool = False


ACTIVITY, NCCL_TIMES = Validity(15_000), Validity(60_000)
# When the arrays were counted.
CENSUS = Validity(10_000)
# What a window of the profiler showed may have ended since.
WINDOW = Validity(300_000, of_windows=True)
TIMES_IN_WINDOW = WINDOW._replace(of_rhythm=True)
# Describes the present steps at any age; samples of the main thread may begin a little earlier.
OF_STEPS = Validity(1 << 62, of_rhythm=True)
SAMPLES_OF_STEPS = OF_STEPS._replace(earlier_ms=500)
# What shows why a process makes no progress, however long ago.
OF_STOP = Validity(1 << 62, of_stop=True)


class State(StrEnum):
    """The states of a host; only `connecting` is provisional."""

    CONNECTING = "connecting"
    LIVE = "live"
    QUIET = "quiet"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    ENDED = "ended"
    DIED = "died"
    GONE = "gone"

    @property
    def has_exited(self) -> bool:
        """Whether the process has exited: none of its figures is current."""
        return self in _EXITED

    @property
    def is_silent(self) -> bool:
        """Whether the process has exited or reports nothing: no rate and no activity is current."""
        return self in _SILENT

    @property
    def severity(self) -> int:
        """The rank among all states: the larger, the worse."""
        return _SEVERITY[self]


_EXITED = frozenset({State.ENDED, State.DIED, State.GONE})
_SILENT = _EXITED | {State.STOPPED, State.BLOCKED, State.UNREACHABLE, State.REFUSED}
# The order of severity, the worst first. All code that ranks states uses this list.
BY_SEVERITY = (
    State.DIED, State.STOPPED, State.BLOCKED, State.UNREACHABLE, State.REFUSED, State.GONE, State.QUIET,
    State.ENDED, State.CONNECTING, State.LIVE,
)  # fmt: skip
_SEVERITY = {state: rank for rank, state in enumerate(reversed(BY_SEVERITY))}
_OF_LINK = {
    LinkState.BLOCKED: State.BLOCKED,
    LinkState.STOPPED: State.STOPPED,
    LinkState.UNREACHABLE: State.UNREACHABLE,
    LinkState.REFUSED: State.REFUSED,
    LinkState.DEAD: State.DIED,
}


def state_of(host: Host, now: float) -> State:
    if host.bye is not None:
        return State.ENDED
    if host.link.state is LinkState.CLOSED:
        # Nothing listens any more. Only a viewer that met the host before can conclude that it died.
        return State.GONE if host.hello is None else State.DIED
    return _OF_LINK.get(host.link.state) or _state_by_age(host, now)


def interval_of(host: Host) -> float:
    """Return the seconds between two pulses of a host."""
    return (host.hello.interval_ms if host.hello else 1000) / 1000


def has_exited(host: Host) -> bool:
    """Return whether the process is known to have exited, at any time."""
    return host.bye is not None or host.link.state.has_exited


def was_never_reached(host: Host) -> bool:
    """Return whether only an address is known, unreachable from here: this is not a sign of trouble."""
    return host.hello is None and host.link.state is LinkState.UNREACHABLE


def is_current(host: Host, at_ms: int, lasts: Validity, now: float | None = None) -> bool:
    """Return whether an entry of this time, by the host's clock, describes the present.

    The present is the time of the last pulse; with `now`, the time since then counts, too.
    """
    since = 0.0 if now is None or host.pulse_at is None else max(0.0, now - host.pulse_at) * 1000
    longest = max(lasts.ms, 2 * host.window.every_ms) if lasts.of_windows else lasts.ms
    if host.pulse.at_ms + since - at_ms > longest:
        return False
    if lasts.of_stop and ((still := still_of(host)) is None or at_ms < still.since_ms):
        return False
    return not lasts.of_rhythm or at_ms >= changed_ms(host.pulse) - lasts.earlier_ms


def is_of_present_steps(host: Host, held_at: float) -> bool:
    """Return whether what was last found at this time describes the present steps of a host.

    An agent notices a change of the rhythm some steps later, and dates it back. Until then, what is found
    describes the earlier steps, however long such steps take.
    """
    return held_at >= host.rhythm_change.reported_at


def worst(states: Iterable[State]) -> State:
    """Return the most severe state; live if there are none."""
    return max(states, key=_SEVERITY.__getitem__, default=State.LIVE)


@dataclass(frozen=True)
class HostView:
    """The newest agent of a process, its state at a time, and how many times the process was started.

    `host` has all that it last reported. Code that shows figures as current reads `current`; code that shows
    the last ones on purpose calls them `last`.
    """

    host: Host
    incarnation: int
    state: State

    @cached_property
    def current(self) -> Host:
        """The host with only its current figures; the others are unknown or empty."""
        return only_current(self.host, self.state)


def only_current(host: Host, state: State) -> Host:
    """Return the host with only its current figures: all, what a silent process holds, or none."""
    if state in _EXITED:
        return host.without_figures().but(pulse_at=None)
    if state in _SILENT:
        return host.but(
            pulse=_held(host.pulse),
            activity=NO_ACTIVITY,
            nccl_times=NO_NCCL_TIMES,
            launches_since=None,
            past_launches=(),
            steps=None,
        )
    outdated = dict[str, object]()
    if host.activity is not NO_ACTIVITY and not is_current(host, host.activity.at_ms, ACTIVITY):
        outdated["activity"] = NO_ACTIVITY
    if host.nccl_times is not NO_NCCL_TIMES and not is_current(host, host.nccl_times.at_ms, NCCL_TIMES):
        outdated["nccl_times"] = NO_NCCL_TIMES
    return host.but(**outdated) if outdated else host


def _held(pulse: Pulse) -> Pulse:
    """Return the pulse with memory, limits and counters only: no rates, no activity and no ages."""
    devices, machine = pulse.devices, pulse.host
    return replace(
        pulse,
        sampled_ms=None,
        counted_ms=None,
        cost=replace(pulse.cost, cpu_ppm=None),
        devices=DeviceSample(**{name: getattr(devices, name) for name in _HELD_BY_DEVICES}),
        host=HostSample(**{name: getattr(machine, name) for name in _HELD_BY_HOSTS}),
        compiling=(),
        stall=None,
        rhythm=None,
        lull=None,
        served={},
    )


_HELD_BY_DEVICES = (
    "used_bytes", "peak_bytes", "limit_bytes", "reserved_bytes", "largest_free_bytes", "pool_bytes",
    "peak_reserved_bytes", "driver_used_bytes", "driver_total_bytes", "power_limit_mw",
    "temperature_limit_c", "clock_max_mhz", "energy_mj", "ecc_corrected", "ecc_uncorrected",
)  # fmt: skip
_HELD_BY_HOSTS = (
    "rss_bytes", "threads", "memory_total_bytes", "cores_milli", "is_container",
    "rss_anonymous_bytes", "rss_file_bytes", "rss_shared_bytes", "locked_bytes", "pinned_bytes",
    "malloc_used_bytes", "malloc_mapped_bytes", "malloc_free_bytes",
)  # fmt: skip


def _state_by_age(host: Host, now: float) -> State:
    # After a connection is made, or made again, the wait for a pulse begins from there.
    since = max(host.pulse_at or 0.0, host.link_at if host.link.state is LinkState.UP else 0.0)
    if not since:
        return State.CONNECTING
    age = now - since
    interval = interval_of(host)
    if age > max(BLOCKED_AT_LEAST, BLOCKED_INTERVALS * interval):
        return State.BLOCKED
    if age > max(QUIET_AT_LEAST, QUIET_INTERVALS * interval):
        return State.QUIET
    return State.CONNECTING if host.pulse_at is None else State.LIVE
