"""Figures of a script: the loss it reports, and what samples of its main thread show."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

from jaxtop.model.liveness import SAMPLES_OF_STEPS, is_current
from jaxtop.model.steps.losses import is_loss
from jaxtop.wire import COMPILE, SCRIPT

if TYPE_CHECKING:
    from jaxtop.model.host import Host
    from jaxtop.wire.activity import ActiveLine

# Over less time the share in collections says little.
SHORTEST_MS = 5_000
# Fewer samples of the main thread say nothing about shares.
FEWEST_SAMPLES = 10


def loss_of(host: Host) -> float | None:
    """Return the loss that the script reported last, of several the first; infinite if one is not finite."""
    step = host.pulse.step
    losses = [] if step is None else [value for name, value in step.metrics.items() if is_loss(name)]
    return inf if not all(map(isfinite, losses)) else next(iter(losses), None)


def collecting(host: Host) -> float | None:
    """Return the share of the time that Python collects garbage; None while it was timed for too short."""
    activity = host.activity
    return activity.gc_us / 1000 / activity.span_ms if activity.span_ms >= SHORTEST_MS else None


def not_launching(host: Host) -> float | None:
    """Return the share of samples in which the main thread runs the script or compiles; None if unknown."""
    if not is_sampled(host, FEWEST_SAMPLES):
        return None
    samples = host.activity.samples
    return (samples[SCRIPT] + samples[COMPILE]) / sum(samples)


def usual_line(host: Host) -> ActiveLine | None:
    """Return the line of the script outside of JAX at which most samples were; None if there is none."""
    lines = (line for line in host.activity.lines if line.activity == SCRIPT)
    return max(lines, key=lambda line: line.samples, default=None)


def is_sampled(host: Host, fewest: int) -> bool:
    """Return whether there are as many samples of the main thread, all in the present rhythm of the step."""
    activity = host.activity
    began_ms = activity.at_ms - activity.span_ms
    return sum(activity.samples) >= fewest and is_current(host, began_ms, SAMPLES_OF_STEPS)
