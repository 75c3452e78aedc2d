"""Figures of a script and its interpreter: the loss it reports, and the time it spends on garbage."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

from jaxtop.model.losses import is_loss

if TYPE_CHECKING:
    from jaxtop.model.host import Host

# Over less time the share in collections says little.
SHORTEST_MS = 5_000


def loss_of(host: Host) -> float | None:
    """Return the loss that the script reported last, of several the first; infinite if one is not finite."""
    step = host.pulse.step
    losses = [] if step is None else [value for name, value in step.metrics.items() if is_loss(name)]
    return inf if not all(map(isfinite, losses)) else next(iter(losses), None)


def collecting(host: Host) -> float | None:
    """Return the share of the time that Python collects garbage; None while it was timed for too short."""
    activity = host.activity
    return activity.gc_us / 1000 / activity.span_ms if activity.span_ms >= SHORTEST_MS else None
