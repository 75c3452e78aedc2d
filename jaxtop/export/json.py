"""The cluster as one JSON object, schema version 1. Fields may be added; none is renamed or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import __version__
from jaxtop.base.feature import hooks
from jaxtop.base.times import timestamp
from jaxtop.export import collectives as collectives_export
from jaxtop.export import compiles as compiles_export
from jaxtop.export import findings as findings_export
from jaxtop.export import peaks
from jaxtop.export import stacks as stacks_export
from jaxtop.export import steps as steps_export
from jaxtop.export.check import Checkup, as_role, rules_document
from jaxtop.export.readings import (
    OF_DEVICES,
    device_values,
    fields,
    host_values,
    percent,
    readings,
    slowed,
)
from jaxtop.model import (
    EMPTY_HOST,
    Part,
    array_views,
    at_peaks,
    family_groups,
    family_of,
    mesh_views,
    program_views,
    runs,
    scaled,
)
from jaxtop.model.collectives import axis_traffic, collective_views, doubts_about, last_arrivals, step_shares
from jaxtop.model.holders import growths, minutes_until_full
from jaxtop.model.stalls.lulls import running_of
from jaxtop.model.wall_time.step_parts import parts_of_hosts
from jaxtop.model.wall_time.time_spent import goodput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jaxtop.export.readings import HostReading
    from jaxtop.model import ArrayView, Cluster, DevicePeak, HostView, MemoryView, MeshView, ProgramView
    from jaxtop.model.collectives import StepShare
    from jaxtop.model.shares import Parts
    from jaxtop.store.probe_figures import Probe

SCHEMA = 1


def to_json(cluster: Cluster, now: float, probe: Probe | None = None) -> str:
    return msgspec.json.format(msgspec.json.encode(to_document(cluster, now, probe)), indent=2).decode()


def to_document(cluster: Cluster, now: float, probe: Probe | None = None) -> dict[str, Any]:
    """Return the cluster; the bounds of operations rest on the probe's rates, else on published ones."""
    all_meshes = mesh_views(cluster)
    all_collectives = collective_views(cluster, now)
    shares = {(each.run, each.program, each.fingerprint): each for each in step_shares(cluster)}
    lateness = ("last", "instances", "late_us")
    of_agents = parts_of_hosts(cluster, now)
    more = [fields_of(cluster, now, probe) for fields_of in hooks("program_fields")]
    checkup = Checkup.of(cluster, now)
    late = {each.agent: fields(each, lateness) for each in last_arrivals(cluster)}
    return {
        "schema": SCHEMA,
        "jaxtop": __version__,
        "at": timestamp(now),
        "runs": [
            {
                **fields(run, ("id", "name", "process_count")),
                "family": family_of(run),
                "role": as_role(checkup.roles.get(run.id)),
                "goodput": goodput(view.host for view in run.hosts),
                "step": steps_export.step_of_run(cluster, now, run.id),
            }
            for run in runs(cluster, now)
        ],
        "groups": [
            {"family": each.family, "role": as_role(each.role), "runs": [run.id for run in each.runs]}
            for each in family_groups(cluster, now)
        ],
        "verdict": checkup.verdict,
        "findings": [findings_export.as_value(each, now) for each in checkup.findings],
        **rules_document(checkup),
        "hosts": [
            {**_host(cluster, each, now, of_agents), "late": late.get(each.view.host.agent)}
            for each in readings(cluster, now)
        ],
        "unmet": [
            {"address": unmet.endpoint, "state": unmet.link.state, "text": unmet.why}
            for unmet in cluster.unmet.values()
        ],
        "meshes": [_mesh(mesh) for mesh in all_meshes],
        "arrays": [_array(view, all_meshes) for view in array_views(cluster)],
        "programs": [_program(view, cluster, shares, more) for view in program_views(cluster, now)],
        "compiles": compiles_export.latest(cluster, now),
        "compile_lines": compiles_export.lines(cluster, now),
        "collectives": [collectives_export.as_value(view) for view in all_collectives],
        "axes": [collectives_export.axes_as_value(each) for each in axis_traffic(all_collectives)],
        "windows": collectives_export.doubts_as_value(doubts_about(cluster)),
        "events": [
            {
                "at": timestamp(event.at),
                **fields(event, ("severity", "kind")),
                "process_index": _process_of(cluster, event.agent),
                "text": event.text,
            }
            for event in cluster.events
        ],
        "rejected": dict(cluster.rejected),
        "dropped_processes": cluster.dropped.count,
    }


