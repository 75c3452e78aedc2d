"""Collectives and the traffic of mesh axes, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.export.readings import fields
from jaxtop.model import scaled

if TYPE_CHECKING:
    from jaxtop import wire
    from jaxtop.model.collectives import AxisTraffic, CollectiveView, Doubts


def as_value(view: CollectiveView) -> dict[str, Any]:
    late = view.straggler
    return {
        **fields(view, ("run", "program", "fingerprint", "op", "kind")),
        **_origin(view.listed),
        "shape": view.shape or None,
        "axes": view.axes,
        "whole_axes": None if view.axes is None else view.is_whole_axes,
        "groups": len(view.groups) or None,
        **fields(
            view, ("group_size", "crosses_hosts", "uses_network", "bytes", "times", "per_second", "samples")
        ),
        "enough": view.is_enough,
        **fields(view, ("p50_us", "p99_us", "transfer_us", "wait_us")),
        "timed_by": view.timed_by,
        "timed_ms": view.taken and view.taken[1],
        "current": view.is_current,
        "busbw_gbps": scaled(view.busbw_bytes_per_s, 10**9),  # gigabytes a second, despite the name
        "busbw_bytes_per_s": view.busbw_bytes_per_s,
        "straggler": late and fields(late, ("process_index", "device_id", "share", "late_us")),
    }


_ORIGIN = {"added": "added", "operand": "operand", "operand_has": "has", "operand_wants": "wants"}


def _origin(listed: wire.Collective | None) -> dict[str, Any]:
    """Return the line of the script, or the operation's name, and why the partitioner added a collective."""
    if listed is None:
        return dict.fromkeys(("source", "name_stack", *_ORIGIN))
    return {
        "source": listed.line or listed.source or None,
        "name_stack": listed.name_stack or None,
        **{name: getattr(listed, field) or None for name, field in _ORIGIN.items()},
    }


def axes_as_value(each: AxisTraffic) -> dict[str, Any]:
    return {
        **fields(
            each,
            ("run", "axes", "crosses_hosts", "uses_network", "collectives", "bytes_per_second", "at_least"),
        ),
        "seconds_per_second": None if each.us_per_second is None else each.us_per_second / 10**6,
    }


def doubts_as_value(each: Doubts) -> dict[str, Any] | None:
    """Return what windows of the profiler could not be used for; None if there is nothing."""
    if not each.words:
        return None
    return {"unassigned": each.unassigned or None, "unmatched_launches": each.unmatched}
