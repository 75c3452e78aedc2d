"""Arrays that keep growing, by name or by the line that creates them."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from heapq import nlargest
from itertools import pairwise, zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.arrays.groups import total
from jaxtop.model.arrays.memory import places_of
from jaxtop.model.host import run_of
from jaxtop.model.hosts import newest_hosts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from collections.abc import Set as AbstractSet

    from jaxtop import wire
    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState

# Growth counts only if it repeats: a program sets some arrays up once, and holds others twice for a moment.
STEPS_UP = 3
GROWS_AT_LEAST = 64 << 10  # bytes a minute on one device
# Growth is even if the last rates differ by at most this factor.
MAX_RATE_RATIO = 1.5
# The shortest time in which growth has a rate.
MIN_RATE_MS = 4_000
# Growth has ended after this many times the usual time between two rises, but not before `PAUSE_MS`.
PAUSES, PAUSE_MS = 2.5, 20_000
# The processes of a run that are examined. The same arrays grow on all, or most on a few.
MAX_HOSTS = 8
_INDEX = re.compile(r"\[\d+\]")


class Grower(NamedTuple):
    """Arrays that keep growing: those of one name apart from its indices, or of one line of the script.

    `created` is the line that creates them, if it is a single one. `agent` is the process on which they grow
    fastest; they have grown there for `seconds`, at least, and evenly if `is_even`.
    """

    run: str
    name: str | None
    created: str | None
    bytes_per_minute: float
    bytes_per_device: int
    agent: str = ""
    seconds: float = 0.0
    is_even: bool = False


class _Growth(NamedTuple):
    """A grower, when it last grew, and the usual time between two rises."""

    grower: Grower
    grew_ms: int
    every_ms: float


# The name of arrays without its indices; for unnamed arrays, None and the line that created them.
_Stem = tuple[str | None, str | None]


def growers(cluster: ClusterState) -> list[Grower]:
    """Return what grew over the last two minutes, fastest first; of several processes, the fastest counts."""
    more: dict[str, list[tuple[int, Host, list[wire.Arrays]]]] = {}
    for host in newest_hosts(cluster):
        past = _past(cluster, host)
        if len(past) > STEPS_UP and (risen := _more(cluster, host, past)):
            more.setdefault(run_of(host), []).append((risen, host, past))
    found: dict[tuple[str, _Stem], Grower] = {}
    for run, members in more.items():
        for _, host, past in nlargest(MAX_HOSTS, members, key=itemgetter(0)):
            for stem, each in _growths(cluster, host, past).items():
                before = found.get((run, stem))
                if _goes_on(host, each) and (
                    before is None or before.bytes_per_minute < each.grower.bytes_per_minute
                ):
                    found[run, stem] = each.grower
    return sorted(found.values(), key=lambda each: -each.bytes_per_minute)


def growers_of(cluster: ClusterState, host: Host) -> list[Grower]:
    """Return what grew on one process in its last two minutes, fastest first; it may have exited."""
    past = _past(cluster, host)
    if len(past) <= STEPS_UP:
        return []
    found = [each.grower for each in _growths(cluster, host, past).values() if _goes_on(host, each)]
    return sorted(found, key=lambda each: -each.bytes_per_minute)


def _past(cluster: ClusterState, host: Host) -> list[wire.Arrays]:
    """Return the remembered censuses, in whose lists arrays have the same positions, and the newest one."""
    now = host.arrays
    past = [each for each in cluster.past_arrays.get(host.agent, ()) if each.serial == now.serial]
    return [*past, now] if past and past[-1].at_ms < now.at_ms else past


def _more(cluster: ClusterState, host: Host, past: Sequence[wire.Arrays]) -> int:
    """Return the bytes that groups of arrays gained between the first and the last census."""
    ends = past[0], past[-1]
    return cluster.derived.of("more arrays", host.agent, cluster.hosts, ends, lambda: _gained(*ends))


def _gained(first: wire.Arrays, last: wire.Arrays) -> int:
    gained = 0
    for was, before, group, count in zip(first.groups, first.counts, last.groups, last.counts, strict=False):
        if count != before or was is not group:
            gained += max(
                0, total(group.bytes_per_device, group, count) - total(was.bytes_per_device, was, before)
            )
    new = slice(len(first.groups), None)
    return gained + sum(
        total(group.bytes_per_device, group, count)
        for group, count in zip(last.groups[new], last.counts[new], strict=True)
    )


def _growths(cluster: ClusterState, host: Host, past: Sequence[wire.Arrays]) -> dict[_Stem, _Growth]:
    places = places_of(cluster, host)

    def derive() -> dict[_Stem, _Growth]:
        before = {id(census): sums for census, sums in cluster.derived.last("past arrays", host.agent) or ()}
        changed = _changed(past[0], past[-1])
        lists = {id(each.groups): each.groups for each in past}
        indices = {number: _indices(groups, changed) for number, groups in lists.items()}
        sums = [
            (each, _bytes_by_stem(each, places, indices[id(each.groups)], before.get(id(each), {})))
            for each in past
        ]
        cluster.derived.of("past arrays", host.agent, cluster.hosts, past, lambda: sums)
        grown = {stem: _growth(host, stem, sums) for stem in changed}
        return {stem: growth for stem, growth in grown.items() if growth is not None}

    return cluster.derived.of("growers", host.agent, cluster.hosts, past, derive)


def _growth(host: Host, stem: _Stem, sums: Sequence[tuple[wire.Arrays, dict[_Stem, int]]]) -> _Growth | None:
    """Return how the arrays of a stem grow; None if they do not, or shrank."""
    sizes = [of_stem.get(stem, 0) for _, of_stem in sums]
    if sizes[-1] <= sizes[0] or any(later < earlier for earlier, later in pairwise(sizes)):
        return None
    rises = [i for i, (earlier, later) in enumerate(pairwise(sizes), start=1) if later > earlier]
    began, grew, now = sums[rises[0] - 1][0].at_ms, sums[rises[-1]][0].at_ms, sums[-1][0].at_ms
    rate = (sizes[-1] - sizes[0]) / (now - began) * 60_000
    if len(rises) < STEPS_UP or rate < GROWS_AT_LEAST:
        return None
    seconds, is_even = (now - began) / 1000, _is_even(sums, sizes)
    grower = Grower(
        run_of(host), stem[0], _made_by(host, stem), rate, sizes[-1], host.agent, seconds, is_even
    )
    return _Growth(grower, grew, (grew - began) / len(rises))


def _is_even(sums: Sequence[tuple[wire.Arrays, dict[_Stem, int]]], sizes: Sequence[int]) -> bool:
    """Return whether it rose from each census to the next at about the same rate, `STEPS_UP` times."""
    rates = [
        (sizes[i] - sizes[i - 1]) / passed
        for i in range(1, len(sizes))
        if (passed := sums[i][0].at_ms - sums[i - 1][0].at_ms) >= MIN_RATE_MS
    ]
    lately = rates[-STEPS_UP:]
    return len(lately) == STEPS_UP and 0 < max(lately) <= MAX_RATE_RATIO * min(lately)


def _goes_on(host: Host, growth: _Growth) -> bool:
    """Return whether it still grows. Nothing is reported while no array changes: only the time goes on."""
    counted_ms = max(host.pulse.counted_ms or 0, host.arrays.at_ms)
    return counted_ms - growth.grew_ms <= max(PAUSE_MS, PAUSES * growth.every_ms)


def _stem(group: wire.ArrayGroup) -> _Stem:
    return (without_indices(group.name), None) if group.name else (None, group.created)


@lru_cache(maxsize=1 << 14)
def without_indices(name: str) -> str:
    """Return the name of an array without the numbers of its indices: all arrays of a list share it."""
    return _INDEX.sub("[*]", name)


def _made_by(host: Host, stem: _Stem) -> str | None:
    """Return the line that creates the arrays of a stem, if it is a single one."""
    lines = {
        group.created
        for group, count in zip(host.arrays.groups, host.arrays.counts, strict=True)
        if count and _stem(group) == stem
    }
    return lines.pop() if len(lines) == 1 else None


def _changed(first: wire.Arrays, last: wire.Arrays) -> set[_Stem]:
    """Return the stems of which any array changed, or is new: no other can have grown."""
    pairs = zip_longest(first.groups, first.counts, last.groups, last.counts)
    return {
        _stem(group) for was, before, group, count in pairs if group and (count != before or was is not group)
    }


def _indices(groups: Sequence[wire.ArrayGroup], stems: AbstractSet[_Stem]) -> dict[_Stem, list[int]]:
    """Return the positions of the arrays of these stems in a list."""
    found: dict[_Stem, list[int]] = {stem: [] for stem in stems}
    for i, group in enumerate(groups):
        if (indices := found.get(_stem(group))) is not None:
            indices.append(i)
    return found


def _bytes_by_stem(
    census: wire.Arrays,
    places: Sequence[Collection[int]],
    indices: dict[_Stem, list[int]],
    known: dict[_Stem, int],
) -> dict[_Stem, int]:
    """Return the bytes of these stems on their fullest devices; `places` has the devices of each sharding."""
    if known.keys() >= indices.keys():
        return known
    found = dict(known)
    for stem in indices.keys() - known.keys():
        sizes: Counter[Collection[int]] = Counter()
        for i in indices[stem]:
            group = census.groups[i]
            sizes[places[group.sharding]] += total(group.bytes_per_device, group, census.counts[i])
        found[stem] = _on_fullest_device(sizes)
    return found


def _on_fullest_device(sizes: Counter[Collection[int]]) -> int:
    held: Counter[int] = Counter()
    for places, size in sizes.items():
        for place in places or (-1,):  # no device: the arrays are in host memory
            held[place] += size
    return max(held.values(), default=0)
