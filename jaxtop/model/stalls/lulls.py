"""Lulls: since when a host launches nothing, whether a launch runs there, and whether it computes.

An agent reports a lull after a few seconds, without knowing what is usual. A lull alone is not an alarm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.names import program_of
from jaxtop.model.host import still_of
from jaxtop.model.liveness import OF_STOP, is_current
from jaxtop.model.naming.families import Role
from jaxtop.model.stalls.stacks import is_waiting, main_frames
from jaxtop.wire import COMPILED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jaxtop.model.host import Host

# A process computes on its CPU devices if it uses at least this many thousandths of a core.
COMPUTING_PERMILLE = 500
# A process waits if it uses less than this many thousandths of a core.
WAITING_PERMILLE = 200
# A host is crowded if its tasks wait for a core for this many thousandths of the time: none gets much of one.
CROWDED_PERMILLE = 500
# On a crowded host, a process computes from this many thousandths of a core on.
CROWDED_COMPUTING_PERMILLE = 100
# On a crowded host, a process waits below this many thousandths of a core.
CROWDED_WAITING_PERMILLE = 50
# Steps have begun once a function was launched more often than this.
MIN_LAUNCHES = 5
# A time without launches is a standstill if it is this many times as long as the longest one before.
STANDSTILL_RATIO = 3
# The shortest standstill, in seconds.
MIN_STANDSTILL_S = 30.0


class RunningLaunch(NamedTuple):
    """A launch that the main thread waits for, and for how many seconds by the process's own clock."""

    function: str
    seconds: float


def running_of(host: Host) -> RunningLaunch | None:
    """Return the launch that the main thread waits for during a lull or stall; None if it does not wait."""
    still = still_of(host)
    if still is None or not has_stacks_of_now(host) or not is_waiting(host.stacks):
        return None
    inner = main_frames(host.stacks)[-1]
    function = (
        inner.function if inner.file == COMPILED and inner.function in host.launches else still.function
    )
    return RunningLaunch(function, (host.pulse.at_ms - still.since_ms) / 1000) if function else None


def has_stacks_of_now(host: Host) -> bool:
    """Return whether the stacks of a host were read since its progress stopped."""
    return bool(host.stacks.threads) and is_current(host, host.stacks.at_ms, OF_STOP)


def computes(host: Host) -> bool | None:
    """Return whether the devices of a host compute; None where that is unknown."""
    if host.hello is None:
        return None
    if host.hello.platform == "cpu":
        used, pressure = host.pulse.host.process_cpu_permille, host.pulse.host.cpu_pressure_permille
        is_crowded = (pressure or 0) >= CROWDED_PERMILLE
        most, least = (
            (CROWDED_COMPUTING_PERMILLE, CROWDED_WAITING_PERMILLE)
            if is_crowded
            else (COMPUTING_PERMILLE, WAITING_PERMILLE)
        )
        return None if used is None else True if used >= most else False if used < least else None
    column = host.pulse.devices.utilization_permille or (None,)
    # Devices that wait for each other are as busy as devices that compute.
    return False if all(each is not None and each < WAITING_PERMILLE for each in column) else None


def uses_cpu(host: Host) -> bool:
    """Return whether a process uses the CPU, or what it uses is not known."""
    used = host.pulse.host.process_cpu_permille
    return used is None or used >= WAITING_PERMILLE


def stands(host: Host, seconds: float) -> bool:
    """Return whether a process that had begun its steps has launched nothing for longer than ever before.

    One that computes in Python may have ended its steps, and one that serves waits for requests.
    """
    lull = host.pulse.lull
    if lull is None or host.launches.get(lull.function, 0) <= MIN_LAUNCHES or uses_cpu(host):
        return False
    if host.hello is not None and Role(host.hello.role or "").serves:
        return False
    return seconds > max(MIN_STANDSTILL_S, STANDSTILL_RATIO * lull.longest_ms / 1000)


def differing(hosts: Sequence[Host]) -> str | None:
    """Return a function that some hosts have launched more often than others; None if all counts are equal.

    Programs that span hosts come first, then the function that most of the hosts launched last.
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
    """Return the functions whose programs also use devices of other processes."""
    programs = {
        each.name
        for each in host.programs.programs
        if each.devices is not None and each.local_devices is not None and each.local_devices < each.devices
    }
    return [name for name in functions if program_of(name) in programs]
