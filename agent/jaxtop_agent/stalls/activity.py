"""Samples what the main thread does: it runs the script, launches, waits for a result or compiles.

Two samples a second are enough to say which line of the script takes which share of the time.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.base import debuglog
from jaxtop.base.clock import now_ms
from jaxtop.wire import COMPILE, LAUNCH, SCRIPT, WAIT
from jaxtop_agent.arrays import origins, running_frames
from jaxtop_agent.core import threads
from jaxtop_agent.core.waiting import wait
from jaxtop_agent.ledger.queues import Depth, WaitedQueue
from jaxtop_agent.machine import basics
from jaxtop_agent.stalls import calls, stacks

if TYPE_CHECKING:
    from types import FrameType

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.hooks.garbage import GarbageRuns
    from jaxtop_agent.hooks.jax import Hooks
    from jaxtop_agent.ledger.thread import LedgerThread

NAME = "activity"
# The mean time between two samples. Each comes at a random time, or a loop of the same period would show only
# one of its lines.
EVERY_S = 0.5
SPAN_S = 20.0
SEND_EVERY_S = 3.0
# At first, and after a change of the rhythm, samples come sooner until there are enough: at most for this
# long, because there may be no Python to sample.
SOON_EVERY_S, SOON_FOR_S = 0.1, 8.0
# The number of lines in a message.
MAX_LINES = 6
# The number of frames that are searched for a line of the script.
MAX_FRAMES = 40
# Reading the waits for a core costs as much as half a sample.
DELAY_EVERY_S = 1.0
# Samples also come sooner until a while after steps are launched, at most for this long: nothing else says
# what a script restores, and how long its first steps wait for input.
NEW_EVERY_S, NEW_FOR_S = 0.2, 150.0
# Files of JAX in which its Python waits for a result or for other processes, and those in which it compiles.
_WAITING = ("array.py", "multihost_utils.py", "distributed.py")
_WAITING_CALLS = frozenset({"block_until_ready", "device_get", "_device_get", "effects_barrier"})
_COMPILING = ("compiler.py", "mlir.py", "partial_eval.py", "compilation_cache.py")
_JAX = ("jax/", "jaxlib/")
# JAX's own callback of Python's garbage collector: it runs in the middle of any line.
_COLLECTING = "_xla_gc_callback"


class _Sample(NamedTuple):
    at: float
    place: wire.Place
    activity: int
    depth: Depth | None  # of the queue from which the main thread takes its input
    # What had passed by then: garbage collections, and waits of the main thread for a core when last read.
    garbage: GarbageRuns
    delayed_ns: int | None


class MainThread:
    """Takes the samples on its own thread, for the ledger; while somebody watches, it sends their sums."""

    def __init__(self, board: Board, hooks: Hooks, ledger: LedgerThread) -> None:
        self._board = board
        self._hooks = hooks
        self._ledger = ledger
        self._began = time.monotonic()
        self._samples: deque[_Sample] = deque()
        self._queue = WaitedQueue()
        self._random = random.Random()  # noqa: S311 - it only spreads samples over time
        self._delayed_ns: int | None = None
        self._delay_read_at = 0.0
        self._sent_at = 0.0
        # When the rhythm of the steps last changed, and until when samples come sooner.
        self._since_ms = 0
        self._new_until = 0.0
        board.sources[NAME] = "on"

    def run(self) -> None:
        """Sample until the agent stops. A failure turns off only this source."""
        board = self._board
        try:
            while not board.stopping:
                wait(board.wakeups.activity, self._random.uniform(0.5, 1.5) * self._every(time.monotonic()))
                if board.is_watched:
                    self._look(time.monotonic())
                else:
                    self._samples.clear()
                    _read(self._hooks, self._ledger)
        except Exception as error:
            debuglog.warning(NAME, "the main thread is not sampled any more", error=error)
            board.switch_off(NAME, error)

    def _every(self, now: float) -> float:
        """Return the mean time until the next sample."""
        if self._board.is_watched and now < self._new_until:
            return SOON_EVERY_S
        is_new = self._ledger.is_new and now - self._began < NEW_FOR_S
        return NEW_EVERY_S if is_new else EVERY_S

    def _look(self, now: float) -> None:
        read = _read(self._hooks, self._ledger, self._queue)
        if read is None:
            return
        samples = self._samples
        if not samples:
            self._sent_at, self._new_until = now, now + SOON_FOR_S
        oldest = max(now - SPAN_S, self._changed_at(now))
        is_new = now < self._new_until
        if is_new or now - self._delay_read_at >= DELAY_EVERY_S:
            self._delayed_ns, self._delay_read_at = basics.delayed_ns(), now
        samples.append(_Sample(now, *read, self._hooks.garbage(), self._delayed_ns))
        while len(samples) > 1 and samples[0].at < oldest:
            samples.popleft()
        if len(samples) < wire.FEWEST_ACTIVITY_SAMPLES or not (is_new or now - self._sent_at >= SEND_EVERY_S):
            return
        self._sent_at, self._new_until = now, 0.0
        self._board.send(self._message(now), at_once=is_new)
        if is_new:  # samples that come later must not weigh less than these
            self._samples = _thinned(list(samples), round(EVERY_S / SOON_EVERY_S))

    def _changed_at(self, now: float) -> float:
        """Return when the rhythm of the steps last changed: earlier samples say nothing about the present."""
        rhythm = self._board.sampler.rhythm
        if rhythm is None or rhythm.before_us is None:
            return 0.0
        if rhythm.since_ms != self._since_ms:
            self._new_until = now + SOON_FOR_S
        self._since_ms = rhythm.since_ms
        return now - (now_ms() - rhythm.since_ms) / 1000

    def _message(self, now: float) -> wire.Activity:
        by_activity = Counter(each.activity for each in self._samples)
        lines = Counter((each.place, each.activity) for each in self._samples).most_common(MAX_LINES)
        first, last = self._samples[0], self._samples[-1]
        return wire.Activity(
            now_ms(),
            round((now - first.at) * 1000),
            (by_activity[SCRIPT], by_activity[LAUNCH], by_activity[WAIT], by_activity[COMPILE]),
            tuple(wire.ActiveLine(place, activity, count) for (place, activity), count in lines),
            last.garbage.runs - first.garbage.runs,
            (last.garbage.total_ns - first.garbage.total_ns) // 1000,
            max((each.garbage.longest_ns for each in islice(self._samples, 1, None)), default=0) // 1000,
            _delay_ms(first, last),
            _queue_of([each.depth for each in self._samples if each.depth is not None]),
        )


def _thinned(samples: list[_Sample], stride: int) -> deque[_Sample]:
    """Return the first sample, and the last of each few later ones with the longest collection of them."""
    kept = deque(samples[:1])
    for start in range(1, len(samples), stride):
        group = samples[start : start + stride]
        longest = max(each.garbage.longest_ns for each in group)
        kept.append(group[-1]._replace(garbage=group[-1].garbage._replace(longest_ns=longest)))
    return kept


def _queue_of(depths: list[Depth]) -> wire.InputQueue | None:
    """Return what looks at a queue have shown; None if it has not been looked at."""
    if not depths:
        return None
    last = depths[-1]
    found = [each.depth for each in depths if each.number == last.number]
    most = last.capacity
    full = 0 if most is None else sum(each >= most for each in found)
    return wire.InputQueue(last.kind, last.depth, most, len(found), found.count(0), full)


def _delay_ms(first: _Sample, last: _Sample) -> int | None:
    if first.delayed_ns is None or last.delayed_ns is None:
        return None
    return max(0, last.delayed_ns - first.delayed_ns) // 1_000_000


def _read(
    hooks: Hooks, ledger: LedgerThread, queue: WaitedQueue | None = None
) -> tuple[wire.Place, int, Depth | None] | None:
    """Return the line and the activity of the main thread, and note it; None while it runs no Python.

    If there is a `queue`, its depth is read, too.
    """
    frames = running_frames.frames()
    frame = frames.get(threads.main_ident() or 0)
    frames.clear()
    if frame is None:
        return None
    stack = running_frames.stack(frame, MAX_FRAMES)
    del frame
    try:
        activity = _activity(stack, hooks)
        is_in_jax = activity != SCRIPT
        kind = ledger.stacks.kind(stack, is_in_jax=is_in_jax)
        ledger.sample(kind, is_in_jax=is_in_jax)
        depth = None if queue is None else queue.look(stack, waits=kind == "input")
        return _placed(stack), activity, depth
    finally:
        stack.clear()  # a held frame keeps its variables alive


def _placed(stack: list[FrameType]) -> wire.Place:
    """Return the innermost line of the script's own code, or else the innermost line."""
    own = next((frame for frame in stack if not origins.is_library(frame.f_code.co_filename)), stack[0])
    return stacks.place(own.f_code, own.f_lineno)


def _activity(stack: list[FrameType], hooks: Hooks) -> int:
    innermost = None
    for frame in stack:
        file, function = stacks.short(frame.f_code.co_filename), frame.f_code.co_name
        if file.startswith(_JAX) and function != _COLLECTING:
            if file.endswith(_COMPILING):
                return COMPILE
            if innermost is None:
                is_waiting = file.endswith(_WAITING) or function in _WAITING_CALLS
                innermost = WAIT if is_waiting else LAUNCH
        elif innermost is not None:
            break
    if innermost is not None:
        return innermost
    called = calls.launch(stack[0], hooks.functions())
    return SCRIPT if called is None else WAIT if called in calls.WAITS else LAUNCH
