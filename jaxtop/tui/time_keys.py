"""The keys that move in time, the time bar, and recording."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from jaxtop.base.units import age
from jaxtop.model.session.difference import PastCluster
from jaxtop.model.session.summary import SessionSummary
from jaxtop.tui.core.moment import Selection
from jaxtop.tui.core.text import NOTE_SECONDS, time_of_day
from jaxtop.tui.dialogs.go_to import GoTo
from jaxtop.tui.draw.time_bar import TimeBarState
from jaxtop.tui.header import TimeStatus
from jaxtop.tui.playback import Playback
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.widgets.time_bar import LIVE_LINE_FROM, TimeBar

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    from jaxtop.tui.history import Recorder
    from jaxtop.tui.screens.difference import DifferenceOutcome
    from jaxtop.tui.view_state import ViewState

# After a seek is shown, wait this many seconds before the next: dragging seeks faster than a disk can read.
SEEK_PAUSE = 0.05
# With fewer lines than this the track of the time bar has one row.
LOW_SCREEN_LINES = 20
# The actions that need a history.
_NEED_HISTORY = frozenset({"step", "skip", "go_to", "event", "to_start", "to_end", "faster", "loop"})


def call_after(app: App[str], seconds: float, callback: Callable[[], None]) -> None:
    """Call back after a pause.

    A one-shot timer of Textual never fires if a busy machine delays its start by more than the pause.
    """
    asyncio.get_running_loop().call_later(seconds, app.call_later, callback)


def _moving(move: Callable[..., None]) -> Callable[..., None]:
    """Return an action that moves the playback and shows the result."""

    def action(self: TimeKeys, *by: int) -> None:
        move(self._view_state.playback, *by)
        self._moved()

    return action


class TimeKeys:
    """The part of the app that shows other times than the present, and records."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause"),
        Binding("r", "record", "Record"),
        Binding("left_square_bracket", "step(-1)", "One sample back", show=False, key_display="["),
        Binding("right_square_bracket", "step(1)", "One sample forward", show=False, key_display="]"),
        Binding("left_curly_bracket", "skip(-60)", "One minute back", show=False, key_display="{"),
        Binding("right_curly_bracket", "skip(60)", "One minute forward", show=False, key_display="}"),
        Binding("b", "go_to", "Go to a time", show=False),
        Binding("N", "event(-1)", "Previous event", show=False),
        Binding("n", "event(1)", "Next event", show=False),
        Binding("home", "to_start", "To the start", show=False, key_display="Home"),
        Binding("end", "to_end", "To the end or back to live", show=False, key_display="End"),
        # If a key has two bindings, the first enabled one applies: the interval while live, else the speed.
        Binding("minus", "interval(-1)", "Shorter interval", show=False, key_display="-"),
        Binding("plus", "interval(1)", "Longer interval", show=False, key_display="+"),
        Binding("minus", "faster(-1)", "Replay slower", show=False, key_display="-"),
        Binding("plus", "faster(1)", "Replay faster", show=False, key_display="+"),
        Binding("L", "loop", "Loop the replay", show=False),
        Binding("v", "mark", "Mark this time, or compare", show=False),
    ]

    def __init__(
        self, app: App[str], view_state: ViewState, recorder: Recorder | None, paint: Callable[[], None]
    ) -> None:
        """Create the keys; `paint` shows the time that they changed."""
        self._app = app
        self._view_state = view_state
        self._recorder = recorder
        self._paint_app = paint
        self._was_recording = False
        self._shown_notes: set[str] = set()
        self.bar = TimeBar()
        self.is_resting = False
        self._is_seek_due = False
        # What the time bar of a live view depends on: the second, and the number of events.
        self._drawn_live: tuple[int, int, bool] | None = None

    def allows(self, action: str) -> bool:
        """Return whether an action has something to act on, if it is one of these."""
        playback = self._view_state.playback
        if action == "record":
            return self._recorder is not None
        if action in _NEED_HISTORY:
            return playback.has_history or (action == "to_end" and not playback.is_live)
        return True

    @property
    def status(self) -> TimeStatus:
        """What the header says about the time that is shown."""
        playback, recorder = self._view_state.playback, self._recorder
        mode = str(playback.mode)
        if playback.has_present and not playback.is_live:
            mode += f" {age(playback.lag)}"
        recording = f"REC {recorder.status}" if recorder is not None and recorder.is_on else ""
        return TimeStatus(mode, time_of_day(playback.moment.now), playback.is_live, recording)

    def paint(self) -> None:
        """Update the time bar, and show new notes about the recording once each."""
        playback = self._view_state.playback
        is_plain = playback.is_live and playback.mark is None
        if self.bar.has_class("on") == is_plain:
            self.bar.set_class(not is_plain, "on")
            self._app.refresh_bindings()
        self.bar.set_class(
            is_plain and playback.has_history and self._app.size.height >= LIVE_LINE_FROM, "live"
        )
        seen = playback.moment.cluster.events
        drawn = int(playback.position), len(seen), is_plain
        if not is_plain or (self.bar.has_class("live") and drawn != self._drawn_live):
            # The summary of the history is not read while live: that would fold all frames a second time.
            events = SessionSummary(events=tuple(seen)) if is_plain else None
            self.bar.show(
                TimeBarState(
                    str(playback.mode),
                    playback.is_playing or playback.is_live,
                    playback.position,
                    playback.span,
                    playback.speed,
                    playback.is_looped,
                    playback.has_present,
                    playback.has_history,
                    None if playback.mark is None else playback.mark.at,
                    playback.overview if events is None else events,
                )
            )
        self._drawn_live = drawn
        for note in playback.notes:
            if note not in self._shown_notes:
                self._shown_notes.add(note)
                self._app.notify(note, title="About this recording", severity="warning", timeout=NOTE_SECONDS)
        self._notify_end_of_recording()

    def _notify_end_of_recording(self) -> None:
        recorder = self._recorder
        if recorder is not None and self._was_recording and not recorder.is_on and recorder.status:
            self._app.notify(
                recorder.status, title="Recording stopped", severity="error", timeout=NOTE_SECONDS
            )
        self._was_recording = recorder is not None and recorder.is_on
        for message in recorder.ended() if recorder is not None else ():
            self._app.notify(message)

    def _moved(self) -> None:
        """Show the new position at once, or the last one at the end of the rest that follows a seek."""
        if self.is_resting:
            self._is_seek_due = True
            return
        self._is_seek_due = False
        self._paint_app()
        self.is_resting = True
        call_after(self._app, SEEK_PAUSE, self._rest_ended)

    def _rest_ended(self) -> None:
        self.is_resting = False
        if self._is_seek_due:
            self._moved()

    def action_pause(self) -> None:
        """Pause or resume the view. Incoming frames are folded in both cases."""
        self._view_state.tick()
        self._view_state.playback.hold_or_play()
        self._moved()

    action_step = _moving(Playback.step)
    action_skip = _moving(Playback.skip)
    action_to_start = _moving(Playback.to_start)
    action_to_end = _moving(Playback.to_end)
    action_faster = _moving(Playback.faster)
    action_loop = _moving(Playback.loop)

    def action_event(self, way: int) -> None:
        if self._view_state.playback.to_event(way) is None:
            self._app.notify("no later event" if way > 0 else "no earlier event", timeout=2)
        self._moved()

    def action_go_to(self) -> None:
        self._app.push_screen(GoTo(self._view_state.playback.span), self._go_to)

    def _go_to(self, at: float | None) -> None:
        if at is not None:
            self.seek(at)

    def seek(self, at: float) -> None:
        self._view_state.playback.seek(at)
        self._moved()

    def action_mark(self) -> None:
        """Mark the time that is shown. If a time is already marked, show the difference between the two."""
        playback = self._view_state.playback
        self._view_state.tick()
        if playback.mark is None:
            playback.set_mark()
            self._app.notify("time marked: go to another time, then press v to see what changed", timeout=4)
        elif playback.is_at_mark:
            self._app.notify("this time is marked already: go to another time first", timeout=4)
        else:
            from jaxtop.tui.screens.difference import DifferenceScreen  # as the other screens

            playback.is_playing = False
            moment = playback.moment
            here = PastCluster(moment.now, moment.cluster)
            self._app.push_screen(DifferenceScreen(playback.mark, here, moment.run_names), self._compared)
        self._moved()

    def _compared(self, outcome: DifferenceOutcome | None) -> None:
        if outcome is not None and outcome.drops_mark:
            self._view_state.playback.drop_mark()
            self._app.notify("mark removed", timeout=2)
        if outcome is not None and outcome.screen is not None:
            if outcome.agent is not None:
                self._app.post_message(ScreenPane.Drilled(Selection(outcome.agent), outcome.screen))
            else:  # keep the selection
                self._app.call_later(self._app.run_action, f"screen('{outcome.screen}')")
        self._moved()

    def action_record(self) -> None:
        if self._recorder is not None:
            self._app.notify(self._recorder.toggle())
            self._was_recording = self._recorder.is_on
            self._moved()

    def stop_recording(self) -> None:
        if self._recorder is not None and self._recorder.is_on:
            self.action_record()
