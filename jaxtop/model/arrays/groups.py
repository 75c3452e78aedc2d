"""The arrays of the whole cluster: each one once, however many processes report it, with its slices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop import wire
from jaxtop.model.arrays.meshes import MeshView, mesh_view
from jaxtop.model.host import run_of
from jaxtop.model.hosts import newest_hosts
from jaxtop.model.liveness import has_exited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState

# The part of a dimension that a device holds: a half-open range of indices.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ArrayView:
    """Arrays of a run that differ only in their values, merged over all its processes.

    A view with `groups` above 1 summarises that many smaller groups of different shapes.
    """

    run: str
    name: str | None
    function: str | None
    role: str | None
    created: str | None
    shape: tuple[int, ...]
    dtype: str
    sharding: str
    mesh: MeshView | None
    device_ids: tuple[int, ...]
    memory_kind: str | None
    parts: tuple[tuple[str, ...], ...] | None
    tiles: tuple[int, ...] | None
    groups: int
    count: int
    bytes_global: int
    bytes_per_device: int
    # The growth of the bytes on a device, and over how many seconds; None if it was not observed long enough.
    grown_bytes: int | None
    grown_s: float | None

    @property
    def key(self) -> tuple[Any, ...]:
        """The identity of the group, which stays the same in the next census."""
        place = self.device_ids if self.mesh is None else self.mesh.axes
        facts = (self.name, self.function, self.created, self.shape, self.dtype, self.sharding)
        return self.run, *facts, self.memory_kind, place, self.groups > 1

    @property
    def replication(self) -> int | None:
        """The number of copies of each byte on all devices together."""
        return round(self.held_bytes / self.bytes_global) if self.bytes_global else None

    @property
    def held_bytes(self) -> int:
        """The bytes on all devices together, all copies included."""
        return self.bytes_per_device * len(self.device_ids)


def on_fullest_device(views: Iterable[ArrayView], fact: Callable[[ArrayView], int | None]) -> int | None:
    """Return the sum of a fact on the device where it is largest; None if it is unknown for all arrays.

    Arrays on different devices do not add up. Nor do the memory of a device and memory pinned on its host.
    """
    sums: dict[tuple[str, bool, int], int] = {}
    held_by: dict[tuple[str, bool, int], tuple[int, ...]] = {}
    for view in views:
        value = fact(view)
        if value is not None:
            # Keyed by identity: most arrays share the devices of a few meshes, which may have thousands of
            # devices.
            key = view.run, (view.memory_kind or "").startswith("pinned"), id(view.device_ids)
            sums[key] = sums.get(key, 0) + value
            held_by[key] = view.device_ids
    if len(sums) < 2:
        return next(iter(sums.values()), None)
    alike: Counter[tuple[str, bool, tuple[int, ...]]] = Counter()
    for key, value in sums.items():
        alike[*key[:2], held_by[key]] += value
    held: Counter[tuple[str, bool, int]] = Counter()
    for (run, is_pinned, device_ids), value in alike.items():
        for device_id in device_ids:
            held[run, is_pinned, device_id] += value
    return max(held.values(), default=None)


class _SameSignature(NamedTuple):
    """The groups of one host that differ only in their names, with the numbers of all and of named arrays."""

    held: int
    named: int
    places: tuple[int, ...]


Signature = tuple[Any, ...]


def array_views(cluster: ClusterState) -> list[ArrayView]:
    """Return the arrays of all runs, largest on a device first. An array that spans processes appears once.

    For arrays that are alike, one process supplies the names. Processes are read at slightly different
    moments, so it is the process that knows most arrays, and then has most names for them.
    """
    members = _holders(newest_hosts(cluster))
    return cluster.derived.get("arrays", [host.arrays for host in members], lambda: _arrays(cluster, members))


def _arrays(cluster: ClusterState, members: list[Host]) -> list[ArrayView]:
    best: dict[tuple[str, Signature], tuple[_SameSignature, Host]] = {}
    for host in members:
        run = run_of(host)
        for signature, alike in _summary(cluster, host).items():
            found = best.get((run, signature))
            if found is None or found[0][:2] < alike[:2]:
                best[run, signature] = alike, host
    views = [_view(cluster, host, place) for alike, host in best.values() for place in alike.places]
    views.sort(key=lambda view: (-view.bytes_per_device, view.name or "", view.shape, view.dtype))
    return views


def _holders(members: list[Host]) -> list[Host]:
    """Return the hosts whose arrays count: live ones, and the exited ones of a run that has ended."""
    going_on = {run_of(host) for host in members if not has_exited(host)}
    return [host for host in members if not has_exited(host) or run_of(host) not in going_on]


def _summary(cluster: ClusterState, host: Host) -> dict[Signature, _SameSignature]:
    census = host.arrays
    return cluster.derived.of(
        "array summary", host.agent, cluster.hosts, (census,), lambda: _summarized(census)
    )


def _summarized(census: wire.Arrays) -> dict[Signature, _SameSignature]:
    """Return the groups of a census, keyed by everything that distinguishes arrays except their names."""
    places = [place_of(sharding, census) for sharding in census.shardings]
    found: dict[Signature, list[int]] = {}
    for place, (group, count) in enumerate(zip(census.groups, census.counts, strict=True)):
        if count:
            signature = (group.shape, group.dtype, places[group.sharding], group.bytes_per_device == 0)
            found.setdefault(signature, []).append(place)
    return {
        signature: _SameSignature(
            sum(census.counts[i] for i in members),
            sum(census.counts[i] for i in members if census.groups[i].name is not None),
            tuple(members),
        )
        for signature, members in found.items()
    }


def place_of(sharding: wire.Sharding, census: wire.Arrays) -> tuple[Any, ...]:
    """Return what distinguishes the shardings of a process."""
    # Meshes are compared by identity, because the fold shares equal ones.
    place = sharding.device_ids if sharding.mesh is None else id(census.meshes[sharding.mesh])
    return sharding.kind, sharding.spec, sharding.memory_kind, place


def total(figure: int, group: wire.ArrayGroup, count: int) -> int:
    """Return the bytes of all arrays of a group, from a figure that summaries have for all their arrays."""
    return figure if group.groups > 1 and count else figure * count


def is_in_host_memory(memory_kind: str | None, *, is_cpu: bool) -> bool:
    """Return whether memory of this kind belongs to the host, and takes none of a device."""
    kind = memory_kind or ""
    return kind.startswith("pinned") or (kind.startswith("unpinned") and not is_cpu)


def apart(name: str | None, count: int) -> int:
    """Return how many arrays of a group there are, without the old state that exists during a step."""
    return count if name is None or "[*]" in name else 1


def _view(cluster: ClusterState, host: Host, place: int) -> ArrayView:
    group, count = host.arrays.groups[place], host.arrays.counts[place]
    sharding = host.arrays.shardings[group.sharding]
    mesh = None if sharding.mesh is None else mesh_view(run_of(host), host.arrays.meshes[sharding.mesh])
    grown_bytes, grown_s = _growth(cluster, host, place)
    return ArrayView(
        run=run_of(host),
        name=group.name,
        function=group.function,
        role=group.role,
        created=group.created,
        shape=group.shape,
        dtype=group.dtype,
        sharding=sharding.spec or sharding.kind,
        mesh=mesh,
        device_ids=mesh.device_ids if mesh else _ids(sharding.device_ids),
        memory_kind=sharding.memory_kind,
        parts=sharding.parts,
        tiles=sharding.tiles,
        groups=group.groups,
        count=count,
        bytes_global=total(group.bytes_global, group, count),
        bytes_per_device=total(group.bytes_per_device, group, count),
        grown_bytes=grown_bytes,
        grown_s=grown_s,
    )


@lru_cache(maxsize=64)
def _ids(runs: wire.Ids) -> tuple[int, ...]:
    """Return the device ids in these runs, as one tuple that all arrays on these devices share."""
    return wire.unpack_ids(runs)


def _growth(cluster: ClusterState, host: Host, place: int) -> tuple[int | None, float | None]:
    """Return the growth since the oldest remembered census of the same serial, which keeps indices stable."""
    now = host.arrays
    first = next(
        (each for each in cluster.past_arrays.get(host.agent, ()) if each.serial == now.serial), None
    )
    if first is None or first.at_ms >= now.at_ms:
        return None, None
    was, is_now = (
        total(each.groups[place].bytes_per_device, each.groups[place], each.counts[place])
        if place < len(each.counts)
        else 0
        for each in (first, now)
    )
    return is_now - was, (now.at_ms - first.at_ms) / 1000


def slices(view: ArrayView) -> dict[int, tuple[Span, ...]] | None:
    """Return the part of the array that each device holds, by device id; None where unknown."""
    if view.groups > 1:
        return None
    whole = tuple((0, size) for size in view.shape)
    if view.mesh is not None and view.parts is not None:
        return _spans_by_axes(view.shape, view.mesh, view.parts)
    if view.tiles is not None:
        return _spans_by_tiles(view.shape, view.device_ids, view.tiles)
    return {view.device_ids[0]: whole} if len(view.device_ids) == 1 else None


@lru_cache(maxsize=64)
def _spans_by_axes(
    shape: tuple[int, ...], mesh: MeshView, parts: tuple[tuple[str, ...], ...]
) -> dict[int, tuple[Span, ...]] | None:
    sizes = dict(mesh.axes)
    cut = [*parts, *((),) * (len(shape) - len(parts))][: len(shape)]
    if any(axis not in sizes for axes in cut for axis in axes):
        return None
    found = {}
    for device_id, at in zip(mesh.device_ids, product(*(range(size) for _, size in mesh.axes)), strict=True):
        place = dict(zip(sizes, at, strict=True))
        spans = []
        for size, axes in zip(shape, cut, strict=True):
            index = 0
            for axis in axes:
                index = index * sizes[axis] + place[axis]
            spans.append(_span(size, prod(sizes[axis] for axis in axes), index))
        found[device_id] = tuple(spans)
    return found


def _spans_by_tiles(
    shape: tuple[int, ...], device_ids: tuple[int, ...], tiles: tuple[int, ...]
) -> dict[int, tuple[Span, ...]] | None:
    tiles = tiles or (1,) * len(shape)  # not partitioned
    pieces = prod(tiles)
    if len(tiles) != len(shape) or not pieces or not device_ids or len(device_ids) % pieces:
        return None
    copies = len(device_ids) // pieces
    return {
        device_ids[piece * copies + copy]: tuple(map(_span, shape, tiles, at))
        for piece, at in enumerate(product(*map(range, tiles)))
        for copy in range(copies)
    }


def _span(size: int, pieces: int, index: int) -> Span:
    # If a dimension cannot be divided evenly, the last pieces are short, as in XLA.
    each = -(-size // pieces)
    return min(size, index * each), min(size, (index + 1) * each)


def distinct(spans: dict[int, tuple[Span, ...]]) -> Iterator[tuple[tuple[Span, ...], tuple[int, ...]]]:
    """Return each distinct slice in the order of its indices, with the devices that hold it."""
    holders: dict[tuple[Span, ...], list[int]] = {}
    for device_id, span in spans.items():
        holders.setdefault(span, []).append(device_id)
    return ((span, tuple(sorted(holders[span]))) for span in sorted(holders))
