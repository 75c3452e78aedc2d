"""The values that a host keeps of earlier messages: frozen, and stored in keyframes as they are."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from jaxtop.wire import ArrayGroup  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.bounds import Count, TimeMs, TimeS  # noqa: TC001 - msgspec reads the annotations

# The number of a bucket of durations: below 900 for 2^62 microseconds.
Bucket = Annotated[int, Meta(ge=0, le=1024)]


class LaunchCounts(Struct, frozen=True, array_like=True):
    """The launch counters at an earlier moment, by the agent's own clock."""

    at_ms: TimeMs
    launches: Mapping[str, Count]


class ProgramLaunches(NamedTuple):
    """Launches of a program in windows: number, duration, its exposed part, and the waits in that, in all."""

    number: float = 0
    duration_us: float = 0
    exposed_us: float | None = 0
    waiting_us: float = 0

    @property
    def seconds(self) -> float:
        """The mean duration of a launch."""
        return self.duration_us / self.number / 1e6

    def plus(self, other: ProgramLaunches, weight: float = 1) -> ProgramLaunches:
        """Return these and others together, where each of the others counts `weight` times."""
        return ProgramLaunches(
            self.number + other.number * weight,
            self.duration_us + other.duration_us * weight,
            None
            if self.exposed_us is None or other.exposed_us is None
            else self.exposed_us + other.exposed_us * weight,
            self.waiting_us + other.waiting_us * weight,
        )


class FunctionLaunches(Struct, frozen=True, array_like=True):
    """The launches of one function in the last windows, by the fingerprints of its programs.

    `at_ms` is the time of the last window, `slot` its slot, and `latest` what it counted. With each new
    window, the counts of older ones are halved. A program that a window did not contain keeps its times.
    `lasted` has histograms of durations, see `programs.lasting`.
    """

    at_ms: TimeMs
    counts: Mapping[str | None, Count]
    times: Mapping[str | None, ProgramLaunches] = {}
    latest: Mapping[str | None, Count] = {}
    slot: int | None = None
    lasted: Mapping[str | None, Mapping[Bucket, Count]] = {}


class StepCounts(Struct, frozen=True, array_like=True):
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


class LossValues(Struct, frozen=True, array_like=True):
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


class BestPace(Struct, frozen=True, array_like=True):
    """The best time of a step so far: the lowest over stretches of half a minute, each by its longest mean.

    `since_ms` is the start of the current stretch, `longest_us` its longest mean.
    """

    functions: tuple[str, ...]
    flops: int | None
    since_ms: TimeMs
    longest_us: Count
    best_us: Count | None = None


class RhythmChange(Struct, frozen=True, array_like=True):
    """When the rhythm of the steps last changed, by the agent's own clock, and when it reported that."""

    since_ms: TimeMs = 0
    reported_at: TimeS = 0.0


class AliveArrays(Struct, frozen=True, array_like=True):
    """Arrays of a group that a census found on a device, with their bytes there.

    `since_ms` is the first of the censuses in a row that found some; 0 for a sum of smaller groups.
    """

    group: ArrayGroup
    sharding: str
    count: Count
    bytes: Count
    since_ms: TimeMs = 0


class PastAliveArrays(Struct, frozen=True, array_like=True):
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
    alive: tuple[PastAliveArrays, ...] = ()
