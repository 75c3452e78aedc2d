"""How full the queue is from which the main thread takes its input.

Where a sample finds the main thread waiting for input, the queue is in the variables of a function of Python,
Grain or torch. Later samples look at it again while the main thread does something else. Only objects of
these libraries' own types are read, by their instance dicts: no method of the script runs, no lock is taken,
and no reference is held, only a weak one, which does not keep a queue or what is in it alive.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base import debuglog
from jaxtop_agent.arrays import frames
from jaxtop_agent.stalls.stacks import short

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

# The number of innermost frames that are searched for a wait.
MAX_FRAMES = 16
# The number of batches that are counted in a buffer of Grain.
MAX_COUNTED_BATCHES = 512
# A queue of torch or multiprocessing that has no limit has this capacity or more.
UNLIMITED_CAPACITY = 2**20
_QUEUE, _PROCESSES = "queue", "multiprocessing.queues"
_GRAIN = "grain._src.python.dataset.transformations.prefetch"
_TORCH = "torch.utils.data.dataloader"


class Depth(NamedTuple):
    """How many batches a queue had, and how many it may have: None without a limit. Each has its `number`."""

    number: int
    kind: str
    depth: int
    capacity: int | None


class _QueueFacts(NamedTuple):
    kind: str
    target: Any
    depth: Callable[[Any], int]
    capacity: int | None


class WaitedQueue:
    """The queue at which the main thread was last seen waiting; used on the thread that takes samples."""

    def __init__(self) -> None:
        self._number, self._kind = 0, ""
        self._capacity: int | None = None
        self._queue: weakref.ref[Any] | None = None
        self._depth: Callable[[Any], int] = len
        self._is_off = False

    def look(self, stack: Sequence[FrameType], *, waits: bool) -> Depth | None:
        """Return the depth of the queue; a stack that `waits` for input shows which it is."""
        if self._is_off:
            return None
        try:
            if waits:
                self._find(stack)
            return self._read()
        except Exception as error:  # a version of a library that is not known
            debuglog.warning("activity", "the depth of the input queue is not read any more", error=error)
            self._is_off, self._queue = True, None
            return None

    def _find(self, stack: Sequence[FrameType]) -> None:
        found = next((each for frame in stack[:MAX_FRAMES] if (each := _found_in(frame)) is not None), None)
        if found is None:
            return
        is_same = self._queue is not None and self._queue() is found.target
        capacity = found.capacity or _capacity_of_torch(stack)
        if not is_same:
            self._queue = weakref.ref(found.target)
            self._number += 1
        self._kind, self._depth, self._capacity = found.kind, found.depth, capacity

    def _read(self) -> Depth | None:
        queue = None if self._queue is None else self._queue()
        if queue is None:
            return None
        return Depth(self._number, self._kind, max(0, self._depth(queue)), self._capacity)


def _found_in(frame: FrameType) -> _QueueFacts | None:
    """Return the queue in which a function takes the next batch; None if it is not one of those known."""
    file, name = short(frame.f_code.co_filename), frame.f_code.co_name
    if name == "get" and file.endswith("multiprocessing/queues.py"):
        queue = _own(frame, _PROCESSES, "Queue")
        if queue is not None:
            most = vars(queue).get("_maxsize")
            return _QueueFacts("multiprocessing", queue, _depth_of_processes, _limit(most))
    elif name == "get" and file.endswith("/queue.py"):
        queue = _own(frame, _QUEUE, "Queue")
        if queue is not None:
            return _QueueFacts("threads", vars(queue)["queue"], len, _limit(vars(queue).get("maxsize")))
    elif name == "__next__" and file.endswith("transformations/prefetch.py"):
        iterator = _own(frame, _GRAIN, "PrefetchDatasetIterator")
        if iterator is not None:
            most = _limit(vars(iterator).get("_target_prefetch_buffer_size"))
            return _QueueFacts(
                "grain", vars(iterator)["_buffer"], _ready, most and min(most, MAX_COUNTED_BATCHES)
            )
    return None


def _own(frame: FrameType, module: str, name: str) -> Any:
    """Return `self` of a method if it has exactly the library's own type, whose attributes are plain ones."""
    kind = getattr(sys.modules.get(module), name, None)
    found = frames.local(frame, "self")
    return found if kind is not None and type(found) is kind else None


def _limit(most: object) -> int | None:
    return most if isinstance(most, int) and 0 < most < UNLIMITED_CAPACITY else None


def _depth_of_processes(queue: Any) -> int:
    """Return how many objects other processes have put and this one has not taken: reads a semaphore."""
    attributes = vars(queue)
    value: int = vars(attributes["_sem"])["_semlock"]._get_value()
    most: int = attributes["_maxsize"]
    return most - value


def _ready(buffer: Any) -> int:
    """Return how many batches at the front of Grain's buffer are there already."""
    ready = 0
    try:
        while ready < MAX_COUNTED_BATCHES and vars(buffer[ready]).get("_state") == "FINISHED":
            ready += 1
    except IndexError:  # the main thread takes from it
        pass
    return ready


def _capacity_of_torch(stack: Sequence[FrameType]) -> int | None:
    """Return how many batches a loader of torch prefetches: its queue itself has no limit."""
    for frame in stack[:MAX_FRAMES]:
        if short(frame.f_code.co_filename) == "torch/utils/data/dataloader.py":
            loader = _own(frame, _TORCH, "_MultiProcessingDataLoaderIter")
            if loader is None:
                return None
            each, workers = (vars(loader).get(name) for name in ("_prefetch_factor", "_num_workers"))
            return each * workers if isinstance(each, int) and isinstance(workers, int) else None
    return None
