"""Where the time of programs goes, as values of the JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.devbench.roofline import rates_of
from jaxtop.export.readings import fields
from jaxtop.model.operations import program_times
from jaxtop.times import timestamp

if TYPE_CHECKING:
    from jaxtop.devbench.shown import Probe
    from jaxtop.model import Cluster
    from jaxtop.model.operations import OperationView, ProgramTime

_OF_OPERATION = ("op", "kind", "source", "time_share", "time_us", "runs", "flops", "bytes", "bound")


def times(
    cluster: Cluster, now: float, probe: Probe | None
) -> dict[tuple[str, str, str | None], ProgramTime]:
    """Return where the time of each program goes, by its run, name and fingerprint."""
    found = program_times(cluster, now, lambda host: rates_of(host, probe), basis=probe)
    return {each.key: each for each in found}


def of_program(time: ProgramTime | None) -> dict[str, Any]:
    """Return the fields of a program; they are null if no window showed its operations."""
    if time is None:
        return {"operations": None, "time_by_kind": None, "timed": None}
    return {
        "operations": [_operation(each) for each in time.operations],
        "time_by_kind": time.kinds,
        "timed": {
            "at": timestamp(time.at_ms / 1000),
            "launches": time.launches,
            "launch_us": time.launch_us,
            "device_flops_per_s": time.rates.flops,
            "device_flops_source": time.rates.flops_source or None,
            "device_bytes_per_s": time.rates.bytes,
            "device_bytes_source": time.rates.bytes_source or None,
        },
    }


def _operation(view: OperationView) -> dict[str, Any]:
    roof = view.roof
    return {
        **fields(view, _OF_OPERATION),
        "bound_ratio": None if roof is None else roof.ratio,
        "roofline_share": None if roof is None else roof.reached,
    }
