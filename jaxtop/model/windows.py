"""The collectives in windows of the profiler, of all hosts together: data only.

It is separate from the rest of the state, because rooms of the model do not import each other in a circle.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.host import PROCESS

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

    from jaxtop import wire

# The run, name and fingerprint of a program.
ProgramKey = tuple[str, str, str | None]
# The members of each group of a collective, as places in the program's device assignment or as device ids.
Groups = tuple[tuple[int, ...], ...]
# The identity of a launch: its number; without a number, its agent, window and place.
LaunchId = int | tuple[str, int, int]
# The durations that an agent reports for its devices, in the order of its hello.
Durations = tuple[int | None, ...]
# The wait of a member that reported nothing.
MISSING = 0xFFFF_FFFF


def launch_id(agent: str, window: wire.Window, place: int) -> LaunchId:
    """Return the identity that a launch in an agent's window has on all hosts."""
    number = window.launches[place].number
    return (agent, window.at_ms, place) if number is None else number


class TeamUnit(NamedTuple):
    """A process, or a device of a process: what a verdict names as late."""

    agent: str
    device_id: int | None


class Team(NamedTuple):
    """Units that meet in one or more groups. Each row has the group's number and the unit of each member.

    A member whose process has no agent has unit -1.
    """

    units: tuple[TeamUnit, ...]
    rows: tuple[tuple[int, tuple[int, ...]], ...]


class GroupAxes(NamedTuple):
    """The fewest axes that hold each group, and whether the groups are all slices along these axes, whole."""

    names: tuple[str, ...]
    is_whole: bool


class CollectiveGroups(NamedTuple):
    """The groups of a collective: as places, as device ids, and as teams."""

    places: Groups
    device_ids: Groups
    teams: tuple[Team, ...]
    crosses_hosts: bool | None
    axes: GroupAxes | None
    # Whether groups leave what fast links join, such as a slice of TPUs.
    uses_network: bool | None = None


class Timing(NamedTuple):
    """A collective in one launch. In a loop, the round with the longest wait decides who was late.

    `longest` holds the duration of each instance for the member that came first, `shortest` for the one that
    came last. `waits` holds the longest wait of each group. `by_device` holds the wait of each member, group
    by group; it is None for old launches. `arrivals` holds the waits of each team's units.
    """

    window_number: int
    launch_us: int
    instances: int
    longest: array[int]
    shortest: array[int]
    waits: array[int]
    by_device: array[int] | None
    arrivals: tuple[array[int], ...]
    grouped: CollectiveGroups | None


class LaunchShare(NamedTuple):
    """The duration of a launch and its time in collectives, summed over the processes that reported both."""

    window_number: int
    duration_us: int
    collective_us: int
    exposed_us: int | None


class Straggler(NamedTuple):
    """The unit of a team that comes last, its share of the launches, and how long the others wait then.

    A view adds which process of its run it is and, of a process, one of its devices.
    """

    team: int
    unit: TeamUnit
    share: float
    late_us: int
    process_index: int | None = None
    noun: str = PROCESS

    @property
    def agent(self) -> str:
        return self.unit.agent

    @property
    def device_id(self) -> int | None:
        return self.unit.device_id

    @property
    def who(self) -> str:
        return f"a {self.noun}" if self.process_index is None else f"{self.noun} {self.process_index}"


class LaunchTraceCheck(NamedTuple):
    """The evidence that a launch has the right number, from the window of an agent that counts launches.

    `ends` has the end of each collective by the common clock, by op and round, in microseconds.
    `order` has the numbered launches of the window in order of time.
    """

    ends: Mapping[tuple[str, int], int]
    clock_error_us: int
    order: tuple[tuple[ProgramKey, int], ...]


@dataclass
class PendingLaunch:
    """A launch that some agents have not reported yet, with the rows of each agent by op and round.

    `traced` has the evidence for the number of the launch, from agents that count their launches.
    """

    window_number: int
    launches: dict[str, wire.Launch] = field(default_factory=dict)
    rows: dict[tuple[str, int], dict[str, Durations]] = field(default_factory=dict)
    traced: dict[str, LaunchTraceCheck] = field(default_factory=dict)

    def copy(self) -> PendingLaunch:
        rows = {key: reports.copy() for key, reports in self.rows.items()}
        return PendingLaunch(self.window_number, self.launches.copy(), rows, self.traced.copy())


@dataclass
class ProgramWindows:
    """The windows of one program: pending launches, and the timings of earlier launches by op.

    `unmatched` counts the numbers under which processes traced different launches.

    Windows are numbered. `evaluated` has the window of each launch that was evaluated. `taken_ms` has the
    times of the last windows, by number and agent, by its own clock.
    """

    last_number: int = 0
    taken_ms: dict[int, dict[str, int]] = field(default_factory=dict)
    last_number_of_agent: dict[str, int] = field(default_factory=dict)
    pending: dict[LaunchId, PendingLaunch] = field(default_factory=dict)
    evaluated: dict[LaunchId, int] = field(default_factory=dict)
    unmatched: int = 0
    slot: int | None = None  # of the last window
    timings: dict[str, tuple[Timing, ...]] = field(default_factory=dict)
    shares: tuple[LaunchShare, ...] = ()
    late: dict[str, tuple[Straggler, ...]] = field(default_factory=dict)

    def copy(self) -> ProgramWindows:
        return replace(
            self,
            taken_ms={number: each.copy() for number, each in self.taken_ms.items()},
            last_number_of_agent=self.last_number_of_agent.copy(),
            pending={launch: each.copy() for launch, each in self.pending.items()},
            evaluated=self.evaluated.copy(),
            timings=self.timings.copy(),
            late=self.late.copy(),
        )


@dataclass
class Windows:
    """The windows of all programs, and how often they changed."""

    programs: dict[ProgramKey, ProgramWindows] = field(default_factory=dict)
    changes: int = 0

    def copy(self) -> Windows:
        return replace(self, programs={key: each.copy() for key, each in self.programs.items()})
