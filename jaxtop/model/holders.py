"""Who holds the memory of a process and of its machine, and whose share of it grows."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.figures import FIGURES
from jaxtop.model.series import host_samples
from jaxtop.model.steps.views import pace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jaxtop.model.liveness import HostView
    from jaxtop.model.state import ClusterState
    from jaxtop.wire import HostSample

    Past = Sequence[tuple[float, HostSample]]
    Points = Sequence[tuple[float, float | None]]

# The figures whose growth is derived, by name.
NAMES = (
    "rss_bytes", "rss_anonymous_bytes", "rss_file_bytes", "rss_shared_bytes", "locked_bytes", "pinned_bytes",
    "malloc_used_bytes", "malloc_mapped_bytes", "malloc_free_bytes", "children_rss_bytes",
    "children_anonymous_bytes", "memory_used_bytes", "machine_anonymous_bytes", "machine_file_bytes",
    "machine_shared_bytes",
)  # fmt: skip
# The number of samples that are compared.
COMPARED_SAMPLES = 30
# The shortest time between the first and the last of these samples, in seconds.
MIN_SPAN_S = 10.0
# The first and the last samples are one in this many.
END_PARTS = 6
# A holder is named if it gained this share of the memory that the process gained.
HOLDER_SHARE = 0.5
# Anonymous memory is outside malloc if all of malloc gained less than this share.
MAX_MALLOC_SHARE = 0.25


class HolderGrowth(NamedTuple):
    """By how much a figure grows, in bytes; a step's is None while no step is known."""

    per_minute: float
    per_step: float | None


class Holder(Enum):
    """What holds the memory that grows, in words; and what helps against it."""

    MALLOC_USED = (
        "blocks of malloc in use",
        (
            "Native code or NumPy keeps blocks: tracemalloc shows those of NumPy and Python by line, "
            "heaptrack or a heap profile of jemalloc those of native code."
        ),
    )
    MALLOC_FREE = (
        "malloc arenas that are free but held",
        (
            "Freed blocks are not given back: start with MALLOC_ARENA_MAX=2, allocate in fewer threads, "
            "or call malloc_trim(0) through ctypes now and then."
        ),
    )
    OUTSIDE_MALLOC = (
        "anonymous memory outside malloc (mmap)",
        (
            "Small Python objects are there, too. If tracemalloc does not see it, a library maps memory "
            "by itself: compare /proc/PID/smaps at two moments."
        ),
    )
    ANONYMOUS = (
        "anonymous memory",
        (
            "Look for lists and caches that grow in the script or its data loader: tracemalloc compares "
            "two moments by line. What it does not see is native code's."
        ),
    )
    SHARED = (
        "shared memory",
        (
            "Look for segments that are never released, of multiprocessing.shared_memory or a data "
            "loader: /dev/shm lists them."
        ),
    )
    CHILDREN = (
        "child processes",
        (
            "Look at what the workers of the data loader keep, and whether old ones end: a memory "
            "profiler that follows forks sees them."
        ),
    )
    FILES = (
        "file cache, which the kernel takes back: no leak",
        "Nothing has to be done: pages of mapped files are dropped when memory is needed.",
    )
    UNKNOWN = ("", "")

    @property
    def words(self) -> str:
        return self.value[0]

    @property
    def advice(self) -> str:
        return self.value[1]


def held(sample: HostSample) -> int | None:
    """Return the resident bytes that the kernel cannot take back; all of them where it does not say."""
    if sample.rss_anonymous_bytes is None or sample.rss_shared_bytes is None:
        return sample.rss_bytes
    return sample.rss_anonymous_bytes + sample.rss_shared_bytes


def malloc(sample: HostSample) -> int | None:
    """Return all that malloc holds; None where it is unknown."""
    parts = (sample.malloc_used_bytes, sample.malloc_mapped_bytes, sample.malloc_free_bytes)
    known = [each for each in parts if each is not None]
    return sum(known) if len(known) == len(parts) else None


def points(past: Past, read: Callable[[HostSample], float | None]) -> Points:
    return [(at, read(sample)) for at, sample in past]


def gained(values: Points) -> float | None:
    """Return by how much a figure is larger at the end than at the start, by troughs; None if unknown."""
    known = [value for _, value in values if value is not None]
    few = max(1, len(known) // END_PARTS)
    return min(known[-few:]) - min(known[:few]) if known else None


def per_step(per_minute: float, view: HostView) -> float | None:
    """Return the growth of a step; None while the process makes none."""
    pace = pace_of(view.current)
    return per_minute / (60 * pace) if pace else None


def growths(cluster: ClusterState, view: HostView) -> Mapping[str, HolderGrowth]:
    """Return the growth of each figure of memory of a process, by name, over up to two minutes."""
    past = () if view.state.is_silent else host_samples(cluster, view.host.agent, COMPARED_SAMPLES)
    seconds = past[-1][0] - past[0][0] if past else 0.0
    if seconds < MIN_SPAN_S:
        return {}
    found = {}
    for name in NAMES:
        values = [each for each in points(past, _reader(name)) if each[1] is not None]
        rise = gained(values) if values and values[-1][0] - values[0][0] >= MIN_SPAN_S else None
        if rise is not None:
            of_ends = (values[-1][0] - values[0][0]) * (1 - 1 / END_PARTS)
            per_minute = rise / of_ends * 60
            found[name] = HolderGrowth(per_minute, per_step(per_minute, view))
    return found


def minutes_until_full(sample: HostSample, rates: Iterable[float | None]) -> float | None:
    """Return when the machine or container has no memory left, at the largest of these rates a minute."""
    rate = max((each for each in rates if each is not None), default=0.0)
    if sample.memory_total_bytes is None or sample.memory_used_bytes is None or rate <= 0:
        return None
    return max(0, sample.memory_total_bytes - sample.memory_used_bytes) / rate


def holder_of(past: Past) -> Holder:
    """Return what holds the memory that a process gained, without its child processes and mapped files."""
    anonymous = gained(points(past, lambda sample: sample.rss_anonymous_bytes))
    shared = gained(points(past, lambda sample: sample.rss_shared_bytes))
    if anonymous is None or shared is None:
        return Holder.UNKNOWN
    if shared >= HOLDER_SHARE * (max(anonymous, 0.0) + shared):
        return Holder.SHARED
    total = gained(points(past, malloc))
    if total is None or malloc(past[0][1]) is None or malloc(past[-1][1]) is None:
        return Holder.ANONYMOUS
    free = gained(points(past, lambda sample: sample.malloc_free_bytes)) or 0.0
    if total >= HOLDER_SHARE * anonymous:
        return Holder.MALLOC_FREE if free >= HOLDER_SHARE * total else Holder.MALLOC_USED
    # Blocks that were handed out before may be touched only now: malloc's counts do not rise with them.
    last = past[-1][1]
    outside = (last.rss_anonymous_bytes or 0) - (malloc(last) or 0)
    is_outside = total < MAX_MALLOC_SHARE * anonymous and outside >= HOLDER_SHARE * anonymous
    return Holder.OUTSIDE_MALLOC if is_outside else Holder.ANONYMOUS


def _reader(name: str) -> Callable[[HostSample], int | None]:
    field = FIGURES[name].field
    return lambda sample: getattr(sample, field)
