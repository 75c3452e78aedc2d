"""Whether windows are taken without a request, when, and how long: at the same moment on all hosts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from jaxtop_agent.core import budget

if TYPE_CHECKING:
    from jaxtop_agent.jaxprivate import Profiler

# The policies.
SAMPLED, ON_REQUEST, OFF = "sampled", "on request", "off"
# XLA's flags for which operations run as CUDA graphs, and for a CUPTI that stays when a profile ends.
GRAPHS, SEVERAL_SUBSCRIBERS = "--xla_gpu_enable_command_buffer", "--xla_gpu_enable_cupti_multi_subscriber"

# The length of a slot of the wall clock. Each host uses the slots whose number is a multiple of its own power
# of two. So the slots of a host on which windows are expensive are slots of all other hosts too.
SLOT_S = 2.0
# The level of the slots that follow each other where windows are cheap.
USUAL = 2
# The windows and launches that a first verdict needs, and one more of each. Windows without a launch are
# repeated.
FIRST_WINDOWS, FIRST_LAUNCHES, FIRST_TRIES = 5, 7, 15
# Windows are at most 2^10 slots apart, which is half an hour.
MAX_INTERVAL_EXPONENT = 10

TIME_SHARE = 0.04  # the largest share of the time in which a window is open
# The slowdown of steps within a window, as measured on CPUs: a share of its time, or seconds per event.
SLOWDOWN, SLOWDOWN_AN_EVENT_S = 0.02, 1e-6

# Only whole steps count, and a verdict needs several. If steps are short, a window holds more of them.
STEPS, SPARE_S = 2.5, 0.06
MORE_STEPS, MORE_STEPS_S = 5.5, 0.6
SHORTEST_S, LONGEST_S = 0.08, 3.0
# The first window only measures how large a trace is here.
LONGEST_FIRST_S = 0.3
REQUESTED_S = 1.0
# A request reaches hosts at different times, so it names the time at which its window begins. If that has
# passed or is far off, because the viewer's clock differs, the window begins on the next beat.
BEAT_S, AHEAD_S, LATEST_S = 0.5, 0.2, 10.0
# An event takes 4 µs to collect and 4 µs to read. If fewer events contain the steps, windows are shorter and
# more frequent.
ENOUGH_EVENTS = 6_000


class EventLimits(NamedTuple):
    """The most events of a window that is taken now and then, and of one on request."""

    sampled: int
    requested: int


# A step on eight devices may have 20,000 events. Where stopping holds the GIL, it does so for 3 µs per event.
USUAL_LIMITS, LIMITS_UNDER_GIL = EventLimits(60_000, 60_000), EventLimits(2_000, 20_000)
# An event takes 0.3 kB while the window is open, and 1 kB when the window stops. A window takes at most this
# share of the memory that is left in the container or the machine.
EVENT_BYTES, SHARE_OF_LEFT = 1_300, 0.1
# If the expected number of events is unknown, the first window is short enough to stay within its limit even
# if sixteen cores run only small operations. Each later window may be longer by the factor WINDOW_GROWTH, if
# the trace permits it.
MAX_EVENTS_PER_S = 15e6
WINDOW_GROWTH = 4.0
LEAST_S = 0.002
# A margin, because there may be more launches than expected.
EXCESS = 1.5
# The CPU seconds that the first windows may cost together. During these, a step is too large only if it
# exceeds the event limit by the factor FIRST_EXCESS_FACTOR.
FIRST_CPU_S = 0.8
FIRST_EXCESS_FACTOR = 4
# After a change of the step's rhythm the first windows are repeated, for less. Such windows may use this many
# CPU seconds together, which come back over this time. Below the least a change is not followed.
RENEWED_CPU_S, RENEWALS_CPU_S, LEAST_RENEWED_CPU_S, RENEWALS_OVER_S = 0.3, 0.9, 0.05, 480.0


def why_dangerous(policy: str, vendor: str | None, flags: str) -> str | None:
    """Return why no profile may be taken, if the end of one can end the script's run.

    `flags` are XLA's. At the end of a profile XLA detaches CUPTI. On an H100 with JAX 0.11.2 this destroyed
    the CUDA context in 5 of 5 processes in which CUDA graphs ran, mostly at the first profile, and in none
    of 32 profiles with one of the two flags, or with an idle device. A user who sets a policy takes the risk.
    """
    if vendor != "nvidia" or policy in {SAMPLED, ON_REQUEST}:
        return None
    values = dict(each.partition("=")[::2] for each in flags.split())
    has_graphs = values.get(GRAPHS) != ""
    if not has_graphs or values.get(SEVERAL_SUBSCRIBERS, "false").lower() in {"", "true", "1"}:
        return None
    return f"unsafe with CUDA graphs; XLA_FLAGS={GRAPHS}= makes it safe"


def why_not_sampled(policy: str, platform: str, profiler: Profiler) -> str | None:
    """Return why windows are taken only on request, as the source's state; None if they are automatic."""
    if policy == ON_REQUEST:
        return ON_REQUEST
    reason = _reason(policy, platform, profiler)
    return None if reason is None else f"{ON_REQUEST}: {reason}"


