"""The app on a live run: what follows the run, and the list of the others to switch to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jaxtop.base.clock import steady
from jaxtop.base.feature import hook
from jaxtop.cli import ls, settings, targets, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.live.recorder import AppRecorder
from jaxtop.cli.live.rewind import RewindBuffer, size_of
from jaxtop.cli.live.source_thread import SourceThread
from jaxtop.cli.preferences import preferences_of
from jaxtop.store import saved_probe
from jaxtop.tui.app import JaxtopApp
from jaxtop.tui.dialogs.picker import LiveRuns, Picker
from jaxtop.tui.notifier import OFF, Notifier
from jaxtop.tui.runs import FollowedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.cli.live.source_thread import Job
    from jaxtop.model import Tuning
    from jaxtop.sources import Source


def pick() -> str | None:
    """Return the id of the run that the user picks; None if the user picks none."""
    return terminal.show(Picker(live_runs))


def live_runs() -> LiveRuns:
    runs = ls.first_of_families(ls.live_runs())
    titles, *rows = ls.cells(runs)
    return LiveRuns(titles, {str(run["id"]): row for run, row in zip(runs, rows, strict=True)})


class _Follower:
    """What follows one run: the thread that reads its frames, and the rewind buffer."""

    def __init__(
        self,
        open_source: Callable[[], Source | None],
        size: int,
        tuning: Tuning,
        recorder: AppRecorder,
        awaits: str,
    ) -> None:
        self.buffer = RewindBuffer(size, tuning)
        self.thread = SourceThread(open_source, self.buffer, recorder, awaits=awaits)
        self.thread.start()

    def close(self) -> None:
        self.thread.stop()
        self.buffer.close()


class _Runs:
    """The live runs, of which one is followed."""

    def __init__(self, size: int, tuning: Tuning, owner: str | None, why_none: str) -> None:
        self._size, self._tuning, self._owner = size, tuning, owner
        self.why_none = why_none
        self._followers: list[_Follower] = []
        self.recorder = AppRecorder()
        capturer = hook("app_capturer")
        self.capturer = None if capturer is None else capturer(self._take_on)

    def begin(self, open_source: Callable[[], Source | None], awaits: str = "") -> FollowedRun:
        follower = _Follower(open_source, self._size, self._tuning, self.recorder, awaits)
        self._followers.append(follower)
        return FollowedRun(follower.thread, follower.thread.request, follower.buffer)

    def _take_on(self, job: Job) -> None:
        self._followers[-1].thread.take_on(job)

    def live(self) -> LiveRuns:
        return live_runs()

    def follow(self, run_id: str) -> FollowedRun | str:
        try:
            source = targets.open_named([run_id], self._owner)
        except UserError as error:
            return str(error)
        return self.begin(lambda: source)

    def leave(self) -> None:
        while len(self._followers) > 1:
            self._followers.pop(0).close()

    def close(self) -> None:
        if self.capturer is not None:
            self.capturer.leave()
        for each in self._followers:
            each.close()
        if self.capturer is not None:
            self.capturer.close()
        self.recorder.close()


def show(
    open_source: Callable[[], Source | None],
    rewind: str | None = None,
    owner: str | None = None,
    why_no_others: str = "",
    notes: Sequence[str] = (),
    *,
    awaits: str = "",
) -> None:
    """Show the app until the user leaves it, with these notes at first.

    `why_no_others` says why there is no list of runs, `awaits` what happens until the source can be opened.
    """
    loaded = settings.load()
    terminal.collect_rarely()
    runs = _Runs(size_of(rewind, loaded.get("view.rewind")), loaded.tuning, owner, why_no_others)
    try:
        followed = runs.begin(open_source, awaits)
        app = JaxtopApp(
            followed.feed,
            steady,
            request_sender=followed.request_sender,
            history=followed.history,
            recorder=runs.recorder,
            capturer=runs.capturer,
            probe=saved_probe.last(),
            tuning=loaded.tuning,
            runs=runs,
            notes=notes,
            preferences=preferences_of(loaded),
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
