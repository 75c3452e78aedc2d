"""The settings: from the call, else from the environment, else the default."""

from __future__ import annotations

import math
import os
from typing import NamedTuple

# When profiler windows are taken to measure collectives.
POLICIES = ("auto", "sampled", "on request", "off")

SHORTEST_INTERVAL, USUAL_INTERVAL, LONGEST_INTERVAL = 0.1, 1.0, 60.0
# How many minutes the black box keeps; 0 keeps everything.
MINUTES = 10


class Settings(NamedTuple):
    """The agent's settings."""

    on: bool
    name: str | None
    bind: str
    interval: float
    collectives: str = "auto"
    record: str | os.PathLike[str] | None = None
    record_minutes: int = MINUTES
    # The peak rate of each device in operations per second, where the user overrides our table.
    peak_flops: int | None = None


def read(
    name: str | None,
    bind: str | None,
    interval: float | None,
    collectives: str | None = None,
    record: str | os.PathLike[str] | None = None,
) -> Settings:
    """Return the settings in force; an invalid value counts as missing."""
    return Settings(
        on=os.environ.get("JAXTOP", "1").strip().lower() not in {"0", "off", "false", "no"},
        name=name or os.environ.get("JAXTOP_NAME") or None,
        bind=bind or os.environ.get("JAXTOP_BIND") or "auto",
        interval=bounded(interval if interval is not None else _number("JAXTOP_INTERVAL", USUAL_INTERVAL)),
        collectives=_policy(collectives or os.environ.get("JAXTOP_COLLECTIVES", "")),
        record=record or os.environ.get("JAXTOP_RECORD") or None,
        record_minutes=max(0, round(_number("JAXTOP_RECORD_MINUTES", MINUTES))),
        peak_flops=round(peak) if 0 < (peak := _number("JAXTOP_PEAK_FLOPS", 0)) < 1e18 else None,
    )


def bounded(interval: float) -> float:
    finite = float(interval) if math.isfinite(interval) else USUAL_INTERVAL
    return min(max(finite, SHORTEST_INTERVAL), LONGEST_INTERVAL)


def _policy(given: object) -> str:
    named = str(given).strip().lower()
    return named if named in POLICIES else POLICIES[0]


def _number(variable: str, default: float) -> float:
    try:
        return float(os.environ[variable])
    except (KeyError, ValueError):
        return default
