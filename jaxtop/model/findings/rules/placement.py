"""Arrays left on one device, and devices of a mesh that hold different amounts."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from math import prod
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.base.units import in_bytes
from jaxtop.model.finding import Evidence, Finding, FindingCost, Proof, Severity, Subject
from jaxtop.model.findings.large_arrays import (
    ALL_SMALL,
    LARGE_ARRAY_BYTES,
    MIN_SAVED_SHARE,
    SAVES_AT_LEAST,
    has_large,
    is_single,
    large,
    on_device,
)
from jaxtop.model.findings.rule import SCARCE, Rule, Unmeasured
from jaxtop.model.findings.sentences import containing, line_of
from jaxtop.model.findings.trends import least, makes_steps
from jaxtop.model.hardware.allocators import usable_bytes
from jaxtop.model.naming.sentences import several
from jaxtop.model.programs.views import launched_lately
from jaxtop.model.tuning import Number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.model.liveness import HostView

UNEVEN_SHARE = Number("share", 0.25, "reported from this share of what the fullest device holds on")
# The samples of which the least one counts: what a program holds while it runs differs between devices.
RECENT = 5


class _WholeArrays(NamedTuple):
    """Large arrays on one device of a process, whose mesh has this many devices."""

    bytes: int
    device_id: int
    groups: list[wire.ArrayGroup]
    mesh: int


def _whole_on_one_device(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for the device that holds most in arrays that no mesh divides."""
    counted = [view for view in facts.reporting if view.host.arrays.counts]
    if not counted:
        raise Unmeasured("no process has counted its arrays yet")
    stepping = [view for view in counted if makes_steps(view)]
    if not stepping:
        raise Unmeasured("no step was found yet, and arrays lie on one device while a run starts")
    if unused := [(view, device) for view in stepping if (device := _only_device(view.host)) is not None]:
        yield _unused_devices_finding(facts, unused)
        return
    if not has_large(stepping):
        raise Unmeasured(ALL_SMALL)
    least = facts.number(SAVES_AT_LEAST)
    wholes = ((whole, view) for view in stepping for whole in _wholes(facts, view))
    found = [each for each in wholes if each[0].bytes >= least]
    if found:
        worst = max(found, key=lambda each: (each[0].bytes, -each[0].device_id))
        yield _whole_array_finding(facts, *worst, len(found))


def _only_device(host: Host) -> int | None:
    """Return the device that has all arrays and launches of a process with several; None if there is none."""
    census, used = host.arrays, set[int]()
    for group, count in zip(census.groups, census.counts, strict=True):
        sharding = census.shardings[group.sharding]
        if count and not is_single(sharding):
            return None
        if count:
            used.add(sharding.device_ids[0][0])
    own, lately = {device.id for device in host.devices}, launched_lately(host)
    ran = (each.local_devices or 1 for each in host.programs.programs if each.name in lately)
    if len(own) < 2 or len(used) != 1 or not used <= own or any(devices > 1 for devices in ran):
        return None
    return used.pop()


def _unused_devices_finding(facts: RunFacts, unused: Sequence[tuple[HostView, int]]) -> Finding:
    """Return a note on devices that nothing uses; its subject is the first process that has some."""
    view, used = unused[0]
    idle = sum(len(each.host.devices) - 1 for each, _ in unused)
    total = sum(len(each.host.devices) for each, _ in unused)
    if len(unused) == 1:
        text = f"all arrays and launches of {facts.named([view.host])} are on device {used}: "
    else:
        text = f"all arrays and launches of each of {len(unused)} {several(each.host for each, _ in unused)} "
        text += "are on one device: "
    return Finding(
        Severity.INFO,
        0.9,
        f"{text}{idle} of {total} devices are unused",
        Subject.of(view.host, device_id=used),
        about="unused",
        evidence=(
            Evidence("unused devices", idle, source="shardings", at=facts.read_time()),
            Evidence("devices", total, source="agents", at=facts.read_time()),
        ),
        proof=Proof("devices", row=view.host.agent),
        advice="Divide the batch over a mesh: jax.make_mesh, and jax.device_put with a NamedSharding. If one "
        "device is enough, leave the others to other runs (CUDA_VISIBLE_DEVICES).",
    )


def _wholes(facts: RunFacts, view: HostView) -> list[_WholeArrays]:
    host, cluster = view.host, facts.cluster
    inputs = host.hello, host.arrays
    return cluster.derived.of(
        "arrays on one device", host.agent, cluster.hosts, inputs, lambda: list(_found(host))
    )


def _found(host: Host) -> Iterator[_WholeArrays]:
    mesh = _mesh_size(host.arrays)
    groups: dict[int, list[wire.ArrayGroup]] = defaultdict(list)
    held: Counter[int] = Counter()
    own = {device.id for device in host.devices}
    if mesh:
        for group, count, sharding in large(host):
            device_id = sharding.device_ids[0][0] if is_single(sharding) else -1
            if device_id in own and group.role != "batch":
                held[device_id] += group.bytes_per_device * count
                groups[device_id].append(group)
    least = MIN_SAVED_SHARE * on_device(host.arrays) if held else 0
    for device_id, size in held.items():
        if size >= least:
            yield _WholeArrays(size, device_id, groups[device_id], mesh)


def _mesh_size(census: wire.Arrays) -> int:
    """Return the number of devices of the largest mesh with large arrays; 0 if none has several devices."""
    places = {
        census.shardings[group.sharding].mesh
        for group, count in zip(census.groups, census.counts, strict=True)
        if count and group.bytes_per_device >= LARGE_ARRAY_BYTES
    }
    sizes = [prod(size for _, size in census.meshes[place].axes) for place in places if place is not None]
    most = max(sizes, default=0)
    return most if most > 1 else 0


