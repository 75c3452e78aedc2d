"""The run as it is today: the arrays on its mesh, the program of its step, and its devices."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jaxtop.features.planning.model.plan import CannotPlan, NeverPlannable, Today
from jaxtop.features.planning.model.times.today_time import devices_per_host, today_time
from jaxtop.features.planning.model.today_arrays import is_mapped, tensors_on
from jaxtop.features.planning.model.today_step import has_inventory, repeats_a_step, step_of
from jaxtop.model.arrays.groups import ArrayView, array_views
from jaxtop.model.hardware.allocators import usable_bytes
from jaxtop.model.host import SIMULATED
from jaxtop.model.hosts import runs
from jaxtop.model.liveness import has_exited

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.arrays.meshes import MeshView
    from jaxtop.model.host import Host
    from jaxtop.model.hosts import Run
    from jaxtop.model.state import ClusterState
    from jaxtop.wire.probing import Probe

# How the shardings of `jax.pmap` begin where it makes no mesh.
_OLD_PMAP = "PmapSharding"


def today(cluster: ClusterState, now: float, run: str | None = None, probe: Probe | None = None) -> Today:
    """Return a run as it is, by its last figures; `run` is its id or its name, the newest if None.

    Raises:
        CannotPlan: There is no such run, or none of its arrays lies on a mesh.
    """
    planned = _run(cluster, now, run)
    views = [view for view in array_views(cluster) if view.run == planned.id]
    if not views:
        raise CannotPlan(
            f"no process of {_name(planned)} has counted its arrays yet; wait for the first census"
        )
    mesh = _mesh(planned, views)
    members = [view.host for view in planned.hosts if _has_devices(view.host, mesh)]
    platform, kind = _device(members)
    tensors = tensors_on(members, views, mesh, is_cpu=platform == "cpu")
    if is_mapped(tensors, mesh):
        raise _refusal(planned, _why_mapped(planned))
    step = step_of(members, len(mesh.device_ids))
    timed = today_time(cluster, now, mesh, step.program, launches_per_step=step.launches, probe=probe)
    unknown = [*timed.unknown]
    if step.program is None:
        unknown.insert(0, "the program of the step: no process reports a compiled program that it launches")
    elif not repeats_a_step(members):
        unknown.append(
            f"no repeating step was found: memory and collectives are those of {step.program.name}, of the"
            " programs that were launched more than once"
        )
    return Today(
        run=planned.id,
        axes=mesh.axes,
        device_ids=mesh.device_ids,
        devices_per_host=devices_per_host([view for view in planned.hosts if view.host in members], mesh),
        platform=platform,
        device_kind=kind,
        tensors=tensors,
        program=step.program,
        launches_per_step=step.launches,
        exchanges=timed.exchanges,
        has_inventory=has_inventory(members, step.program),
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
        name=planned.name,
        before_steps="" if repeats_a_step(members) else _before_steps(planned),
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
    return (NeverPlannable if repeats_a_step(members) else CannotPlan)(why)


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
