"""What a recording contains about the time before one of its moments; no agent sends these messages."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.arrays import ArrayGroup, Arrays, ArraysChange  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.bounds import Count, TimeMs, TimeS  # noqa: TC001 - msgspec reads the annotations


class PastSamples(Struct, frozen=True, array_like=True):
    """What pulses added to the history of a host, in columns: most values repeat from one pulse to the next.

    Times (in nanoseconds) and launches have the first value, then the differences. Bytes in use are listed
    where they change, with the number of the sample.
    """

    at_ns: tuple[int, ...] = ()
    launches: tuple[int, ...] = ()
    used_bytes: tuple[tuple[int, tuple[int | None, ...] | None], ...] = ()


class PastLaunches(Struct, frozen=True, array_like=True):
    """The launch counters at an earlier moment."""

    at_ms: TimeMs
    launches: dict[str, Count]


class PastSteps(Struct, frozen=True, array_like=True):
    """The first and the last step from which the step rate is computed, by the agent's own clock."""

    first_ms: TimeMs
    first: int
    last_ms: TimeMs
    last: int

    @property
    def per_second(self) -> float | None:
        if self.last_ms <= self.first_ms:
            return None
        return (self.last - self.first) * 1000 / (self.last_ms - self.first_ms)


class PastLaunched(Struct, frozen=True, array_like=True):
    """The launches of one program name in the last windows, by fingerprint.

    `times` has the fingerprint, the number of launches, their total duration and the exposed part of it;
    absent in older recordings.
    """

    name: str
    at_ms: TimeMs
    counts: tuple[tuple[str | None, Count], ...]
    times: tuple[tuple[str | None, float, float, float | None], ...] = ()
    # What the last window counted, and its slot.
    latest: tuple[tuple[str | None, int], ...] = ()
    slot: int | None = None


class PastLoss(Struct, frozen=True, array_like=True):
    """A loss that the script reports: finite values some seconds apart, and how it is now.

    `at_ms` and `last_step` are those of the last value, `calls` counts the script's reports up to the last
    that was looked at. `bad` counts the last reports in a row that were not finite, from `bad_step` on.
    """

    name: str
    values: tuple[float, ...] = ()
    at_ms: TimeMs = 0
    last_step: int | None = None
    calls: Count = 0
    bad: Count = 0
    bad_step: int | None = None


class PastPace(Struct, frozen=True, array_like=True):
    """The best time of a step so far: the lowest of the longest means of stretches of half a minute.

    `since_ms` is the start of the current stretch, `longest_us` its longest mean.
    """

    functions: tuple[str, ...]
    flops: int | None
    since_ms: TimeMs
    longest_us: Count
    best_us: Count | None = None


class AliveArrays(Struct, frozen=True, array_like=True):
    """Arrays of a group that a census found on a device, with their bytes there.

    `since_ms` is the first of the censuses in a row that found some; 0 for a sum of smaller groups.
    """

    group: ArrayGroup
    sharding: str
    count: Count
    bytes: Count
    since_ms: TimeMs = 0


class AliveThen(Struct, frozen=True, array_like=True):
    """What a census found on a device: the largest arrays, how many groups are left out, and all bytes."""

    census_ms: TimeMs
    bytes: Count
    arrays: tuple[AliveArrays, ...] = ()
    rest: Count = 0


class PeakRise(Struct, frozen=True, array_like=True):
    """The peak of a device's allocator, and when it last rose; 0 if that was before a viewer watched.

    `alive` is the place of the nearest census in `PeakRises.alive`; None if no arrays were counted.
    """

    bytes: Count
    at_ms: TimeMs = 0
    alive: Count | None = None


class PeakRises(Struct, frozen=True, array_like=True):
    """The peaks of the devices of a process, in the order of Hello.devices, and what was alive at them."""

    peaks: tuple[PeakRise | None, ...] = ()
    alive: tuple[AliveThen, ...] = ()


class Past(Struct, frozen=True, array_like=True, tag="past"):
    """The history of one host up to the moment."""

    heard_at: TimeS | None
    samples: PastSamples = PastSamples()
    launches: tuple[PastLaunches, ...] = ()
    steps: PastSteps | None = None
    counted: dict[str, Count] = {}  # all launch counters; a pulse has only those that changed
    launches_since: TimeS | None = None  # the time of the first of them
    launched: tuple[PastLaunched, ...] = ()
    losses: tuple[PastLoss, ...] = ()
    best: PastPace | None = None
    # Since when the groups of the census are there, in their order: a time (0: none is there) for so many.
    arrays_since: tuple[tuple[TimeMs, Count], ...] = ()
    rises: PeakRises = PeakRises()


class PastArrays(Struct, frozen=True, array_like=True, tag="past_arrays"):
    """The censuses of one host up to the moment: the oldest in full, then the changes."""

    first: Arrays
    changes: tuple[ArraysChange, ...] = ()


class PastEvent(Struct, frozen=True, array_like=True):
    """An event that a viewer reported, with the agent that it is about."""

    at: TimeS
    severity: str
    kind: str
    agent: str
    text: str


class PastStandstill(Struct, frozen=True, array_like=True):
    """A run that stands still at the moment: since when, and what was reported about it, if anything."""

    run: str
    since: TimeS
    looked_at: TimeS
    told_at: TimeS = 0.0
    at_ms: TimeMs | None = None
    severity: str = ""
    text: str = ""
    odd: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    certainty: int = 0
    began: TimeS | None = None  # the last launch before it; absent in older recordings
    is_moving: bool = False


class PastDropped(Struct, frozen=True, array_like=True):
    """An exited process whose data was dropped: its agent, run and index."""

    agent: str
    run: str
    process_index: int | None = None


class PastStarts(Struct, frozen=True, array_like=True):
    """The number of dropped processes with one index of a run."""

    run: str
    process_index: int
    count: int


class PastFinding(Struct, frozen=True, array_like=True):
    """A finding at the moment, as JSON, with the times at which its rule first and last held.

    `severe_at` is when it last had its severity; absent in older recordings.
    """

    finding: str
    first_at: TimeS
    last_at: TimeS
    is_reported: bool
    severe_at: TimeS = 0.0


class PastUnchecked(Struct, frozen=True, array_like=True):
    """A rule that could not be checked in a run, and why."""

    run: str
    rule: str
    reason: str


class PastEvents(Struct, frozen=True, array_like=True, tag="past_events"):
    """All events reported up to the moment, and the runs that stand still."""

    events: tuple[PastEvent, ...] = ()
    standstills: tuple[PastStandstill, ...] = ()
    # Dropped exited processes: how many, the latest of them, and which of them were restarted.
    dropped: int = 0
    dropped_last: tuple[PastDropped, ...] = ()
    dropped_starts: tuple[PastStarts, ...] = ()
    # The findings, and when the rules were last checked; absent in older recordings.
    findings: tuple[PastFinding, ...] = ()
    checked_at: TimeS = 0.0
    unchecked: tuple[PastUnchecked, ...] = ()
