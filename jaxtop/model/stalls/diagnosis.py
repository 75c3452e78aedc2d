"""Diagnosis of a stalled run: which process delays the others, from reports and from silence.

Causes are checked in this order: a process that is lost; a process that compiles; a process that has launched
less than the others; a process whose main thread is elsewhere than most, or does not wait for JAX where
others do.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from jaxtop.model.host import run_of
from jaxtop.model.hosts import named, run_members
from jaxtop.model.liveness import State, interval_of, state_of, was_never_reached
from jaxtop.model.stalls.lulls import computes, differing, has_stacks_of_now, running_of, still_of
from jaxtop.model.stalls.stacks import groups_of, place_text
from jaxtop.model.state import Certainty, Diagnosis
from jaxtop.names import program_of, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.model.host import Host
    from jaxtop.model.stalls.stacks import StackGroup
    from jaxtop.model.state import ClusterState

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
FARTHEST = 64
MOST_PLACES, LONGEST_NAME = 3, 60
# Without a rhythm, a run is stalled after this many seconds if its hosts differ in what they launched, or in
# whether they wait,
DIFFERS_FOR = 10.0
# and after this many seconds if all of them wait for a launch and none computes,
WAITS_FOR = 20.0
# or if the launch was made so often before, and now takes this many times the longest lull.
LAUNCHED, TIMES_A_LULL = 5, 3


def is_lost(host: Host, state: State) -> bool:
    """Return whether a process that was reached is lost."""
    return state in LOST and not was_never_reached(host)


def diagnose(cluster: ClusterState, run: str, at: float) -> Diagnosis | None:
    """Return the cause of a stall; None while nothing shows that the run is stalled."""
    case = _case(cluster, run, at)
    return case.diagnosis(run) if case.stalled else None


def has_resumed(cluster: ClusterState, run: str, at: float) -> bool:
    """Return whether any process of the run makes progress; lost processes are left out."""
    return any(still_of(host) is None for host in _case(cluster, run, at).heard)


def _case(cluster: ClusterState, run: str, at: float) -> _Case:
    members = next((each.members for each in run_members(cluster) if each.id == run), ())
    return _Case([host for host, _ in members if run_of(host) == run], at)


class _Case:
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

    def diagnosis(self, run: str) -> Diagnosis:
        odd, certainty, text = self._cause()
        culprits = {host.agent for host in odd}
        waiting = tuple(host.agent for host in self.stalled if host.agent not in culprits)
        is_grave = self.has_rhythm and len(waiting) > 1 and not self._compilers
        severity = "critical" if is_grave else "warning"
        agents = tuple(host.agent for host in odd)
        return Diagnosis(run, int(self.at * 1000), severity, text, agents, waiting, certainty, self._began)

    def _cause(self) -> tuple[list[Host], Certainty, str]:
        if missed := self._missed():
            return missed, Certainty.LOST, f"{self._waiting_text(self.stalled)}; {self._lost_text(missed)}"
        if self._compilers:
            return self._compilers, Certainty.WHY, self._compiling_text()
        behind = self._behind()
        if odd := behind or self._elsewhere():
            return self._odd_text(odd, is_behind=bool(behind))
        if not self._are_all_seen:
            return [], Certainty.STANDS, self._since()
        return [], Certainty.PLACES, f"{self._since()}: {self._everywhere()}"

    def _odd_text(self, odd: list[Host], *, is_behind: bool) -> tuple[list[Host], Certainty, str]:
        places = self._places(odd)
        culprits = {host.agent for host in odd}
        waiting = [host for host in self.stalled if host.agent not in culprits]
        if is_behind:
            said = f"{named(odd)} {'have' if len(odd) > 1 else 'has'} not launched it"
            said += f": {places}" if places else ""
        else:
            said = self._standing(odd)
        if is_behind or all(host.agent in self._waiters for host in waiting):
            text = f"{self._waiting_text(waiting)}; {said}"
        else:
            text = f"{self._standing(waiting)}; {said}"
        return odd, Certainty.WHY if places and self._are_all_seen else Certainty.WHO, text

    # Without a rhythm

    def _is_stuck(self) -> bool:
        """Return whether no process makes progress, some wait, and what they wait for is unlikely to come."""
        stills = [still_of(host) for host in self.heard]
        running = [running_of(host) for host in self.heard]
        if not any(running) or not all(stills):
            return False
        shortest = min(map(self._seconds, self.heard))
        if shortest < DIFFERS_FOR:
            return False
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
        if running is None or lull is None or host.launches.get(running.function, 0) <= LAUNCHED:
            return False
        return running.seconds > TIMES_A_LULL * lull.longest_ms / 1000

    # The cause

    def _missed(self) -> list[Host]:
        # A process may have run for one more interval after its last pulse.
        return [
            host
            for host in self.lost
            if max(host.link_at, (host.pulse_at or 0.0) + interval_of(host)) >= self._began - MISSED_WITHIN
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
        if most - least > FARTHEST or len(behind) * 2 > len(self.heard):
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
        return (host.pulse.at_ms - since) / 1000 + self._age(host)

    def _age(self, host: Host) -> float:
        return max(0.0, self.at - (host.pulse_at or self.at))

    def _compiles_for(self, host: Host) -> float:
        longest = max((host.pulse.at_ms - each.since_ms for each in host.pulse.compiling), default=0)
        return longest / 1000 + self._age(host) if host.pulse.compiling else 0.0

    # Texts

    def _since(self) -> str:
        first = max(self.stalled, key=self._seconds)
        stall = first.pulse.stall
        usual = f" (usually every {stall.usual_ms / 1000:.1f} s)" if stall else ""
        who = "" if len(self.present) == 1 else f" by {named(self.stalled)}"
        return f"nothing launched{who} for {self._seconds(first):.0f} s{usual}"

    def _standing(self, hosts: list[Host]) -> str:
        many = len(hosts) > 1
        return f"{named(hosts)} {'are' if many else 'is'} at {self._places(hosts)}"

    def _everywhere(self) -> str:
        """Return where all hosts are, if none can be singled out."""
        first, *others = self._groups
        if len(self.present) == 1:
            return f"it is at {first.text}"
        if not others and len(first.agents) == len(self.heard):
            return f"all are at {first.text}; which one blocks the others is unknown"
        groups = self._groups[:MOST_PLACES]
        places = "; ".join(f"{named(self._hosts(group.agents))} at {group.text}" for group in groups)
        return f"{places}; which one blocks the others is unknown"

    def _waiting_text(self, hosts: list[Host]) -> str:
        if not hosts:
            return self._since()
        return f"{named(hosts)} {'wait' if len(hosts) > 1 else 'waits'} in {self._program(hosts[0])}"

    def _program(self, host: Host) -> str:
        """Return the program that they wait in, with the collective if only one is possible."""
        if self.function.endswith("()"):
            return f"the code after {self.function}"  # no launches are counted: the script reports its steps
        program = program_of(self.function)
        known = [each for (name, _), each in host.inventories.items() if name == program]
        program = shorten(program, LONGEST_NAME)
        if len(known) == 1 and len(known[0].collectives) == 1 and not known[0].rest and not known[0].unread:
            return f"{program} ({known[0].collectives[0].op})"
        return program

    def _places(self, hosts: list[Host]) -> str:
        wanted = {host.agent for host in hosts}
        found = [group for group in self._groups if wanted & set(group.agents)]
        return ", ".join(place_text(group.place) for group in found[:MOST_PLACES])

    def _lost_text(self, hosts: list[Host]) -> str:
        by_state: dict[State, list[Host]] = {}
        for host in hosts:
            by_state.setdefault(self.states[host.agent], []).append(host)
        return ", ".join(f"{named(of)} {LOST[state][len(of) > 1]}" for state, of in by_state.items())

    def _compiling_text(self) -> str:
        first = max(self._compilers, key=self._compiles_for)
        what = shorten(min(first.pulse.compiling, key=lambda each: each.since_ms).function, LONGEST_NAME)
        many = len(self._compilers) > 1
        return (
            f"{named(self._compilers)} {'have' if many else 'has'} been compiling {what} "
            f"for {self._compiles_for(first):.0f} s; the others wait"
        )
