"""The run that the app follows: its frames, notifications about it, and the key that switches to another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from textual.app import SystemCommand
from textual.binding import Binding, BindingType

from jaxtop.model import Cluster
from jaxtop.model.tuning import AS_DECLARED, Tuning
from jaxtop.tui.dialogs.picker import LiveRuns, RunPicker
from jaxtop.tui.ingest import Feed, FrameIngest, NoFeed
from jaxtop.tui.notifier import Notifier
from jaxtop.tui.playback import Playback, Start
from jaxtop.tui.request_keys import RequestApp
from jaxtop.tui.requests import RequestBoard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtop.store.probed import Probe
    from jaxtop.tui.history import Capturer, History, Recorder
    from jaxtop.tui.requests import Ask

# The pause between two slices of incoming frames. It leaves time for keys and for what they paint.
GAP_SECONDS = 0.005


class Followed(NamedTuple):
    """A run that the app follows: its frames, how to ask its processes, and what was seen of it."""

    feed: Feed
    ask: Ask | None = None
    history: History | None = None


class Runs(Protocol):
    """The live runs of this user."""

    # Why there is no list of runs; empty if there is one.
    why_none: str

    def live(self) -> LiveRuns:
        """Return the runs that are live now."""
        ...

    def follow(self, run_id: str) -> Followed | str:
        """Begin to follow a run; return why not if that is impossible."""
        ...

    def leave(self) -> None:
        """Close all that was followed before."""
        ...


class RunApp(RequestApp):
    """An app that follows a run, can switch to another live one, and notifies about critical findings."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("R", "runs", "Switch to another run", show=False)]

    def __init__(
        self,
        feed: Feed | None,
        clock: Callable[[], float],
        *,
        ask: Ask | None = None,
        history: History | None = None,
        recorder: Recorder | None = None,
        capturer: Capturer | None = None,
        replay: Start | None = None,
        probe: Probe | None = None,
        tuning: Tuning = AS_DECLARED,
        runs: Runs | None = None,
        notifier: Notifier | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """Create the app for a feed, a history, or both.

        Args:
            feed: The source of live frames; None if there is only a history.
            clock: The current time.
            ask: Sends a request to processes; None if no process can be asked.
            history: The history of the session, which can be shown at any of its times.
            recorder: Records the incoming frames; None if there is nothing to record.
            capturer: Takes full profiles; None if no process can be asked.
            replay: The start position, speed and looping of a replay.
            probe: The measured performance of this user's devices.
            tuning: What the user changed of the rules of findings.
            runs: The live runs, to switch to another; None if that is not possible.
            notifier: Notifies about critical findings.
            notes: What the user should know at the start, such as which run was chosen.
        """
        self._clock, self._probe, self._tuning = clock, probe, tuning
        self._cluster = Cluster(tuning=tuning)
        live = self._cluster if feed is not None else None
        super().__init__(Playback(live, history, replay, probe), recorder, ask, capturer)
        self._feed: Feed = NoFeed() if feed is None else feed
        self._ingest = FrameIngest(self._feed, self._cluster)
        self._is_folding = False
        self._runs = runs
        self._notifier = notifier or Notifier()
        self._notes = notes
        self._playback.tick(clock())

    def on_mount(self) -> None:
        for note in self._notes:
            self.notify(note)

    def _now(self) -> float:
        """Return the time up to which all frames are folded.

        With a later time, a host whose frames are still waiting would appear silent.
        """
        behind = self._ingest.behind_at
        return self._clock() if behind is None else min(behind, self._clock())

    def _tick(self) -> None:
        """Fold the frames that arrived, also while the view is paused, and show the result.

        If an earlier batch is still being folded, show what has been folded so far.
        """
        self._ingest.fetch()
        if self._is_folding:
            self._paint()
        else:
            self._fold()

    def _fold(self) -> None:
        self._is_folding = not self._ingest.take()
        if self._is_folding:
            self._call_after(GAP_SECONDS, self._fold)
        else:
            self._paint()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "runs" and self._runs is None:
            return False
        return super().check_action(action, parameters)

    def action_runs(self) -> None:
        """List the live runs, the one that is shown marked."""
        if self._runs is not None and self._runs.why_none:
            self.notify(self._runs.why_none)
        elif self._runs is not None:
            shown = [run.id for run in self.moment.runs]
            self.push_screen(RunPicker(self._runs.live, shown), self._chose)

    def _chose(self, run_id: str | None) -> None:
        if run_id is not None and [run_id] != [run.id for run in self.moment.runs]:
            self.run_worker(self._switch(run_id), exclusive=True)

    async def _switch(self, run_id: str) -> None:
        runs = self._runs
        assert runs is not None
        followed = await asyncio.to_thread(runs.follow, run_id)
        if isinstance(followed, str):
            self.notify(followed, severity="error")
            return
        if self._recorder is not None and self._recorder.is_on:
            self.action_record()  # a recording is of one run
        self._notifier.forget()
        self._feed, self._cluster = followed.feed, Cluster(tuning=self._tuning)
        self._ingest = FrameIngest(self._feed, self._cluster)
        self._requests = RequestBoard(followed.ask)
        self._playback = Playback(self._cluster, followed.history, probe=self._probe)
        self._playback.tick(self._clock())
        await self._begin_again()
        await asyncio.to_thread(runs.leave)

    async def _begin_again(self) -> None:
        """Show another run from the start."""
        raise NotImplementedError

    def _notify_findings(self, muted: Iterable[tuple[str, str, str]]) -> None:
        """Write the notifications that are due to the terminal. There are none about a recording."""
        if self._playback.has_present:
            codes = self._notifier.due(self._cluster, self._now(), frozenset(muted))
            if codes and self._driver is not None and not self.is_headless:
                self._driver.write(codes)

    def _notifier_commands(self) -> Iterable[SystemCommand]:
        """Yield what the palette offers: to turn notifications on and off."""
        notifier = self._notifier
        if self._playback.has_present:
            for name, is_on, toggle in (
                ("Bell", notifier.rings, notifier.toggle_bell),
                ("Desktop notification", notifier.is_on_desktop, notifier.toggle_desktop),
            ):
                what = "turn off" if is_on else "turn on"
                yield SystemCommand(f"{name} at critical findings: {what}", "until the app ends", toggle)
