"""The time of a run's step today by part, and the cost of its links: the part of `Today` that times need."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import prod
from statistics import fmean, median
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.planning.model.plan import Exchange, LinkCost, StepTime
from jaxtop.features.planning.model.times.links import (
    ANY,
    BETWEEN,
    WITHIN,
    Links,
    Point,
    axis_key,
    links_from,
    point,
    reach_of,
)
from jaxtop.features.planning.model.times.published_costs import assumed_link
from jaxtop.model.collectives.groups import axes_of
from jaxtop.model.collectives.layout import layouts
from jaxtop.model.collectives.views import collective_views
from jaxtop.model.hardware.domains import Domain, domain_of
from jaxtop.model.hardware.peaks import peak_of
from jaxtop.model.host import device_entry, run_of
from jaxtop.model.hosts import host_views
from jaxtop.model.steps.views import step_in
from jaxtop.model.wall_time.parts import mean_of
from jaxtop.model.wall_time.step_parts import parts_of_hosts
from jaxtop.store.probe_figures import median_rate
from jaxtop.wire.probing import MATRIX_RATE, MEMORY_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop import wire
    from jaxtop.base.meshes import Axes
    from jaxtop.model.arrays.meshes import MeshView
    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.host import Host
    from jaxtop.model.liveness import HostView
    from jaxtop.model.state import ClusterState
    from jaxtop.wire.probing import Probe

WINDOWS, PROBE = "windows of this run", "jaxtop probe"
# Collectives are never counted as more of a step than this: their times add up though they may overlap.
MAX_OF_A_STEP = 0.95


class TodayTime(NamedTuple):
    """The fields of `Today` that concern time, and what is unknown of them with the reason."""

    step: StepTime | None
    exchanges: tuple[Exchange, ...]
    links: Mapping[tuple[str, str], LinkCost] | None
    flops_per_s: float | None
    memory_bytes_per_s: float | None
    balance: float | None
    watts_per_device: float | None
    shared_cores: int | None
    unknown: tuple[str, ...]


def today_time(
    cluster: ClusterState,
    now: float,
    mesh: MeshView,
    program: wire.Program | None,
    *,
    launches_per_step: float = 1.0,
    probe: Probe | None = None,
) -> TodayTime:
    """Return the times of the run of this mesh, whose steps consist mainly of this program."""
    views = [
        view for view in host_views(cluster, now) if run_of(view.host) == mesh.run and _holds(view, mesh)
    ]
    shared_cores = _shared_cores(views)
    exchanges, of_exchanges = exchanges_of(cluster, now, mesh, program)
    step, of_step = step_of_today(
        cluster, now, views, exchanges, launches_per_step=launches_per_step, shared_cores=shared_cores
    )
    flops, touched = _rates(views, probe)
    # A probe measures one device at a time: those that share cores share caches and memory, too.
    balance = flops / touched if flops and touched and shared_cores is None else None
    sharing = len(mesh.device_ids) if shared_cores is not None else 0
    platform = next((view.host.hello.platform for view in views if view.host.hello), None) or ""
    links = links_of(
        exchanges,
        mesh.axes,
        devices_per_host(views, mesh),
        probe,
        sharing=sharing,
        assumed=assumed_link(platform, shared_cores),
        domains={device.id: domain_of(view.host, device) for view in views for device in view.host.devices},
    )
    unknown = (*of_step, *of_exchanges)
    return TodayTime(step, exchanges, links, flops, touched, balance, _watts(views), shared_cores, unknown)


def _holds(view: HostView, mesh: MeshView) -> bool:
    hello = view.host.hello
    return hello is not None and any(device.id in mesh.positions for device in hello.devices)


def devices_per_host(views: Iterable[HostView], mesh: MeshView) -> int:
    """Return the number of mesh devices that fast links join at most: those of a process or of a slice."""
    counts = Counter(
        domain_of(view.host, device)
        for view in views
        for device in view.host.devices
        if device.id in mesh.positions
    )
    return max(counts.values(), default=len(mesh.device_ids))


def exchanges_of(
    cluster: ClusterState, now: float, mesh: MeshView, program: wire.Program | None
) -> tuple[tuple[Exchange, ...], list[str]]:
    """Return the collectives of a program over the axes of a mesh, most bytes first, and what is unknown."""
    if program is None:
        return (), []
    key = mesh.run, program.name, program.fingerprint
    views = [
        view for view in collective_views(cluster, now) if view.key[:3] == key and view.listed is not None
    ]
    layout = layouts(cluster).get(key)
    inventory = layout.inventory if layout is not None else None
    missing = inventory.rest + inventory.unread if inventory is not None else 0
    missing += sum(view.bytes is None for view in views)
    unknown = [
        f"{count} of the program's {text}"
        for count, text in (
            (missing, "collectives are left out: their text was not listed or not understood"),
            (
                sum(view.times is None for view in views),
                "collectives count once a launch: how often their loop runs is unknown",
            ),
            (sum(not view.samples for view in views), "collectives were not timed in a window yet"),
        )
        if count
    ]
    exchanges = [
        Exchange(
            view.op,
            view.kind,
            view.shape,
            view.bytes,
            _axes(mesh, view),
            1 if view.times is None else view.times,
            view.line,
            view.is_async,
            view.transfer_us if view.timed_by is None else view.p50_us,
        )
        for view in views
        if view.bytes is not None
    ]
    return tuple(sorted(exchanges, key=lambda each: (-each.bytes * each.times, each.op))), unknown


def _axes(mesh: MeshView, view: CollectiveView) -> tuple[str, ...] | None:
    found = axes_of(mesh, view.groups) if view.groups else None
    return None if found is None else found.names


def step_of_today(
    cluster: ClusterState,
    now: float,
    views: Sequence[HostView],
    exchanges: Sequence[Exchange],
    *,
    launches_per_step: float,
    shared_cores: int | None,
) -> tuple[StepTime | None, list[str]]:
    """Return where a step's time goes, as the mean over these processes, and what is unknown.

    Devices that share cores take turns: while one waits in a collective another computes, so that waiting
    counts as computing. Elsewhere it is time that another mesh does not save.
    """
    steps_ms = [each for view in views if (each := _step_ms(cluster, view.host)) is not None]
    if not steps_ms:
        return None, ["the step: no process reports a repeating step, so times are unknown"]
    step_ms = fmean(steps_ms)
    of_hosts = parts_of_hosts(cluster, now)
    members = (of_hosts[view.host.agent] for view in views if view.host.agent in of_hosts)
    shares = mean_of(each for each in members if each.at is not None)
    measured = sum((each.transfer_us or 0.0) * each.times for each in exchanges) * launches_per_step / 1000
    is_timed = all(each.transfer_us is not None for each in exchanges)
    communication = min(measured, MAX_OF_A_STEP * step_ms) if is_timed else None
    unknown = []
    if shares is None:
        unknown.append(
            "where a step's time goes: no window of the profiler has shown all of its launches, so all of it "
            "but communication counts as computing"
        )
    gap = (shares.host_gap if shares else 0.0) * step_ms
    if shares is None or shared_cores is not None:
        communication = None if communication is None else min(communication, step_ms - gap)
        compute = step_ms - gap - (communication or 0.0)
        return StepTime(step_ms, compute, communication, gap), unknown
    other = (shares.host_gap + shares.waiting + shares.unknown) * step_ms
    return StepTime(step_ms, shares.compute * step_ms, communication, other), unknown


def _step_ms(cluster: ClusterState, host: Host) -> float | None:
    """Return the median step that a process reported last; a plan may be made of a run that has ended."""
    step = step_in(cluster, host)
    seconds = None if step is None else step.p50_s or step.mean_s
    return None if seconds is None else seconds * 1000


def links_of(
    exchanges: Iterable[Exchange],
    mesh: Axes,
    per_host: int,
    probe: Probe | None = None,
    *,
    sharing: int = 0,
    assumed: LinkCost,
    domains: Mapping[int, Domain] = MappingProxyType({}),
) -> Links | None:
    """Return what links cost: as collectives of this run show it, else as a probe measured it.

    Devices that share cores have the same costs along all axes.
    """
    sizes = dict(mesh)
    points: defaultdict[tuple[str, str, str], list[Point]] = defaultdict(list)
    for each in exchanges:
        if not each.axes or not each.transfer_us:
            continue
        members = prod(sizes.get(name, 1) for name in each.axes)
        where = "" if sharing else axis_key(each.axes)
        points[where, reach_of(mesh, each.axes, per_host), each.kind].append(
            point(each.kind, each.bytes, members, each.transfer_us, sharing=sharing, weight=each.times)
        )
    found = links_from(points, WINDOWS, assumed)
    probed = (
        links_from(_probed(probe, domains, shares=sharing > 0), PROBE, assumed) if probe is not None else {}
    )
    if sharing and not (found or probed):
        return {(WITHIN, ANY): assumed, (BETWEEN, ANY): assumed}
    return {**probed, **found} or None


def _probed(
    probe: Probe, domains: Mapping[int, Domain], *, shares: bool
) -> Mapping[tuple[str, str, str], Sequence[Point]]:
    """Return the points of a probe by reach only: its axes may share no more than names with the run's."""
    places = {device.id: domains.get(device.id, ("process", device.process)) for device in probe.devices}
    sharing = len(probe.devices) if shares else 0
    found: defaultdict[tuple[str, str, str], list[Point]] = defaultdict(list)
    for each in probe.collectives:
        crosses = any(len({places.get(member) for member in group.device_ids}) > 1 for group in each.groups)
        place = "", BETWEEN if crosses else WITHIN, each.kind
        found[place].append(point(each.kind, each.bytes, each.group_size, each.time_s * 1e6, sharing=sharing))
    return found


