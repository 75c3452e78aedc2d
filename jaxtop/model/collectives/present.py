"""The windows that show the present steps, and their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from jaxtop.model.host import changed_ms
from jaxtop.model.liveness import OF_STEPS, WINDOW, is_current

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.model.state import ClusterState
    from jaxtop.model.windows import LaunchShare, ProgramKey, ProgramWindows, Timing

InWindow = TypeVar("InWindow", bound="Timing | LaunchShare")


def first_windows(cluster: ClusterState) -> Mapping[ProgramKey, int]:
    """Return the number of the first window of each program that shows the present rhythm of the step.

    It follows from the windows and from the last pulses alone, however a moment was reached.
    """
    changed = {agent: changed_ms(host.pulse) for agent, host in cluster.hosts.items()}
    inputs = cluster.windows.changes, cluster.derived.same("changes of the rhythm", changed)
    return cluster.derived.get(
        "first windows",
        inputs,
        lambda: {key: _first(cluster, windows) for key, windows in cluster.windows.programs.items()},
    )


def of_present_rhythm(entries: Sequence[InWindow], first: int) -> Sequence[InWindow]:
    """Return the entries from the first window of the present rhythm on; all if there are none since."""
    return [each for each in entries if each.window_number >= first] or entries


def old_windows(cluster: ClusterState, now: float) -> frozenset[ProgramKey]:
    """Return the programs of which no window was taken lately: verdicts on their collectives have ended."""
    found = (key for key, windows in cluster.windows.programs.items() if _is_old(cluster, windows, now))
    return cluster.derived.same("programs with old windows", frozenset(found))


def _is_old(cluster: ClusterState, windows: ProgramWindows, now: float) -> bool:
    """Return whether the last window is old, by the clock of any process whose clock is known."""
    for agent, at_ms in next(reversed(windows.taken_ms.values()), {}).items():
        host = cluster.hosts.get(agent)
        if host is not None and host.pulse_at is not None:
            return not is_current(host, at_ms, WINDOW, now)
    return False


def _first(cluster: ClusterState, windows: ProgramWindows) -> int:
    """Return the number after the last window that half of its processes took before the change."""
    first, hosts = 0, cluster.hosts
    for number, times in windows.taken_ms.items():
        old = sum(
            agent in hosts and not is_current(hosts[agent], at_ms, OF_STEPS) for agent, at_ms in times.items()
        )
        # One process may have noticed another pace alone, and its next window may be due to that.
        is_joint = len(times) > 1 or len(windows.last_number_of_agent) == 1
        if is_joint and 2 * old >= len(times):
            first = max(first, number + 1)
    return first
