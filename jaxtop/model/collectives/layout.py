"""Where a program runs: its places, their processes and devices, and the groups of its collectives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.model.arrays.groups import total
from jaxtop.model.arrays.meshes import MeshView, mesh_view
from jaxtop.model.collectives.groups import assignment, axes_of, best_mesh, expand
from jaxtop.model.hardware.domains import domain_of
from jaxtop.model.host import run_of
from jaxtop.model.hosts import newest_hosts
from jaxtop.model.windows import Grouped, Team, TeamUnit

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
    grouped: Mapping[int, Grouped] = field(default_factory=dict)
    of_op: Mapping[str, wire.Collective] = field(default_factory=dict)
    is_cpu: bool = False
    # For agents whose devices have consecutive places: the place of the first device.
    firsts: Mapping[str, int] = field(default_factory=dict)
    # Whether the process of every place is known.
    is_met: bool = False

    def groups_of(self, op: str) -> Grouped | None:
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


def _meshes(run: str, members: Sequence[Host]) -> list[tuple[MeshView, int]]:
    """Return the meshes of a run with the bytes that a process holds on each of them, most bytes first."""
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
    views = [(mesh_view(run, mesh), held) for mesh, held in found.values()]
    return sorted(views, key=lambda each: -each[1])


def _layout(
    key: ProgramKey, loaded_by: Sequence[Host], of_run: Sequence[Host], meshes: Sequence[tuple[MeshView, int]]
) -> Layout:
    inventories = [host.inventories[key[1:]] for host in loaded_by]
    inventory = next((each for each in inventories if each.collectives), inventories[0])
    agents = tuple(host.agent for host in loaded_by)
    of_op = {each.op: each for each in inventory.collectives}
    natural = tuple(device.id for host in loaded_by for device in host.devices)
    local_ids = [ids for each in inventories if (ids := wire.unpack_ids(each.local_ids))]
    found = assignment(inventory.devices, local_ids, (*(mesh.device_ids for mesh, _ in meshes), natural))
    if found is None:
        return Layout(agents, inventory, of_op=of_op)
    members = frozenset(found)
    candidates = [
        mesh
        for mesh, _ in meshes
        if len(mesh.device_ids) == len(found) and members.issuperset(mesh.device_ids)
    ]
    place_of = {device: place for place, device in enumerate(found)}
    owners, domains = [-1] * len(found), [-1] * len(found)
    numbers: dict[Domain, int] = {}
    places: dict[str, tuple[int | None, ...]] = {}
    for number, host in enumerate(of_run):
        local = [device.id for device in host.devices]
        if not members.isdisjoint(local):
            places[host.agent] = tuple(place_of.get(device) for device in local)
            for device in host.devices:
                if device.id in members:
                    owners[place_of[device.id]] = number
                    domain = domain_of(host, device)
                    domains[place_of[device.id]] = numbers.setdefault(domain, len(numbers))
    by_number = {
        number: named
        for number, groups in enumerate(inventory.groups)
        if (named := _devices(groups, found)) is not None
    }
    held = {id(mesh): size for mesh, size in meshes}
    used = [by_number[each.groups] for each in inventory.collectives if each.groups in by_number]
    mesh = best_mesh(candidates, used, lambda mesh: held[id(mesh)])
    grouped = {
        number: Grouped(
            expand(inventory.groups[number]),
            ids,
            _teams(expand(inventory.groups[number]), ids, owners, of_run),
            _crosses(expand(inventory.groups[number]), owners),
            axes_of(mesh, ids) if mesh is not None else None,
            _crosses(expand(inventory.groups[number]), domains),
        )
        for number, ids in by_number.items()
    }
    is_cpu = any(host.is_on_cpu for host in loaded_by)
    firsts = {
        agent: own[0]
        for agent, own in places.items()
        if own[0] is not None and own == tuple(range(own[0], own[0] + len(own)))
    }
    is_met = -1 not in owners
    return Layout(tuple(places), inventory, found, mesh, places, grouped, of_op, is_cpu, firsts, is_met)


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
