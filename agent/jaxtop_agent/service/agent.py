"""The agent of a process: it waits for JAX, starts its threads, and ends them."""

from __future__ import annotations

import atexit
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop._version import __version__
from jaxtop.base import debuglog, room
from jaxtop.base.debuglog import LOG
from jaxtop.base.names import reason
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays.watched_names import WatchedNames
from jaxtop_agent.boot import children
from jaxtop_agent.boot.children import Family
from jaxtop_agent.core.settings import ROLE, named_role, script_name
from jaxtop_agent.core.threads import Worker
from jaxtop_agent.hooks.imports import when_imported
from jaxtop_agent.hooks.jax import Hooks
from jaxtop_agent.ledger.phases import Phases
from jaxtop_agent.loading import Loading, Stopped
from jaxtop_agent.service.own_threads import AgentThreads
from jaxtop_agent.steps.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.core.board import Board
    from jaxtop_agent.core.settings import AgentSettings
    from jaxtop_agent.service.assembly import Assembly

# The longest that the agent may delay a script's exit; each call into jaxlib is far shorter.
PATIENCE = 2.0
START_RETURNS_WITHIN = 0.01
# Multiprocessing ends the work of a process in the order of these numbers, the largest first.
LAST = -1000
# Enough for the agent's and ZeroMQ's threads, and as many again for the script.
THREADS = 16


