"""The census: every live array of the process by name, shape, dtype and sharding, with its bytes."""

from __future__ import annotations

import sys
import time
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import wire
from jaxtop.base.clock import now_ms
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays import frames
from jaxtop_agent.arrays.census import Census, CensusGroup
from jaxtop_agent.arrays.listing import ListingLimit
from jaxtop_agent.arrays.shardings import Shardings
from jaxtop_agent.arrays.table import ArrayTable
from jaxtop_agent.arrays.walk import Walk
from jaxtop_agent.core import budget
from jaxtop_agent.core.waiting import WorkSlices

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.arrays.watched_names import WatchedNames
    from jaxtop_agent.core.board import Board

LOOKS_AT_ONCE = 100
# The list of arrays keeps them alive, so it is dropped after HOLD_S and made again. A pause lasts until the
# script's threads release the GIL, so the list is also dropped before a pause that may exceed the limit. Each
# list is used for a minimum time, in proportion to the time it took to make: otherwise we would make one list
# after another while the script is busy.
HOLD_S, LEAST_HOLD_S, LISTINGS_HELD = 0.018, 0.008, 2
# This many censuses wait for a generator to run, each for this many short looks.
MOST_WAITS, GLANCES, BETWEEN_GLANCES_S = 60, 30, 0.003
# The bound is needed because a script may make arrays as fast as we count them.
MOST_PASSES = 100


