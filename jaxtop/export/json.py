"""The cluster as one JSON object, schema version 1. Fields may be added; none is renamed or removed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import __version__
from jaxtop.cluster import arrays, meshes, runs, state_of

if TYPE_CHECKING:
    from jaxtop.cluster import ArrayView, Cluster, Host, MeshView, Run
    from jaxtop.wire import Device, DeviceSample

SCHEMA = 1


def to_json(cluster: Cluster, now: float) -> str:
    """The document as text."""
    return msgspec.json.format(msgspec.json.encode(to_document(cluster, now)), indent=2).decode()


def to_document(cluster: Cluster, now: float) -> dict[str, Any]:
    """The document as plain values."""
    all_runs = runs(cluster)
    all_meshes = meshes(cluster)
    return {
        "schema": SCHEMA,
        "jaxtop": __version__,
        "at": timestamp(now),
        "runs": [{"id": run.id, "name": run.name, "process_count": run.process_count} for run in all_runs],
        "hosts": [_host(run, view.host, view.incarnation, now) for run in all_runs for view in run.hosts],
        "unmet": [
            {"address": unmet.endpoint, "state": unmet.link.state, "text": unmet.link.text}
            for unmet in cluster.unmet.values()
        ],
        "meshes": [_mesh(mesh) for mesh in all_meshes],
        "arrays": [_array(view, all_meshes) for view in arrays(cluster)],
        "programs": [],
        "collectives": [],
        "events": [
            {
                "at": timestamp(event.at),
                "severity": event.severity,
                "kind": event.kind,
                "process_index": cluster.hosts[event.agent].process_index,
                "text": event.text,
            }
            for event in cluster.events
        ],
        "rejected": dict(cluster.rejected),
    }


def timestamp(at: float) -> str:
    """UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _host(run: Run, host: Host, incarnation: int, now: float) -> dict[str, Any]:
    hello, pulse = host.hello, host.pulse
    return {
        "run": run.id,
        "process_index": host.process_index,
        "incarnation": incarnation,
        "hostname": host.hostname,
        "pid": host.pid,
        "state": str(state_of(host, now)),
        "age_s": None if host.heard_at is None else round(max(0.0, now - host.heard_at), 3),
        "sampled_age_s": None if not pulse.sampled_ms else (pulse.at_ms - pulse.sampled_ms) / 1000,
        "jax": hello.jax if hello else None,
        "platform": hello.platform if hello else None,
        "cpu_percent": scaled(pulse.host.process_cpu_permille, 10),
        "rss_bytes": pulse.host.rss_bytes,
        "machine": {
            "cpu_percent": scaled(pulse.host.machine_cpu_permille, 10),
            "memory_used_bytes": pulse.host.memory_used_bytes,
            "memory_total_bytes": pulse.host.memory_total_bytes,
            "load": scaled(pulse.host.load_centi, 100),
            "received_bytes_per_second": pulse.host.received_bytes_per_s,
            "sent_bytes_per_second": pulse.host.sent_bytes_per_s,
        },
        "launches": dict(host.launches),
        "compiling": [
            {"function": each.function, "for_s": (pulse.at_ms - each.since_ms) / 1000}
            for each in pulse.compiling
        ],
        "step": _step(host),
        "sources": dict(hello.sources) if hello else {},
        "agent": {
            "cpu_percent": scaled(pulse.cost.cpu_ppm, 10_000),
            "dropped": pulse.cost.dropped,
            "viewers": pulse.cost.viewers,
        },
        "devices": [
            _device(device, i, pulse.devices, pulse.memory_source)
            for i, device in enumerate(hello.devices if hello else ())
        ],
    }


def _step(host: Host) -> dict[str, Any] | None:
    step = host.pulse.step
    if step is None:
        return None
    return {
        "function": None,
        "index": step.index,
        "count": step.calls,
        "per_second": host.steps.per_second if host.steps else None,
        "p50_ms": None,
        "p99_ms": None,
        "flops_per_second": None,
        "utilization_of_peak": None,
        "metrics": dict(step.metrics),
    }


def _device(device: Device, position: int, sample: DeviceSample, source: str | None) -> dict[str, Any]:
    return {
        "id": device.id,
        "local_id": device.local_id,
        "platform": device.platform,
        "kind": device.kind,
        "coords": device.coords,
        "memory": {
            "used_bytes": figure(sample.used_bytes, position),
            "peak_bytes": figure(sample.peak_bytes, position),
            "limit_bytes": figure(sample.limit_bytes, position),
            "source": source,
        },
        "utilization": scaled(figure(sample.utilization_permille, position), 1000),
        "power_w": scaled(figure(sample.power_mw, position), 1000),
        "temperature_c": figure(sample.temperature_c, position),
    }


def _mesh(mesh: MeshView) -> dict[str, Any]:
    return {
        "run": mesh.run,
        "axes": [{"name": name, "size": size} for name, size in mesh.axes],
        "device_ids": mesh.device_ids,
    }


def _array(view: ArrayView, all_meshes: list[MeshView]) -> dict[str, Any]:
    return {
        "run": view.run,
        "name": view.name,
        "function": view.function,
        "shape": view.shape,
        "dtype": view.dtype,
        "sharding": view.sharding,
        "mesh": all_meshes.index(view.mesh) if view.mesh in all_meshes else None,
        "device_ids": view.device_ids,
        "memory_kind": view.memory_kind,
        "count": view.count,
        "bytes_global": view.bytes_global,
        "bytes_per_device": view.bytes_per_device,
        "replication": view.replication,
    }


def figure(column: tuple[int | None, ...] | None, position: int) -> int | None:
    """One device's entry of a column that may be unknown as a whole."""
    return column[position] if column is not None and position < len(column) else None


def scaled(value: int | None, unit: int) -> float | None:
    """A figure out of its small unit; unknown stays unknown."""
    return None if value is None else value / unit