def _reason(policy: str, platform: str, profiler: Profiler) -> str | None:
    if profiler.is_noisy:
        return "before JAX 0.8 each window prints two lines"
    if profiler.has_server():
        return "this script has a profiler server"
    if policy == SAMPLED:
        return None
    if platform in {"gpu", "cuda", "rocm"}:
        return "the profiler is slow to stop on some GPUs; collectives='sampled' overrides"
    if platform not in {"cpu", "tpu"}:
        return f"untried on {platform}"
    return None


class WindowResult(NamedTuple):
    """The figures of one window: its length, its cost, its contents, the time between launches."""

    seconds: float
    cpu: float
    events: int
    whole_launches: int
    step_s: float | None


class Schedule:
    """The schedule of windows. It learns from each window, and receives all times as arguments."""

    def __init__(self, limits: EventLimits = USUAL_LIMITS) -> None:
        self._limits = limits
        self._room = math.inf  # the events that memory is left for
        self._cost = 0.0
        self._seconds = 0.0
        self._events_per_s = 0.0
        self._step_s: float | None = None
        self._by_hook_s: float | None = None
        # The time between launches of the fastest function with collectives: now, and in the last window.
        self._now_s: float | None = None
        self._then_s: float | None = None
        self._last_events_per_s = 0.0
        self._guess_s = SHORTEST_S
        self._windows = 0
        self._began = -math.inf
        # What may be spent after changes of the rhythm, and when that was computed.
        self._credit, self._credited = RENEWALS_CPU_S, -math.inf
        self._is_renewed = False  # whether the first windows are those after a change
        self._start_over(0.0)
        self._at_most_per_s = MAX_EVENTS_PER_S

    def begin(self, now: float) -> None:
        """Start the first windows for a new viewer, in close succession, unless they have just been taken."""
        if now - self._began < FIRST_WINDOWS * self._period:
            return
        self._began, self._is_renewed = now, False
        self._start_over(0.0)
        self._events_per_s = self._last_events_per_s = 0.0
        self._at_most_per_s = MAX_EVENTS_PER_S
        self._windows = 0

    def renew(self, now: float) -> None:
        """Repeat the first windows, because earlier ones show another rhythm of the step."""
        spent = self._spent
        if not self._is_beginning:
            passed = max(0.0, now - self._credited)
            regained = RENEWALS_CPU_S * min(1.0, passed / RENEWALS_OVER_S)
            self._credit, self._credited = min(RENEWALS_CPU_S, self._credit + regained), now
            if self._credit < LEAST_RENEWED_CPU_S:
                return
            spent = FIRST_CPU_S - min(RENEWED_CPU_S, self._credit)
            self._is_renewed = True
        self._start_over(spent)

    def _start_over(self, spent: float) -> None:
        """Begin the first windows again; `spent` is the CPU that windows have cost already."""
        self._first, self._launches, self._tries = FIRST_WINDOWS, FIRST_LAUNCHES, FIRST_TRIES
        self._spent = spent

    @property
    def _period(self) -> float:
        """The time between windows that keeps their cost and duration within their shares."""
        return max(self._cost / budget.WINDOWS, self._seconds / TIME_SHARE)

    @property
    def _is_beginning(self) -> bool:
        is_wanting = self._first > 0 or self._launches > 0
        return is_wanting and self._tries > 0 and self._spent < FIRST_CPU_S

    @property
    def level(self) -> int:
        """The exponent of the power of two that determines this host's slots."""
        return 0 if self._is_beginning else self._later_level

    @property
    def every_s(self) -> float:
        """The time between windows after the first ones."""
        return SLOT_S * 2.0**self._later_level

    @property
    def _later_level(self) -> int:
        level = USUAL
        while level < MAX_INTERVAL_EXPONENT and SLOT_S * 2**level < self._period:
            level += 1
        return level

    def next_slot(self, now: float) -> int:
        """Return the number of the next slot to use, after this time of the common clock."""
        every = 2**self.level
        slot: int = int(now // (SLOT_S * every) + 1) * every
        return slot

    def requested_at(self, wanted: float | None, now: float) -> float:
        """Return when a requested window begins, by the common clock."""
        if wanted is not None and now < wanted <= now + LATEST_S:
            return wanted
        return ((now + AHEAD_S) // BEAT_S + 1) * BEAT_S

    def most_events(self, *, requested: bool = False) -> int:
        """Return how many events a window may hold."""
        return int(min(self._room, self._limits.requested if requested else self._limits.sampled))

    def bound(self, memory_left: int | None) -> None:
        """Bound windows by the memory that is left; None if that is unknown."""
        self._room = math.inf if memory_left is None else SHARE_OF_LEFT * memory_left / EVENT_BYTES

    def see(self, fastest_s: float | None) -> None:
        """Learn the time between launches of the fastest function with collectives, if one was launched."""
        self._now_s = fastest_s or self._now_s

    def length(
        self, launch_s: float | None, expected: float | None = None, *, requested: bool = False
    ) -> float:
        """Return the length of the next window in seconds.

        `launch_s` is the time between launches by the hook, and `expected` is the number of events per
        second; each is None if unknown.
        """
        self._by_hook_s = launch_s or self._by_hook_s
        step = max(self._step_s or 0.0, self._by_hook_s or 0.0) or None
        wanted = SHORTEST_S
        if step is not None:
            wanted = max(STEPS * step, min(MORE_STEPS * step, MORE_STEPS_S)) + SPARE_S
        wanted = max(wanted, self._guess_s)
        if not self._windows:
            wanted = min(wanted, REQUESTED_S if requested else LONGEST_FIRST_S)
        least = max(STEPS * (step or 0.0), self._guess_s)
        density = max(self._events_per_s, EXCESS * (expected or self._events_per_s), 1.0)
        if expected is None:
            density = max(density, self._at_most_per_s)
        events: float = self.most_events(requested=requested)
        if not requested:
            events = min(events, max(ENOUGH_EVENTS, least * density))
        return max(LEAST_S, min(max(SHORTEST_S, wanted), LONGEST_S, events / density))

    @property
    def is_too_dense(self) -> bool:
        """Whether every window that holds a step exceeds the event limit.

        Both the density and the duration of a step change with the load of the machine, so they are taken
        from the same window. Later launches may only correct this downwards: a compilation, or a function
        that is rarely launched, may have been taken for a step.
        """
        step = min((each for each in (self._then_s, self._now_s) if each is not None), default=None)
        if step is None:
            return False
        events = self._last_events_per_s * step
        return events > self.most_events() * (FIRST_EXCESS_FACTOR if self._is_beginning else 1)

    def learn(self, result: WindowResult) -> None:
        """Learn from a window; the most expensive recent window counts, with a weight that decays."""
        self._windows += 1
        if self._is_renewed and self._is_beginning:
            self._credit -= result.cpu
        self._tries -= 1
        self._launches -= result.whole_launches
        if result.whole_launches:
            self._first -= 1
        cost = result.cpu + max(SLOWDOWN * result.seconds, SLOWDOWN_AN_EVENT_S * result.events)
        self._cost = max(cost, self._cost * 0.7)
        self._spent += result.cpu
        self._seconds = max(result.seconds, self._seconds * 0.7)
        self._at_most_per_s /= WINDOW_GROWTH
        density = result.events / max(result.seconds, 0.001)
        self._events_per_s = max(density, self._events_per_s * 0.8)
        self._last_events_per_s = density
        self._then_s = result.step_s or self._now_s
        if result.step_s is not None:
            self._step_s = result.step_s
        if result.whole_launches:
            is_step_known = self._step_s is not None or self._by_hook_s is not None
            self._guess_s = SHORTEST_S if is_step_known else result.seconds
        else:
            self._guess_s = min(LONGEST_S, 2 * max(result.seconds, self._guess_s))
