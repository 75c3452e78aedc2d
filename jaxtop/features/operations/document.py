"""The time of programs by operation, as values of the JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.base.times import timestamp
from jaxtop.export.readings import fields
from jaxtop.features.operations.rates import times_by_rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.features.operations.model import OperationView, ProgramTime
    from jaxtop.model import Cluster
    from jaxtop.store.probe_figures import Probe

_OF_OPERATION = ("op", "kind", "source", "time_share", "time_us", "runs", "flops", "bytes", "bound")


def program_fields(
    cluster: Cluster, now: float, probe: Probe | None
) -> Callable[[tuple[str, str, str | None]], dict[str, Any]]:
    """Return a function that gives the fields of a program by its run, name and fingerprint."""
    times = {each.key: each for each in times_by_rates(cluster, now, probe)}
    return lambda key: of_program(times.get(key))


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
