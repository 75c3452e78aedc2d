"""How long each device waited in the collectives of one launch, as far as its trace shows."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.traces.launches import CLOCKS_NS
from jaxtop.traces.parts import rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from jaxtop.traces import Op
    from jaxtop.traces.protos import ProfilePrograms

# Why the wait in a collective is unknown.
NO_GROUPS = "the trace does not say which devices meet"
OUTSIDE = "not all devices that meet are in the trace"
NO_BARRIER = "the trace lacks the barrier before it on some devices"
UNEVEN = "the trace lacks it on some devices in some rounds"
LEFT_APART = "devices that meet left it at different times"


class TracedLaunch(NamedTuple):
    """A launch on some devices of its program.

    `waits` has for each device of the program how long it waited for the others, in nanoseconds, in the
    collective in which a device waited longest, which is `waited_in`; None where that is unknown. For the
    collectives of which nothing is known, `unknown` counts why. `apart` is the longest time between the first
    and the last member's end of a collective.
    """

    start: int
    devices: tuple[int, ...]
    is_cut: bool
    collectives: int = 0
    waits: tuple[int | None, ...] | None = None
    waited_in: str | None = None
    apart: int | None = None
    unknown: Mapping[str, int] = MappingProxyType({})


class LaunchWaits:
    """The waits in the launches of a program."""

    def __init__(
        self,
        module: str,
        devices: tuple[int, ...],
        compiled: ProfilePrograms,
        id_of: Callable[[int], int | None],
    ) -> None:
        self._module = module
        self._devices = devices
        self._compiled = compiled
        self._wanted = compiled.wanted
        own_devices = compiled.devices.get(module)
        self._numbers = _numbers(devices, own_devices, id_of)
        self._why_not = NO_GROUPS if own_devices is None or len(own_devices) == len(devices) else OUTSIDE

    def launch(self, starts: Mapping[int, int], ops: Iterable[Op]) -> TracedLaunch:
        """Return a whole launch, with the waits in the collective in which a device waited longest."""
        found, uneven = rounds(ops)
        unknown = Counter({UNEVEN: uneven} if uneven else {})
        best: tuple[int, str, dict[int, int]] | None = None
        apart: list[int] = []
        for (name, number), instance in found.items():
            if not self._wanted.meets(self._module, name):
                continue
            between = _shortest_time_between(
                instance, found.get((name, number - 1)), found.get((name, number + 1))
            )
            waits, why = self._instance(name, instance, between, apart)
            if why:
                unknown[why] += 1
            if waits and (best is None or max(waits.values()) > best[0]):
                where = name if between is None else f"{name}, round {number + 1}"
                best = max(waits.values()), where, waits
        return TracedLaunch(
            min(starts.values()),
            tuple(sorted(starts)),
            is_cut=False,
            collectives=len(found) + uneven,
            waits=None if best is None else tuple(best[2].get(device) for device in self._devices),
            waited_in=None if best is None else best[1],
            apart=max(apart, default=None),
            unknown=unknown,
        )

    def _instance(
        self, name: str, instance: Mapping[int, Op], between: int | None, apart: list[int]
    ) -> tuple[dict[int, int], str]:
        """Return how long each device waited in a collective, and why that is unknown of some.

        The time in a barrier is a wait, whoever came last. In the collective itself, the one that came last
        shows how long the others waited, so it must be there. `apart` gets how far apart members ended.
        """
        if any(op.waited is None for op in instance.values()):
            return {}, NO_BARRIER
        waits = {device: op.waited or 0 for device, op in instance.items() if op.has_barrier}
        groups = self._groups_of(name)
        if waits.keys() == instance.keys() and len(waits) > 1:  # they all met in the barrier
            apart.append(_spread(instance.values()))
        if groups is None:
            return waits, "" if len(waits) == len(instance) else self._why_not
        why = ""
        for group in groups:
            present = {device: op for device in group if device is not None and (op := instance.get(device))}
            if not present or len(group) < 2:
                continue
            if len(present) > 1:
                apart.append(_spread(present.values()))
            if len(present) < len(group):
                why = why if waits.keys() >= present.keys() else OUTSIDE
                continue
            lasted = {device: op.end - op.start for device, op in present.items()}
            least = min(lasted.values())
            most = max(CLOCKS_NS, least)
            if _spread(present.values()) > (most if between is None else min(most, between // 2)):
                waits = {device: wait for device, wait in waits.items() if device not in present}
                why = LEFT_APART
                continue
            waits |= {device: waits.get(device, 0) + each - least for device, each in lasted.items()}
        return waits, why

    def _groups_of(self, name: str) -> list[list[int | None]] | None:
        """Return the groups of a collective by the numbers of devices; None for what the trace lacks."""
        collective = self._compiled.collectives.get((self._module, name))
        if collective is None or collective.groups is None or self._numbers is None:
            return None
        return [[self._numbers.get(member) for member in group] for group in collective.groups]


def _spread(ops: Collection[Op]) -> int:
    """Return the time between the first and the last end."""
    return max(op.end for op in ops) - min(op.end for op in ops)


def _numbers(
    devices: tuple[int, ...], ids: frozenset[int] | None, id_of: Callable[[int], int | None]
) -> dict[int, int] | None:
    """Return the numbers of a program's devices in the trace, by id.

    Where the trace does not say the ids, they ascend as the numbers do, if all devices are there.
    """
    if ids is None:
        return None
    found = {own_id: device for device in devices if (own_id := id_of(device)) is not None}
    if len(found) == len(devices) and found.keys() <= ids:
        return found
    return dict(zip(sorted(ids), devices, strict=True)) if len(ids) == len(devices) else None


def _shortest_time_between(instance: Mapping[int, Op], *others: Mapping[int, Op] | None) -> int | None:
    """Return the shortest time to the end of another round of a collective; None if it has no other."""
    times = [abs(op.end - other[device].end) for other in others if other for device, op in instance.items()]
    return min(times, default=None)
