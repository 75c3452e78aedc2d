"""The type of rules, and the facts that they read: one run of the cluster at one time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from jaxtop.model.arrays.growth import growers
from jaxtop.model.collectives.views import collective_views
from jaxtop.model.hardware.allocators import taken_share
from jaxtop.model.naming.families import family_groups, main_run
from jaxtop.model.naming.sentences import host_names, several
from jaxtop.model.steps.views import wall_time_of_run
from jaxtop.model.wall_time.lateness import NO_LATENESS, Lateness, lateness_by_run, reporting
from jaxtop.model.wall_time.step_parts import parts_of_hosts, run_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from jaxtop.model.arrays.growth import Grower
    from jaxtop.model.collectives.views import CollectiveView
    from jaxtop.model.finding import Finding
    from jaxtop.model.host import Host
    from jaxtop.model.hosts import Run
    from jaxtop.model.liveness import HostView
    from jaxtop.model.naming.families import Group
    from jaxtop.model.shares import Parts, RunParts
    from jaxtop.model.state import ClusterState
    from jaxtop.model.tuning import Number
    from jaxtop.model.wall_time.gaps import Gap


# From this share of its limit on, memory is scarce on a device: what could be saved there is a warning.
SCARCE = 0.85


class Unmeasured(Exception):
    """A rule cannot be checked, or not beyond what it yielded before; the text is the reason."""


def always(_: Finding) -> bool:
    return True


def never(_: Finding) -> bool:
    return False


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule: one kind of finding. The table of rules and docs/findings.md are made of these.

    `check` yields the findings of one run, or raises `Unmeasured`. A finding is reported once it has held for
    `holds_for` seconds, and ends once it has not held for `stays_for` seconds. `inputs` returns the objects
    that `check` depends on: while they are the same objects, it is not called again. So such a check must not
    depend on the time, or a finding would differ after a jump.
    """

    name: str
    title: str
    # When it is reported, in one sentence; `details` are sentences of their own.
    threshold: str
    rationale: str
    source: str
    advice: str
    check: Callable[[RunFacts], Iterable[Finding]]
    holds_for: float = 4.0
    stays_for: float = 10.0
    # The rules whose findings in the same run are consequences of this one.
    explains: tuple[str, ...] = ()
    inputs: Callable[[RunFacts], Sequence[object]] | None = None
    # Whether a finding is reported as an event; False where another reducer already reports the same.
    makes_event: Callable[[Finding], bool] = always
    # What a user may change of its threshold.
    numbers: tuple[Number, ...] = ()
    details: tuple[str, ...] = ()
    # Whether it can be checked for a run of which only the end is known.
    applies_after_exit: bool = False

    def findings(self, facts: RunFacts) -> Iterator[Finding]:
        """Yield the findings of a run under the name of the rule."""
        facts.begin_check(self.name)
        for finding in self.check(facts):
            yield replace(finding, rule=self.name, run=facts.run.id)


