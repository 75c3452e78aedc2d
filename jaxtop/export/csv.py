"""The devices of the cluster as CSV, one line per device; an unknown figure is an empty field."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from jaxtop.base.names import legible
from jaxtop.export.readings import OF_DEVICES, OF_HOSTS, device_values, host_values, percent, readings, slowed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.export.readings import HostReading
    from jaxtop.model import Cluster, MemoryView

# The columns that come before those of the table of figures.
_FIRST = (
    "run", "process_index", "hostname", "pid", "state", "device_id", "local_id", "platform", "kind",
    "used_bytes", "peak_bytes", "limit_bytes", "memory_source", "utilization", "power_w", "temperature_c",
    "host_cpu_percent", "host_rss_bytes", "launches", "largest_free_bytes", "wait_us", "uuid",
)  # fmt: skip
_OF_DEVICE = ("local_id", "platform", "kind", "limit_bytes", "memory_source")
COLUMNS = tuple(
    dict.fromkeys(
        (
            *_FIRST,
            *(each.name for each in OF_DEVICES),
            "slowed",
            *(f"host_{each.name}" for each in OF_HOSTS),
            "host_is_container",
            "host_busy_threads",
        )
    )
)


def to_csv(cluster: Cluster, now: float) -> str:
    """Return the table; a host without known devices has one line with empty device fields."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for each in readings(cluster, now):
        host = _host(each)
        for view in each.devices or (None,):
            row = host if view is None else {**host, **_device(each, view)}
            table.writerow([cell(row.get(column)) for column in COLUMNS])
    return out.getvalue()


def _host(each: HostReading) -> dict[str, object]:
    host, last = each.view.current, each.view.host
    figures, machine = host_values(host), host.pulse.host
    return {
        "run": each.run,
        "process_index": last.process_index,
        "hostname": last.hostname,
        "pid": last.pid,
        "state": str(each.view.state),
        "host_cpu_percent": percent(figures["process_cpu_cores"]),
        "launches": sum(last.launches.values()) if last.launches else None,
        **{f"host_{name}": value for name, value in figures.items()},
        "host_is_container": None if figures["cores"] is None else machine.is_container,
        "host_busy_threads": _words(thread.name for thread in machine.busy_threads),
    }


def _device(each: HostReading, view: MemoryView) -> dict[str, object]:
    device, hello = view.device, each.view.host.hello
    return {
        **device_values(device),
        "device_id": device.id,
        **{name: getattr(device, name) for name in _OF_DEVICE},
        "largest_free_bytes": view.largest_free_bytes,
        "wait_us": each.waits_us.get(device.id),
        "uuid": hello.devices[device.position].uuid if hello else None,
        "slowed": _words(why for why, holds in slowed(device).items() if holds),
    }


def _words(words: Iterable[str]) -> str:
    return "; ".join(words)


def cell(value: object) -> object:
    """Return a cell with control characters escaped, so that names cannot steer the terminal."""
    return legible(value) if isinstance(value, str) else value
