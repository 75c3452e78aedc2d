"""The places at which a program runs, their processes and devices, and the groups of its collectives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.model.arrays.groups import total
from jaxtop.model.arrays.meshes import MeshView, mesh_view
from jaxtop.model.collectives.groups import assignment, axes_of, best_mesh, expand
from jaxtop.model.hardware.domains import domain_of
from jaxtop.model.host import run_of
from jaxtop.model.hosts import newest_hosts
from jaxtop.model.windows import CollectiveGroups, Team, TeamUnit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.model.hardware.domains import Domain
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import Groups, ProgramKey


@dataclass(frozen=True, eq=False)
class Layout:
    """A program, merged from what its processes report. Without an assignment its groups are unknown."""

    agents: tuple[str, ...]
    inventory: wire.Inventory | None
    assignment: tuple[int, ...] | None = None
    mesh: MeshView | None = None
    # For each agent, the place of each of its devices in the order of its hello; None for a device without a
    # place.
    places: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    grouped: Mapping[int, CollectiveGroups] = field(default_factory=dict)
    of_op: Mapping[str, wire.Collective] = field(default_factory=dict)
    is_cpu: bool = False
    # Whether the process of every place is known.
    is_met: bool = False

    @cached_property
    def firsts(self) -> Mapping[str, int]:
        """The place of the first device of each agent whose devices have consecutive places."""
        return {
            agent: own[0]
            for agent, own in self.places.items()
            if own[0] is not None and own == tuple(range(own[0], own[0] + len(own)))
        }

    def groups_of(self, op: str) -> CollectiveGroups | None:
        collective = self.of_op.get(op)
        return (
            None if collective is None or collective.groups is None else self.grouped.get(collective.groups)
        )


def layouts(cluster: ClusterState) -> dict[ProgramKey, Layout]:
    """Return all programs with an inventory."""
    return cluster.derived.get(
        "layouts",
        (cluster.layout_changes,),
        lambda: _layouts(cluster, cluster.derived.last("layouts") or {}),
    )


def may_be_met(cluster: ClusterState, host: Host, key: ProgramKey) -> bool:
    """Return whether the known devices of the run are at least as many as the program needs."""
    inventory = host.inventories.get(key[1:])
    if inventory is None:
        return True
    devices = cluster.derived.get(
        "devices of runs", (cluster.layout_changes,), lambda: _devices_of_runs(cluster)
    )
    return inventory.devices <= devices[key[0]]


def _devices_of_runs(cluster: ClusterState) -> Counter[str]:
    """Return the number of devices of each run, as far as hosts have said hello."""
    found: Counter[str] = Counter()
    for host in cluster.hosts.values():
        found[run_of(host)] += len(host.devices)
    return found


def _layouts(cluster: ClusterState, before: Mapping[ProgramKey, Layout]) -> dict[ProgramKey, Layout]:
    of_run: dict[str, list[Host]] = {}
    loaded_by: dict[ProgramKey, list[Host]] = {}
    for host in newest_hosts(cluster):
        run = run_of(host)
        of_run.setdefault(run, []).append(host)
        for name, fingerprint in host.inventories:
            loaded_by.setdefault((run, name, fingerprint), []).append(host)
    meshes = {run: _meshes(run, members) for run, members in of_run.items()}
    found = {}
    for key, members in loaded_by.items():
        layout = _layout(key, members, of_run[key[0]], meshes[key[0]])
        found[key] = _with_same_groups(layout, before.get(key))
    return found


def _with_same_groups(layout: Layout, before: Layout | None) -> Layout:
    """Return the layout with unchanged groups as the same objects, because measurements refer to them."""
    if before is None:
        return layout
    grouped = {
        number: before.grouped[number] if each == before.grouped.get(number) else each
        for number, each in layout.grouped.items()
    }
    return replace(layout, grouped=grouped)


def _meshes(run: str, members: Sequence[Host]) -> list[MeshView]:
    """Return the meshes of a run; that on which a process holds most bytes comes first."""
    found: dict[int, tuple[wire.Mesh, int]] = {}
    for host in members:
        new = [i for i, mesh in enumerate(host.arrays.meshes) if id(mesh) not in found]  # equal ones are one
        if not new:
            continue
        held = [0] * len(host.arrays.meshes)
        for group, count in zip(host.arrays.groups, host.arrays.counts, strict=False):
            mesh = host.arrays.shardings[group.sharding].mesh
            if mesh is not None:
                held[mesh] += total(group.bytes_per_device, group, count)
        found.update((id(host.arrays.meshes[i]), (host.arrays.meshes[i], held[i])) for i in new)
    by_bytes = sorted(found.values(), key=lambda each: -each[1])
    return [mesh_view(run, mesh) for mesh, _ in by_bytes]


def _layout(
    key: ProgramKey, loaded_by: Sequence[Host], of_run: Sequence[Host], meshes: Sequence[MeshView]
) -> Layout:
    inventories = [host.inventories[key[1:]] for host in loaded_by]
    inventory = next((each for each in inventories if each.collectives), inventories[0])
    layout = Layout(
        tuple(host.agent for host in loaded_by),
        inventory,
        of_op={each.op: each for each in inventory.collectives},
    )
    natural = tuple(device.id for host in loaded_by for device in host.devices)
    local_ids = [ids for each in inventories if (ids := wire.unpack_ids(each.local_ids))]
    assigned = assignment(inventory.devices, local_ids, (*(mesh.device_ids for mesh in meshes), natural))
    if assigned is None:
        return layout
    seats = _seats(assigned, of_run)
    ids_of = {
        number: named
        for number, groups in enumerate(inventory.groups)
        if (named := _devices(groups, assigned)) is not None
    }
    used = [ids_of[each.groups] for each in inventory.collectives if each.groups in ids_of]
    mesh = _mesh_of(assigned, meshes, used)
    return replace(
        layout,
        agents=tuple(seats.places),
        assignment=assigned,
        mesh=mesh,
        places=seats.places,
        grouped={
            number: _grouped(expand(inventory.groups[number]), ids, mesh, seats, of_run)
            for number, ids in ids_of.items()
        },
        is_cpu=any(host.is_on_cpu for host in loaded_by),
        is_met=-1 not in seats.owners,
    )


class _Seats(NamedTuple):
    """The places of each agent's devices; for each place the number of its host and domain, -1 if unknown."""

    places: dict[str, tuple[int | None, ...]]
    owners: list[int]
    domains: list[int]


