"""The meshes that live arrays are placed on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.model.host import run_of
from jaxtop.model.hosts import newest_hosts

if TYPE_CHECKING:
    from jaxtop.model.state import ClusterState


@dataclass(frozen=True)
class MeshView:
    """A mesh that live arrays of a run are placed on; devices in row-major order of the axes."""

    run: str
    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...]

    @cached_property
    def positions(self) -> dict[int, int]:
        """The place of each device in the row-major order."""
        return {device_id: i for i, device_id in enumerate(self.device_ids)}

    def coordinates(self, device_id: int) -> tuple[int, ...] | None:
        rest = self.positions.get(device_id)
        if rest is None:
            return None
        found = []
        for _, size in reversed(self.axes):
            rest, at = divmod(rest, size)
            found.append(at)
        return tuple(reversed(found))


def mesh_views(cluster: ClusterState) -> list[MeshView]:
    """Return the distinct meshes of all runs, largest first."""
    # By identity: the fold shares equal meshes, and a thousand hosts report the same few.
    found = {(run_of(host), id(mesh)): mesh for host in newest_hosts(cluster) for mesh in host.arrays.meshes}
    views = [mesh_view(run, mesh) for (run, _), mesh in found.items() if _is_whole(mesh)]
    return sorted(views, key=lambda mesh: (mesh.run, -len(mesh.device_ids), mesh.axes, mesh.device_ids))


def _is_whole(mesh: wire.Mesh) -> bool:
    sizes = [size for _, size in mesh.axes]
    return all(size > 0 for size in sizes) and prod(sizes) == sum(count for _, count in mesh.device_ids)


@lru_cache(maxsize=256)
def mesh_view(run: str, mesh: wire.Mesh) -> MeshView:
    """Return the mesh of a run with its device ids expanded."""
    return MeshView(run, mesh.axes, wire.unpack_ids(mesh.device_ids))
