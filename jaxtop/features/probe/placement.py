"""Rank devices by the memory that they have free and by what a probe measured; choose those of a mesh.

A training process uses this, too, so it imports neither the model nor JAX.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.wire.probing import MATRIX_RATE, MEMORY_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.features.probe.messages import KnownDevice

FREE, IDLE, WATTS = "free_bytes", "idle", "watts"
FLOPS, FLOPS_PER_JOULE = MATRIX_RATE, "flops_per_joule"
THROUGHPUT, LATENCY, ENERGY = "throughput", "latency", "energy"
# The figures that a ranking depends on besides free memory and idle time. A mesh waits for its slowest
# device, and a device for its slowest part, so the worst of its figures counts.
RATES = {
    THROUGHPUT: (FLOPS, "together_flops_per_s", MEMORY_RATE),
    LATENCY: ("round_trip_s", "enqueue_s"),
}
PREFERENCES = (THROUGHPUT, LATENCY, ENERGY)
# For energy: the first of these that is known of any device.
OF_ENERGY = (FLOPS_PER_JOULE, WATTS, FLOPS)
# Neighbours are preferred to the best devices where they are worse by at most this share.
NEIGHBOUR_TOLERANCE = 0.02


class Reason(NamedTuple):
    """A figure of a device, and how good it is compared with the best device.

    The share of an unknown figure is the worst of the known ones.
    """

    figure: str
    value: float | None
    share: float


class DeviceScore(NamedTuple):
    """A device with its score, from 0 to 1, and the reasons of it; None if nothing is known."""

    device: KnownDevice
    score: float | None
    reasons: tuple[Reason, ...]


def ranked(devices: Sequence[KnownDevice], prefer: str) -> list[DeviceScore]:
    """Return the devices, the best first; equally good ones stay in order.

    The score is the share of free memory, times the worst share of the rates, times the share of idle time.
    Each is relative to the best device.
    """
    groups = [(FREE,), _rates(devices, prefer), (IDLE,)]
    shares = {name: _shares(devices, name) for name in {name for group in groups for name in group}}
    standings = []
    for place, device in enumerate(devices):
        known = [[name for name in group if shares[name]] for group in groups]
        factors = [min(shares[name][place] for name in group) for group in known if group]
        reasons = [
            Reason(name, figure_of(device, name), shares[name][place]) for group in known for name in group
        ]
        standings.append(DeviceScore(device, round(prod(factors), 3) if factors else None, tuple(reasons)))
    return sorted(standings, key=lambda each: -(each.score or 0))


def _rates(devices: Sequence[KnownDevice], prefer: str) -> tuple[str, ...]:
    if prefer != ENERGY:
        return RATES[prefer]
    known = (name for name in OF_ENERGY if any(figure_of(each, name) is not None for each in devices))
    return tuple(known)[:1]


def figure_of(device: KnownDevice, name: str) -> float | None:
    """Return a figure of a device; None if it is unknown."""
    if name == FREE:
        return device.free_bytes
    if name == IDLE:
        return None if device.busy is None else 1 - device.busy
    if name == WATTS:
        return device.watts
    if name == FLOPS_PER_JOULE:
        flops = device.rates.get(FLOPS)
        return flops / device.watts if flops and device.watts else None
    return device.rates.get(name)


def _shares(devices: Sequence[KnownDevice], name: str) -> list[float]:
    """Return how good a figure of each device is, as a share of the best; empty if it is known of none.

    Differences below one percent are noise, and leave the devices in order.
    """
    values = [figure_of(each, name) for each in devices]
    known = [value for value in values if value is not None]
    if not known:
        return []
    if name == WATTS or (name.endswith("_s") and not name.endswith("_per_s")):  # the least is the best
        least = min(known)
        shares = [None if value is None else least / value if value > 0 else 1.0 for value in values]
    else:
        most = max(known)
        shares = [None if value is None else value / most if most > 0 else 1.0 for value in values]
    worst = min(share for share in shares if share is not None)
    return [round(worst if share is None else max(0.0, share), 2) for share in shares]


def chosen(devices: Sequence[KnownDevice], n: int, prefer: str) -> list[KnownDevice]:
    """Return n devices, process by process, each in the given order.

    All processes provide the same number if n can be divided that way, since a process without devices in
    the mesh cannot run its part of a script. Otherwise as few processes as possible provide them.
    """
    scores = {each.device.id: each.score or 0.0 for each in ranked(devices, prefer)}
    processes: dict[int, list[KnownDevice]] = {}
    for device in devices:
        processes.setdefault(device.process, []).append(device)
    counts = _counts([[scores[each.id] for each in members] for members in processes.values()], n)
    found: list[KnownDevice] = []
    for members, count in zip(processes.values(), counts, strict=True):
        places = _best([scores[each.id] for each in members], count)
        found += [members[place] for place in sorted(places)]
    return found


def _counts(scores: Sequence[Sequence[float]], n: int) -> list[int]:
    """Return how many devices each process provides."""
    each, rest = divmod(n, len(scores))
    if not rest and all(len(members) >= each for members in scores):
        return [each] * len(scores)
    counts = [0] * len(scores)
    while (left := n - sum(counts)) > 0:

        def worth(process: int, left: int = left) -> tuple[int, float]:
            best = sorted(scores[process], reverse=True)[:left]
            return len(best), sum(best)

        best = max((process for process, count in enumerate(counts) if not count), key=worth)
        counts[best] = min(left, len(scores[best]))
    return counts


def _best(scores: Sequence[float], count: int) -> Iterable[int]:
    """Return the places of the best; of neighbours, if these are about as good."""
    best = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:count]
    if not best:
        return best
    least = min(scores[place] for place in best) - NEIGHBOUR_TOLERANCE
    starts = [at for at in range(len(scores) - count + 1) if min(scores[at : at + count]) >= least]
    if not starts:
        return best
    # Multiples of the count first: links and sockets divide the devices of a machine that way.
    start = min(starts, key=lambda at: (at % count != 0, at))
    return range(start, start + count)
