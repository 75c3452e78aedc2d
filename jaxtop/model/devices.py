"""The devices of all hosts, with their current figures."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec import structs

from jaxtop import wire
from jaxtop.base import units
from jaxtop.model.figure_type import Level
from jaxtop.model.hardware.allocators import taken_share
from jaxtop.model.host import NO_PULSE, device_entry, run_of
from jaxtop.model.hosts import host_views

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model.figure_type import Figure
    from jaxtop.model.host import Host
    from jaxtop.model.liveness import HostView, State
    from jaxtop.model.state import ClusterState


# Launches a second are measured over about this long, or over two pulses if these are less frequent.
RATE_SECONDS = 10.0
# Shares that differ by less look alike.
SAME_SHARE = 0.005


# Not frozen: thousands are created at each paint, and freezing them takes five times as long.
@dataclass(slots=True)
class DeviceView:
    """A device with its current figures; None where unknown. An exited process has none."""

    run: str
    agent: str
    process_index: int | None
    hostname: str | None
    # What its run calls its processes.
    noun: str
    state: State
    id: int
    local_id: int | None
    position: int
    platform: str
    kind: str
    coords: tuple[int, ...] | None
    core_on_chip: int | None
    slice_index: int | None
    # What set the limit; None without one.
    limit_source: str | None
    launches_per_second: float | None
    pulse: wire.Pulse = field(repr=False)
    last_pulse: wire.Pulse = field(repr=False)

    @property
    def last(self) -> DeviceView:
        """The device with the memory that it held when its process exited, if it has exited."""
        if not self.state.has_exited:
            return self
        held = self.last_pulse.devices
        memory = wire.DeviceSample(
            used_bytes=held.used_bytes,
            peak_bytes=held.peak_bytes,
            limit_bytes=held.limit_bytes,
            reserved_bytes=held.reserved_bytes,
        )
        return replace(self, pulse=structs.replace(NO_PULSE, devices=memory))

    def read(self, figure: Figure) -> float | None:
        return figure.read(self.pulse, self.position)

    @property
    def key(self) -> tuple[str, int]:
        return self.agent, self.id

    @property
    def used_bytes(self) -> int | None:
        return device_entry(self.pulse.devices.used_bytes, self.position)

    @property
    def peak_bytes(self) -> int | None:
        return device_entry(self.pulse.devices.peak_bytes, self.position)

    @property
    def limit_bytes(self) -> int | None:
        """The memory that it may use: a fact, which outlives the process."""
        return device_entry(self.last_pulse.devices.limit_bytes, self.position)

    @property
    def memory_source(self) -> str | None:
        """Who counts its memory: the allocator, or the census of arrays."""
        return self.last_pulse.memory_source

    @property
    def reserved_bytes(self) -> int | None:
        """What the allocator reserves for programs in addition to the bytes in use, as on TPUs."""
        return device_entry(self.pulse.devices.reserved_bytes, self.position)

    @property
    def used_share(self) -> float | None:
        """The share of the limit that is in use or reserved; None without a limit."""
        return taken_share(self.pulse.devices, self.position)


def device_views(cluster: ClusterState, now: float) -> list[DeviceView]:
    """Return the devices of all runs, by process and in the order of JAX."""
    found: list[DeviceView] = []
    for view in host_views(cluster, now):
        found += cluster.derived.of(
            "devices", view.host.agent, cluster.hosts, (view,), partial(_views_of_host, cluster, view)
        )
    return found


def fullest(views: Iterable[DeviceView]) -> list[DeviceView]:
    """Return the devices with the largest share of their limits in use, or the most bytes without limits.

    All that look alike are among them, in their order, so that the first does not flicker.
    """
    used = [(each, each.used_bytes) for each in views]
    held = [(each.used_share or 0.0, size, each) for each, size in used if size is not None]
    share, largest, _ = max(held, key=itemgetter(0, 1), default=(0.0, 0, None))
    text = units.size(largest)
    # Bisect for the smallest size with the same text, because there may be thousands of devices.
    least = bisect_left(range(largest), True, key=lambda size: units.size(size) == text)
    return [each for own_share, size, each in held if size >= least and own_share >= share - SAME_SHARE]


def launch_rate(cluster: ClusterState, host: Host) -> float | None:
    """Return a host's recent launches per second; None until they were counted twice."""
    since = None if host.is_off("launches") else host.launches_since
    samples = cluster.past_pulses.get(host.agent, ())
    if since is None or not samples:
        return None
    first = last = samples[-1]
    for sample in islice(reversed(samples), 1, None):
        if sample.at < since or (first is not last and sample.at < last.at - RATE_SECONDS):
            break
        first = sample
    return (last.launches - first.launches) / (last.at - first.at) if last.at > first.at else None


def scaled(value: int | None, unit: int) -> float | None:
    """Return a figure converted from its small unit; unknown stays unknown."""
    return None if value is None else value / unit


def _views_of_host(cluster: ClusterState, view: HostView) -> list[DeviceView]:
    host, state = view.current, view.state
    pulse, last = host.pulse, view.host.pulse
    run, index, hostname = run_of(host), host.process_index, host.hostname
    rate = launch_rate(cluster, host)
    return [
        DeviceView(
            run=run,
            agent=host.agent,
            process_index=index,
            hostname=hostname,
            noun=host.noun,
            state=state,
            id=device.id,
            local_id=device.local_id,
            position=i,
            platform=device.platform,
            kind=device.kind,
            coords=device.coords,
            core_on_chip=device.core_on_chip,
            slice_index=device.slice_index,
            limit_source=view.host.limit_source if device_entry(last.devices.limit_bytes, i) else None,
            launches_per_second=rate,
            pulse=pulse,
            last_pulse=last,
        )
        for i, device in enumerate(host.devices)
    ]


# The causes of a slowdown: a device's own heat and faults are worse than a limit that a person set.
_SLOWED = dict.fromkeys(wire.SLOWED, Level.WARNING) | dict.fromkeys(
    ("heat", "hardware slowdown", "power brake"), Level.BAD
)


def slowed(pulse: wire.Pulse, position: int) -> tuple[tuple[str, ...], Level] | None:
    """Return why a device runs slower than it could, most severe first; None where unknown."""
    bits = device_entry(pulse.devices.slowed, position)
    if bits is None:
        return None
    words = sorted((word for i, word in enumerate(wire.SLOWED) if bits >> i & 1), key=_SLOWED.__getitem__)
    return tuple(reversed(words)), _SLOWED[words[-1]] if words else Level.FINE


def errors(pulse: wire.Pulse, position: int) -> tuple[int | None, int | None, Level]:
    """Return the corrected and the uncorrected memory errors of a device; the latter make results wrong."""
    uncorrected = device_entry(pulse.devices.ecc_uncorrected, position)
    level = Level.BAD if uncorrected else Level.FINE
    return device_entry(pulse.devices.ecc_corrected, position), uncorrected, level
