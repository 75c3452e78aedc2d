"""Device ids and places, packed as runs: 8,192 devices take a few bytes."""

from __future__ import annotations

from itertools import pairwise

from jaxtop.wire.bounds import MAX_DEVICES, MAX_PLACES, Unreadable

Ids = tuple[tuple[int, int], ...]
# Integers as runs: the first, the count, and the step.
Runs = tuple[tuple[int, int, int], ...]


def pack_ids(ids: tuple[int, ...]) -> Ids:
    """Pack device ids as runs of (first, count), in their order."""
    if not ids:
        return ()
    breaks = [i for i, (a, b) in enumerate(pairwise(ids), start=1) if b != a + 1]
    bounds = [0, *breaks, len(ids)]
    return tuple((ids[start], end - start) for start, end in pairwise(bounds))


def check_ids(runs: Ids) -> None:
    """Raise `Unreadable` if these runs cannot be device ids; nothing is unpacked."""
    if sum(count for _, count in runs) > MAX_DEVICES:
        raise Unreadable("more devices than any mesh has")
    if any(count < 0 for _, count in runs):  # would offset, in the sum, a run without end
        raise Unreadable("a run of less than no devices")


def unpack_ids(runs: Ids) -> tuple[int, ...]:
    check_ids(runs)
    return tuple(first + i for first, count in runs for i in range(count))


def pack_runs(places: tuple[int, ...]) -> Runs:
    """Pack integers as runs of (first, count, step), in their order."""
    runs: list[tuple[int, int, int]] = []
    start, end = 0, len(places)
    while start < end:
        step = places[start + 1] - places[start] if start + 1 < end else 1
        stop = start + 1
        while stop < end and places[stop] - places[stop - 1] == step:
            stop += 1
        runs.append((places[start], stop - start, step))
        start = stop
    return tuple(runs)


def unpack_runs(runs: Runs) -> tuple[int, ...]:
    if any(count < 0 for _, count, _ in runs) or sum(count for _, count, _ in runs) > MAX_PLACES:
        raise Unreadable("more places than any program has")
    return tuple(first + i * step for first, count, step in runs for i in range(count))
