"""The step of the run, from its launches or from the script's calls of `agent.step()`."""

from __future__ import annotations

import time
from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Any

from jaxtop.base.clock import now_ms
from jaxtop.base.names import program_of
from jaxtop.wire import Programs, Rhythm, Window
from jaxtop_agent import jaxprivate
from jaxtop_agent.core import budget
from jaxtop_agent.core.board import READING, Board
from jaxtop_agent.hooks.launches import MAX_LAUNCHES, THE_REST, Launches
from jaxtop_agent.steps import work
from jaxtop_agent.steps.figures import FunctionFacts, StepFigures
from jaxtop_agent.steps.finder import StepFinder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop_agent.steps.pattern import FunctionLaunch
    from jaxtop_agent.steps.progress import Progress

# If a step has more functions than this, only the first ones and the last one are sent.
MOST_FUNCTIONS = 64
# The first looks, at most this many, wait until the programs are read.
PATIENCE = 10


class StepRhythm:
    """The step figures, computed only while there are viewers; launches are always counted."""

    name = "rhythm"
    share = budget.RHYTHM
    also_unwatched = False

    def __init__(self, launches: Launches | None, progress: Progress) -> None:
        self._launches = launches
        self._progress = progress
        self._recent: deque[FunctionLaunch] = deque(maxlen=MAX_LAUNCHES)
        self._steps = StepFinder()
        self._facts = FunctionFacts()
        self._learned_from: tuple[object, ...] = ()
        self._patience = PATIENCE
        self._called = 0  # the time of the last call of `agent.step()` that was looked at
        # The start of the rhythm by both clocks. It is converted once; otherwise it would waver.
        self._since = self._since_ms = 0

    def collect(self, board: Board, client: Any) -> None:  # noqa: ARG002 - the hook notes the launches
        now = time.monotonic_ns()
        names: Mapping[int, str] = {}
        counts: dict[int, int] = {}
        of_the_script: frozenset[int] = frozenset()
        if self._launches is not None:
            counts = self._launches.counts()  # read first: no counted launch is missing from the next list
            before = self._recent[-1].at if self._recent else 0
            new = self._launches.launches_since(before)
            if not self._launches.reaches_back(before):
                self._recent.clear()  # launches before the new ones were dropped while nobody watched
            self._recent += new
            names = self._launches.names()  # read after the launches, so that each of them has a name
            of_the_script = self._launches.of_the_script()
        self._learn(names, of_the_script, board.programs.listed, board.windows.latest)
        if self._must_wait(board):
            self._patience -= 1
            return
        calls = self._progress.calls_since(self._called)
        self._called = calls[-1].at if calls else self._called
        figures = self._steps.look(list(self._recent), calls, self._facts, now, counts)
        topology = board.sampler.topology
        devices = len(topology.devices) if topology is not None else 0
        has_changed = False
        if figures is not None and figures.since != self._since:
            self._since, has_changed = figures.since, figures.before_ns is not None
            self._since_ms = now_ms() - (time.monotonic_ns() - figures.since) // 1_000_000
        board.sampler.rhythm = None if figures is None else self._message(figures, names, devices)
        if has_changed:
            board.wakeups.windows.set()
            board.wakeups.activity.set()

    def forget(self, board: Board) -> None:
        board.sampler.rhythm = None

    def _must_wait(self, board: Board) -> bool:
        """Return whether to wait: only its program shows whether a function is an evaluation."""
        if not self._patience:
            return False
        if not _are_being_read(board):
            self._patience = 0
            return False
        return len({launch.function for launch in self._recent} - self._facts.own) > 1

    def _learn(
        self,
        names: Mapping[int, str],
        of_the_script: frozenset[int],
        programs: Programs | None,
        windows: tuple[Window, ...],
    ) -> None:
        """Update the facts about functions; of several programs with one name, the newest gives the bytes."""
        sources = (len(names), of_the_script), programs, windows
        if sources == self._learned_from:
            return
        own = self._facts.own
        if not self._learned_from or sources[0] != self._learned_from[0]:
            of_jax = jaxprivate.own_functions()
            own = frozenset(number for number, name in names.items() if name in of_jax) - of_the_script
        self._learned_from = sources
        newest = {each.name: each for each in reversed(programs.programs if programs else ())}
        done = work.of_functions(programs, windows) if programs else {}
        durations = _durations(windows)
        wanted = {number: program_of(name) for number, name in names.items()}
        by_number = {number: newest[name] for number, name in wanted.items() if name in newest}
        self._facts = FunctionFacts(
            arguments={number: each.argument_bytes for number, each in by_number.items()},
            results={number: each.output_bytes for number, each in by_number.items()},
            flops={number: done[name].operations for number, name in wanted.items() if name in done},
            at_least=frozenset(
                number for number, name in wanted.items() if name in done and done[name].at_least
            ),
            own=own,
            has_functions=len(own) + (THE_REST in names.values()) < len(names),
            device_ns={number: durations[name] for number, name in wanted.items() if name in durations},
        )

    def _message(self, figures: StepFigures, names: Mapping[int, str], devices: int) -> Rhythm:
        paused = figures.paused
        functions = tuple(names[each] for each in dict.fromkeys(figures.functions))
        return Rhythm(
            serial=self._steps.serial,
            functions=(*functions[: MOST_FUNCTIONS - 1], *functions[MOST_FUNCTIONS - 1 :][-1:]),
            steps=self._steps.steps,
            launches_centi=round(figures.launches * 100),
            mean_us=_micros(figures.mean_ns),
            milli_per_s=None if figures.per_second is None else round(figures.per_second * 1000),
            samples=figures.samples,
            p50_us=_micros(figures.p50_ns),
            p90_us=_micros(figures.p90_ns),
            p99_us=_micros(figures.p99_ns),
            flops=None if figures.flops is None or not devices else round(figures.flops / devices),
            flops_at_least=figures.flops is not None and figures.flops_at_least,
            since_ms=self._since_ms,
            before_us=_micros(figures.before_ns),
            pauses=0 if paused is None else paused.number,
            pauses_ms=0 if paused is None else paused.span_ns // 1_000_000,
            lost_us=0 if paused is None else round(paused.lost_ns / 1000),
            pause_steps=0 if paused is None else paused.every,
        )


def _are_being_read(board: Board) -> bool:
    """Return whether programs are unread; before that, an evaluation would be mistaken for a step."""
    state = board.sources.get("programs", "")
    return state.startswith(READING) or (state == "on" and board.programs.listed is None)


def _durations(windows: tuple[Window, ...]) -> dict[str, int]:
    """Return the median duration in nanoseconds of each program's launches on the device."""
    found: dict[str, list[int]] = {}
    for window in windows:
        for launch in window.launches:
            found.setdefault(window.programs[launch.program][0], []).append(launch.duration_us)
    return {name: round(median(each) * 1000) for name, each in found.items()}


def _micros(nanoseconds: float | None) -> int | None:
    return None if nanoseconds is None else round(nanoseconds / 1000)
