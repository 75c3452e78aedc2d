"""The parts of a plan: the request, the run as it is today, and the candidates with their figures.

Everything here is data. `today.py` reads the run into `Today`. `candidates.py` lists the meshes,
`sharding.py` places the arrays on each, `memory.py` and `timing.py` predict, `planner.py` makes the `Plan`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop import wire
    from jaxtop.base.meshes import Axes

# For each dimension of an array, the axes that divide it, the slowest first. Empty ones at the end may be
# missing.
Parts = tuple[tuple[str, ...], ...]


# The units of energy: of devices whose power is known, and of others.
JOULES, DEVICE_SECONDS = "J", "device-s"


class CannotPlan(ValueError):
    """What is asked cannot be planned; the message is one line that says what to do."""


class NeverPlannable(CannotPlan):
    """What is asked cannot be planned, and waiting does not change that."""


class Interval(NamedTuple):
    """A figure that is known to lie between two bounds; an exact one has equal bounds."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


class Goal(StrEnum):
    """What candidates are sorted by."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    ENERGY = "energy"


class ShardingRule(NamedTuple):
    """A sharding that the user asks for: all arrays whose names match `pattern` (as in the filter of arrays).

    With `axis`, it divides the largest dimension that it can. Otherwise `parts` is the whole sharding.
    """

    pattern: str
    axis: str = ""
    parts: Parts | None = None


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the user asks for. Without meshes, devices, `every` and rules, some are proposed."""

    meshes: tuple[Axes, ...] = ()
    devices: int | None = None
    every: bool = False
    limit_bytes: int | None = None
    rules: tuple[ShardingRule, ...] = ()
    goal: Goal = Goal.THROUGHPUT


