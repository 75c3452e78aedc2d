"""`jaxtop attach`: show a live run in the app."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jaxtop.cli import ls, settings, targets, terminal, ways, web
from jaxtop.cli.errors import UserError
from jaxtop.cli.look import look_of
from jaxtop.cli.source_thread import SourceThread
from jaxtop.clock import steady
from jaxtop.devbench import saved
from jaxtop.sources import LiveSource

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from jaxtop.cli.app_recorder import AppRecorder
    from jaxtop.model import Tuning
    from jaxtop.sources import Source
    from jaxtop.sources.capturing import Capture
    from jaxtop.tui.dialogs.picker import LiveRuns
    from jaxtop.tui.runs import Followed

ELSEWHERE = "the runs of the other side are not listed here: leave, and name another TARGET"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument(
        "--rewind", metavar="SIZE", help="size of the rewind buffer (default: JAXTOP_REWIND, or 256M)"
    )
    web.add_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    if web.is_asked(arguments):
        if ways.find(arguments.via, arguments.target) is None:
            targets.open_here(arguments).close()  # a wrong target is an error here, not in the browser
        return web.serve(arguments)
    is_named = arguments.target or arguments.hostfile or arguments.via
    if not is_named and not terminal.is_in_browser() and len(ls.live_runs()) > 1:
        chosen = _pick()
        if chosen is None:
            return 0
        arguments.target = [chosen]
    notes: list[str] = []

    def note(line: str) -> None:
        targets.note(line)
        notes.append(line)  # the app covers what was printed

    source = targets.open_source(arguments, note)  # opened here, so that a wrong target is an error
    elsewhere = "" if isinstance(source, LiveSource) else ELSEWHERE
    watch(lambda: source, arguments.rewind, arguments.owner, elsewhere, notes)
    return 0


def _pick() -> str | None:
    """Return the id of the run that the user picks; None if the user picks none."""
    terminal.need("`jaxtop ls` lists the live runs, `jaxtop snapshot NAME` prints one")
    from jaxtop.tui.dialogs.picker import Picker  # heavy: errors above must be fast

    return terminal.show(Picker(_live))


def _live() -> LiveRuns:
    from jaxtop.tui.dialogs.picker import LiveRuns  # as above

    runs = ls.live_runs()
    titles, *rows = ls.cells(runs)
    return LiveRuns(titles, {str(run["id"]): row for run, row in zip(runs, rows, strict=True)})


class _Follower:
    """What follows one run: the thread that reads its frames, and the rewind buffer."""

    def __init__(
        self, open_source: Callable[[], Source | None], size: int, tuning: Tuning, recorder: AppRecorder
    ) -> None:
        from jaxtop.cli.rewind import RewindBuffer  # as above

        self.buffer = RewindBuffer(size, tuning)
        self.thread = SourceThread(open_source, self.buffer, recorder)
        self.thread.start()

    def close(self) -> None:
        self.thread.stop()
        self.buffer.close()


class _Runs:
    """The live runs, of which one is followed."""

    def __init__(self, size: int, tuning: Tuning, owner: str | None, why_none: str) -> None:
        from jaxtop.cli.app_capturer import AppCapturer  # as above
        from jaxtop.cli.app_recorder import AppRecorder

        self._size, self._tuning, self._owner = size, tuning, owner
        self.why_none = why_none
        self._followers: list[_Follower] = []
        self.recorder = AppRecorder()
        self.capturer = AppCapturer(self._take_on)

    def begin(self, open_source: Callable[[], Source | None]) -> Followed:
        from jaxtop.tui.runs import Followed  # as above

        follower = _Follower(open_source, self._size, self._tuning, self.recorder)
        self._followers.append(follower)
        return Followed(follower.thread, follower.thread.ask, follower.buffer)

    def _take_on(self, job: Capture) -> None:
        self._followers[-1].thread.take_on(job)

    def live(self) -> LiveRuns:
        return _live()

    def follow(self, run_id: str) -> Followed | str:
        try:
            source = targets.open_named([run_id], self._owner)
        except UserError as error:
            return str(error)
        return self.begin(lambda: source)

    def leave(self) -> None:
        while len(self._followers) > 1:
            self._followers.pop(0).close()

    def close(self) -> None:
        self.capturer.leave()
        for each in self._followers:
            each.close()
        self.capturer.close()
        self.recorder.close()


def watch(
    open_source: Callable[[], Source | None],
    rewind: str | None = None,
    owner: str | None = None,
    why_no_others: str = "",
    notes: Sequence[str] = (),
) -> None:
    """Show the app until the user leaves it, with these notes at first.

    `why_no_others` says why there is no list of runs.
    """
    terminal.need("for text use `jaxtop snapshot`")
    from jaxtop.cli.rewind import size_of  # heavy: errors above must be fast
    from jaxtop.tui.app import JaxtopApp
    from jaxtop.tui.notifier import OFF, Notifier

    loaded = settings.load()
    terminal.collect_rarely()
    runs = _Runs(size_of(rewind, loaded.get("view.rewind")), loaded.tuning, owner, why_no_others)
    try:
        followed = runs.begin(open_source)
        app = JaxtopApp(
            followed.feed,
            steady,
            ask=followed.ask,
            history=followed.history,
            recorder=runs.recorder,
            capturer=runs.capturer,
            probe=saved.last(),
            tuning=loaded.tuning,
            runs=runs,
            notes=notes,
            look=look_of(loaded),
            notifier=Notifier(
                bell=bool(loaded.get("alerts.bell")),
                desktop=loaded.get("alerts.desktop") or OFF,
                environ=os.environ,
            ),
        )
        failure = terminal.show(app)
    finally:
        runs.close()
    if failure:
        raise UserError(failure)
