"""The CPU time that each part of the agent has used so far."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop_agent.core.clock import now_ms
from jaxtop_agent.core.threads import cpu_clock

if TYPE_CHECKING:
    from collections.abc import Mapping


def read(collectors: Mapping[str, float], threads: Mapping[int, str], since_s: float) -> wire.Costs:
    """Return the cost of collectors from their measured seconds, and of running threads from their clocks."""
    used: dict[str, float] = {}
    for native_id, name in threads.items():
        with suppress(OSError):
            used[name] = used.get(name, 0.0) + cpu_clock(native_id)
    return wire.Costs(now_ms(), round(since_s * 1000), _microseconds(collectors), _microseconds(used))


def _microseconds(seconds: Mapping[str, float]) -> dict[str, int]:
    return {name: round(taken * 1e6) for name, taken in seconds.items()}
