"""Live arrays, the types that hold arrays, and shardings."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from jaxtop_agent.jaxprivate.backends import clients
from jaxtop_agent.jaxprivate.lookup import find, imported

if TYPE_CHECKING:
    from jaxtop_agent.jaxprivate.declarations import (
        ClassesWithAttributes,
        GSPMDSharding,
        HloSharding,
        SetOfNames,
    )

# Classes of JAX whose objects are shown as the one value they hold, with the attributes that may hold it.
BOXES: ClassesWithAttributes = {
    "PRNGKeyArray": ("_base_array",),
    "Ref": ("_refs",),
    "ArrayRefImpl": ("_buf",),
}
# Classes of JAX whose attributes hold a script's arrays; derived classes count as well.
HOLDERS: SetOfNames = frozenset({"JAXSparse", "Partial", "gaussian_kde"})


def live_arrays() -> list[Any]:
    """Return every live array of this process. Drop the list at once: it keeps device memory alive."""
    return list(chain.from_iterable(client.live_arrays() for client in clients()))


def array_type() -> type:
    found: type = find(imported("jax._src.array"), "ArrayImpl")
    return found


def hlo_sharding(sharding: GSPMDSharding) -> HloSharding | None:
    """Return the compiler's form of a sharding that has no mesh."""
    return getattr(sharding, "_hlo_sharding", None)


def tiles(sharding: GSPMDSharding) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the number of pieces of each dimension in such a sharding, and the device ids in order."""
    hlo = hlo_sharding(sharding)
    assigned = tuple(device.id for device in find(sharding, "_device_assignment"))
    if hlo is None:
        return None
    if hlo.is_replicated():
        return (), assigned
    cut = tuple(hlo.tile_assignment_dimensions())
    if hlo.replicate_on_last_tile_dim():
        cut = cut[:-1]
    return cut, tuple(assigned[i] for i in hlo.tile_assignment_devices())
