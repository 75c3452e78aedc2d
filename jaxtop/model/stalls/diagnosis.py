"""Diagnosis of a stalled run: which process delays the others, from their reports and from missing reports.

Causes are checked in this order: a process that is lost; a process that compiles; a process that has launched
less than the others; a process whose main thread is elsewhere than most, or does not wait for JAX where
others do; a process that the libraries of the devices single out; before the first steps, one that has read
or written far less than the others.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.base.names import program_of, shorten
from jaxtop.model.host import run_of, still_of
from jaxtop.model.hosts import run_members
from jaxtop.model.naming.sentences import acting, host_names, how_often
from jaxtop.model.stalls.case import LOST, Case
from jaxtop.model.stalls.lulls import uses_cpu
from jaxtop.model.stalls.stacks import place_text
from jaxtop.model.state import Certainty, Diagnosis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model.finding import Evidence
    from jaxtop.model.host import Host
    from jaxtop.model.liveness import State
    from jaxtop.model.stalls.witnesses import Witness
    from jaxtop.model.state import ClusterState

MAX_PLACES = 3
LONGEST_NAME = 60


def diagnose(cluster: ClusterState, run: str, at: float) -> Diagnosis | None:
    """Return the cause of a stall; None while nothing shows that the run is stalled."""
    case = _case(cluster, run, at)
    return case.diagnosis(run) if case.stalled else None


def evidence(cluster: ClusterState, found: Diagnosis, at: float) -> tuple[Evidence, ...]:
    """Return the figures of devices or transfers behind a diagnosis, if they still lead to it."""
    case = _case(cluster, found.run, at)
    if not case.stalled:
        return ()
    odd, _, _ = case.cause
    witness = case.witness_of(odd)
    return witness.evidence if witness is not None and {each.agent for each in odd} == set(found.odd) else ()


def has_resumed(cluster: ClusterState, run: str, at: float) -> bool:
    """Return whether any process of the run makes progress; lost processes are left out."""
    return any(still_of(host) is None for host in _case(cluster, run, at).heard)


def _case(cluster: ClusterState, run: str, at: float) -> _StallDiagnosis:
    members = next((each.members for each in run_members(cluster) if each.id == run), ())
    return _StallDiagnosis([host for host, _ in members if run_of(host) == run], at)


class _StallDiagnosis(Case):
    """The cause of a stall, in words."""

    def diagnosis(self, run: str) -> Diagnosis:
        odd, certainty, text = self.cause
        culprits = {host.agent for host in odd}
        waiting = tuple(host.agent for host in self.stalled if host.agent not in culprits)
        agents, at_ms = tuple(host.agent for host in odd), int(self.at * 1000)
        witness = self.witness_of(odd)
        is_moving = witness is not None and witness.is_moving
        # Before the first steps a process may have more to prepare than the others.
        is_idle = bool(odd) and not any(map(uses_cpu, odd)) and not is_moving
        waiters = len(self._waiters.intersection(waiting))
        is_sure = self.has_rhythm or (is_idle and waiters > 1)
        # Of two processes one waits: an idle one then holds up all of the others, too.
        all_wait = len(waiting) > 1 or (is_idle and waiters == 1 and self.has_rhythm)
        is_grave = all_wait and not self._compilers and is_sure
        severity = "critical" if is_grave else "warning"
        return Diagnosis(run, at_ms, severity, text, agents, waiting, certainty, self._began, is_moving)

    @cached_property
    def cause(self) -> tuple[list[Host], Certainty, str]:
        if missed := self._missed():
            return missed, Certainty.LOST, f"{self._waiting_text(self.stalled)}; {self._lost_text(missed)}"
        if self._compilers:
            return self._compilers, Certainty.WHY, self._compiling_text()
        behind = self._behind()
        if odd := behind or ([] if self._is_beginning else self._elsewhere()):
            return self._odd_text(odd, is_behind=bool(behind))
        if (witness := self._witness) is not None:
            return list(witness.odd), Certainty.WHY, self._witness_text(witness)
        if not self._are_all_seen:
            return [], Certainty.STANDS, self._since_text()
        return [], Certainty.PLACES, f"{self._since_text()}: {self._everywhere()}"

    def _odd_text(self, odd: list[Host], *, is_behind: bool) -> tuple[list[Host], Certainty, str]:
        places = self._places(odd)
        culprits = {host.agent for host in odd}
        waiting = [host for host in self.stalled if host.agent not in culprits]
        if is_behind:
            said = f"{acting(odd, 'has', 'have')} not launched it" + (f": {places}" if places else "")
        else:
            said = self._standing(odd)
        if is_behind or all(host.agent in self._waiters for host in waiting):
            text = f"{self._waiting_text(waiting)}; {said}"
        else:
            text = f"{self._standing(waiting)}; {said}"
        if (moved := self._compared(odd)) is not None:
            text += f"; {moved.text}"
        return odd, Certainty.WHY if places and self._are_all_seen else Certainty.WHO, text

    def _witness_text(self, witness: Witness) -> str:
        odd = {host.agent for host in witness.odd}
        waiting = [host for host in self.stalled if host.agent not in odd]
        if all(host.agent in self._waiters for host in waiting):
            return f"{self._waiting_text(waiting)}; {witness.text}"
        return f"{self._since_text()}; {witness.text}"

    def witness_of(self, odd: Sequence[Host]) -> Witness | None:
        """Return the witness whose figures show that these processes are the cause."""
        agents = {host.agent for host in odd}
        witness = self._witness
        if witness is not None and {host.agent for host in witness.odd} == agents:
            return witness
        return self._compared(odd)

    # Texts

    def _since_text(self) -> str:
        first = max(self.stalled, key=self._seconds)
        stall, lull = first.pulse.stall, first.pulse.lull
        usual = f" (usually {how_often(stall.usual_ms / 1000)})" if stall else ""
        if stall is None and lull is not None and lull.longest_ms:
            usual = f" (before for {units.duration(lull.longest_ms)} at most)"
        who = "" if len(self.present) == 1 else f" by {host_names(self.stalled)}"
        return f"nothing launched{who} for {self._seconds(first):.0f} s{usual}"

    def _standing(self, hosts: list[Host]) -> str:
        return f"{acting(hosts, 'is', 'are')} at {self._places(hosts)}"

    def _everywhere(self) -> str:
        """Return where all hosts are, if none can be singled out."""
        first, *others = self._groups
        if len(self.present) == 1:
            return f"it is at {first.text}"
        if not others and len(first.agents) == len(self.heard):
            return f"all are at {first.text}; which one blocks the others is unknown"
        groups = self._groups[:MAX_PLACES]
        places = "; ".join(f"{host_names(self._hosts(group.agents))} at {group.text}" for group in groups)
        return f"{places}; which one blocks the others is unknown"

    def _waiting_text(self, hosts: list[Host]) -> str:
        if not hosts:
            return self._since_text()
        return f"{acting(hosts, 'waits', 'wait')} in {self._program(hosts[0])}"

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
        return ", ".join(place_text(group.place) for group in found[:MAX_PLACES])

    def _lost_text(self, hosts: list[Host]) -> str:
        by_state: dict[State, list[Host]] = {}
        for host in hosts:
            by_state.setdefault(self.states[host.agent], []).append(host)
        return ", ".join(acting(in_state, *LOST[state]) for state, in_state in by_state.items())

    def _compiling_text(self) -> str:
        first = max(self._compilers, key=self._compiles_for)
        what = shorten(min(first.pulse.compiling, key=lambda each: each.since_ms).function, LONGEST_NAME)
        seconds = f"{self._compiles_for(first):.0f} s"
        return (
            f"{acting(self._compilers, 'has', 'have')} been compiling {what} for {seconds}; the others wait"
        )