def _process_of(cluster: Cluster, agent: str) -> int | None:
    place = cluster.dropped.agents.get(agent)
    return cluster.hosts.get(agent, EMPTY_HOST).process_index if place is None else place.process_index


def _host(cluster: Cluster, each: HostReading, now: float, of_agents: Mapping[str, Parts]) -> dict[str, Any]:
    # An exited process keeps its counts and names.
    view = each.view
    host, last = view.current, view.host
    hello, pulse, figures = host.hello, host.pulse, host_values(host)
    is_measured = figures["cores"] is not None
    running = running_of(host)
    its_peaks = at_peaks(cluster, last)
    return {
        "run": each.run,
        "process_index": host.process_index,
        "incarnation": view.incarnation,
        "hostname": host.hostname,
        "pid": host.pid,
        "state": str(view.state),
        "age_s": None if host.heard_at is None else round(max(0.0, now - host.heard_at), 3),
        "sampled_age_s": None if not pulse.sampled_ms else (pulse.at_ms - pulse.sampled_ms) / 1000,
        "counted_age_s": None if not pulse.counted_ms else (pulse.at_ms - pulse.counted_ms) / 1000,
        "jax": hello.jax if hello else None,
        "platform": hello.platform if hello else None,
        # The older names of figures of the machine.
        "cpu_percent": percent(figures["process_cpu_cores"]),
        "rss_bytes": figures["rss_bytes"],
        "machine": {
            "cpu_percent": percent(figures["machine_cpu"]),
            "memory_total_bytes": figures["memory_total_bytes"],
            **figures,
            "is_container": pulse.host.is_container if is_measured else None,
        },
        "memory_growth": _memory_growth(cluster, view),
        "busy_threads": [
            {"name": one.name, "cpu_percent": scaled(one.cpu_permille, 10), "is_python": one.is_python}
            for one in pulse.host.busy_threads
        ]
        if is_measured
        else None,
        "launches": dict(last.launches),
        "compiling": [
            {"function": one.function, "for_s": (pulse.at_ms - one.since_ms) / 1000}
            for one in pulse.compiling
        ],
        "running": running and {"function": running.function, "for_s": running.seconds},
        "step": steps_export.step_of_process(view, of_agents.get(last.agent)),
        "scalars": [steps_export.scalar_as_value(each) for each in last.scalars.scalars],
        "served": dict(pulse.served),
        "ledger": steps_export.ledger_as_value(last),
        "input_queue": steps_export.input_queue_as_value(view.current),
        "stacks": stacks_export.as_value(last),
        "sources": dict(hello.sources) if hello else {},
        "agent": {
            "cpu_percent": scaled(pulse.cost.cpu_ppm, 10_000),
            "dropped": None if last.pulse_at is None else last.pulse.cost.dropped,
            "viewers": None if host.pulse_at is None else pulse.cost.viewers,
        },
        "devices": [
            {
                **_device(held, peaks.peak_of(its_peaks, held)),
                "uuid": hello.devices[held.device.position].uuid if hello else None,
                "wait_us": each.waits_us.get(held.device.id),
            }
            for held in each.devices
        ],
        "at_peaks": peaks.of_arrays(its_peaks, each.devices),
    }


def _memory_growth(cluster: Cluster, view: HostView) -> dict[str, Any] | None:
    """Return how each figure of memory grows, and when the machine is full at this rate; None if unknown."""
    found = growths(cluster, view)
    if not found:
        return None
    rates = (found[name].per_minute for name in ("rss_anonymous_bytes", "memory_used_bytes") if name in found)
    return {
        "bytes_per_minute": {name: round(each.per_minute) for name, each in found.items()},
        "bytes_per_step": {name: _whole(each.per_step) for name, each in found.items()},
        "minutes_until_full": minutes_until_full(view.current.pulse.host, rates),
    }


