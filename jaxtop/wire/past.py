"""What a recording says of the time before one of its moments; no agent sends these."""

from __future__ import annotations

from msgspec import Struct

from jaxtop.wire.arrays import Arrays, ArraysChange  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.bounds import Count, TimeMs, TimeS  # noqa: TC001 - msgspec reads the annotations


class PastSamples(Struct, frozen=True, array_like=True):
    """What pulses added to the history of a host, a column each: most of it is the same from one to the next.

    Times in nanoseconds and launches are those of the first, then what each later one has more. Bytes in use
    are told where they change, with the number of the sample.
    """

    at_ns: tuple[int, ...] = ()
    launches: tuple[int, ...] = ()
    used_bytes: tuple[tuple[int, tuple[int | None, ...] | None], ...] = ()


class PastLaunches(Struct, frozen=True, array_like=True):
    """The launch counters at an earlier moment."""

    at_ms: TimeMs
    launches: dict[str, Count]


class PastSteps(Struct, frozen=True, array_like=True):
    """The first and the last step from which the rate of steps is taken."""

    first_ms: TimeMs
    first: int
    last_ms: TimeMs
    last: int


class PastLaunched(Struct, frozen=True, array_like=True):
    """The launches of one program name in the last windows, by fingerprint."""

    name: str
    at_ms: TimeMs
    counts: tuple[tuple[str | None, Count], ...]


class Past(Struct, frozen=True, array_like=True, tag="past"):
    """The history of one host, up to now."""

    heard_at: TimeS | None
    samples: PastSamples = PastSamples()
    launches: tuple[PastLaunches, ...] = ()
    steps: PastSteps | None = None
    counted: dict[str, Count] = {}  # all launch counters: a pulse has those that moved
    launches_since: TimeS | None = None  # when the first of them was told
    launched: tuple[PastLaunched, ...] = ()


class PastArrays(Struct, frozen=True, array_like=True, tag="past_arrays"):
    """The census of one host at some moments up to now: the oldest whole, of each later one what changed."""

    first: Arrays
    changes: tuple[ArraysChange, ...] = ()


class PastEvent(Struct, frozen=True, array_like=True):
    """Something that a viewer told, and about which agent."""

    at: TimeS
    severity: str
    kind: str
    agent: str
    text: str


class PastStandstill(Struct, frozen=True, array_like=True):
    """A run that stands still at that moment: since when, and what was told of it, if anything."""

    run: str
    since: TimeS
    looked_at: TimeS
    told_at: TimeS = 0.0
    at_ms: TimeMs | None = None
    severity: str = ""
    text: str = ""
    odd: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    certainty: int = 0


class PastDropped(Struct, frozen=True, array_like=True):
    """An exited process of which nothing is kept: its agent, run and index."""

    agent: str
    run: str
    process_index: int | None = None


class PastStarts(Struct, frozen=True, array_like=True):
    """How many dropped processes there were of one process of a run."""

    run: str
    process_index: int
    count: int


class PastEvents(Struct, frozen=True, array_like=True, tag="past_events"):
    """All that was told up to now, and which runs stand still."""

    events: tuple[PastEvent, ...] = ()
    standstills: tuple[PastStandstill, ...] = ()
    # Exited processes that were dropped: how many, the last of them, and which of them were started again.
    dropped: int = 0
    dropped_last: tuple[PastDropped, ...] = ()
    dropped_starts: tuple[PastStarts, ...] = ()
