"""The ledgers of jobs as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import __version__
from jaxtop.base.times import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.features.ledger.model import Attempt, JobLedger, ProcessLedger, StepParts
    from jaxtop.model.series import Point
    from jaxtop.wire import Save

SCHEMA = 1


def to_json(jobs: Sequence[JobLedger]) -> str:
    document = {"schema": SCHEMA, "jaxtop": __version__, "jobs": [as_value(each) for each in jobs]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def as_value(job: JobLedger) -> dict[str, Any]:
    """Return a job as plain values; what is unknown is None."""
    return {
        "name": job.name,
        "started": timestamp(job.started),
        "until": timestamp(job.until),
        "seconds": round(job.until - job.started, 3),
        "goodput": None if job.goodput is None else round(job.goodput, 6),
        "device_seconds": _rounded(job.spent),
        "device_seconds_in_all": round(job.total, 3),
        "steps": job.steps,
        "step_parts": None if job.step_parts is None else _parts(job.step_parts),
        "scalars": {name: _points(points) for name, points in job.scalars.items()},
        "attempts": [_attempt(each) for each in job.attempts],
    }


def _parts(found: StepParts) -> dict[str, Any]:
    return {"over_s": found.seconds, "shares": {name: round(each, 4) for name, each in found.shares.items()}}


def _points(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return a curve; of the numbers, as many digits as four bytes have."""
    return [
        {"at": timestamp(at), "value": float(f"{value:.7g}")} for at, value in points if value is not None
    ]


def _attempt(attempt: Attempt) -> dict[str, Any]:
    risk = attempt.since_commit()
    return {
        "run": attempt.run,
        "started": timestamp(attempt.started),
        "until": timestamp(attempt.until),
        "devices": attempt.devices,
        "steps": attempt.steps,
        "ending": attempt.ending or None,
        "device_seconds": _rounded(attempt.spent()),
        "device_seconds_since_commit": None if risk is None else _rounded(risk),
        "processes": [_process(each) for each in attempt.processes],
    }


def _process(process: ProcessLedger) -> dict[str, Any]:
    return {
        "agent": process.agent,
        "host": process.hostname,
        "process_index": process.process_index,
        "devices": process.devices,
        "started": timestamp(process.started),
        "until": timestamp(process.until),
        "seconds": _rounded(process.spent),
        "steps": process.steps,
        "end": process.end or None,
        "error": process.error or None,
        "checkpoints": [_save(each) for each in process.saves],
    }


def _save(save: Save) -> dict[str, Any]:
    committed = save.committed_ms
    return {
        "at": timestamp(save.at_ms / 1000),
        "blocked_s": save.blocked_ms / 1000,
        "committed": None if committed is None else timestamp(committed / 1000),
        "step": save.step,
        "seen_by": save.seen_by,
        "written_bytes": save.written_bytes,
    }


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {kind: round(each, 3) for kind, each in seconds.items()}