def _seats(found: tuple[int, ...], of_run: Sequence[Host]) -> _Seats:
    place_of = {device: place for place, device in enumerate(found)}
    seats = _Seats({}, [-1] * len(found), [-1] * len(found))
    numbers: dict[Domain, int] = {}
    for number, host in enumerate(of_run):
        own = tuple(place_of.get(device.id) for device in host.devices)
        if own.count(None) < len(own):
            seats.places[host.agent] = own
        for place, device in zip(own, host.devices, strict=True):
            if place is not None:
                seats.owners[place] = number
                seats.domains[place] = numbers.setdefault(domain_of(host, device), len(numbers))
    return seats


def _mesh_of(found: tuple[int, ...], meshes: Sequence[MeshView], used: Sequence[Groups]) -> MeshView | None:
    """Return the mesh of exactly these devices that fits the groups best."""
    members = frozenset(found)
    return best_mesh(
        [
            mesh
            for mesh in meshes
            if len(mesh.device_ids) == len(found) and members.issuperset(mesh.device_ids)
        ],
        used,
    )


def _grouped(
    places: Groups, ids: Groups, mesh: MeshView | None, seats: _Seats, of_run: Sequence[Host]
) -> CollectiveGroups:
    return CollectiveGroups(
        places,
        ids,
        _teams(places, ids, seats.owners, of_run),
        _crosses(places, seats.owners),
        axes_of(mesh, ids) if mesh is not None else None,
        _crosses(places, seats.domains),
    )


@lru_cache(maxsize=256)
def _devices(groups: wire.ReplicaGroups, found: tuple[int, ...]) -> Groups | None:
    places = expand(groups)
    if any(place < 0 or place >= len(found) for group in places for place in group):
        return None
    return tuple(tuple(found[place] for place in group) for group in places)


def _teams(places: Groups, ids: Groups, owners: list[int], of_run: Sequence[Host]) -> tuple[Team, ...]:
    teams: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
    alone: list[Team] = []
    for number, group in enumerate(places):
        row = [owners[place] for place in group]
        processes = tuple(sorted(set(row) - {-1}))  # a process without an agent reports nothing
        if len(row) < 2 or not processes:
            continue
        if len(processes) > 1:
            unit = {-1: -1} | {process: i for i, process in enumerate(processes)}
            teams.setdefault(processes, []).append((number, tuple([unit[process] for process in row])))
        elif (host := of_run[processes[0]]).hello is not None and host.hello.platform != "cpu":
            # CPU devices take turns on the same cores, so one of them is always last.
            units = tuple(TeamUnit(host.agent, device) for device in ids[number])
            alone.append(Team(units, ((number, tuple(range(len(row)))),)))
    return (
        *(
            Team(tuple(TeamUnit(of_run[process].agent, None) for process in processes), tuple(rows))
            for processes, rows in teams.items()
        ),
        *alone,
    )


def _crosses(places: Groups, owners: list[int]) -> bool | None:
    is_known = True
    for group in places:
        processes = {owners[place] for place in group}
        if len(processes - {-1}) > 1:
            return True
        is_known = is_known and -1 not in processes
    return False if is_known else None
