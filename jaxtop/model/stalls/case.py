"""A run that may be stalled: its hosts by state, and which of them stand out in what."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from jaxtop.model.host import longest_compile, still_of
from jaxtop.model.liveness import State, interval_of, state_of, was_never_reached
from jaxtop.model.stalls import transfers, witnesses
from jaxtop.model.stalls.lulls import (
    MIN_LAUNCHES,
    STANDSTILL_RATIO,
    computes,
    differing,
    has_stacks_of_now,
    running_of,
    stands,
)
from jaxtop.model.stalls.stacks import groups_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.host import Host
    from jaxtop.model.stalls.lulls import RunningLaunch
    from jaxtop.model.stalls.stacks import StackGroup
    from jaxtop.model.stalls.witnesses import Witness

# The texts for one lost process, and for several.
LOST = {
    State.DIED: ("has died", "have died"),
    State.GONE: ("is gone", "are gone"),
    State.STOPPED: ("is stopped", "are stopped"),
    State.BLOCKED: ("is blocked", "are blocked"),
    State.UNREACHABLE: ("is not reachable from here", "are not reachable from here"),
}
# A process that was lost more than this many seconds before the others stalled is not the cause.
MISSED_WITHIN = 20.0
# A compilation of at least this many seconds is a cause.
COMPILES_FOR = 2.0
# JAX launches ahead of the devices by a limited number: counters that are farther apart began at different
# moments.
MAX_COUNTER_DISTANCE = 64
# Without a rhythm, a run is stalled after this many seconds if its hosts differ in what they launched, or in
# whether they wait,
DIFFERS_FOR = 10.0
# and after this many seconds if all of them wait for a launch and none computes,
WAITS_FOR = 20.0
# or if it now takes far longer than ever before,
# or if the libraries of the devices have singled out the same process for this long.
SAME_FOR_MS = 20_000


def is_lost(host: Host, state: State) -> bool:
    """Return whether a process that was reached is lost."""
    return state in LOST and not was_never_reached(host)


def was_still(host: Host) -> bool:
    """Return whether a process had launched nothing for a while when it last reported.

    What came over it after that, such as its death, did not begin the stall.
    """
    still = still_of(host)
    return still is not None and host.pulse.at_ms - still.since_ms > MISSED_WITHIN * 1000


class Case:
    """The hosts of a run that may be stalled, grouped by state."""

    def __init__(self, members: Sequence[Host], at: float) -> None:
        self.at = at
        self.states = {host.agent: state_of(host, at) for host in members}
        self.present = [host for host in members if self.states[host.agent] is not State.ENDED]
        self.lost = [host for host in self.present if is_lost(host, self.states[host.agent])]
        self.heard = [host for host in self.present if self.states[host.agent] not in LOST]
        self.stalled = [host for host in self.heard if host.pulse.stall is not None]
        self.has_rhythm = bool(self.stalled)
        if not self.has_rhythm and self._is_stuck():
            self.stalled = self.heard

    # Without a rhythm

    def _is_stuck(self) -> bool:
        """Return whether no process makes progress, some wait, and what they wait for is unlikely to come."""
        stills = [still_of(host) for host in self.heard]
        running = [running_of(host) for host in self.heard]
        if not stills or not all(stills):
            return False
        shortest = min(map(self._seconds, self.heard))
        if shortest >= WAITS_FOR and self._witness is not None:
            return True
        if all(stands(host, self._seconds(host)) for host in self.heard):
            return True
        return shortest >= DIFFERS_FOR and any(running) and self._waits_in_vain(shortest, running)

    def _waits_in_vain(self, shortest: float, running: Sequence[RunningLaunch | None]) -> bool:
        if len(self.heard) > 1 and differing(self.heard) is not None:
            return True
        computing = [computes(host) for host in self.heard]
        if any(computing):
            return False
        if not all(running) or self.lost:
            return True
        none_computes = all(each is False for each in computing)
        return shortest >= WAITS_FOR and (none_computes or all(map(self._takes_too_long, self.heard)))

    def _takes_too_long(self, host: Host) -> bool:
        running, lull = running_of(host), host.pulse.lull
        if running is None or lull is None or host.launches.get(running.function, 0) <= MIN_LAUNCHES:
            return False
        return running.seconds > STANDSTILL_RATIO * lull.longest_ms / 1000

    # Who stands out

    def _missed(self) -> list[Host]:
        # A process may have run for one more interval after its last pulse.
        return [
            host
            for host in self.lost
            if not was_still(host)
            and max(host.link_at, (host.pulse_at or 0.0) + interval_of(host)) >= self._began - MISSED_WITHIN
        ]

    @cached_property
    def _compilers(self) -> list[Host]:
        return [
            host
            for host in self.heard
            if host.pulse.stall is None and self._compiles_for(host) >= COMPILES_FOR
        ]

    def _behind(self) -> list[Host]:
        """Return the hosts that launched less of what others wait in; none if the counters cannot tell."""
        counts = {host.agent: host.launches.get(self.function, 0) for host in self.heard}
        most, least = max(counts.values()), min(counts.values())
        behind = [host for host in self.heard if counts[host.agent] < most]
        if most - least > MAX_COUNTER_DISTANCE or len(behind) * 2 > len(self.heard):
            return []
        do_wait = all(host.agent in self._waiters for host in behind)
        if self._groups and do_wait and len(self._waiters) < len(self.heard):
            return []  # those behind wait, and others do not: the counters were started at different moments
        return behind

    def _elsewhere(self) -> list[Host]:
        """Return the hosts that do not wait while others do, or else those that are not where most are."""
        groups = self._groups
        known = sum(len(group.agents) for group in groups)
        busy = [group for group in groups if not group.is_waiting]
        if len(busy) == len(groups):
            busy = list(groups[1:]) if groups and len(groups[0].agents) > known / 2 else []
        return self._hosts(agent for group in busy for agent in group.agents)

    @cached_property
    def _witness(self) -> Witness | None:
        found = witnesses.named_by_devices(self.heard, 0 if self.has_rhythm else SAME_FOR_MS)
        return found or (None if self.has_rhythm else transfers.behind(self.heard))

    @cached_property
    def _is_beginning(self) -> bool:
        """Whether no process waits in JAX, and what the processes have moved singles one out."""
        return not self.has_rhythm and not self._waiters and self._witness is not None

    def _compared(self, odd: Sequence[Host]) -> Witness | None:
        return None if self.has_rhythm or not odd else transfers.compared(odd, self.heard)

    # Facts

    @cached_property
    def _began(self) -> float:
        return min(self.at - self._seconds(host) for host in self.stalled)

    @cached_property
    def function(self) -> str:
        """The function that they launched last; without a rhythm, the one that some launched more often."""
        if not self.has_rhythm and (name := differing(self.heard)) is not None:
            return name
        said = Counter(still.function for host in self.stalled if (still := still_of(host)) is not None)
        return said.most_common(1)[0][0]

    @cached_property
    def _groups(self) -> list[StackGroup]:
        return groups_of(host for host in self.heard if has_stacks_of_now(host))

    @cached_property
    def _waiters(self) -> set[str]:
        """The agents whose main threads wait in JAX."""
        return {agent for group in self._groups if group.is_waiting for agent in group.agents}

    @cached_property
    def _are_all_seen(self) -> bool:
        """Whether the stacks of all stalled hosts have arrived."""
        return sum(len(group.agents) for group in self._groups) == len(self.stalled)

    def _hosts(self, agents: Iterable[str]) -> list[Host]:
        wanted = set(agents)
        return [host for host in self.heard if host.agent in wanted]

    def _seconds(self, host: Host) -> float:
        """Return for how long a host has been still, by its own clock and the time since its last pulse."""
        still = still_of(host)
        since = still.since_ms if still else host.pulse.at_ms
        return max(0.0, (host.pulse.at_ms - since) / 1000 + self._age(host))

    def _age(self, host: Host) -> float:
        """Return the age of the last pulse; it is negative where a recording begins with a later keyframe."""
        return self.at - (host.pulse_at or self.at)

    def _compiles_for(self, host: Host) -> float:
        longest = longest_compile(host.pulse)
        return 0.0 if longest is None else longest[0] + self._age(host)
