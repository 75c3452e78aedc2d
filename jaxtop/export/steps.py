"""Steps of processes and of runs, what scripts report, and ledgers, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.base.times import timestamp
from jaxtop.export.readings import step_values
from jaxtop.model import step_of, steps_of
from jaxtop.model.shares import NAMES as PART_NAMES
from jaxtop.model.wall_time.step_parts import run_parts
from jaxtop.model.wall_time.time_spent import seconds_by_kind

if TYPE_CHECKING:
    from jaxtop.model import Cluster, Host, HostView
    from jaxtop.model.shares import Parts
    from jaxtop.wire import Scalar


def step_of_process(view: HostView, its_parts: Parts | None) -> dict[str, Any] | None:
    """Return what the script reported and the step that was found; None where there is neither."""
    last = view.host
    reported, rhythm = last.pulse.reported, last.pulse.rhythm
    step = step_of(view.current)
    if reported is None and rhythm is None:
        return None
    functions = None if rhythm is None else rhythm.functions
    found: dict[str, Any] = {
        "function": functions[-1] if functions else None,
        "index": None if reported is None else reported.index,
        "count": steps_of(last),
        "metrics": {} if reported is None else dict(reported.metrics),
        "functions": functions,
        "is_told": not functions,
        "peak_source": None if step is None else step.peak_source or None,
        "flops_at_least": None if step is None or step.flops is None else step.flops_at_least,
    }
    figures = {
        name: value if value is None or not name.endswith("_ms") else round(value * 1000, 6)
        for name, value in step_values(view.current).items()
    }
    return {
        **found,
        **figures,
        "past_s": None if step is None else step.past_s,
        "parts": its_parts and _parts_as_value(its_parts),
    }


def scalar_as_value(each: Scalar) -> dict[str, Any]:
    """Return what is notable about a scalar of the script; a number that is not finite is null."""
    rise = each.rise
    return {
        "name": each.name,
        "step": each.step,
        "value": each.value,
        "bad_step": each.bad_step,
        "is_exact": each.is_exact,
        "finite": each.finite,
        "finite_step": each.finite_step,
        "nonfinite": each.nonfinite,
        "same_step": each.same_step,
        "rise": None
        if rise is None
        else {
            "step": rise.step,
            "value": rise.value,
            "value_step": rise.value_step,
            "usual": [rise.low, rise.high],
            "median": rise.median,
            "led_by": rise.led_by or None,
            "led_steps": rise.led_steps if rise.led_by else None,
        },
    }


def ledger_as_value(host: Host) -> dict[str, Any] | None:
    """Return what a process has spent its time on since it started; None before it says so."""
    ledger = host.ledger
    if not ledger.at_ms:
        return None
    return {
        "at": timestamp(ledger.at_ms / 1000),
        "started": timestamp(ledger.started_ms / 1000),
        "lineage": ledger.lineage or None,
        "seconds": seconds_by_kind(ledger.spent_ms),
        "steps": ledger.steps,
        "checkpoints": [
            {
                "at": timestamp(each.at_ms / 1000),
                "blocked_s": each.blocked_ms / 1000,
                "committed": None if each.committed_ms is None else timestamp(each.committed_ms / 1000),
                "step": each.step,
                "seen_by": each.seen_by,
                "written_bytes": each.written_bytes,
            }
            for each in ledger.saves
        ],
    }


def input_queue_as_value(host: Host) -> dict[str, Any] | None:
    """Return how full the queue is from which a process takes its input; None if that was not seen."""
    queue = host.activity.input_queue
    if queue is None:
        return None
    return {
        "kind": queue.kind,
        "depth": queue.depth,
        "capacity": queue.capacity,
        "looks": queue.looks,
        "empty": queue.empty_share,
        "full": queue.full_share,
    }


def _parts_as_value(found: Parts) -> dict[str, float]:
    return {name: round(getattr(found, name), 4) for name in PART_NAMES}


def step_of_run(cluster: Cluster, now: float, run: str) -> dict[str, Any] | None:
    """Return where a step of a run goes for the processes that are not late, and which are."""
    found = run_parts(cluster, now, run)
    if found is None:
        return None
    return {
        "parts": _parts_as_value(found.parts),
        "host_gap_waits_for_core": round(found.parts.delayed, 4),
        "parts_at": None if found.parts.at is None else timestamp(found.parts.at),
        "processes": found.processes,
        "late": [cluster.hosts[agent].process_index for agent in found.late],
    }