@dataclass(frozen=True, slots=True)
class Tensor:
    """Live arrays that differ only in their values. The bytes are those of one of them.

    `parts` is None for an array that is not on the mesh of the plan; it then stays as it is. If `groups` is
    more than 1, it stands for that many kinds of small arrays: it has no shape, and the bytes are those of
    all of them.
    """

    name: str | None
    role: str | None
    shape: tuple[int, ...]
    dtype: str
    parts: Parts | None
    bytes_global: int
    bytes_per_device: int
    count: int = 1
    # The devices that hold it; for arrays on the mesh, all of its devices.
    device_ids: tuple[int, ...] = ()
    groups: int = 1
    # Whether it is in the memory of the hosts, and takes no memory of devices.
    is_on_host: bool = False
    # Axes of size 1 today that may divide it, too: JAX drops them from the shardings of a program's results.
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of the step's program, once in its text: `times` runs in each launch.

    `bytes` is S as nccl-tests defines it, for one run. `shape` is the local shape in the compiled program, as
    "f32[32,64]". `transfer_us` is the measured time of one run without waiting, `axes` the mesh axes of its
    groups; None where unknown.
    """

    op: str
    kind: str
    shape: str
    bytes: int
    axes: tuple[str, ...] | None
    times: int
    line: str = ""
    is_async: bool = False
    transfer_us: float | None = None


class LinkCost(NamedTuple):
    """What a collective costs over an axis: `latency_us` per step of a ring, and bus bandwidth.

    `source` says where it comes from: windows of this run, a probe, or a published figure. `is_measured` is
    False where it was not measured for this axis and kind, or in one size only.
    """

    latency_us: float
    busbw_bytes_per_s: float
    source: str
    is_measured: bool = False


@dataclass(frozen=True, slots=True)
class StepTime:
    """Where a step's time goes today, in milliseconds: mean over the processes. None where unknown.

    `communication_ms` is what the collectives take without waiting, `other_ms` the time in which no program
    ran, and waiting.
    """

    step_ms: float
    compute_ms: float | None = None
    communication_ms: float | None = None
    other_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Today:
    """The run as it is: all that a plan depends on. `unknown` says what is missing, and why."""

    run: str
    axes: Axes
    device_ids: tuple[int, ...]
    # The number of mesh devices that fast links join, in the order of the mesh: those of a process, of a
    # slice of TPUs, of what NVLink joins.
    devices_per_host: int
    platform: str
    device_kind: str
    tensors: tuple[Tensor, ...]
    # The program that the step consists of mainly, and how often a step launches it.
    program: wire.Program | None = None
    launches_per_step: float = 1.0
    exchanges: tuple[Exchange, ...] = ()
    # Whether a process has reported which collectives the program has; else there seem to be none.
    has_inventory: bool = True
    step: StepTime | None = None
    # What the allocator of the fullest device can provide; None where it has no limit, as on CPU.
    limit_bytes: int | None = None
    # Whether the owner of the run set this limit, and not an allocator.
    is_limit_simulated: bool = False
    # What a device can do in a second, as probed or as its maker publishes it.
    flops_per_s: float | None = None
    memory_bytes_per_s: float | None = None
    # The operations that take as long as it takes memory to move a byte.
    balance: float | None = None
    watts_per_device: float | None = None
    # By axis, or by axes joined with "+", or by reach, and by kind or "any"; see links.py.
    links: Mapping[tuple[str, str], LinkCost] | None = None
    # The number of cores that devices of one machine share, for CPU devices; else None.
    shared_cores: int | None = None
    # What holds memory at the peak of the program, where a process has sent it.
    peak: wire.Peak | None = None
    unknown: tuple[str, ...] = ()
    # The name of the run, where it has one.
    name: str | None = None
    # What the run does before it repeats a step; empty from then on.
    before_steps: str = ""


class Division(NamedTuple):
    """How an array lies on a mesh, and its bytes on a device."""

    parts: Parts
    bytes_per_device: int


@dataclass(frozen=True, slots=True)
class PlacedArray:
    """An array on the mesh of a candidate. `note` says what differs from what its sharding asks for.

    `divided` is how it lies if its hidden axes divide it; None where none can.
    """

    tensor: Tensor
    parts: Parts | None
    bytes_per_device: int
    note: str = ""
    divided: Division | None = None


@dataclass(frozen=True, slots=True)
class CompiledCandidate:
    """What a real compilation for a candidate gave; the bytes are those of one device."""

    argument_bytes: int
    output_bytes: int
    temp_bytes: int
    alias_bytes: int
    exchanges: tuple[Exchange, ...]
    flops: int | None = None
    note: str = ""
    why_not: str = ""
    # Axes that divide nothing in it, though they may in the script: the text does not show them.
    unnamed: tuple[str, ...] = ()


class Basis(NamedTuple):
    """Where a figure of a candidate comes from: the figure, its value in words, and how it was computed."""

    figure: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mesh with shardings, and what is predicted for it. `fits` is None where that cannot be said."""

    axes: Axes
    is_today: bool
    fits: bool | None
    state_bytes_per_device: int
    memory_bytes: Interval | None
    step_ms: Interval | None
    communication_ms: Mapping[str, float]
    changes: tuple[str, ...]
    assumptions: tuple[str, ...]
    basis: tuple[Basis, ...] = ()
    placed: tuple[PlacedArray, ...] = ()
    # All rules that it applies: those asked for, and those it proposes, such as a sharded optimizer state.
    rules: tuple[ShardingRule, ...] = ()
    # Joules of a step, or device-seconds where power is unknown.
    energy: float | None = None
    # The least bytes of the state, where today's shardings do not show which arrays an axis divides.
    state_least_bytes: int | None = None

    @property
    def state_bytes(self) -> Interval:
        most = self.state_bytes_per_device
        return Interval(most if self.state_least_bytes is None else self.state_least_bytes, most)

    @property
    def devices(self) -> int:
        found = 1
        for _, size in self.axes:
            found *= size
        return found


class Move(NamedTuple):
    """A change worth making: a line of code, what it frees on each device, and what it saves of a step."""

    title: str
    change: str
    saves_bytes: int | None
    saves_ms: float | None
    why: str
    rules: tuple[ShardingRule, ...] = ()
    axes: Axes | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The candidates, today's layout first, then the best by the goal; and moves worth making.

    `error_of_today` is the error of each figure predicted for today, as a share of what was measured.
    """

    run: str
    goal: Goal
    limit_bytes: int | None
    candidates: tuple[Candidate, ...]
    moves: tuple[Move, ...]
    error_of_today: Mapping[str, float]
    notes: tuple[str, ...] = ()
    name: str | None = None
    # As measured.
    step_ms_today: float | None = None
    is_limit_simulated: bool = False
    energy_unit: str = DEVICE_SECONDS