def _whole_array_finding(facts: RunFacts, whole: _WholeArrays, view: HostView, devices: int) -> Finding:
    largest = max(whole.groups, key=lambda group: group.bytes_per_device)
    line, more = line_of(largest.created), len(whole.groups) - 1
    name = largest.name or f"an array made at {line or 'an unknown line'}"
    name += f" and {more} more" if more else ""
    others = f"; so do {devices - 1} other devices" if devices > 1 else ""
    asked = containing("name", largest.name) if largest.name else containing("created", line)
    return Finding(
        Severity.WARNING if facts.is_memory_scarce else Severity.INFO,
        0.8,
        f"only device {whole.device_id} holds {name} ({in_bytes(whole.bytes)}), although the mesh has "
        f"{whole.mesh} devices{others}",
        Subject.of(view.host, device_id=whole.device_id, array=largest.name or "", source=line),
        cost=FindingCost(bytes_per_device=round(whole.bytes * (1 - 1 / whole.mesh))),
        evidence=(
            Evidence("bytes on the device", whole.bytes, "bytes", "arrays", facts.read_time()),
            Evidence("devices of the mesh", whole.mesh, source="shardings", at=facts.read_time()),
        ),
        proof=Proof("arrays", f"{asked} & devices=1", largest.name or ""),
    )


def _uneven(facts: RunFacts) -> Iterator[Finding]:
    """Yield one finding for the mesh of which one device holds far more than most."""
    lately = [(view, _lately(facts, view)) for view in facts.reporting if view.host.hello]
    every = [used for _, of_host in lately for used in of_host if used is not None]
    if not every:
        raise Unmeasured("no device reports its memory")
    meshes = {id(mesh): mesh for view in facts.reporting for mesh in view.host.arrays.meshes}
    if not any(sum(count for _, count in mesh.device_ids) > 1 for mesh in meshes.values()):
        raise Unmeasured("no mesh of several devices is in use")
    least_bytes, share = (facts.number(each) for each in (SAVES_AT_LEAST, UNEVEN_SHARE))
    if max(every) - min(every) < max(least_bytes, share * min(every)):
        return
    held = {
        device.id: used
        for view, of_host in lately
        for device, used in zip(view.host.devices, of_host, strict=False)
        if used is not None
    }
    found = []
    for mesh in meshes.values():
        members = [device_id for device_id in wire.unpack_ids(mesh.device_ids) if device_id in held]
        if len(members) > 1:
            fullest = max(members, key=held.__getitem__)
            found.append((held[fullest] - median(map(held.__getitem__, members)), fullest, len(members)))
    beyond, fullest, count = max(found, default=(0, 0, 0))
    if found and beyond >= max(least_bytes, share * held[fullest]):
        yield _uneven_finding(facts, fullest, held[fullest], beyond, count)


def _lately(facts: RunFacts, view: HostView) -> list[int | None]:
    """Return the least that each device of a process held in its last samples."""
    return least(islice(reversed(facts.cluster.past_pulses.get(view.host.agent, ())), RECENT))


def _uneven_finding(facts: RunFacts, device_id: int, held: int, beyond: float, count: int) -> Finding:
    view, position = next(
        (view, i)
        for view in facts.reporting
        for i, device in enumerate(view.host.devices)
        if device.id == device_id
    )
    pulse, host = view.current.pulse, view.host
    limit, source = usable_bytes(pulse.devices, position), pulse.memory_source or ""
    return Finding(
        Severity.WARNING if limit and held >= SCARCE * limit else Severity.INFO,
        0.8,
        f"device {device_id} holds {in_bytes(held)}, {in_bytes(beyond)} more than the median of the "
        f"{count} devices of its mesh",
        Subject.of(host, device_id=device_id),
        cost=FindingCost(bytes_per_device=round(beyond)),
        evidence=(
            Evidence("held by the fullest device", held, "bytes", source, facts.read_time()),
            Evidence("median of the mesh", held - beyond, "bytes", source, facts.read_time()),
            Evidence("limit", limit, "bytes", host.limit_source, facts.read_time()),
        ),
        proof=Proof("memory", row=str(device_id)),
    )


RULES = (
    Rule(
        name="whole_on_one_device",
        title="On one device only",
        threshold="arrays of at least 1 MiB lie on a single device for 10 s while a mesh is in use",
        details=(
            "Together they are at least 8 MiB and 5 % of the arrays of the device; batches are not counted.",
            (
                "A warning where a device is 85 % full; a note where a process with several devices "
                "has all its arrays and launches on one."
            ),
        ),
        rationale="One device holds what all could share, and each use on the mesh copies it there first.",
        source="shardings of the live arrays",
        advice="Place it with jax.device_put(x, NamedSharding(mesh, spec)), create it under jax.jit with "
        "out_shardings, or keep it as a NumPy array if only the host needs it.",
        check=_whole_on_one_device,
        holds_for=10.0,
        stays_for=20.0,
        explains=("uneven_memory",),
        numbers=(SAVES_AT_LEAST,),
    ),
    Rule(
        name="uneven_memory",
        title="Uneven memory",
        threshold="the fullest device of a mesh holds 25 % of its memory in use and 8 MiB more than the "
        "median, by the least of its last samples, for 10 s; a warning where it is 85 % full",
        rationale="The fullest device decides what fits on all.",
        source="the allocator's bytes in use; without one, the live arrays of each device",
        advice="Compare the parts of its memory with another device's (Memory): arrays on it alone, or "
        "dimensions that do not divide evenly.",
        check=_uneven,
        holds_for=10.0,
        stays_for=20.0,
        numbers=(UNEVEN_SHARE, SAVES_AT_LEAST),
    ),
)