class RunFacts:
    """What the rules read of one run at one time; everything expensive comes from the memo of the cluster."""

    def __init__(self, cluster: ClusterState, run: Run, at: float) -> None:
        self.cluster, self.run, self._at = cluster, run, at
        self._rule = ""
        self._has_read_time = False

    def begin_check(self, rule: str) -> None:
        """Begin the check of this rule: `number` and `has_read_time` are about it from now on."""
        self._rule = rule
        self._has_read_time = False

    def read_time(self) -> float:
        """Return the time of the check, and note that the result of the rule holds at this time only."""
        self._has_read_time = True
        return self._at

    @property
    def has_read_time(self) -> bool:
        """Whether the rule that is being checked has read the time."""
        return self._has_read_time

    @cached_property
    def present(self) -> list[HostView]:
        """The hosts whose processes have not exited."""
        return [view for view in self.run.hosts if not view.state.has_exited]

    @cached_property
    def reporting(self) -> list[HostView]:
        """The hosts whose figures are current."""
        return reporting(self.run)

    @cached_property
    def _groups(self) -> dict[str, Group]:
        """The groups of families, by the ids of their runs."""
        return {run.id: group for group in family_groups(self.cluster, self._at) for run in group.runs}

    @cached_property
    def may_idle(self) -> str:
        """Why it is not a fault that the run's devices idle: it serves, or helps the main run; else empty."""
        own, main = self._groups.get(self.run.id), main_run(self.cluster, self._at)
        if own is None:
            return ""
        if own.role.serves:
            return "it serves requests"
        of_main = None if main is None or main.id == self.run.id else self._groups.get(main.id)
        is_helper = of_main is not None and of_main.family == own.family
        return "it works for the main run" if is_helper else ""

    @property
    def other_groups(self) -> list[Group]:
        """The other groups of the run's family."""
        own = self._groups.get(self.run.id)
        if own is None:
            return []
        found = family_groups(self.cluster, self._at)
        return [each for each in found if each.family == own.family and each is not own]

    @cached_property
    def parts(self) -> Mapping[str, Parts]:
        """Where the time of each host goes, by agent, as far as it is measured."""
        return parts_of_hosts(self.cluster, self._at)

    @cached_property
    def run_parts(self) -> RunParts | None:
        """Where a step of the run goes, as the panel shows it; None if nothing measures it."""
        return run_parts(self.cluster, self._at, self.run.id)

    @cached_property
    def _lateness(self) -> Lateness:
        return lateness_by_run(self.cluster, self._at).get(self.run.id, NO_LATENESS)

    @cached_property
    def gaps(self) -> list[Gap]:
        """The gaps of the hosts whose main threads are sampled."""
        return list(self._lateness.gaps)

    @cached_property
    def late_scripts(self) -> list[Gap]:
        """The gaps of the processes for whose scripts all others wait."""
        return list(self._lateness.scripts)

    def waits_for(self, agent: str) -> float:
        """Return the share of wall time for which the others wait for a late process."""
        return self._lateness.costs[agent]

    @cached_property
    def perhaps_late(self) -> list[Gap]:
        """The processes that are late by their scripts, unless their devices compute meanwhile."""
        return list(self._lateness.perhaps)

    @cached_property
    def stragglers(self) -> set[str]:
        """The agents that come last in a collective."""
        return {each.straggler.agent for each in self.collectives if each.straggler is not None}

    def has_all_stragglers(self, agents: Collection[str]) -> bool:
        """Return whether all stragglers are among these, which are not all processes of the run."""
        return bool(self.stragglers) and self.stragglers.issubset(agents) and len(agents) < len(self.present)

    @cached_property
    def is_on_cpu(self) -> bool:
        """Whether devices are CPUs: they share their cores, and communication is part of their work."""
        return any(view.host.is_on_cpu for view in self.present)

    @cached_property
    def step_ms(self) -> float | None:
        """The wall time per step, the time between steps included; None while unknown."""
        seconds = wall_time_of_run(view.current for view in self.reporting)
        return None if seconds is None else 1000 * seconds

    @cached_property
    def collectives(self) -> list[CollectiveView]:
        """The collectives of the run; times from before the last change of the rhythm are left out."""
        found = (each for each in collective_views(self.cluster, self._at) if each.run == self.run.id)
        return [each if each.is_current else each.untimed() for each in found]

    @cached_property
    def growers(self) -> list[Grower]:
        return [each for each in growers(self.cluster) if each.run == self.run.id]

    @cached_property
    def is_memory_scarce(self) -> bool:
        """Whether any device is nearly full; where limits are unknown, none is."""
        for view in self.reporting:
            sample = view.current.pulse.devices
            for i in range(len(sample.limit_bytes or ())):
                if (share := taken_share(sample, i)) is not None and share >= SCARCE:
                    return True
        return False

    def number(self, number: Number) -> float:
        """Return a number of the rule that is being checked, as the user set it."""
        return self.cluster.tuning.value(self._rule, number)

    def named(self, hosts: Sequence[Host]) -> str:
        """Return the numbers of hosts as text, or that these are all."""
        return f"all {several(hosts)}" if len(hosts) == len(self.present) > 1 else host_names(hosts)

    def acting(self, gaps: Sequence[Gap], one: str, many: str) -> str:
        """Return the processes of gaps as the subject of a sentence, with its verb for one or for many."""
        who = "the process" if len(self.present) == 1 else self.named([each.host for each in gaps])
        return f"{who} {one if len(gaps) == 1 else many}"

    def share_of_step(self, ms: float | None) -> float | None:
        """Return this time as a share of a step, at most a whole one; None if either is unknown."""
        return None if ms is None or not self.step_ms else min(1.0, ms / self.step_ms)