class ArrayCensus:
    """The census, sent when it changes. Where no allocator counts, its sums are the device memory figures."""

    name = "arrays"
    share = budget.CENSUS
    also_unwatched = False

    def __init__(self, watched: WatchedNames) -> None:
        self._watched = watched
        # The client whose arrays the tables describe. It is not held: it holds the memory of its devices, and
        # the script may clear its backends.
        self._client: Callable[[], Any] | None = None
        self._registered = 0
        self._slices = WorkSlices()
        self._listing = ListingLimit()
        self._local_ids: tuple[int, ...] = ()

    def collect(self, board: Board, client: Any) -> None:
        if client is None:
            self.forget(board)
            return
        known = None if self._client is None else self._client()
        if client is not known or self._shardings.is_full or self._census.is_full:
            self.forget(board)
            self._begin(client)
        self._slices = WorkSlices(lambda: board.stopping)
        present = self._count()
        if present is None:
            if board.sampler.counted_ms is not None or board.sources.get(self.name) != self._listing.why_not:
                self.forget(board)
                board.send(wire.Arrays(now_ms(), now_ms(), 0))
            board.sources[self.name] = self._listing.why_not
            return
        board.sources[self.name] = "on"
        if board.sampler.memory_source != "allocator":
            held, limit = self._held(present), board.identity.simulated_limit_bytes
            board.sampler.devices = msgspec.structs.replace(
                board.sampler.devices,
                used_bytes=tuple(held[device_id] for device_id in self._local_ids),
                limit_bytes=None if limit is None else (limit,) * len(self._local_ids),
            )
            board.sampler.memory_source = "arrays"
        if self._watched.changes != self._registered:
            self._registered = self._watched.changes
            self._table.restart()
        message = self._table.take(present, self._slices.pause)
        if message is not None:
            if isinstance(message, wire.Arrays):
                self._census.drop(present)
            board.sampler.arrays = self._table.whole()
            board.send(message)
        board.sampler.counted_ms = now_ms()

    def forget(self, board: Board) -> None:
        if board.sampler.memory_source == "arrays":
            board.sampler.devices, board.sampler.memory_source = wire.DeviceSample(), None
        board.sampler.arrays = board.sampler.counted_ms = None
        if self._client is not None:
            self._client = None
            self._census.drop([])
            self._walk.forget()

    def _begin(self, client: Any) -> None:
        """Start with a new client, after its backends were created."""
        devices = jaxprivate.local_devices(client)
        self._waits_left = MOST_WAITS
        self._local_ids = tuple(device.id for device in devices)
        self._default_memory = jaxprivate.default_memory(devices[0])
        self._shardings = Shardings(frozenset(self._local_ids))
        self._census = Census(self._shardings)
        self._table = ArrayTable(self._shardings)
        self._walk = Walk(
            jaxprivate.array_type(),
            self._census.kind_of,
            lambda: self._slices.is_over,
            lambda: self._slices.rest(),  # noqa: PLW0108 - each census has its own slices
        )
        self._client = weakref.ref(client)  # last: what fails above is tried again

    def _count(self) -> list[CensusGroup] | None:
        """Return the arrays by group; None if there are too many. No object of JAX is held afterwards."""
        try:
            return self._named_and_counted()
        finally:
            self._census.forget_objects()

    def _named_and_counted(self) -> list[CensusGroup] | None:
        """Find the script's names for its arrays, then count each once; None if there are too many."""
        census, listing = self._census, self._listing
        present: list[CensusGroup] = []
        for may_repeat in (True, False):
            census.begin()
            self._slices.rest(briefly=True)
            waited = self._wait_for_a_generator()
            places = self._walk.places(self._watched.callables.items(), listing.limit)
            if not listing.may_be_listed(len(places)):
                return None
            self._watched.rename(places)
            counted, is_all = 0, False
            for _ in range(MOST_PASSES):
                counted, is_all = self._count_some(places, counted)
                if is_all:
                    break
                if listing.is_too_large:
                    return None
            if census.must_repeat and may_repeat:
                continue
            present = census.end(places, self._slices.pause)
            if waited or not self._may_wait:
                break
        return present

    @property
    def _may_wait(self) -> bool:
        """Whether arrays lack names that a generator may hold, which is out of sight while suspended."""
        return self._census.is_short_of_names and self._waits_left > 0

    def _wait_for_a_generator(self) -> bool:
        """Wait until a generator runs, if arrays lack names; return whether this was worth waiting for."""
        if not self._may_wait:
            return False
        self._waits_left -= 1
        for _ in range(GLANCES):
            if frames.a_generator_runs():
                break
            time.sleep(BETWEEN_GLANCES_S)
        return True

    def _count_some(self, places: dict[int, Any], counted: int) -> tuple[int, bool]:
        """Count more arrays while they may be held; return the number so far, and whether these are all."""
        slices = self._slices
        slices.rest(briefly=not counted)  # the first pass starts soon, while the walk is current
        drop_at, cpu = time.monotonic() + HOLD_S, time.thread_time()
        arrays = jaxprivate.live_arrays()
        took = time.thread_time() - cpu
        self._listing.listed(len(arrays), took)
        if self._listing.is_too_large:
            return counted, False
        drop_at = max(drop_at, time.monotonic() + max(LEAST_HOLD_S, LISTINGS_HELD * took))
        slices.expire()  # that call was one long hold of the GIL
        # JAX lists the newest arrays first: nearly all arrays that were counted before are at the end.
        del arrays[max(0, len(arrays) - counted) :]
        while arrays:
            if slices.is_over:
                slices.rest(briefly=True)
            some = arrays[-LOOKS_AT_ONCE:]
            del arrays[-LOOKS_AT_ONCE:]
            counted += len(some)
            self._census.count(some, places)
            del some
            longest_pause = sys.getswitchinterval() if slices.is_over else 0.0
            if arrays and time.monotonic() + longest_pause > drop_at:
                return counted, False
        return counted, True

    def _held(self, present: list[CensusGroup]) -> Counter[int]:
        """Return the bytes on each local device, without arrays offloaded to the host's memory."""
        by_sharding: Counter[int] = Counter()
        for group in present:
            by_sharding[group.kind.sharding] += group.size
        held: Counter[int] = Counter()
        for number, size in by_sharding.items():
            if self._shardings.described[number].memory_kind in (self._default_memory, None):
                held.update(dict.fromkeys(self._shardings.on_devices[number], size))
        return held
