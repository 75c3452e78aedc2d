"""Hosts on which nothing happens: since when, whether a launch runs there, and whether it computes.

An agent tells of a lull after a few seconds, without knowing what is usual. A lull alone is no alarm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.stalls.stacks import is_waiting, main_frames
from jaxtop.names import program_of
from jaxtop.wire import COMPILED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jaxtop.model.host import Host

# A process that uses so much of a core computes on its CPU devices; one that uses so little waits.
COMPUTES, WAITS = 500, 200


class Still(NamedTuple):
    """A host on which nothing happens: what it launched last, since when, and how often it did so usually."""

    function: str
    since_ms: int
    usual_ms: int | None = None


class Running(NamedTuple):
    """A launch that the main thread waits for, and for how many seconds by the process's own clock."""

    function: str
    seconds: float


def still_of(host: Host) -> Still | None:
    """Since when nothing happens on a host; None where something does."""
    stall, lull = host.pulse.stall, host.pulse.lull
    if stall is not None:
        return Still(stall.function, stall.since_ms, stall.usual_ms)
    return None if lull is None else Still(lull.function, lull.since_ms)


def running_of(host: Host) -> Running | None:
    """The launch that runs on a host for so long that nothing else happens there."""
    still = still_of(host)
    if still is None or not has_stacks_of_now(host) or not is_waiting(host.stacks):
        return None
    inner = main_frames(host.stacks)[-1]
    function = (
        inner.function if inner.file == COMPILED and inner.function in host.launches else still.function
    )
    return Running(function, (host.pulse.at_ms - still.since_ms) / 1000) if function else None


def has_stacks_of_now(host: Host) -> bool:
    """Whether its stacks were read since nothing happens any more."""
    still = still_of(host)
    return still is not None and bool(host.stacks.threads) and host.stacks.at_ms >= still.since_ms


def computes(host: Host) -> bool | None:
    """Whether its devices compute; None where that cannot be told."""
    if host.hello is None:
        return None
    if host.hello.platform == "cpu":
        used = host.pulse.host.process_cpu_permille
        return None if used is None else True if used >= COMPUTES else False if used < WAITS else None
    column = host.pulse.devices.utilization_permille or (None,)
    # Devices that wait for each other are as busy as those that compute.
    return False if all(each is not None and each < WAITS for each in column) else None


def differing(hosts: Sequence[Host]) -> str | None:
    """A function that some of these hosts have launched more often than others; None where all are level.

    Programs that span hosts come first, then what most of the hosts launched last.
    """
    counted = {name for host in hosts for name in host.launches}
    unequal = {name for name in counted if len({host.launches.get(name, 0) for host in hosts}) > 1}
    last = [still.function for host in hosts if (still := still_of(host)) is not None]
    spanning = unequal & {name for host in hosts for name in _spanning(host, unequal)}
    return max(
        spanning | unequal.intersection(last),
        key=lambda name: (name in spanning, last.count(name), name),
        default=None,
    )


def _spanning(host: Host, functions: Collection[str]) -> list[str]:
    """Those of the functions whose programs have devices of other processes, too."""
    programs = {
        each.name
        for each in host.programs.programs
        if each.devices is not None and each.local_devices is not None and each.local_devices < each.devices
    }
    return [name for name in functions if program_of(name) in programs]
