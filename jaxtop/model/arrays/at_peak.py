"""The arrays that were alive on each device when the peak of its allocator last rose."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING

from msgspec import structs

from jaxtop.model.arrays.groups import total
from jaxtop.model.arrays.memory import positions_of
from jaxtop.model.liveness import has_exited
from jaxtop.model.past_values import AliveArrays, PastAliveArrays, PeakRise, PeakRises
from jaxtop.wire.bounds import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from jaxtop import wire
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState

# The groups that are listed for a device; the others are counted together.
MAX_LISTED = 12
UNSEEN = "the peak has not risen since a viewer watched: what was alive then is unknown"
UNCOUNTED = "no arrays were counted"


@dataclass(frozen=True, slots=True)
class ArraysAtPeak:
    """Arrays of a group that were alive, and their bytes on the device.

    `age_s` is how long there had been some at that census, at least; None for a sum of smaller groups.
    `is_alive` says whether there have been some ever since; None where nothing is counted any more.
    """

    name: str | None
    function: str | None
    role: str | None
    created: str | None
    groups: int
    shape: tuple[int, ...]
    dtype: str
    sharding: str
    count: int
    bytes: int
    age_s: float | None
    is_alive: bool | None


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """The last rise of a device's peak, and what the census nearest to it found, the largest arrays first.

    Times are the agent's, in milliseconds; None, with `why_not`, where unknown. `rest` is the number of
    groups that are not listed.
    """

    peak_bytes: int
    at_ms: int | None = None
    census_ms: int | None = None
    array_bytes: int | None = None
    arrays: tuple[ArraysAtPeak, ...] = ()
    rest: int = 0
    why_not: str = ""

    @property
    def other_bytes(self) -> int | None:
        """The part of the peak that arrays do not explain: temporaries of programs, and fragmentation."""
        return None if self.array_bytes is None else max(0, self.peak_bytes - self.array_bytes)

    @property
    def rest_bytes(self) -> int | None:
        """The bytes of the arrays that are not listed."""
        return (
            None if self.array_bytes is None else self.array_bytes - sum(each.bytes for each in self.arrays)
        )


# While messages are folded


def risen(host: Host, pulse: wire.Pulse) -> PeakRises:
    """Return the peaks after a pulse. The first one is not a rise: it may be from before anybody watched."""
    rises = host.rises
    if pulse.devices.peak_bytes is None:
        return rises
    at_ms = pulse.sampled_ms or pulse.at_ms
    known = (*rises.peaks, *(None,) * (len(pulse.devices.peak_bytes) - len(rises.peaks)))
    now = tuple(
        rise if peak is None else _rise_after(rise, counted(peak), at_ms)
        for rise, peak in zip(known, pulse.devices.peak_bytes, strict=False)
    )
    if now != rises.peaks:
        rises = PeakRises(now, rises.alive)
    return with_census(host, rises, max(host.arrays.at_ms, pulse.counted_ms or 0))


def _rise_after(rise: PeakRise | None, peak: int, at_ms: int) -> PeakRise:
    if rise is None or peak < rise.bytes:  # a peak falls only where the backend was created again
        return PeakRise(peak)
    return rise if peak == rise.bytes else PeakRise(peak, at_ms)


def with_census(host: Host, rises: PeakRises, census_ms: int) -> PeakRises:
    """Return the rises with the host's census, which held at this time, where none is nearer to a rise."""
    if not host.arrays.groups or host.hello is None:
        return rises
    nearer = [
        i
        for i, rise in enumerate(rises.peaks)
        if rise is not None
        and rise.at_ms
        and (
            rise.alive is None
            or abs(census_ms - rise.at_ms) < abs(rises.alive[rise.alive].census_ms - rise.at_ms)
        )
    ]
    if not nearer:
        return rises
    found = _alive(host, nearer, census_ms)
    places: dict[PastAliveArrays, int] = {}
    peaks: list[PeakRise | None] = []
    for i, rise in enumerate(rises.peaks):
        if rise is None or (i not in found and rise.alive is None):
            peaks.append(rise)
        else:
            then = found[i] if i in found else rises.alive[rise.alive or 0]
            peaks.append(structs.replace(rise, alive=places.setdefault(then, len(places))))
    return PeakRises(tuple(peaks), tuple(places))


