"""Makes everything that works on the agent's board.

It imports most of the agent: only the loader may import it, one module after the other.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import debuglog
from jaxtop_agent import collectors
from jaxtop_agent.hardware.libraries.thread import Libraries
from jaxtop_agent.hardware.worker import Hardware
from jaxtop_agent.ledger.file import LedgerWriter
from jaxtop_agent.ledger.thread import LedgerThread
from jaxtop_agent.profiler.offset import ClockOffset
from jaxtop_agent.profiler.worker import WindowThread
from jaxtop_agent.programs.compiles.storms import Storms
from jaxtop_agent.service.answers import Answers
from jaxtop_agent.service.messages import Messages
from jaxtop_agent.service.publisher import Publisher
from jaxtop_agent.service.registrar import Registrar
from jaxtop_agent.service.sampler import Sampler
from jaxtop_agent.stalls.activity import MainThread
from jaxtop_agent.stalls.native import NativeStacks
from jaxtop_agent.stalls.watch import Stalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtop_agent.arrays.watched_names import WatchedNames
    from jaxtop_agent.blackbox import BlackBox
    from jaxtop_agent.core.board import Board
    from jaxtop_agent.core.settings import AgentSettings
    from jaxtop_agent.hooks.jax import Hooks
    from jaxtop_agent.ledger.phases import Phases
    from jaxtop_agent.reporting.reporter import TrackerReporter
    from jaxtop_agent.served.scraper import Scraper
    from jaxtop_agent.steps.progress import Progress
    from jaxtop_agent.stuck.evidence import LastAct
    from jaxtop_agent.stuck.thread import StuckWatch


class ScriptSide(NamedTuple):
    """What the script's threads feed and the agent's threads read."""

    hooks: Hooks
    progress: Progress
    phases: Phases
    watched: WatchedNames


class OwnThreads(NamedTuple):
    """How to find the agent's own threads, and to start one more."""

    names: Callable[[], dict[int, str]]
    idents: Callable[[], frozenset[int]]
    start: Callable[[str, Callable[[], None]], None]


class Assembly:
    """The parts of an agent, of which `work` yields those that have a thread."""

    def __init__(self, board: Board, settings: AgentSettings, script: ScriptSide, own: OwnThreads) -> None:
        self.board, self._settings, self._script, self._own = board, settings, script, own
        hooks, progress = script.hooks, script.progress
        hooks.attach(board)
        self._scraper = self._served()
        self.black_box = self._black_box()
        self._ledger = LedgerThread(
            board, hooks, progress, script.phases, self._writer(), scraper=self._scraper
        )
        native = NativeStacks(board, own.names, own.start)
        stalls = Stalls(board, hooks, progress, own.idents, native)
        messages = Messages(board, hooks, progress, own.names, stalls)
        self._stuck = self._stuck_watch()
        answers = Answers(
            board,
            messages,
            stalls,
            is_read_only=settings.read_only,
            agreement=None if self._stuck is None else self._stuck.agreement,
        )
        self.publisher = Publisher(
            board, messages, stalls, answers, bind=settings.bind, black_box=self.black_box
        )
        self.windows = WindowThread(board, hooks, settings.collectives, progress)
        self._reporter = self._tracker_reporter()
        self.last_act = self._last_act(self._stuck, stalls)

    def work(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield what runs in threads of its own, with their names."""
        board, (hooks, progress, _, watched) = self.board, self._script
        sampled = collectors.sampled(watched, hooks.launched, progress, self._own.names)
        yield "publisher", self.publisher.run
        yield "sampler", Sampler(board, sampled, hooks.restore, progress.gather, Storms(board).publish).run
        yield "registrar", Registrar(board, ClockOffset()).run
        # Users see the names of threads: this one is called as the source that it feeds.
        yield "collectives", self.windows.run
        yield "hardware", Hardware(board).run
        yield "libraries", Libraries(board).run
        yield "activity", MainThread(board, hooks, self._ledger).run
        yield "ledger", self._ledger.run
        if self.black_box is not None:
            yield "recording", self.black_box.run
        if self._stuck is not None:
            yield "stuck", self._stuck.run
        if self._reporter is not None:
            yield "reports", self._reporter.run
        if self._scraper is not None:
            yield "served", self._scraper.run

    def is_away(self, name: str) -> bool:
        """Return whether a thread waits for a server that may never answer."""
        reporter, scraper = self._reporter, self._scraper
        if name == "reports":
            return reporter is not None and reporter.is_in_library
        return name == "served" and scraper is not None and scraper.is_away

    def _stuck_watch(self) -> StuckWatch | None:
        """Return what ends this process if it is stuck; None if nobody asked for it, or if it cannot."""
        if not self._settings.end_if_stuck:
            return None
        try:
            import mcap.data_stream  # here, where no fork can interrupt it, and no stuck import can hold it
            import mcap.records  # noqa: F401
            import zstandard  # noqa: F401

            from jaxtop_agent.stuck import evidence, usage  # noqa: F401 - as above
            from jaxtop_agent.stuck.thread import StuckWatch

            usage.read(time.monotonic(), (), frozenset())
            return StuckWatch(
                self.board,
                self._script.hooks,
                self._script.progress,
                self._script.phases,
                self._ledger,
                own_threads=self._own.names,
                limit=self._settings.end_if_stuck,
            )
        except Exception as error:
            debuglog.warning("agent", "the process is not ended if it is stuck", error=error)
            self.board.switch_off("end if stuck", error)
            return None

    def _last_act(self, stuck: StuckWatch | None, stalls: Stalls) -> LastAct | None:
        if stuck is None:
            return None
        from jaxtop_agent.stuck.evidence import LastAct

        last_act = LastAct(self.board, self.publisher, stalls, self._own.start)
        stuck.end = last_act.end
        return last_act

    def _tracker_reporter(self) -> TrackerReporter | None:
        """Return what writes into the script's own runs; None if this script has not asked for it."""
        if not self._settings.report_to:
            return None
        from jaxtop_agent.reporting.destinations import destinations
        from jaxtop_agent.reporting.reporter import TrackerReporter

        chosen = destinations(self._settings.report_to, self._script.hooks.trackers)
        return TrackerReporter(self.board, chosen)

    def _served(self) -> Scraper | None:
        """Return what reads the figures of an engine; None if it is not known where they are."""
        if self._settings.scrape is None:
            return None
        from jaxtop_agent.served.scraper import Scraper

        return Scraper(self.board, self._settings.scrape)

    def _writer(self) -> LedgerWriter | None:
        """Return the file of the ledger; None if the user wants none."""
        settings = self._settings
        if not settings.ledger:
            return None
        folder = settings.ledger_folder
        return LedgerWriter(self.board, folder, settings.lineage, is_requested=folder is not None)

    def _black_box(self) -> BlackBox | None:
        """Return the black box if one is requested; None if it is not, or cannot be created."""
        if (record := self._settings.record) is None:
            return None
        try:
            import mcap.data_stream  # here, where no fork can interrupt it
            import mcap.records  # noqa: F401
            import zstandard  # noqa: F401

            from jaxtop_agent.blackbox import BlackBox

            return BlackBox(self.board, record, self._settings.minutes)
        except Exception as error:
            debuglog.warning("agent", "the black box cannot be created", error=error)
            self.board.switch_off("recording", error)
            return None
