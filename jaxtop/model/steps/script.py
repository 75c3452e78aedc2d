"""Figures of a script: the loss it reports, and what samples of its main thread show."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.liveness import SAMPLES_OF_STEPS, is_current
from jaxtop.wire import COMPILE, LAUNCH, SCRIPT, WAIT, is_loss

if TYPE_CHECKING:
    from jaxtop.model.host import Host

# Over less time the share in collections says little.
SHORTEST_MS = 5_000
# Fewer samples of the main thread say nothing about shares.
MIN_SAMPLES = 10


def loss_of(host: Host) -> float | None:
    """Return the loss that the script reported last, of several the first; infinite if one is not finite."""
    step = host.pulse.reported
    losses = [] if step is None else [value for name, value in step.metrics.items() if is_loss(name)]
    return inf if not all(map(isfinite, losses)) else next(iter(losses), None)


def collecting(host: Host) -> float | None:
    """Return the share of the time that Python collects garbage; None while it was timed for too short."""
    activity = host.activity
    return activity.gc_us / 1000 / activity.span_ms if activity.span_ms >= SHORTEST_MS else None


def not_launching(host: Host) -> float | None:
    """Return the share of samples in which the main thread runs the script or compiles; None if unknown."""
    if not is_sampled(host, MIN_SAMPLES):
        return None
    samples = host.activity.samples
    return (samples[SCRIPT] + samples[COMPILE]) / sum(samples)


# What a main thread does besides being in the script, in words.
_BESIDES = ((LAUNCH, "launching"), (WAIT, "waiting for devices"), (COMPILE, "compiling"))


class MainThreadShares(NamedTuple):
    """What samples of a main thread show: the share in the script, its first line, and the other shares."""

    script: float
    line: str
    besides: tuple[tuple[str, float], ...]


def main_thread(host: Host) -> MainThreadShares | None:
    """Return what the main thread of a process does; None without samples."""
    samples, total = host.activity.samples, sum(host.activity.samples)
    if not total:
        return None
    lines = [each for each in host.activity.lines if each.activity == SCRIPT]
    top = max(lines, key=lambda each: each.samples, default=None)
    place = "" if top is None else f"{top.place.file}:{top.place.line}"
    besides = tuple((words, samples[activity] / total) for activity, words in _BESIDES)
    return MainThreadShares(samples[SCRIPT] / total, place, besides)


def is_sampled(host: Host, fewest: int) -> bool:
    """Return whether there are enough samples of the main thread, all in the present rhythm of the step."""
    activity = host.activity
    began_ms = activity.at_ms - activity.span_ms
    return sum(activity.samples) >= fewest and is_current(host, began_ms, SAMPLES_OF_STEPS)
