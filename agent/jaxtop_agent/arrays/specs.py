"""Partition specs, meshes and shardings as text. No code of the script runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.base.names import legible, shorten
from jaxtop_agent import jaxprivate

if TYPE_CHECKING:
    from collections.abc import Iterable

# The length of the text of a sharding or a mesh.
MAX_TEXT_CHARS = 80
# The number of devices that a text lists.
MOST_IDS = 8
ANYWHERE = "on any device"


def entries(spec: Any) -> Iterable[Any]:
    """Return the entries of a PartitionSpec, one per dimension."""
    # Newer JAX forbids iterating over specs with unreduced axes, since that would lose those axes.
    found: Iterable[Any] = getattr(spec, "partitions", spec)
    return found


def spec_text(spec: Any) -> str:
    """Return a PartitionSpec as text that is the same for all versions of JAX."""
    shown = [_entry(entry) for entry in entries(spec)]
    for what in ("unreduced", "reduced"):
        axes = getattr(spec, what, None)
        if axes:
            shown.append(f"{what}={{{', '.join(sorted(map(_entry, axes)))}}}")
    return f"P({', '.join(shown)})"


def _entry(entry: Any) -> str:
    """Return an entry as `repr` does for the names of axes; names may be objects of the script."""
    kind = type(entry)
    if kind is tuple:
        return f"({', '.join(map(_entry, entry))}{',' if len(entry) == 1 else ''})"
    if issubclass(kind, str):
        return str.__repr__(entry)
    if entry is None or kind.__name__ == "UnconstrainedSingleton":
        return "None" if entry is None else "UNCONSTRAINED"
    return f"a {kind.__name__}"


def sharding_text(sharding: Any) -> str:
    """Return where an argument must be: on which devices, cut along which axes."""
    if sharding is None:
        return ANYWHERE
    mesh, spec = getattr(sharding, "mesh", None), getattr(sharding, "spec", None)
    try:
        if spec is not None and mesh is not None:
            text, ids = f"{spec_text(spec)} over {_axes_text(mesh)}", _device_ids(mesh)
        else:
            ids = tuple(sorted(device.id for device in sharding.device_set))
            text = "" if len(ids) == 1 else str(jaxprivate.hlo_sharding(sharding) or sharding)
    except Exception:  # a kind of sharding that this does not know
        return shorten(legible(str(sharding)), MAX_TEXT_CHARS)
    kind = getattr(sharding, "memory_kind", None)
    memory = f" in {kind}" if kind not in (None, "device", "unpinned_host") else ""
    return shorten(f"{text} {_devices_text(ids)}{memory}".strip(), MAX_TEXT_CHARS)


def mesh_text(mesh: Any) -> str:
    """Return the axes of a mesh and its devices."""
    return shorten(f"a mesh of {_axes_text(mesh)} {_devices_text(_device_ids(mesh))}".strip(), MAX_TEXT_CHARS)


def abstract_mesh_text(mesh: Any) -> str:
    """Return the axes of a mesh without devices, and how JAX places arrays along each."""
    kinds = ", ".join(getattr(kind, "name", "") for kind in getattr(mesh, "axis_types", None) or ())
    return shorten(f"a mesh of {_axes_text(mesh)}" + (f" ({kinds})" if kinds else ""), MAX_TEXT_CHARS)


def _axes_text(mesh: Any) -> str:
    return ", ".join(
        f"{str.__str__(name) if issubclass(type(name), str) else _entry(name)}={size}"
        for name, size in mesh.shape.items()
    )


def _device_ids(mesh: Any) -> tuple[int, ...]:
    devices = getattr(mesh, "devices", None)
    return () if devices is None else tuple(device.id for device in devices.flat)


def _devices_text(ids: tuple[int, ...]) -> str:
    if not ids:
        return ""
    if len(ids) == 1:
        return f"on device {ids[0]}"
    if ids == tuple(range(ids[0], ids[0] + len(ids))):
        return f"on devices {ids[0]} to {ids[-1]}"
    return f"on devices {','.join(map(str, ids[:MOST_IDS]))}{'…' if len(ids) > MOST_IDS else ''}"
