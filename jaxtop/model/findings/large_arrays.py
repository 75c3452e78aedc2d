"""The large arrays of a process, as the rules about their placement read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base.units import in_bytes
from jaxtop.model.arrays.groups import apart, is_in_host_memory, total
from jaxtop.model.programs.rates import program_of
from jaxtop.model.programs.views import launched_lately
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from jaxtop import wire
    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.model.liveness import HostView

# Smaller arrays, in bytes on a device, are never considered.
LARGE_ARRAY_BYTES = 1 << 20
# The arrays of one kind together must cost this share of the memory of a device.
MIN_SAVED_SHARE = 0.05
ALL_SMALL = f"no array takes {in_bytes(LARGE_ARRAY_BYTES)} on a device"
SAVES_AT_LEAST = Number("least_bytes", 8 << 20, "bytes on a device below which it is not reported")


def one_host_per_mesh(facts: RunFacts) -> list[HostView]:
    """Return one counted process for each set of meshes: those of a mesh hold the same arrays."""
    found: dict[frozenset[int], HostView] = {}
    for view in facts.reporting:
        if view.host.arrays.counts:  # the fold shares equal meshes, so their identity tells them apart
            found.setdefault(frozenset(map(id, view.host.arrays.meshes)), view)
    return list(found.values())


def on_device(census: wire.Arrays) -> int:
    """Return about how many bytes of arrays a device of a process holds, those on one device left out."""
    return sum(
        total(group.bytes_per_device, group, count)
        for group, count in zip(census.groups, census.counts, strict=True)
        if count and not is_single(census.shardings[group.sharding])
    )


def is_single(sharding: wire.Sharding) -> bool:
    return sharding.mesh is None and sum(count for _, count in sharding.device_ids) == 1


def has_large(views: Iterable[HostView]) -> bool:
    """Return whether any of these processes has a large array."""
    return any(True for view in views for _ in large(view.host))


def large(host: Host) -> Iterator[tuple[wire.ArrayGroup, int, wire.Sharding]]:
    """Yield the large arrays in the memory of devices, with their counts and shardings."""
    census = host.arrays
    for group, count in zip(census.groups, census.counts, strict=True):
        if count and group.bytes_per_device >= LARGE_ARRAY_BYTES and group.groups == 1:
            sharding = census.shardings[group.sharding]
            if not is_in_host_memory(sharding.memory_kind, is_cpu=host.is_on_cpu):
                yield group, apart(group.name, count), sharding


def of_step(view: HostView) -> Collection[str]:
    """Return the programs that make up the step of a process; else those that were launched lately."""
    rhythm = view.current.pulse.rhythm
    functions = rhythm.functions if rhythm is not None else ()
    return {program_of(each) for each in functions} or launched_lately(view.current)


def step_programs(view: HostView) -> list[wire.Program]:
    names = of_step(view)
    return [program for program in view.host.programs.programs if program.name in names]