def _shared_cores(views: Sequence[HostView]) -> int | None:
    """Return the cores of a machine that CPU devices share; None for other devices."""
    platforms = {view.host.hello.platform for view in views if view.host.hello}
    cores = [each for view in views if (each := view.current.pulse.host.cores_milli)]
    return max(1, round(median(cores) / 1000)) if platforms == {"cpu"} and cores else None


def _rates(views: Sequence[HostView], probe: Probe | None) -> tuple[float | None, float | None]:
    """Return the operations and bytes a second of a device: as probed, else as its maker publishes them."""
    hello = next((view.host.hello for view in views if view.host.hello and view.host.hello.devices), None)
    if hello is None:
        return None, None
    device = hello.devices[0]
    alike = [
        each
        for each in (probe.devices if probe else ())
        if (each.platform, each.kind) == (device.platform, device.kind)
    ]
    peak = peak_of(hello, device)
    return (
        median_rate(alike, MATRIX_RATE) or (peak.flops if peak else None),
        median_rate(alike, MEMORY_RATE) or (peak.bytes if peak else None),
    )


def _watts(views: Sequence[HostView]) -> float | None:
    """Return the mean power of a device; None unless that of every device is known."""
    found: list[float] = []
    for view in views:
        column = view.current.pulse.devices.power_mw
        of_host = [device_entry(column, number) for number in range(len(column or ()))]
        if not of_host or None in of_host:
            return None
        found += [each / 1000 for each in of_host if each is not None]
    return fmean(found) if found else None
