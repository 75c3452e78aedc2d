"""The messages of `jaxtop probe`: JSON lines between its processes, and the result that is saved.

Figures of a device are rates (`…_per_s`), where more is better, or times (`…_s`). `BENCHES` lists their
names. Bytes and bandwidths of collectives follow the definitions of nccl-tests.
"""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.hosts import Device  # noqa: TC001 - msgspec reads the annotations when it decodes

SCHEMA = 1
# The axis of a collective in which all devices take part.
ALL = "all"
MEMORY_RATE, MATRIX_RATE = "memory_bytes_per_s", "matrix_flops_per_s"
# The benchmarks, and the figures of a device that each produces. "together" is the matrix rate while all
# devices work: what heat and shared power leave of it.
BENCHES = {
    "memory": (MEMORY_RATE,),
    "matmul": (MATRIX_RATE,),
    "dispatch": ("enqueue_s", "round_trip_s"),
    "transfer": ("to_device_bytes_per_s", "from_device_bytes_per_s"),
    "together": ("together_flops_per_s",),
}
COLLECTIVES = "collectives"
# The stage in which the processes of a cluster join each other.
MEETING = "meeting the other processes"
# The exit code of a process that has written the reason, in one line, to standard error.
FAILED = 3
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute")


class ProbeRequest(Struct, frozen=True):
    """The user's request; an empty field means a suitable default."""

    seconds: float
    patience_s: float
    only: tuple[str, ...] = ()
    mesh: tuple[tuple[str, int], ...] = ()
    sizes: tuple[int, ...] = ()


class Here(Struct, frozen=True, omit_defaults=True):
    """A process that takes part: where it runs, its devices, and the memory of devices and machine."""

    process: int
    hostname: str
    boot: str
    pid: int
    jax: str
    devices: tuple[Device, ...]
    device_bytes: tuple[int | None, ...]
    machine_bytes: int
    cache_bytes: int


class Meeting(Struct, frozen=True):
    """A collective to be measured: its groups of global device ids; `bytes` as nccl-tests count them."""

    axis: str
    kind: str
    bytes: int
    groups: tuple[tuple[int, ...], ...]


class ProbePlan(Struct, frozen=True, tag="plan"):
    """What all processes do, in order; process 0 makes it, so that no process waits in vain for another.

    `turns` has the turn of each process: processes of one machine take turns, and each measures alone there.
    """

    benches: tuple[str, ...]
    rounds: int
    slot_s: float
    turns: tuple[int, ...]
    matrix_size: int
    matrix_dtype: str
    memory_bytes: int
    transfer_bytes: int
    axes: tuple[tuple[str, int], ...]
    meetings: tuple[Meeting, ...]


class Stage(Struct, frozen=True, tag="stage"):
    """The progress of a process."""

    name: str
    done: int = 0
    total: int = 0


class CollectiveMeasurement(Struct, frozen=True, array_like=True):
    """A collective as one process measured it: seconds per launch until all of its devices were done.

    `first` has the seconds for the device that was waited for first, a different one in each launch.
    """

    meeting: int
    whole: tuple[float, ...]
    first: tuple[float, ...]


class ProbeReport(Struct, frozen=True, tag="report"):
    """All that one process measured: by figure, device and round."""

    here: Here
    rounds: dict[str, tuple[tuple[float, ...], ...]]
    met: tuple[CollectiveMeasurement, ...] = ()


Said = ProbePlan | Stage | ProbeReport


class FigureSummary(Struct, frozen=True):
    """A figure of a device: the median of its rounds, and the median distance from it.

    `peers` is the median of all devices of its kind, `share` is the device's speed relative to that; None
    without peers.
    """

    median: float
    spread: float
    rounds: int
    peers: float | None = None
    share: float | None = None
    is_slow: bool = False


class ProbedDevice(Struct, frozen=True):
    """The measured figures of a device."""

    id: int
    local_id: int | None
    process: int
    hostname: str
    platform: str
    kind: str
    uuid: str | None
    figures: dict[str, FigureSummary]

    @property
    def rates(self) -> dict[str, float]:
        """All figures, relative to those of its peers where it has any.

        Peers were measured in the same rounds, so load that changed between the rounds is left out.
        """
        return {
            name: each.median
            if not each.share or each.peers is None
            else each.peers * each.share
            if name.endswith("_per_s")
            else each.peers / each.share
            for name, each in self.figures.items()
        }

    def rate(self, figure: str) -> float | None:
        """Return a measured figure, such as `MATRIX_RATE`; None where it was not measured."""
        measured = self.figures.get(figure)
        return None if measured is None else measured.median


class ProbedGroup(Struct, frozen=True):
    """The devices of one group of a collective: their time, and their speed as a share of their peers'."""

    device_ids: tuple[int, ...]
    time_s: float
    share: float | None = None
    is_slow: bool = False


class ProbedCollective(Struct, frozen=True):
    """A collective over an axis of the mesh, all its groups at the same time.

    If one process was clearly last, `late_process` is that process, and `late_s` is how long the others
    waited.
    """

    axis: str
    kind: str
    bytes: int
    group_size: int
    launches: int
    time_s: float
    spread_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float | None
    groups: tuple[ProbedGroup, ...] = ()
    late_process: int | None = None
    late_s: float | None = None


class SlowDevices(Struct, frozen=True):
    """Devices that stand out, and their share of their peers' speed, by figure or collective."""

    device_ids: tuple[int, ...]
    processes: tuple[int, ...]
    shares: dict[str, float]
    text: str


class Probe(Struct, frozen=True):
    """A result: what the devices of a run of `jaxtop probe` can do, and which of them are slow.

    `left_out` counts collectives for which there was no time.
    """

    schema: int
    jaxtop: str
    jax: str
    at_ms: int
    seconds: float
    platform: str
    processes: int
    axes: tuple[tuple[str, int], ...]
    matrix_dtype: str
    matrix_size: int
    memory_bytes: int
    transfer_bytes: int
    devices: tuple[ProbedDevice, ...]
    collectives: tuple[ProbedCollective, ...]
    slow: tuple[SlowDevices, ...]
    left_out: int = 0
