"""The devices of the cluster as CSV, one line per device; an unknown figure is an empty field."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from jaxtop.export.json import to_document
from jaxtop.export.metrics import FACTS, OF_DEVICES, OF_HOSTS
from jaxtop.names import legible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop.model import Cluster

Row = dict[str, Any]

# Figures whose columns are older than the generated ones, and which therefore keep their position.
FIRST = {"utilization", "power_w", "temperature_c", "host_rss_bytes"}


def _of_device(name: str) -> Callable[[Row, Row], object]:
    return lambda _, device: device.get(name)


def _of_host(name: str) -> Callable[[Row, Row], object]:
    return lambda host, _: host["machine"][name]


def _words(said: Iterable[str] | None) -> str:
    return "; ".join(said or ())


# A column: its name, and how it is read from a host and a device of the document.
COLUMNS: tuple[tuple[str, Callable[[Row, Row], object]], ...] = (
    ("run", lambda host, _: host["run"]),
    ("process_index", lambda host, _: host["process_index"]),
    ("hostname", lambda host, _: host["hostname"]),
    ("pid", lambda host, _: host["pid"]),
    ("state", lambda host, _: host["state"]),
    ("device_id", lambda _, device: device.get("id")),
    ("local_id", lambda _, device: device.get("local_id")),
    ("platform", lambda _, device: device.get("platform")),
    ("kind", lambda _, device: device.get("kind")),
    ("used_bytes", lambda _, device: _memory(device, "used_bytes")),
    ("peak_bytes", lambda _, device: _memory(device, "peak_bytes")),
    ("limit_bytes", lambda _, device: _memory(device, "limit_bytes")),
    ("memory_source", lambda _, device: _memory(device, "source")),
    ("utilization", lambda _, device: device.get("utilization")),
    ("power_w", lambda _, device: device.get("power_w")),
    ("temperature_c", lambda _, device: device.get("temperature_c")),
    ("host_cpu_percent", lambda host, _: host["cpu_percent"]),
    ("host_rss_bytes", lambda host, _: host["rss_bytes"]),
    ("launches", lambda host, _: sum(host["launches"].values()) if host["launches"] else None),
    ("largest_free_bytes", lambda _, device: _memory(device, "largest_free_bytes")),
    ("wait_us", lambda _, device: device.get("wait_us")),
    ("uuid", lambda _, device: device.get("uuid")),
    *(
        (each.figure.name, _of_device(each.figure.name))
        for each in OF_DEVICES
        if each.figure.name not in FIRST
    ),
    *((each.name, _of_device(each.name)) for each in FACTS),
    ("slowed", lambda _, device: _words(device.get("slowed"))),
    *(
        (f"host_{each.figure.name}", _of_host(each.figure.name))
        for each in OF_HOSTS
        if f"host_{each.figure.name}" not in FIRST
    ),
    ("host_memory_total_bytes", _of_host("memory_total_bytes")),
    ("host_cores", _of_host("cores")),
    ("host_is_container", _of_host("is_container")),
    ("host_busy_threads", lambda host, _: _words(each["name"] for each in host["busy_threads"] or ())),
)


def to_csv(cluster: Cluster, now: float) -> str:
    """Return the table; a host without known devices has one line with empty device fields."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow([name for name, _ in COLUMNS])
    for host in to_document(cluster, now)["hosts"]:
        for device in host["devices"] or [{}]:
            table.writerow([cell(read(host, device)) for _, read in COLUMNS])
    return out.getvalue()


def cell(value: object) -> object:
    """Return a cell with control characters escaped, so that names cannot steer the terminal."""
    return legible(value) if isinstance(value, str) else value


def _memory(device: Row, figure: str) -> object:
    return device.get("memory", {}).get(figure)
