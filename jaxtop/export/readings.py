"""The input of all exporters: hosts with their devices, and the figures of the table, in base units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxtop.model import Scope, device_views, memory_views, runs, step_of
from jaxtop.model.devices import slowed as slowed_by
from jaxtop.model.figures import ALLOCATOR, figures_of
from jaxtop.model.wall_time.device_waits import step_waits
from jaxtop.wire import SLOWED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model import Cluster, DeviceView, Figure, Host, HostView, MemoryView

    Values = dict[str, float | None]

OF_DEVICES, OF_HOSTS = figures_of(Scope.DEVICE), figures_of(Scope.HOST)
# Memory of a device is exported with the source of its figures.
OF_MEMORY = tuple(each for each in OF_DEVICES if each.source == ALLOCATOR)
OF_HARDWARE = tuple(each for each in OF_DEVICES if each not in OF_MEMORY)
OF_STEPS = tuple(each for each in figures_of(Scope.STEP) if each.metric)


def fields(value: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields that have the same name in the document."""
    return {name: getattr(value, name) for name in names}


@dataclass(frozen=True)
class HostReading:
    """A host with its devices, and how long each device waits in a step, by its id."""

    run: str
    view: HostView
    devices: list[MemoryView]
    waits_us: dict[int, int]


def readings(cluster: Cluster, now: float) -> list[HostReading]:
    """Return the hosts of all runs in order. The devices of a run that has ended keep their last memory."""
    all_runs, waited = runs(cluster, now), step_waits(cluster, now)
    past = {run.id for run in all_runs if run.has_ended}
    shown = [device.last if device.run in past else device for device in device_views(cluster, now)]
    held: dict[str, list[MemoryView]] = {}
    for view in memory_views(cluster, shown):
        held.setdefault(view.device.agent, []).append(view)
    found = []
    for run in all_runs:
        for host_view in run.hosts:
            own = held.get(host_view.host.agent, [])
            ids = (each.device.id for each in own)
            waits = {each: waited[run.id, each] for each in ids if (run.id, each) in waited}
            found.append(HostReading(run.id, host_view, own, waits))
    return found


def device_values(device: DeviceView) -> Values:
    """Return the figures of a device by name; None for unknown ones."""
    return {each.name: device.read(each) for each in OF_DEVICES}


def host_values(host: Host) -> Values:
    """Return the figures of a process and its machine by name; None for unknown ones."""
    return {each.name: each.read(host.pulse, 0) for each in OF_HOSTS}


def step_values(host: Host) -> Values:
    """Return the figures of the step of a host by name; None for unknown ones."""
    step = step_of(host)

    def read(figure: Figure) -> float | None:
        if figure.of_host is not None:
            return figure.of_host(host)
        return None if step is None else figure.of_step(step)

    return {each.name: read(each) for each in OF_STEPS}


def slowed(device: DeviceView) -> dict[str, int]:
    """Return for each reason to run slower whether it applies; empty where unknown."""
    found = slowed_by(device.pulse, device.position)
    return {} if found is None else {why: int(why in found[0]) for why in SLOWED}


def percent(share: float | None) -> float | None:
    """Return a share in percent, as some names in JSON promise."""
    return None if share is None else round(share * 100, 9)
