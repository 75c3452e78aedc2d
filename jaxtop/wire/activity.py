"""The recent activity of a main thread, from samples of its stack, and its garbage collections."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.bounds import TimeMs, WireInteger  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.stacks import Place  # noqa: TC001 - msgspec reads the annotations

# In the script or its libraries; in JAX to launch; in JAX to wait for a result; in JAX to compile.
SCRIPT, LAUNCH, WAIT, COMPILE = range(4)
# An agent sends no fewer samples than this, so a viewer may rely on their shares.
FEWEST_ACTIVITY_SAMPLES = 25


class ActiveLine(Struct, frozen=True, array_like=True):
    """A line of the script at which the main thread was seen in some samples, and with which activity."""

    place: Place
    activity: WireInteger
    samples: WireInteger


class InputQueue(Struct, frozen=True, array_like=True):
    """The queue from which the main thread takes its input, as samples have seen it.

    `kind` is "threads", "multiprocessing" or "grain". `capacity` is None if it has no limit. In `empty` and
    `full` of the `looks` it had nothing, or as much as it can have.
    """

    kind: str
    depth: WireInteger
    capacity: WireInteger | None
    looks: WireInteger
    empty: WireInteger
    full: WireInteger

    @property
    def empty_share(self) -> float:
        """The share of the looks in which it was empty."""
        return self.empty / max(1, self.looks)

    @property
    def full_share(self) -> float | None:
        """The share of the looks in which it was full; None if it has no limit."""
        return None if self.capacity is None else self.full / max(1, self.looks)


class Activity(Struct, frozen=True, omit_defaults=True, tag="activity"):
    """The samples of the last `span_ms`, by activity, and the lines with most of them.

    `gc_…` are the runs of Python's garbage collector in the same time, outside of compilations: their number,
    their total duration and the longest one. In `delayed_ms` of that time the main thread was ready to run,
    and waited for a core; None if the kernel does not count it.
    """

    at_ms: TimeMs
    span_ms: WireInteger
    samples: tuple[WireInteger, WireInteger, WireInteger, WireInteger] = (0, 0, 0, 0)
    lines: tuple[ActiveLine, ...] = ()
    gc_runs: WireInteger = 0
    gc_us: WireInteger = 0
    gc_longest_us: WireInteger = 0
    delayed_ms: WireInteger | None = None
    input_queue: InputQueue | None = None
