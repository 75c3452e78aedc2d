"""When windows are taken, and how long they are: the same moment on all hosts, within a budget on each."""

from __future__ import annotations

import math
from typing import NamedTuple

from jaxtop_agent.core import budget

# A slot of the wall clock. Every host uses those whose number is a multiple of its own power of two, so that
# the slots of a host for which windows are dear are slots of all others as well.
SLOT_S = 4.0
# As many as a first verdict wants, and one to spare; those that held no launch are tried again.
FIRST_WINDOWS, FIRST_TRIES = 5, 15
RAREST = 9  # every 2^9 slots, which is half an hour

TIME_SHARE = 0.04  # that a window is open
# By how much steps take longer within a window, as measured on CPUs: so much of its time, or by event.
SLOWDOWN, SLOWDOWN_AN_EVENT_S = 0.02, 1e-6

# Whole steps are what counts. A verdict wants several: of short steps more of them fit into a window.
STEPS, SPARE_S = 2.5, 0.06
MORE_STEPS, MORE_STEPS_S = 5.5, 0.6
SHORTEST_S, LONGEST_S = 0.08, 3.0
# The first one only learns how much a trace weighs here.
LONGEST_FIRST_S = 0.3
REQUESTED_S = 1.0
# A window on request begins on a beat: a viewer's requests do not reach all hosts in the same instant.
BEAT_S, AHEAD_S = 0.5, 0.2
# An event takes 4 µs to collect, 4 µs to read, and 0.4 µs under the GIL when the trace is dropped; where
# stopping holds the GIL, too, 3 µs. So it is held for 5 ms; a person who asks for a window may have it for
# longer. Where fewer events hold the steps, shorter windows come the oftener for it.
ENOUGH_EVENTS = 6_000
MOST_EVENTS, MOST_EVENTS_UNDER_GIL = 12_000, 2_000
# An event takes 0.3 kB while the window is open and 1 kB when it is stopped.
MOST_EVENTS_ASKED = 20_000
# Where nobody knows how many events to expect, the first window is so short that it has few enough even if
# all cores do nothing but small operations; each of the next may be so much longer, if the trace allows.
DENSEST_PER_S, LONGER = 3e6, 4.0
LEAST_S = 0.002
# More launches may come than were expected.
EXCESS = 1.5
# What the first windows may cost together, and from when on a step is clearly too large.
FIRST_CPU_S, CLEARLY = 0.4, 4


class Result(NamedTuple):
    """What one window was like: its length, its cost, what it held, how far apart launches were."""

    seconds: float
    cpu: float
    events: int
    whole_launches: int
    step_s: float | None


class Schedule:
    """Learns from each window; knows nothing of clocks but what it is told."""

    def __init__(self, most_events: int = MOST_EVENTS) -> None:
        self._most_events = most_events
        self._cost = 0.0
        self._seconds = 0.0
        self._events_per_s = 0.0
        self._step_s: float | None = None
        self._by_hook_s: float | None = None
        self._guess_s = SHORTEST_S
        self._windows = 0
        self._began = -math.inf
        self._first, self._tries, self._spent = FIRST_WINDOWS, FIRST_TRIES, 0.0
        self._at_most_per_s = DENSEST_PER_S

    def begin(self, now: float) -> None:
        """Somebody came: the first windows follow each other closely, unless they just did so for others."""
        if now - self._began < FIRST_WINDOWS * self._period:
            return
        self._began = now
        self._first, self._tries, self._spent = FIRST_WINDOWS, FIRST_TRIES, 0.0
        self._events_per_s = 0.0
        self._at_most_per_s = DENSEST_PER_S
        self._windows = 0

    @property
    def _period(self) -> float:
        """How far apart windows of this cost are, to keep to their share."""
        return max(self._cost / budget.WINDOWS, self._seconds / TIME_SHARE)

    @property
    def _is_beginning(self) -> bool:
        return self._first > 0 and self._tries > 0 and self._spent < FIRST_CPU_S

    @property
    def level(self) -> int:
        """The power of two of this host's slots."""
        if self._is_beginning:
            return 0
        level = 1
        while level < RAREST and SLOT_S * 2**level < self._period:
            level += 1
        return level

    def next_slot(self, now: float) -> int:
        """The number of the slot to use next, at this time of the common clock."""
        every = 2**self.level
        slot: int = int(now // (SLOT_S * every) + 1) * every
        return slot

    def next_beat(self, now: float) -> float:
        """When a window that was asked for begins."""
        return ((now + AHEAD_S) // BEAT_S + 1) * BEAT_S

    def most_events(self, *, requested: bool = False) -> int:
        """How many events a window may hold."""
        return MOST_EVENTS_ASKED if requested else self._most_events

    def length(
        self, launch_s: float | None, expected: float | None = None, *, requested: bool = False
    ) -> float:
        """How long the next window is to be.

        `launch_s` is how far apart launches are by the hook, `expected` how many events there will be in a
        second, if that is known.
        """
        self._by_hook_s = launch_s or self._by_hook_s
        step = max(self._step_s or 0.0, launch_s or 0.0) or None
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
        """Whether no window that holds a step stays within bounds."""
        step = self._step_s or self._by_hook_s
        if step is None:
            return False
        events = self._events_per_s * step
        return events > self._most_events * (CLEARLY if self._is_beginning else 1)

    def learn(self, result: Result) -> None:
        """Take in what a window was like; the dearest of late counts, and is slowly forgotten."""
        self._windows += 1
        self._tries -= 1
        if result.whole_launches:
            self._first -= 1
        cost = result.cpu + max(SLOWDOWN * result.seconds, SLOWDOWN_AN_EVENT_S * result.events)
        self._cost = max(cost, self._cost * 0.7)
        self._spent += result.cpu
        self._seconds = max(result.seconds, self._seconds * 0.7)
        self._at_most_per_s /= LONGER
        density = result.events / max(result.seconds, 0.001)
        self._events_per_s = max(density, self._events_per_s * 0.8)
        if result.step_s is not None:
            self._step_s = result.step_s
        if result.whole_launches:
            is_step_known = self._step_s is not None or self._by_hook_s is not None
            self._guess_s = SHORTEST_S if is_step_known else result.seconds
        else:
            self._guess_s = min(LONGEST_S, 2 * max(result.seconds, self._guess_s))
