"""The input of all screens: the cluster at one time, and the views that several screens derive from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop import model
from jaxtop.model import (
    ArrayView,
    Cluster,
    DeviceView,
    Finding,
    Group,
    Host,
    HostView,
    MeshView,
    ProgramView,
    Role,
    Run,
    State,
)
from jaxtop.model import collectives as of_collectives
from jaxtop.model.findings.reducer import checked_step
from jaxtop.model.host import HOST
from jaxtop.model.liveness import CENSUS, is_current
from jaxtop.model.naming.sentences import several
from jaxtop.model.tuning import STRAGGLER
from jaxtop.model.wall_time.device_waits import step_waits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.collectives import CollectiveView
    from jaxtop.model.shares import CheckedStep
    from jaxtop.model.steps.views import RunStep
    from jaxtop.store.probe_figures import Probe


class Mode(StrEnum):
    """The relation of the view to the present."""

    LIVE = "LIVE"
    PAUSED = "PAUSED"
    REWIND = "REWIND"
    REPLAY = "REPLAY"


@dataclass(frozen=True, eq=False)
class Moment:
    """A cluster and a time. Each paint creates a new one; screens do not store parts of it."""

    cluster: Cluster
    now: float
    # What this user's devices can do, if that was measured: features compare with it.
    probe: Probe | None = field(default=None, repr=False)
    # When the view of a live run began: what happened earlier is not among the events.
    since: float | None = None

    @cached_property
    def runs(self) -> list[Run]:
        return model.runs(self.cluster, self.now)

    @cached_property
    def findings(self) -> list[Finding]:
        """What is wrong, the most important first."""
        return model.reported_findings(self.cluster)

    @cached_property
    def run_names(self) -> dict[str, str]:
        """The display name of each run, by run id. Runs with the same name also show roles or their ids."""
        return model.names_of_runs(self.cluster, self.now)

    def run_name(self, run: str) -> str:
        return self.run_names.get(run, run)

    @cached_property
    def _run_of(self) -> dict[str, str]:
        return {view.host.agent: run.id for run in self.runs for view in run.hosts}

    def run_of(self, host: Host) -> str:
        """Return the run that a host is shown in. A host without a known run may be grouped with others."""
        return self._run_of.get(host.agent) or model.run_of(host)

    def label(self, host: Host) -> str:
        """Return the display name of a host, with its run if there are several."""
        return self._of_run(self.run_of(host), host.label)

    def nouns(self, run: str | None = None) -> str:
        """Return the word for several processes, of one run or of all."""
        return several(view.host for view in self.host_views if run in (None, self.run_of(view.host)))

    def label_of(self, device: DeviceView) -> str:
        return self._of_run(device.run, f"device {device.id}")

    def _of_run(self, run: str, name: str) -> str:
        return f"{self.run_name(run)} {name}" if len(self.runs) > 1 else name

    @cached_property
    def host_views(self) -> list[HostView]:
        return [view for run in self.runs for view in run.hosts]

    @cached_property
    def states(self) -> dict[str, State]:
        return {view.host.agent: view.state for view in self.host_views}

    @cached_property
    def device_views(self) -> list[DeviceView]:
        return model.device_views(self.cluster, self.now)

    @cached_property
    def fullest(self) -> list[DeviceView]:
        return model.fullest(self.device_views)

    @cached_property
    def heaviest_launch(self) -> ProgramView | None:
        """The running program whose launch adds most memory."""
        running = [
            view for view in self.program_views if view.function_per_second and view.adds_bytes is not None
        ]
        return max(running, key=lambda view: view.adds_bytes or 0, default=None)

    @cached_property
    def mesh_views(self) -> list[MeshView]:
        return model.mesh_views(self.cluster)

    @cached_property
    def array_views(self) -> list[ArrayView]:
        """The arrays of all hosts. It is the same list until a census differs."""
        return model.array_views(self.cluster)

    @cached_property
    def program_views(self) -> list[ProgramView]:
        return model.program_views(self.cluster, self.now)

    @cached_property
    def live_and_expected(self) -> tuple[int, int]:
        """The number of live processes, and of those that the runs have."""
        live = sum(state is State.LIVE for state in self.states.values())
        return live, sum(max(run.process_count or 0, len(run.hosts)) for run in self.runs)

    @cached_property
    def collective_views(self) -> list[CollectiveView]:
        """The collectives of all runs. It is the same list until new data arrives."""
        return of_collectives.collective_views(self.cluster, self.now)

    @cached_property
    def waits_by_device(self) -> Mapping[tuple[str, int], int]:
        return step_waits(self.cluster, self.now)

    @cached_property
    def groups(self) -> list[Group]:
        """The runs that belong together, by what they are for; none where nobody says or guesses it."""
        return model.family_groups(self.cluster, self.now)

    @cached_property
    def roles(self) -> dict[str, Role]:
        """What each run is for, by run id, where it is known."""
        return model.roles_of_runs(self.cluster, self.now)

    @cached_property
    def group_labels(self) -> dict[str, str]:
        """The names of runs among those that belong together, by run id; empty where there is one run."""
        if len(self.runs) == 1:
            return {}
        return {run: label for group in self.groups for run, label in group.labels.items()}

    @cached_property
    def stepping(self) -> tuple[HostView, ...]:
        """The processes whose steps stand for all: those of one run, for runs step independently."""
        found = model.main_run(self.cluster, self.now)
        return () if found is None else found.hosts

    @cached_property
    def step(self) -> RunStep | None:
        """The step of these processes together; None while none reports one."""
        return model.step_of_run(view.current for view in self.stepping)

    @cached_property
    def checked_step(self) -> CheckedStep:
        """The step of these processes together as the findings have it: where it goes, and its wall time."""
        return checked_step(self.cluster, self.now)

    @cached_property
    def late(self) -> dict[str, Finding]:
        """The processes that the others wait for, by agent, with what was found."""
        return {each.subject.agent: each for each in self.findings if each.rule == STRAGGLER}

    def not_on(self, source: str) -> list[str]:
        """Return why a source does not work on hosts that have not exited, each reason once."""
        reasons = [
            view.host.hello.sources.get(source, "")
            for view in self.host_views
            if view.host.hello and not view.state.has_exited
        ]
        return list(dict.fromkeys(each for each in reasons if each and each != "on"))

    @property
    def counted_ago(self) -> float | None:
        """The age in seconds of the oldest census that no longer describes the present; None if all do."""
        counted = ((view.current, view.current.pulse.counted_ms) for view in self.host_views)
        old = (
            self.ago(host, at_ms)
            for host, at_ms in counted
            if at_ms and not is_current(host, at_ms, CENSUS, self.now)
        )
        return max(old, default=None)

    def ago(self, host: Host, at_ms: int) -> float:
        """Return how many seconds ago a time of an agent's clock was, whatever the offset of that clock."""
        if host.pulse_at is None:
            return max(0.0, self.now - at_ms / 1000)
        return max(0.0, self.now - host.pulse_at + (host.pulse.at_ms - at_ms) / 1000)

    def host(self, agent: str) -> Host | None:
        return self.cluster.hosts.get(agent)

    @cached_property
    def views(self) -> dict[str, HostView]:
        return {view.host.agent: view for view in self.host_views}


def name_of(host: Host) -> str:
    """Return a short name: the number and name of a host, or the number of a process."""
    if host.noun == HOST and host.process_index is not None:
        return f"{host.process_index} {host.hostname or host.link.endpoint}"
    return host.number


class Selection(NamedTuple):
    """The user's selection, shared by all screens: a host, and optionally one of its devices.

    It may also hold the key of an array or a collective to paint on the mesh.
    """

    agent: str | None = None
    device_id: int | None = None
    array: tuple[Any, ...] | None = None
    collective: tuple[Any, ...] | None = None

    @property
    def device_key(self) -> tuple[str, int] | None:
        if self.agent is None or self.device_id is None:
            return None
        return self.agent, self.device_id


NO_SELECTION = Selection()
EMPTY = Moment(model.Cluster(), 0.0)
