"""The base class of the app that moves in time: its keys, the time bar, and recording."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding

from jaxtop.model.session.difference import Then
from jaxtop.tui.draw.time_bar import TimeBarState
from jaxtop.tui.go_to import GoTo
from jaxtop.tui.moment import Selection
from jaxtop.tui.screens.base import View
from jaxtop.tui.screens.difference import DifferenceScreen, Outcome
from jaxtop.tui.text import age, printable
from jaxtop.tui.widgets.time_bar import SeekBar, TimeBar

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.binding import BindingType

    from jaxtop.tui.history import Recorder
    from jaxtop.tui.playback import Playback

# After a seek is shown, wait this many seconds before the next: dragging seeks faster than a disk can read.
REST = 0.05
# With fewer lines than this the track of the time bar has one row.
LOW = 20
NOTES_STAY = 12
# The actions that need a history.
_OF_REEL = frozenset({"step", "skip", "go_to", "event", "to_start", "to_end", "faster", "loop"})


class TimedApp(App[str]):
    """An app that can show times other than the present."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause"),
        Binding("r", "record", "Record"),
        Binding("left_square_bracket", "step(-1)", "One sample back", show=False, key_display="["),
        Binding("right_square_bracket", "step(1)", "One sample forward", show=False, key_display="]"),
        Binding("left_curly_bracket", "skip(-60)", "One minute back", show=False, key_display="{"),
        Binding("right_curly_bracket", "skip(60)", "One minute forward", show=False, key_display="}"),
        Binding("b", "go_to", "Go to a time", show=False),
        Binding("N", "event(-1)", "Event before", show=False),
        Binding("n", "event(1)", "Next event", show=False),
        Binding("home", "to_start", "To the start", show=False, key_display="Home"),
        Binding("end", "to_end", "To the end, or back to live", show=False, key_display="End"),
        # If a key has two bindings, the first enabled one applies: the interval while live, else the speed.
        Binding("minus", "pace(-1)", "Shorter interval", show=False, key_display="-"),
        Binding("plus", "pace(1)", "Longer interval", show=False, key_display="+"),
        Binding("minus", "faster(-1)", "Replay slower", show=False, key_display="-"),
        Binding("plus", "faster(1)", "Replay faster", show=False, key_display="+"),
        Binding("L", "loop", "Loop the replay", show=False),
        Binding("v", "mark", "Mark this time, or compare with it", show=False),
    ]

    def __init__(self, deck: Playback, recorder: Recorder | None) -> None:
        super().__init__()
        self._deck = deck
        self._recorder = recorder
        self._was_recording = False
        self._told_notes: set[str] = set()
        self._bar = TimeBar()
        self._is_resting = False
        self._sought = False

    def _paint(self) -> None:
        raise NotImplementedError

    def _now(self) -> float:
        raise NotImplementedError

    def _call_after(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after a pause.

        A one-shot timer of Textual never fires if a busy machine delays its start by more than the pause.
        """
        asyncio.get_running_loop().call_later(seconds, self.call_later, callback)

    def action_pace(self, by: int) -> None:
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys that have nothing to act on, so that they are not listed."""
        if not self._bar.is_attached:  # the app is exiting: keys must not open anything
            return False
        if action == "record":
            return self._recorder is not None
        if action == "pace":
            return self._deck.is_live
        if action in _OF_REEL:
            is_back = action == "to_end" and not self._deck.is_live
            return self._deck.has_reel or is_back
        return super().check_action(action, parameters)

    # Showing

    def notify(self, message: str, *, markup: bool = False, **more: Any) -> None:
        """Show a message without markup. Brackets in an error text are not markup, and may be unbalanced."""
        super().notify(printable(message), markup=markup, **more)

    @property
    def _word(self) -> str:
        """The mode, with the distance to the present, for the header."""
        deck = self._deck
        return f"{deck.mode} {age(deck.lag)}" if deck.has_present and not deck.is_live else str(deck.mode)

    @property
    def _recording(self) -> str:
        recorder = self._recorder
        return f"REC {recorder.status}" if recorder is not None and recorder.is_on else ""

    def _paint_time(self) -> None:
        """Update the time bar, and show new notes about the recording once each."""
        deck = self._deck
        is_plain = deck.is_live and deck.mark is None
        if self._bar.has_class("on") == is_plain:
            self._bar.set_class(not is_plain, "on")
            self.refresh_bindings()
        if not is_plain:
            self._bar.show(
                TimeBarState(
                    str(deck.mode),
                    deck.is_playing or deck.is_live,
                    deck.position,
                    deck.span,
                    deck.speed,
                    deck.is_looped,
                    deck.has_present,
                    deck.has_reel,
                    None if deck.mark is None else deck.mark.at,
                    deck.overview,
                )
            )
        for note in deck.notes:
            if note not in self._told_notes:
                self._told_notes.add(note)
                self.notify(note, title="About this recording", severity="warning", timeout=NOTES_STAY)
        self._tell_recording()

    def _tell_recording(self) -> None:
        recorder = self._recorder
        if recorder is not None and self._was_recording and not recorder.is_on and recorder.status:
            self.notify(recorder.status, title="Recording stopped", severity="error", timeout=NOTES_STAY)
        self._was_recording = recorder is not None and recorder.is_on

    def _moved(self) -> None:
        """Show the new position at once, or the last one at the end of the rest that follows a seek."""
        if self._is_resting:
            self._sought = True
            return
        self._sought = False
        self._paint()
        self._is_resting = True
        self._call_after(REST, self._rested)

    def _rested(self) -> None:
        self._is_resting = False
        if self._sought:
            self._moved()

    # The keys

    def action_pause(self) -> None:
        """Pause or resume the view. Incoming frames are folded in both cases."""
        self._deck.tick(self._now())
        self._deck.hold_or_play()
        self._moved()

    def action_step(self, samples: int) -> None:
        """Move by this many samples."""
        self._deck.step(samples)
        self._moved()

    def action_skip(self, seconds: int) -> None:
        """Move by this many seconds."""
        self._deck.skip(seconds)
        self._moved()

    def action_event(self, way: int) -> None:
        """Go to the next or the previous event."""
        if self._deck.to_event(way) is None:
            self.notify("no later event" if way > 0 else "no earlier event", timeout=2)
        self._moved()

    def action_to_start(self) -> None:
        self._deck.to_start()
        self._moved()

    def action_to_end(self) -> None:
        self._deck.to_end()
        self._moved()

    def action_faster(self, by: int) -> None:
        """Switch to the next higher or lower speed."""
        self._deck.faster(by)
        self._moved()

    def action_loop(self) -> None:
        """Toggle whether a replay restarts at its end."""
        self._deck.loop()
        self._moved()

    def action_go_to(self) -> None:
        """Open the dialog to enter a time."""
        self.push_screen(GoTo(self._deck.span), self._go_to)

    def _go_to(self, at: float | None) -> None:
        if at is not None:
            self._deck.seek(at)
            self._moved()

    @on(SeekBar.Sought)
    def _seek(self, message: SeekBar.Sought) -> None:
        message.stop()
        self._deck.seek(message.at)
        self._moved()

    def action_mark(self) -> None:
        """Mark the time that is shown. If a time is already marked, show the difference between the two."""
        deck = self._deck
        deck.tick(self._now())
        if deck.mark is None:
            deck.set_mark()
            self.notify("marked: go to another time, and press v again to see what changed", timeout=4)
        elif deck.is_at_mark:
            self.notify("this is the time that is marked: go to another one first", timeout=4)
        else:
            deck.is_playing = False
            moment = deck.moment
            here = Then(moment.now, moment.cluster)
            self.push_screen(DifferenceScreen(deck.mark, here, moment.run_names), self._compared)
        self._moved()

    def _compared(self, outcome: Outcome | None) -> None:
        if outcome is not None and outcome.drops_mark:
            self._deck.drop_mark()
            self.notify("the mark is gone", timeout=2)
        if outcome is not None and outcome.key is not None:
            if outcome.agent is not None:
                self.post_message(View.Drilled(Selection(outcome.agent), outcome.key))
            else:  # keep the selection
                self.call_later(self.run_action, f"screen('{outcome.key}')")
        self._moved()

    def action_record(self) -> None:
        """Start or stop recording."""
        if self._recorder is not None:
            self.notify(self._recorder.toggle())
            self._was_recording = self._recorder.is_on
            self._moved()
