"""The run as it is today: the arrays on its mesh, the program of its step, and its devices."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.features.planning.messages import trimmed
from jaxtop.features.planning.model.plan import CannotPlan, NeverPlannable, Tensor, Today
from jaxtop.features.planning.model.roles import BATCH, axes_in, without
from jaxtop.features.planning.model.times.today_time import devices_per_host, today_time
from jaxtop.model.arrays.groups import ArrayView, apart, array_views, is_in_host_memory, slices
from jaxtop.model.arrays.meshes import mesh_view
from jaxtop.model.arrays.tree import path_parts as steps_of_name
from jaxtop.model.hardware.allocators import usable_bytes
from jaxtop.model.host import SIMULATED
from jaxtop.model.hosts import runs
from jaxtop.model.liveness import has_exited
from jaxtop.model.programs.rates import launch_rates_of, program_of
from jaxtop.model.programs.views import launched_lately

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop import wire
    from jaxtop.features.planning.model.plan import Parts
    from jaxtop.model.arrays.groups import Span
    from jaxtop.model.arrays.meshes import MeshView
    from jaxtop.model.host import Host
    from jaxtop.model.hosts import Run
    from jaxtop.model.state import ClusterState
    from jaxtop.wire.probing import Probe

# A step launches its program a whole number of times, if the measured number is so near to it.
NEARLY_WHOLE = 0.15
# How the shardings of `jax.pmap` begin where it makes no mesh.
_OLD_PMAP = "PmapSharding"


def today(cluster: ClusterState, now: float, run: str | None = None, probe: Probe | None = None) -> Today:
    """Return a run as it is, by its last figures; `run` is its id or its name, the newest if None.

    Raises:
        CannotPlan: There is no such run, or none of its arrays lies on a mesh.
    """
    found = _run(cluster, now, run)
    views = [view for view in array_views(cluster) if view.run == found.id]
    if not views:
        raise CannotPlan(
            f"no process of {_name(found)} has counted its arrays yet; wait for the first census"
        )
    mesh = _mesh(found, views)
    members = [view.host for view in found.hosts if _has_devices(view.host, mesh)]
    platform, kind = _device(members)
    tensors = _tensors(members, views, mesh, is_cpu=platform == "cpu")
    if _is_mapped(tensors, mesh):
        raise _refusal(found, _why_mapped(found))
    step = _program(members, len(mesh.device_ids))
    timed = today_time(cluster, now, mesh, step.program, launches_per_step=step.launches, probe=probe)
    unknown = [*timed.unknown]
    if step.program is None:
        unknown.insert(0, "the program of the step: no process reports a compiled program that it launches")
    elif not _repeats(members):
        unknown.append(
            f"no repeating step was found: memory and collectives are those of {step.program.name}, of the"
            " programs that were launched more than once"
        )
    return Today(
        run=found.id,
        axes=mesh.axes,
        device_ids=mesh.device_ids,
        devices_per_host=devices_per_host([view for view in found.hosts if view.host in members], mesh),
        platform=platform,
        device_kind=kind,
        tensors=tensors,
        program=step.program,
        launches_per_step=step.launches,
        exchanges=timed.exchanges,
        has_inventory=_has_inventory(members, step.program),
        step=timed.step,
        limit_bytes=_limit(members, mesh),
        is_limit_simulated=any(host.limit_source == SIMULATED for host in members),
        flops_per_s=timed.flops_per_s,
        memory_bytes_per_s=timed.memory_bytes_per_s,
        balance=timed.balance,
        watts_per_device=timed.watts_per_device,
        links=timed.links,
        shared_cores=timed.shared_cores,
        peak=step.peak,
        unknown=tuple(unknown),
        name=found.name,
        before_steps="" if _repeats(members) else _before_steps(found),
    )


def plannable(cluster: ClusterState, now: float) -> list[Run]:
    """Return the runs that have counted their arrays, the newest first; all if none has."""
    listed = sorted(runs(cluster, now), key=_began, reverse=True)
    return [run for run in listed if any(view.host.arrays.counts for view in run.hosts)] or listed


def _began(run: Run) -> int:
    return min((view.host.hello.started_ms for view in run.hosts if view.host.hello), default=0)


def _run(cluster: ClusterState, now: float, wanted: str | None) -> Run:
    """Return the run of this id or name; of several, the newest that has counted its arrays, if any has."""
    listed = [*plannable(cluster, now), *runs(cluster, now)]
    found = [run for run in listed if wanted in (None, run.id, run.name)]
    if not found:
        names = ", ".join(dict.fromkeys(map(_name, listed)))
        raise CannotPlan(f"there is no run {wanted}; there is {names}" if listed else "there is no run")
    return found[0]


def _name(run: Run) -> str:
    return run.name or run.id


def _refusal(run: Run, why: str) -> CannotPlan:
    """Return why a run cannot be planned; before its first steps its arrays may be others than later."""
    members = [view.host for view in run.hosts]
    if not any(count > 1 for host in members for count in host.launches.values()):
        return CannotPlan(f"{_before_steps(run)}; plan it after its first steps")
    return (NeverPlannable if _repeats(members) else CannotPlan)(why)


def _repeats(members: Iterable[Host]) -> bool:
    """Return whether a process has found the step that the run repeats."""
    return any(host.pulse.rhythm is not None for host in members)


def _before_steps(run: Run) -> str:
    """Return what a run does that has not repeated a step yet."""
    lasts = [view.host for view in run.hosts]
    compiling = [
        (max(0, last.pulse.at_ms - each.since_ms) / 1000, each.function)
        for last in lasts
        if not has_exited(last)
        for each in last.pulse.compiling
    ]
    has_run = any(last.launches for last in lasts)
    found = f"{_name(run)} has {'repeated no step' if has_run else 'run nothing'} yet"
    if not compiling:
        return found
    seconds, function = max(compiling)
    return f"{found}: it has been compiling {function} for {seconds:.0f} s"


def _why_mapped(run: Run) -> str:
    return (
        f"each array of {_name(run)} has a row for each device, as jax.pmap makes them: on another mesh they "
        "would be other arrays; plan a run that uses jax.jit over a mesh"
    )


def _mesh(run: Run, views: Sequence[ArrayView]) -> MeshView:
    """Return the mesh that holds most bytes of named arrays."""
    held: Counter[MeshView] = Counter()
    for view in views:
        if view.mesh is not None and view.name is not None:
            held[view.mesh] += max(1, view.held_bytes)
    if not held:
        if any(view.name is not None and view.sharding.startswith(_OLD_PMAP) for view in views):
            raise _refusal(run, _why_mapped(run))
        why = f"no named array of {_name(run)} lies on a mesh; place its state with a NamedSharding"
        raise _refusal(run, why)
    return max(held, key=lambda mesh: (held[mesh], len(mesh.device_ids)))


def _has_devices(host: Host, mesh: MeshView) -> bool:
    return host.hello is not None and any(device.id in mesh.positions for device in host.hello.devices)


def _device(members: Iterable[Host]) -> tuple[str, str]:
    """Return the platform and the kind of the devices."""
    for host in members:
        for device in host.hello.devices if host.hello else ():
            return device.platform, device.kind
    return "unknown", "unknown"


def _limit(members: Iterable[Host], mesh: MeshView) -> int | None:
    """Return what the allocator of a device can provide at most, on the device where that is least."""
    found = []
    for host in members:
        sample = host.pulse.devices
        for i, device in enumerate(host.hello.devices if host.hello else ()):
            if device.id in mesh.positions and (usable := usable_bytes(sample, i)) is not None:
                found.append(usable)
    return min(found, default=None)


# Arrays


def _tensors(
    members: Iterable[Host], views: Sequence[ArrayView], mesh: MeshView, *, is_cpu: bool
) -> tuple[Tensor, ...]:
    """Return the arrays of a run, with axes of size 1 that they had before the first step.

    JAX leaves such axes out of the shardings that the compiler chooses for results, and where it has a choice
    the compiler may divide an array by such an axis that the script does not. So they are hidden, but for
    arrays that a line made of which other arrays of the same variable name some.
    """
    found = [_tensor(view, mesh, is_cpu=is_cpu) for view in views]
    unused = tuple(axis for axis, size in mesh.axes if size == 1)
    if not unused:
        return tuple(found)
    made = [each.name and (steps_of_name(each.name)[0], each.created) for each in views]
    named = {
        key
        for key, each in zip(made, found, strict=True)
        if any(axis in unused for axis in axes_in(each.parts))
    }
    before = _before(members, mesh)
    shown = [_shown(each, before, unused) for each in found]
    return tuple(
        replace(each, parts=parts, hidden=() if parts is None or key in named else unused)
        if key and each.role != BATCH
        else each
        for each, key, parts in zip(found, made, shown, strict=True)
    )


def _before(members: Iterable[Host], mesh: MeshView) -> dict[tuple[object, ...], set[Parts]]:
    """Return the shardings on this mesh that the arrays of a name, shape and type have, or had before."""
    found: dict[tuple[object, ...], set[Parts]] = {}
    for host in members:
        census = host.arrays
        for group in census.groups:
            sharding = census.shardings[group.sharding]
            if group.name is None or sharding.mesh is None or sharding.parts is None:
                continue
            if mesh_view(mesh.run, census.meshes[sharding.mesh]) == mesh:
                found.setdefault((group.name, group.shape, group.dtype), set()).add(sharding.parts)
    return found


def _shown(
    tensor: Tensor, before: dict[tuple[object, ...], set[Parts]], unused: Sequence[str]
) -> Parts | None:
    """Return the sharding of an array, with the axes of size 1 of an earlier one that else is the same."""
    parts = tensor.parts
    if parts is None or tensor.groups > 1:
        return parts
    used = trimmed(without(parts, unused))
    alike = [
        each
        for each in before.get((tensor.name, tensor.shape, tensor.dtype), ())
        if trimmed(without(each, unused)) == used
    ]
    return max([parts, *alike], key=lambda each: (sum(map(len, each)), each == parts, each))


def _tensor(view: ArrayView, mesh: MeshView, *, is_cpu: bool) -> Tensor:
    is_summary = view.groups > 1  # its bytes are those of all its arrays
    of_all = 1 if is_summary else max(1, view.count)
    return Tensor(
        name=view.name,
        role=view.role,
        shape=view.shape,
        dtype=view.dtype,
        parts=_parts_on(mesh, view),
        bytes_global=view.bytes_global // of_all,
        bytes_per_device=view.bytes_per_device // of_all,
        count=1 if is_summary else apart(view.name, view.count),
        device_ids=view.device_ids,
        groups=view.groups,
        is_on_host=is_in_host_memory(view.memory_kind, is_cpu=is_cpu),
    )


def _parts_on(mesh: MeshView, view: ArrayView) -> Parts | None:
    """Return the sharding of an array in axes of this mesh, also if it names others; None if it has none."""
    if view.mesh == mesh:
        return view.parts
    if frozenset(view.device_ids) != mesh.positions.keys():
        return None
    if view.groups > 1:
        return () if view.parts is not None and not any(view.parts) else None
    spans = slices(view)
    if spans is None:
        return None
    found = []
    taken: set[str] = set()
    for dimension in range(len(view.shape)):
        axes = _dividing(mesh, {device: span[dimension] for device, span in spans.items()})
        if axes is None or not taken.isdisjoint(axes):
            return None
        taken.update(axes)
        found.append(axes)
    return tuple(found)


def _is_mapped(tensors: Iterable[Tensor], mesh: MeshView) -> bool:
    """Return whether all arrays on the mesh have one row for each of its devices."""
    axes = [(name, size) for name, size in mesh.axes if size > 1]
    on_mesh = [each for each in tensors if each.name is not None and each.parts is not None and each.shape]
    rows = [(each.shape[0], (each.parts or ((),))[0]) for each in on_mesh]
    return len(axes) == 1 and bool(rows) and all(row == (axes[0][1], (axes[0][0],)) for row in rows)


def _dividing(mesh: MeshView, spans: dict[int, Span]) -> tuple[str, ...] | None:
    """Return the axes that divide a dimension in this way, the slowest first; None if none do."""
    place_of = {span: i for i, span in enumerate(sorted(set(spans.values())))}
    index = [place_of[spans[device]] for device in mesh.device_ids]
    strides: dict[str, int] = {}
    stride = len(mesh.device_ids)
    for name, size in mesh.axes:
        stride //= size
        if size > 1 and index[stride] != index[0]:
            strides[name] = index[stride] - index[0]
    ordered = sorted(strides, key=lambda name: -strides[name])
    sizes = dict(mesh.axes)
    expected = [0] * len(index)
    for place, at in enumerate(product(*(range(size) for _, size in mesh.axes))):
        coordinates = dict(zip(sizes, at, strict=True))
        for name in ordered:
            expected[place] = expected[place] * sizes[name] + coordinates[name]
    return tuple(ordered) if index == expected and len(place_of) == prod(sizes[n] for n in ordered) else None


# The program of the step


class _Step(NamedTuple):
    """The program that a step mainly consists of, how often a step launches it, and its peak."""

    program: wire.Program | None = None
    launches: float = 1.0
    peak: wire.Peak | None = None


def _program(members: Iterable[Host], devices: int) -> _Step:
    """Return the program on all of the mesh in which the devices spend most of a step.

    Where no window has shown how long launches take, it is the one that needs most memory.
    """
    best: tuple[tuple[bool, float, int], wire.Program, Host] | None = None
    members = list(members)
    repeats = _repeats(members)
    for host in members:
        names = _of_step(host) if not repeats or host.pulse.rhythm is not None else set[str]()
        measured = launch_rates_of(host)
        for program in host.programs.programs:
            is_on_mesh = program.devices in (None, devices)
            if program.name not in names or not (is_on_mesh or repeats):
                continue  # before the first steps, only operations on single devices may have been launched
            launched = host.launched.get(program.name)
            times = None if launched is None else launched.times.get(program.fingerprint)
            seconds = times.seconds if times is not None and times.number else 0.0
            rate = measured.of(program.name, program.fingerprint)
            busy = seconds * (rate if rate is not None else 0.0)
            needs = (program.argument_bytes or 0) + (program.temp_bytes or 0)
            rank = is_on_mesh, busy, needs
            if best is None or rank > best[0]:
                best = rank, program, host
    if best is None:
        return _Step()
    _, program, host = best
    return _Step(
        program, _launches_per_step(host, program), host.peaks.get((program.name, program.fingerprint))
    )


def _has_inventory(members: Iterable[Host], program: wire.Program | None) -> bool:
    key = None if program is None else (program.name, program.fingerprint)
    return any(key in host.inventories for host in members)


def _of_step(host: Host) -> set[str]:
    """Return the names of the programs of a step; else of those launched lately, or of all that were.

    A program that was launched once, such as one that makes the parameters, is no step's.
    """
    rhythm = host.pulse.rhythm
    if rhythm is not None and rhythm.functions:
        return {program_of(each) for each in rhythm.functions}
    again = {program_of(each) for each, count in host.launches.items() if count > 1}
    return again & launched_lately(host) or again


def _launches_per_step(host: Host, program: wire.Program) -> float:
    rhythm = host.pulse.rhythm
    if rhythm is None:
        return 1.0
    rate = launch_rates_of(host).of(program.name, program.fingerprint)
    if rate and rhythm.milli_per_s:
        found = rate * 1000 / rhythm.milli_per_s
        whole = max(1, round(found))
        return float(whole) if abs(found - whole) <= NEARLY_WHOLE * whole else found
    return float(max(1, sum(program_of(each) == program.name for each in rhythm.functions)))
