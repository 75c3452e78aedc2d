"""The running compilations, and the durations of finished ones, from JAX's monitoring events."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.clock import now_ms
from jaxtop.base.names import program_of, unwrapped
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays.origins import calling
from jaxtop_agent.programs.compiles.compilations import FunctionCompilations, steady_ms
from jaxtop_agent.programs.compiles.recompilations import CompilationSubject, Recompilations
from jaxtop_agent.programs.compiles.signatures import Signature

if TYPE_CHECKING:
    from types import FrameType

    from jaxtop.wire import Compiling
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.jaxprivate import declarations
    from jaxtop_agent.programs.compiles.recompilations import CompilationRecord

# The bound keeps the agent from growing with a program that makes new functions forever.
MOST_NAMES = 500
EVENT: declarations.Name = "/jax/core/compile/backend_compile_duration"
# The stages up to that event: tracing and lowering, which take as long for large functions.
STAGES: declarations.Events = {
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    EVENT,
}
# JAX looks for a program in its persistent cache, and finds it there.
CACHE_REQUEST: declarations.Name = "/jax/compilation_cache/compile_requests_use_cache"
CACHE_HIT: declarations.Name = "/jax/compilation_cache/cache_hits"
# A stage belongs to the same compilation as the stage before it if it begins within this time, or within the
# time that the earlier stages took: JAX works on their results between two stages.
NEXT_STAGE_WITHIN_MS = 1000
MOST_THREADS = 64
# The compilations that end while the agent is still loading are stored, and reported afterwards.
MOST_EARLY = 64
# The compilations whose times are remembered for the ledger.
MOST_SPANS = 1024


class RunningCompilation(NamedTuple):
    """A running compilation: its function and its start."""

    function: str
    since_ms: int


class CompiledSpan(NamedTuple):
    """A compilation that has ended: its thread, its times, and whether JAX found the program in a cache."""

    thread: int
    start_ms: int
    end_ms: int
    from_cache: bool


class _CompilationFacts(NamedTuple):
    """The facts about a compilation that are known when it begins."""

    subject: CompilationSubject
    of_jax: bool | None = None
    initializes: bool = False


class _Thread:
    """The compilation of one thread: its stage, and the facts about it so far."""

    def __init__(self) -> None:
        self.depth = 0  # functions are traced within functions
        self.running: RunningCompilation | None = None
        # The last stage, and its end.
        self.last: tuple[RunningCompilation, int] | None = None
        # Seconds of the stages so far, and of the compilations within the stage.
        self.spent = self.within = 0.0
        self.facts: _CompilationFacts | None = None
        self.from_cache: bool | None = None

    def begin(self, function: str) -> None:
        self.depth += 1
        if self.depth > 1:
            return
        now = now_ms()
        if self.last is not None:
            last, ended_ms = self.last
            is_next = now - ended_ms < max(NEXT_STAGE_WITHIN_MS, ended_ms - last.since_ms)
            if is_next and program_of(function) == program_of(last.function):
                self.running = last
                return
        self.running, self.spent = RunningCompilation(function, now), 0.0

    def end(self, event: str, duration: float) -> float:
        """Return the seconds of the compilation up to the end of this stage.

        The time of a compilation within a stage of another one counts once: for the inner one.
        """
        if self.depth > 1:
            self.depth -= 1
            self.within += duration if event == EVENT else 0.0
            return duration
        seconds = self.spent + max(0.0, duration - self.within)
        self.spent = 0.0 if event == EVENT else seconds
        self.depth, self.within = 0, 0.0
        # The stage after that event is a new compilation's.
        self.last = None if event == EVENT or self.running is None else (self.running, now_ms())
        self.running = None
        return seconds


class Compiles:
    """The compilations of the process. A thread compiles one program at a time.

    The listeners run on the user's threads. They are installed before the agent is loaded, so this module
    imports nothing that takes long.
    """

    name = "compiles"

    def __init__(self) -> None:
        self._board: Board | None = None
        self.compiled: dict[str, FunctionCompilations] = {}  # by program name; the board shares it
        self.history = Recompilations(jaxprivate.setting_names)
        self._finished: deque[tuple[int, str, int, CompilationRecord | None]] = deque(maxlen=MOST_EARLY)
        self._threads: dict[int, _Thread] = {}
        self.spans: deque[CompiledSpan] = deque(maxlen=MOST_SPANS)
        self._listeners = jaxprivate.MonitoringListeners(self._started, self._ended, self._happened)
        # The monotonic time at which a compilation last ended.
        self.last_ended = 0.0

    def attach(self, board: Board) -> None:
        """Report to this board from now on, beginning with the compilations that have ended already."""
        board.compiles.compiled = self.compiled
        board.compiles.history = self.history
        self._board = board
        self._report()

    def _report(self) -> None:
        from jaxtop.wire import Compilation, Compile  # loaded with the board

        while self._board is not None and self._finished:
            with suppress(IndexError):  # another thread took it
                at_ms, function, took, noted = self._finished.popleft()
                compilation = Compilation(at_ms, function) if noted is None else Compilation(*noted)
                why = compilation.why if compilation.is_again else ""
                self._board.send(Compile(at_ms, function, took, why))

    def install(self) -> str:
        """Listen from now on, and return the state of the source."""
        self._listeners.register()
        return "on"

    def uninstall(self) -> None:
        self._listeners.unregister()

    def running(self) -> tuple[Compiling, ...]:
        """Return the functions that are being traced, lowered or compiled now."""
        from jaxtop.wire import Compiling  # as above

        found = [each.running for each in self._threads.copy().values()]
        return tuple(Compiling(*each) for each in found if each is not None)

    def is_of_this_thread(self) -> bool:
        """Whether the calling thread traces, lowers or compiles a function now."""
        thread = self._threads.get(threading.get_ident())
        return thread is not None and thread.depth > 0

    def _thread(self) -> _Thread:
        """Return the compilation of the calling thread."""
        ident = threading.get_ident()
        if ident not in self._threads and len(self._threads) >= MOST_THREADS:  # most of them have ended
            self._threads = {each: thread for each, thread in self._threads.copy().items() if thread.depth}
        return self._threads.setdefault(ident, _Thread())

    def _started(self, event: str, value: object, **facts: object) -> None:  # noqa: ARG002 - JAX's signature
        if event in STAGES:
            with suppress(Exception):  # an error here must not stop the user's compilation
                thread, function = self._thread(), _function(facts)
                thread.begin(function)
                if event == EVENT:
                    thread.from_cache, thread.facts = None, _facts(sys._getframe(1), function)

    def _happened(self, event: str, **facts: object) -> None:  # noqa: ARG002 - JAX's signature
        if event in {CACHE_REQUEST, CACHE_HIT}:
            with suppress(Exception):  # JAX asks even where it has no cache
                if jaxprivate.has_persistent_cache():
                    self._thread().from_cache = event == CACHE_HIT

    def _ended(self, event: str, duration: float, **facts: object) -> None:
        if event in STAGES:
            with suppress(Exception):  # as above
                thread = self._thread()
                duration = max(0.0, duration)  # JAX measures with the clock of the machine, which may be set
                running = thread.running if thread.depth <= 1 else None
                seconds = thread.end(event, duration)
                if event == EVENT and running is not None:
                    found = threading.get_ident(), running.since_ms, now_ms(), bool(thread.from_cache)
                    self.spans.append(CompiledSpan(*found))
                if event == EVENT:
                    self.last_ended = time.monotonic()
                    function, took = _function(facts), round(duration * 1000)
                    noted = self._note(thread, function, took, round(seconds * 1000))
                    self._finished.append((now_ms(), function, took, noted))
                    if self._board is not None:
                        self._report()

    def _note(self, thread: _Thread, function: str, took: int, whole_ms: int) -> CompilationRecord | None:
        """Note a compilation under its program's name, so that functions of one name share an entry."""
        facts, thread.facts = thread.facts or _CompilationFacts(CompilationSubject(function)), None
        cached, thread.from_cache = thread.from_cache, None
        last: CompilationRecord | None = None
        with suppress(Exception):  # without its cause it is counted all the same
            last = self.history.note(facts.subject, now_ms(), whole_ms, from_cache=cached)
        noted, name = self.compiled, program_of(function)
        if name in noted or len(noted) < MOST_NAMES:
            noted[name] = noted.get(name, FunctionCompilations(function)).again(
                steady_ms(),
                took,
                of_jax=facts.of_jax,
                initializes=facts.initializes,
                last=last,
                place=facts.subject.source if facts.of_jax else facts.subject.place,
            )
        return last


def _facts(frame: FrameType, function: str) -> _CompilationFacts:
    """Return the facts about a compilation that begins; nothing of JAX or the script is kept alive."""
    found, source = jaxprivate.FunctionToCompile(), ""
    with suppress(Exception):  # what cannot be read stays unknown
        source = calling(frame)
        found = jaxprivate.being_compiled(frame)
    if not found.defined:
        return _CompilationFacts(CompilationSubject(function, source))
    signature = None
    with suppress(Exception):  # as above
        signature = Signature.of(found)
    # JAX derives functions from the script's, and compiles some ahead of time: their arguments' names differ.
    key = function, found.defined, found.is_launch or found.names
    return _CompilationFacts(
        CompilationSubject(function, source, key, signature, found.defined), found.of_jax, found.initializes
    )


def _function(facts: dict[str, object]) -> str:
    return unwrapped(str(facts.get("fun_name") or "a function without a name"))