class Agent:
    """Waits for JAX, then starts the publisher, the sampler and the registrar."""

    def __init__(
        self,
        settings: AgentSettings,
        given: dict[str, Any] | None = None,
        family: Family | None = None,
    ) -> None:
        """Take the settings, what was `given` of them in the call, and the family of a child process."""
        self._settings = settings
        self.given = given or {}
        self.family = family or Family(os.urandom(8).hex())
        # Whether a parent has started this agent, and the script has not.
        self.is_inherited = family is not None
        self.role = settings.role if settings.role != self.family.role else ""
        # Until then it has no thread, no socket and no file.
        self.waits = True
        self.pid = os.getpid()
        self._threads = AgentThreads(self._failure)
        self._board: Board | None = None
        self._parts: Assembly | None = None
        self._hooks: Hooks | None = None
        self._call_off: Callable[[], None] = lambda: None
        self._deadline: float | None = None
        self._loader: Worker | None = None
        self.is_over = False
        self.failure = ""  # why this process is not shown
        self.loading = Loading()
        self.progress = Progress()
        self.phases = Phases()
        self.watched = WatchedNames()

    @property
    def name(self) -> str:
        return (self._board.identity.name if self._board else self._settings.name) or script_name()

    @property
    def ignored(self) -> tuple[str, ...]:
        """A sentence for each setting that cannot be used; a black box may fail after a while."""
        state = self._board.sources.get("recording", "") if self._board else ""
        is_off = self._settings.record is not None and state.startswith("off: ")
        unrecorded = f"record={self._settings.record}: {state.removeprefix('off: ')}: nothing is recorded"
        return (*self._settings.ignored, *([unrecorded] if is_off else []))

    @property
    def address(self) -> str:
        """Where viewers attach; empty until the agent serves."""
        return self._board.publisher.requests if self._board else ""

    def take_role(self, role: str) -> None:
        self.role = named_role(role)
        board = self._board
        if board is not None:
            from msgspec.structs import replace  # not before JAX is imported

            board.identity = replace(board.identity, role=self.role, is_role_guessed=False)
            board.wakeups.publisher.set()

    def start(self) -> None:
        """Start once JAX makes its first backend; until then there is no socket, and no thread that lasts."""
        if "jax" not in sys.modules:
            debuglog.info("start", "waits until the script imports jax")
        self._pass_on()
        self._call_off = when_imported("jax", self._wait_for_backends)

    def _pass_on(self) -> None:
        """Let the children of this process start agents, too."""
        try:
            if jaxprivate.has_backends():  # their threads may read the environment at any time
                return
            own, record = self.family, self.given.get("record")
            script = own.script or script_name()
            settings = {each: self.given.get(each) for each in ("name", "bind", "interval", "collectives")}
            settings["record"] = None if record is None else str(Path(record).expanduser().absolute())
            children.pass_on({**settings, "family": (own.id, script, named_role(os.environ.get(ROLE)))})
        except Exception as error:
            debuglog.warning("start", "children of this process are not shown", error=error)

    def _wait_for_backends(self) -> None:
        # This runs on the user's thread, inside `import jax` or `agent.start()`: no exception may leave it.
        try:
            hooks = self._hooks = Hooks()
            hooks.install()
            # Registered after JAX's own exit hooks, and so called before them: JAX destroys its clients at
            # exit, and none of our threads may be inside one then.
            atexit.register(self._end)
            self._begin_with_backends()
            if self.waits and not self.is_inherited:
                self._run_loader(self._load_early)
        except Exception as error:
            self._not_loaded(error)

    def _begin_with_backends(self) -> None:
        try:
            self._call_off = jaxprivate.when_backends_start(self._begin)
        except jaxprivate.Missing as error:  # the process is shown at once
            debuglog.warning("start", "does not wait for the backends", error=error)
            self._begin()

    def begin_now(self) -> None:
        """Begin although JAX is not used yet: somebody wants to see this process."""
        if self.waits:
            self._call_off()
            self._begin()

    def _begin(self) -> None:
        # On the user's thread, too.
        self.waits = False
        try:
            room.require_address_space(THREADS)
            self._end_with_worker()

            self._run_loader(self._load)
        except Exception as error:
            self._not_loaded(error)

    def _run_loader(self, load: Callable[[], None]) -> None:
        self._loader = Worker("loader", load, self._not_loaded)
        self._loader.start()

    def _load_early(self) -> None:
        """Import the agent's modules before they are needed: what a script does first is to be seen, too.

        A child imports them only once it uses JAX: most children never do.
        """
        time.sleep(START_RETURNS_WITHIN)
        self.loading.load()

    def _end_with_worker(self) -> None:
        """In a process of multiprocessing that has been forked, end as its work does: no exit hook runs."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None and util.process.parent_process() is not None:
            util.Finalize(None, self._end_worker, exitpriority=LAST)

    def _end_worker(self) -> None:
        from jaxtop_agent.stalls.uncaught_exception import note_worker_error  # loads the messages

        note_worker_error(sys.exc_info()[1])
        self._end()

    def _load(self) -> None:
        time.sleep(START_RETURNS_WITHIN)  # otherwise `start` would wait for the GIL in its last lines
        with self.loading.undivided():
            from jaxtop_agent.service.logthread import LogThread  # not on the script's thread

            self._threads.log = LogThread()
        debuglog.info("agent", f"jaxtop {__version__}, {sys.executable} {sys.argv}, {self._settings}")
        with self.loading.undivided():
            room.require_threads(THREADS)
        self.loading.load()
        with self.loading.undivided():
            self._assemble()

    def _not_loaded(self, error: BaseException) -> None:
        """Stop the agent after a failure to load it, and report the reason."""
        if isinstance(error, Stopped):
            debuglog.info("agent", "stopped before it was loaded")
        else:
            debuglog.warning("agent", "this process is not shown", "the agent cannot be loaded", error)
        with suppress(Exception):
            self._take_down("failed")
        if not isinstance(error, Stopped):
            self._explain(error)

    def _explain(self, error: BaseException) -> None:
        self.failure = reason(error)
        with suppress(Exception):
            from jaxtop.store import runfiles  # slow to import, and rarely needed here

            runfiles.explain(self._settings.name, error)

    def watch(self, names: dict[str, object]) -> None:
        """Register names for arrays; an error in them must not end a training run."""
        try:
            self.watched.watch(names)
        except Exception as error:
            debuglog.warning("agent", "agent.watch() failed", ", ".join(names), error)

    def _assemble(self) -> None:
        from jaxtop.store import runfiles  # `loading` has imported all of these before
        from jaxtop_agent.core import redaction
        from jaxtop_agent.hardware import worker as hardware
        from jaxtop_agent.service.assembly import Assembly, OwnThreads, ScriptSide
        from jaxtop_agent.service.family_peers import adopted
        from jaxtop_agent.service.identity import board_of

        runfiles.explain_no_more()
        hardware.prepare()
        redaction.prepare()
        settings = self._settings
        if self.is_inherited and not self.given.get("report_to"):
            # A child has the environment of its parent, but not the parent's run of a tracker.
            settings = settings._replace(report_to=())
        with suppress(Exception):  # run files that cannot be read
            self.family = adopted(self.family)
        board = self._board = board_of(settings, self.family, self.role)
        assert self._hooks is not None
        script = ScriptSide(self._hooks, self.progress, self.phases, self.watched)
        own = OwnThreads(self._names_of_threads, self._threads.idents, self._threads.start_one_more)
        parts = self._parts = Assembly(board, settings, script, own)
        self._threads.prepare(parts.work())
        if self.loading.is_stopped:  # `stop` has waited long enough, and closed the events
            raise Stopped
        self._threads.start()

    def _failure(self, name: str) -> Callable[[BaseException], None]:
        def note(error: BaseException) -> None:
            debuglog.warning("agent", f"the thread {name!r} ended", error=error)
            board = self._board
            if board is None:
                return
            board.switch_off(name, error)
            if name == "publisher":  # no viewer can connect any more: stop everything
                self._explain(error)
                self.progress.close()
                board.stop()

        return note

    def _names_of_threads(self) -> dict[int, str]:
        """Return the names of the agent's threads by native id; ZeroMQ's threads are named "network"."""
        server = self._parts.publisher.server if self._parts else None
        of_network = dict.fromkeys(server.own_threads if server else (), "network")
        return {**of_network, **self._threads.names()}

    def _end(self) -> None:
        """Stop at the script's exit, even if one of its signal handlers raises meanwhile."""
        while not self.is_over and os.getpid() == self.pid:
            with suppress(BaseException):  # a second Ctrl-C: the script is already exiting
                if self._parts is not None and self._parts.last_act is not None:
                    self._parts.last_act.hold()
                self.stop("ended")  # as wire.SCRIPT_ENDED, which may not be imported here before JAX is

    def stop(self, reason: str) -> None:
        """Stop and join the threads and remove the hooks; once, and only in the process that started them."""
        self._call_off()
        if self.is_over or os.getpid() != self.pid:
            return
        if reason != "ended":  # at the end other threads may read the environment
            with suppress(Exception):
                children.pass_on_nothing()
        self.loading.is_stopped = True
        if self._deadline is None:
            self._deadline = time.monotonic() + PATIENCE
        if self._loader is not None:
            self._loader.join(self._deadline - time.monotonic())
        self._take_down(reason)

    def _take_down(self, reason: str) -> None:
        board = self._board
        if board is not None:
            if self._parts is not None:
                self._parts.publisher.farewell = reason
            board.stop()
            if board.capture.wait_for_stop() or self._deadline is None:
                self._deadline = time.monotonic() + PATIENCE
            have_ended = self._threads.join(self._patience_with)
            self._board = None  # a second call does none of this again
            if have_ended:  # a late thread would otherwise write to a descriptor that may have been reused
                for wakeup in board.wakeups:
                    wakeup.close()
        self.is_over = True
        if atexit is not None:
            atexit.unregister(self._end)
        self.progress.close()
        if self._hooks is not None:
            self._hooks.uninstall()
        debuglog.info("agent", "stopped", reason)
        log, self._threads.log = self._threads.log, None
        if log is not None:
            log.stop(PATIENCE if self._deadline is None else self._deadline - time.monotonic())

    def _patience_with(self, worker: Worker) -> float:
        """Return for how long the end waits for a thread; not for one that waits for a server."""
        is_away = self._parts is not None and self._parts.is_away(worker.name)
        assert self._deadline is not None
        return 0.0 if is_away else self._deadline - time.monotonic()

    def hold(self) -> None:
        """Before a fork: wait until no import is under way and no thread writes the debug log."""
        self.loading.busy.hold()
        LOG.writing.hold()

    def go_on(self) -> None:
        """After a fork, in the parent."""
        LOG.writing.go_on()
        self.loading.busy.go_on()

    def goes_on_in_child(self) -> None:
        """In a forked child that may use JAX itself: wait there, too."""
        self.pid = os.getpid()
        self.loading = Loading()
        self._loader = None
        self.is_inherited = True
        script = self.family.script or script_name()
        self.family = Family(self.family.id, script, named_role(os.environ.get(ROLE)))
        self.role = ""
        self.given = {**self.given, "report_to": None}  # the run of a tracker is the parent's
        if self._hooks is not None and self._hooks.trackers is not None:
            self._hooks.trackers.forget()
        LOG.forked("waits until this process uses JAX")

    def after_fork(self) -> None:
        """In a forked child, drop the agent: it stays with the parent, and the child keeps no connection."""
        self._call_off()
        self._board = None
        self._threads.forget()
        self.loading.is_stopped = True
        LOG.forked(f"the agent stays with the process {self.pid}, which has forked this one")
        parts = self._parts
        for each in () if parts is None else (parts.windows, parts.black_box, parts.publisher.server):
            if each is not None:
                with suppress(Exception):
                    each.after_fork()