def _alive(host: Host, positions: Collection[int], census_ms: int) -> dict[int, PastAliveArrays]:
    """Return what the census finds on these devices; those with arrays of the same shardings share it."""
    holders = [positions_of(host, sharding) for sharding in host.arrays.shardings]
    alike: dict[frozenset[int], PastAliveArrays] = {}
    found = {}
    for position in positions:
        shardings = frozenset(i for i, holding in enumerate(holders) if position in holding)
        if shardings not in alike:
            alike[shardings] = _alive_in(host, shardings, census_ms)
        found[position] = alike[shardings]
    return found


def _alive_in(host: Host, shardings: frozenset[int], census_ms: int) -> PastAliveArrays:
    census = host.arrays
    sizes = [
        (counted(total(group.bytes_per_device, group, count)), -i)
        for i, (group, count) in enumerate(zip(census.groups, census.counts, strict=True))
        if count and group.sharding in shardings
    ]
    largest = nlargest(MAX_LISTED, sizes)
    listed = tuple(_held(host, -i, size) for size, i in largest)
    total_bytes = counted(sum(size for size, _ in sizes))
    return PastAliveArrays(census_ms, total_bytes, listed, len(sizes) - len(listed))


def _held(host: Host, place: int, size: int) -> AliveArrays:
    group = host.arrays.groups[place]
    sharding = host.arrays.shardings[group.sharding]
    since = 0 if group.groups > 1 else host.arrays_since[place]
    return AliveArrays(group, sharding.spec or sharding.kind, host.arrays.counts[place], size, since)


# For views


def at_peaks(cluster: ClusterState, host: Host) -> tuple[DevicePeak | None, ...]:
    """Return what was alive at the peak of each device of a process; None where no allocator counts."""
    inputs = host.rises, host.arrays, host.arrays_since, host.bye, host.link
    return cluster.derived.of("at peaks", host.agent, cluster.hosts, inputs, lambda: _derive_at_peaks(host))


def _derive_at_peaks(host: Host) -> tuple[DevicePeak | None, ...]:
    since = None if has_exited(host) or not host.arrays.groups else _first_seen(host)
    found = [tuple(_shown(each, then.census_ms, since) for each in then.arrays) for then in host.rises.alive]
    return tuple(None if rise is None else _at_peak(host.rises, rise, found) for rise in host.rises.peaks)


def _at_peak(rises: PeakRises, rise: PeakRise, found: list[tuple[ArraysAtPeak, ...]]) -> DevicePeak:
    if not rise.at_ms:
        return DevicePeak(rise.bytes, why_not=UNSEEN)
    if rise.alive is None:
        return DevicePeak(rise.bytes, rise.at_ms, why_not=UNCOUNTED)
    then = rises.alive[rise.alive]
    return DevicePeak(rise.bytes, rise.at_ms, then.census_ms, then.bytes, found[rise.alive], then.rest)


def _first_seen(host: Host) -> dict[Hashable, int]:
    """Return since when arrays of each description have been there, of equal ones the first."""
    found: dict[Hashable, int] = {}
    census = host.arrays
    for group, since in zip(census.groups, host.arrays_since, strict=True):
        if since:
            sharding = census.shardings[group.sharding]
            described = _description(group, sharding.spec or sharding.kind)
            found[described] = min(since, found.get(described, since))
    return found


def _description(group: wire.ArrayGroup, sharding: str) -> Hashable:
    return group.name, group.function, group.created, group.shape, group.dtype, group.groups > 1, sharding


def _shown(each: AliveArrays, census_ms: int, since: dict[Hashable, int] | None) -> ArraysAtPeak:
    group = each.group
    is_sum = group.groups > 1
    now = None if since is None else since.get(_description(group, each.sharding))
    return ArraysAtPeak(
        name=group.name,
        function=group.function,
        role=group.role,
        created=group.created,
        groups=group.groups,
        shape=group.shape,
        dtype=group.dtype,
        sharding=each.sharding,
        count=each.count,
        bytes=each.bytes,
        age_s=None if is_sum else max(0, census_ms - each.since_ms) / 1000,
        is_alive=None if is_sum or since is None else now is not None and now <= census_ms,
    )
