"""The cost of a collective over the links of a mesh: latency, and bytes over a bandwidth.

A cost is fitted to what was measured. All kinds share one formula, so that a kind that was not measured takes
the cost of another one: `latency_us` times the steps of a ring, and the bytes that cross the bus, as
nccl-tests counts them, over the bus bandwidth. CPU devices of one machine have no links: they meet and copy,
all with the same cores. There, each device is a step, and the copies of all devices count.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.planning.model.plan import LinkCost
from jaxtop.features.planning.model.roles import EXCHANGED
from jaxtop.features.planning.model.times.published_costs import BOOK, published_link
from jaxtop.model.collectives.kinds import bus_factor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop.base.meshes import Axes
    from jaxtop.features.planning.model.plan import Today

# In place of an axis: all axes of this reach. In place of a kind: all kinds.
WITHIN, BETWEEN = "within hosts", "between hosts"
ANY = "any"
# Sizes that differ by less tell latency and bandwidth apart badly.
MIN_RANGE = 4.0
# Smaller ones show no bandwidth at all.
MIN_BYTES = 4096.0
ONE_SIZE = " in one size, with a borrowed or assumed latency"
# The most points of a fit; beyond, points of about the same size are merged.
MAX_POINTS = 48
Links = dict[tuple[str, str], LinkCost]


class Point(NamedTuple):
    """A measured collective: steps of a ring, bytes on the bus, microseconds; and how much it counts."""

    steps: float
    volume: float
    time_us: float
    weight: float = 1.0


class CollectiveCost(NamedTuple):
    """Microseconds of a collective: those that do not depend on its size, and those that do."""

    latency_us: float
    moving_us: float
    link: LinkCost

    @property
    def total_us(self) -> float:
        return self.latency_us + self.moving_us


def point(
    kind: str, size: float, members: int, time_us: float, *, sharing: int, weight: float = 1.0
) -> Point:
    """Return a measurement as a point of the fit; `sharing` is the number of devices that share cores."""
    return Point(
        steps(kind, members, sharing=sharing), volume(kind, size, members, sharing=sharing), time_us, weight
    )


def steps(kind: str, members: int, *, sharing: int) -> float:
    """Return the steps of a ring; the devices that meet, where they share cores."""
    if sharing:
        return float(sharing)
    if kind == "collective-permute":
        return 1.0
    return max(1, members - 1) * (2.0 if kind == "all-reduce" else 1.0)


def volume(kind: str, size: float, members: int, *, sharing: int) -> float:
    """Return the bytes that each member sends, or that all devices copy where they share cores."""
    if sharing:
        return sharing * size * (2.0 if kind == "all-reduce" else 1.0)
    return size * bus_factor(kind, members)


def axis_key(axes: Iterable[str]) -> str:
    return "+".join(axes)


def reach_of(mesh: Axes, axes: Iterable[str], devices_per_host: int) -> str:
    """Return whether groups along these axes stay within a host, for devices in the order of the mesh."""
    stride, names = 1, set(axes)
    for name, size in reversed(mesh):
        if name in names and size > 1 and stride * size > devices_per_host:
            return BETWEEN
        stride *= size
    return WITHIN


def fitted(points: Sequence[Point], source: str, assumed: LinkCost) -> LinkCost | None:
    """Return the cost with the least absolute error; None without points that show a bandwidth.

    Latency and bandwidth cannot be separated where sizes are about equal, or times do not grow with them.
    Then the latency is the assumed one, but at most half of the time, and the bandwidth at least the assumed.
    """
    usable = _merged([each for each in points if each.time_us > 0])
    large = [each for each in usable if each.volume >= MIN_BYTES]
    if not large:
        return None
    if max(each.volume for each in large) >= MIN_RANGE * min(each.volume for each in usable):
        latency, per_byte = least_absolute(usable)
        if per_byte > 0:
            return LinkCost(latency, 1e6 / per_byte, source, is_measured=True)
    latency = min(assumed.latency_us, *(each.time_us / each.steps / 2 for each in large))
    per_byte = median((each.time_us - latency * each.steps) / each.volume for each in large)
    return LinkCost(latency, max(1e6 / per_byte, assumed.busbw_bytes_per_s), source + ONE_SIZE)


def least_absolute(points: Sequence[Point]) -> tuple[float, float]:
    """Return microseconds per step and per byte, neither negative; points that have neither are left out.

    A best fit passes through two of the points, or through one of them with the other figure 0.
    """
    tried = [(0.0, 0.0)]
    for number, point in enumerate(points):
        if point.steps:
            tried.append((point.time_us / point.steps, 0.0))
        if point.volume:
            tried.append((0.0, point.time_us / point.volume))
        for other in points[:number]:
            rank = point.steps * other.volume - other.steps * point.volume
            if abs(rank) > 1e-9 * max(point.steps * other.volume, other.steps * point.volume):
                latency = (point.time_us * other.volume - other.time_us * point.volume) / rank
                per_byte = (point.steps * other.time_us - other.steps * point.time_us) / rank
                if latency >= 0 and per_byte >= 0:
                    tried.append((latency, per_byte))
    return min(
        tried,
        key=lambda line: sum(
            each.weight * abs(line[0] * each.steps + line[1] * each.volume - each.time_us) for each in points
        ),
    )


def _merged(points: Sequence[Point]) -> list[Point]:
    """Return at most this many points; neighbours in size become their median."""
    if len(points) <= MAX_POINTS:
        return list(points)
    ordered = sorted(points, key=lambda each: (each.volume, each.steps))
    size = -(-len(ordered) // MAX_POINTS)
    return [
        Point(
            median(each.steps for each in few),
            median(each.volume for each in few),
            median(each.time_us for each in few),
            sum(each.weight for each in few),
        )
        for few in (ordered[start : start + size] for start in range(0, len(ordered), size))
    ]


def links_from(
    points: Mapping[tuple[str, str, str], Sequence[Point]], source: str, assumed: LinkCost
) -> Links:
    """Return the costs by axes and kind, and by reach; points are given by axes, reach and kind.

    Kinds that were measured in one size borrow the latency of others, else take the assumed one.
    """
    of_key: defaultdict[tuple[str, str], list[Point]] = defaultdict(list)
    reach_by = {axes: reach for axes, reach, _ in points}
    for (axes, reach, kind), each in points.items():
        for where in {axes, reach} - {""}:
            of_key[where, kind] += each
            of_key[where, ANY] += each
    found: Links = {}
    for where, kind in sorted(of_key, key=lambda key: (key[0] not in (WITHIN, BETWEEN), key[1] != ANY)):
        pools = (found.get((place, ANY)) for place in (where, reach_by.get(where, "")))
        lent = next((each.latency_us for each in pools if each is not None), assumed.latency_us)
        cost = fitted(of_key[where, kind], source, assumed._replace(latency_us=lent))
        if cost is not None:
            found[where, kind] = cost
    return found


def cost_of(today: Today, mesh: Axes, axes: Sequence[str], kind: str, size: float) -> CollectiveCost | None:
    """Return what a collective costs on a mesh; None where nothing says it."""
    link = link_of(today, mesh, axes, kind)
    if link is None:
        return None
    members = 1
    for name, each in mesh:
        members *= each if name in axes else 1
    sharing = sharing_on(today, mesh)
    latency = link.latency_us * steps(kind, members, sharing=sharing)
    moving = volume(kind, size, members, sharing=sharing) / link.busbw_bytes_per_s * 1e6
    if today.platform == "tpu" and link.source == BOOK:
        return _on_a_torus(link, kind, size, members)
    return CollectiveCost(latency, moving, link)


def _on_a_torus(link: LinkCost, kind: str, size: float, members: int) -> CollectiveCost:
    """Return what a ring of TPUs costs by the published formulas: it sends both ways, half around each.

    Its hops take time only where the bytes take less. All to all, `size` is a device's share of the array.
    """
    both = 2.0 if kind == "all-reduce" else 1.0
    latency = both * link.latency_us * members / 2
    crossing = size * members / 4 if kind in EXCHANGED else size * bus_factor(kind, members)
    moving = crossing / link.busbw_bytes_per_s * 1e6
    return CollectiveCost(max(0.0, latency - moving), moving, link)


def sharing_on(today: Today, mesh: Axes) -> int:
    """Return the number of devices of a mesh that share cores; 0 where each has its own."""
    return 0 if today.shared_cores is None else prod(size for _, size in mesh)


def link_of(today: Today, mesh: Axes, axes: Sequence[str], kind: str) -> LinkCost | None:
    """Return the cost that fits best: of this axis, of another kind, of the same reach, or as published."""
    links = today.links or {}
    reach = reach_of(mesh, axes, today.devices_per_host)
    where = axis_key(axes)
    # An axis may reach further on another mesh than it does today.
    same = reach_of(today.axes, axes, today.devices_per_host) == reach
    for place, of_kind in [*((where, each) for each in (kind, ANY) if same), (reach, kind), (reach, ANY)]:
        if (place, of_kind) in links:
            found = links[place, of_kind]
            if of_kind == kind and (place == where or today.shared_cores is not None):
                return found
            named = f"{'all kinds' if of_kind == ANY else kind} {'over ' if place == where else ''}{place}"
            return found._replace(source=f"{found.source}, of {named}", is_measured=False)
    published = published_link(
        today.platform,
        today.device_kind,
        crosses=reach == BETWEEN,
        members_here=_members_of_host(mesh, axes, today.devices_per_host),
    )
    if published is not None:
        return published
    other = links.get((WITHIN if reach == BETWEEN else BETWEEN, ANY))
    if other is None:
        return None
    source = f"{other.source}, of other links, as nothing was measured {reach}"
    return other._replace(source=source, is_measured=False)


def _members_of_host(mesh: Axes, axes: Sequence[str], devices_per_host: int) -> float:
    """Return the devices of a host or slice that a group has: each brings its share of the network."""
    members, stride = 1, 1
    for name, size in reversed(mesh):
        if name in axes:
            members *= max(1, min(size, devices_per_host // stride))
        stride *= size
    return min(members, max(1, devices_per_host))