_OF_ARRAY = ("run", "name", "function", "role", "created", "groups", "shape", "dtype", "sharding")
_OF_ARRAY_ON_DEVICES = (
    "device_ids", "memory_kind", "count", "bytes_global", "bytes_per_device", "replication",
)  # fmt: skip
_OF_PROGRAM = ("accessed_bytes", "argument_bytes", "output_bytes", "alias_bytes", "temp_bytes", "code_bytes")
# The figures that stand in a device itself; the others stand in its memory only.
_OF_DEVICE = tuple(each.name for each in OF_DEVICES if not each.json)


def _device(view: MemoryView, at_peak: DevicePeak | None) -> dict[str, Any]:
    device, reasons = view.device, slowed(view.device)
    figures = device_values(device)
    return {
        **fields(device, ("id", "local_id", "platform", "kind", "coords")),
        "memory": {
            **fields(device, ("used_bytes", "peak_bytes", "limit_bytes", "limit_source")),
            "source": device.memory_source,
            "largest_free_bytes": view.largest_free_bytes,
            "parts": {part.replace(" ", "_"): view.bytes_of(part) for part in Part},
            "at_peak": peaks.of_device(at_peak),
        },
        **{name: figures[name] for name in _OF_DEVICE},
        "slowed": [why for why, holds in reasons.items() if holds] if reasons else None,
    }


def _mesh(mesh: MeshView) -> dict[str, Any]:
    return {
        "run": mesh.run,
        "axes": [{"name": name, "size": size} for name, size in mesh.axes],
        "device_ids": mesh.device_ids,
    }


def _array(view: ArrayView, all_meshes: list[MeshView]) -> dict[str, Any]:
    mesh = all_meshes.index(view.mesh) if view.mesh in all_meshes else None
    return {**fields(view, _OF_ARRAY), "mesh": mesh, **fields(view, _OF_ARRAY_ON_DEVICES)}


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _program(
    view: ProgramView,
    cluster: Cluster,
    shares: Mapping[tuple[str, str, str | None], StepShare],
    more: Sequence[Callable[[tuple[str, str, str | None]], dict[str, Any]]],
) -> dict[str, Any]:
    program = view.program
    key = view.run, program.name, program.fingerprint
    share = shares.get(key)
    inventories = (
        cluster.hosts[agent].inventories.get((program.name, program.fingerprint)) for agent in view.agents
    )
    inventory = next((each for each in inventories if each is not None and not each.why_not), None)
    return {
        "run": view.run,
        "name": program.name,
        "function": view.function,
        "fingerprint": program.fingerprint,
        "flops": program.flops,
        "flops_at_least": None if program.flops is None else program.flops_at_least,
        **fields(program, _OF_PROGRAM),
        **fields(view, ("headroom_bytes", "launches", "launches_per_second")),
        "function_launches": view.function_launches,
        "function_launches_per_second": view.function_per_second,
        "launch_p50_us": _whole(view.p50_us),
        "launch_p99_us": _whole(view.p99_us),
        "launches_in_windows": sum(view.lasted.values()),
        **fields(view, ("variants", "compiles", "compile_ms")),
        "recompiling": view.is_recompiling,
        "created": program.created,
        "devices": program.devices,
        "hosts": [cluster.hosts[agent].process_index for agent in view.agents],
        "differs": [cluster.hosts[agent].process_index for agent in view.differs],
        "collectives": None if inventory is None else len(inventory.collectives) + inventory.rest,
        "unread_collectives": None if inventory is None else inventory.unread,
        "measured_launches": 0 if share is None else share.launches,
        "collective_share": None if share is None else share.share,
        "exposed_share": None if share is None else share.exposed_share,
        **{name: value for fields_of in more for name, value in fields_of(key).items()},
        "peak": view.peak and peaks.as_value(view.peak),
    }
