"""Pages for Prometheus: metrics in the format that a client prefers, and targets for service discovery."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from jaxtop.export.openmetrics import END, by_metric, classic_heading, heading
from jaxtop.export.samples import PROGRAM, snapshot
from jaxtop.model import runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model import Cluster

CLASSIC, OPENMETRICS = "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})")


def preferred(accept: str) -> str:
    """Return the format for a client with this `Accept` header."""
    types = [each.partition(";")[0].strip() for each in accept.split(",")]
    return OPENMETRICS if OPENMETRICS.partition(";")[0] in types else CLASSIC


def exposition(cluster: Cluster, now: float, form: str, detail: str = PROGRAM) -> tuple[Iterator[bytes], str]:
    """Return the metrics in this format, piece by piece, and the content type."""
    describe, end = (heading, END) if form == OPENMETRICS else (classic_heading, "")
    texts = chain(by_metric(snapshot(cluster, now, detail), describe), (end,))
    return (each.encode() for each in texts), f"{form}; charset=utf-8"


def targets(cluster: Cluster, now: float, ports: Sequence[str]) -> list[dict[str, Any]]:
    """Return the machines of all runs as targets on these ports, in the form of `http_sd`.

    Machines whose processes have exited are left out, so the list follows the runs.
    """
    found = []
    for run in runs(cluster, now):
        machines: dict[str, list[str]] = {}
        platforms: dict[str, str] = {}
        for view in run.hosts:
            name, index = view.host.hostname or "", view.host.process_index
            if not view.state.has_exited and _HOST_NAME.fullmatch(name):
                machines.setdefault(name, []).extend([] if index is None else [str(index)])
                if view.host.hello is not None and view.host.hello.platform:
                    platforms[name] = view.host.hello.platform
        for name, indexes in machines.items():
            labels = {"run": run.id, "hostname": name, "__meta_jaxtop_processes": ",".join(indexes)}
            more = {"__meta_jaxtop_run_name": run.name, "__meta_jaxtop_platform": platforms.get(name)}
            labels |= {key: value for key, value in more.items() if value}
            found.append({"targets": [f"{name}:{port}" for port in ports], "labels": labels})
    return found
