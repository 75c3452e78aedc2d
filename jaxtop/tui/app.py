"""The whole app: its parts, what is on the terminal around the open screen, and how often it is painted."""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.containers import Vertical
from textual.widgets import Input

from jaxtop.model.tuning import AS_DECLARED, Tuning
from jaxtop.tui.applied_preferences import AppliedPreferences
from jaxtop.tui.changed_cells import ChangedCells
from jaxtop.tui.colours16 import in_16_colours
from jaxtop.tui.colours256 import in_256_colours
from jaxtop.tui.core import text
from jaxtop.tui.core.palette import TERMINAL, Palette, palette_of
from jaxtop.tui.core.preferences import NO_PREFERENCES, Preferences
from jaxtop.tui.dialogs.help import Help, palette_commands
from jaxtop.tui.draw.switches import pressed_by
from jaxtop.tui.header import header
from jaxtop.tui.navigation import Navigation
from jaxtop.tui.notifier import Notifier
from jaxtop.tui.places import Destinations, Plots
from jaxtop.tui.request_keys import RequestKeys
from jaxtop.tui.runs import RunSwitch
from jaxtop.tui.screens import SCREENS, load_all
from jaxtop.tui.status_line import AppStatus, status_line, status_parts
from jaxtop.tui.time_keys import LOW_SCREEN_LINES, TimeKeys, call_after
from jaxtop.tui.view_state import ViewState
from jaxtop.tui.widgets.detail import Line
from jaxtop.tui.widgets.time_bar import SeekBar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import ComposeResult, SystemCommand
    from textual.filter import LineFilter
    from textual.screen import Screen

    from jaxtop.store.probe_figures import Probe
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.history import Capturer, History, Recorder
    from jaxtop.tui.ingest import Feed
    from jaxtop.tui.playback import Start
    from jaxtop.tui.requests import RequestSender
    from jaxtop.tui.runs import FollowedRun, Runs
    from jaxtop.tui.screens.base import ScreenPane

PAINTS_PER_SECOND = 4
# The pause between two slices of incoming frames. It leaves time for keys and for what they paint.
GAP_SECONDS = 0.005


class JaxtopApp(App[str]):
    """The app of `jaxtop attach` and `jaxtop replay`. It returns a line to print after exit, or None."""

    CSS_PATH = "app.tcss"
    TITLE = "jaxtop"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = App.COMMANDS | {Destinations}
    BINDINGS: ClassVar[list[BindingType]] = [
        *TimeKeys.BINDINGS,
        *RequestKeys.BINDINGS,
        *RunSwitch.BINDINGS,
        *Navigation.BINDINGS,
        Binding("q", "quit", "Quit", priority=False),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("colon,ctrl+p", "command_palette", "Palette", key_display=":", show=False),
        Binding("t", "theme", "Theme", show=False),
        Binding("M", "maximise", "Maximise", show=False),
        Binding("ctrl+l", "redraw", "Draw the screen again", show=False),
    ]

    def __init__(
        self,
        feed: Feed | None,
        clock: Callable[[], float] = time.time,
        *,
        request_sender: RequestSender | None = None,
        history: History | None = None,
        recorder: Recorder | None = None,
        capturer: Capturer | None = None,
        replay: Start | None = None,
        probe: Probe | None = None,
        tuning: Tuning = AS_DECLARED,
        runs: Runs | None = None,
        notifier: Notifier | None = None,
        notes: Sequence[str] = (),
        preferences: Preferences = NO_PREFERENCES,
    ) -> None:
        """Create the app for a feed, a history, or both.

        Args:
            feed: The source of live frames; None if there is only a history.
            clock: The current time.
            request_sender: Sends a request to processes; None if there are no live processes.
            history: The history of the session, which can be shown at any of its times.
            recorder: Records the incoming frames; None if there is nothing to record.
            capturer: Takes full profiles; None if there are no live processes.
            replay: The start position, speed and looping of a replay.
            probe: The measured performance of this user's devices.
            tuning: What the user changed of the rules of findings.
            runs: The live runs, to switch to another; None if that is not possible.
            notifier: Notifies about critical findings.
            notes: What the user should know at the start, such as which run was chosen.
            preferences: The theme, colours, keys and columns that the user chose.
        """
        super().__init__()
        self.view_state = ViewState(feed, clock, history=history, start=replay, probe=probe, tuning=tuning)
        self.time = TimeKeys(self, self.view_state, recorder, self._paint)
        self.requests = RequestKeys(self, self.view_state, request_sender, capturer, self._paint_lines)
        self.runs = RunSwitch(self, self.view_state, runs, self._begin_again)
        self.preferences = AppliedPreferences(self, preferences)
        self.navigation = Navigation(
            self, self.view_state, self.requests, self.preferences.apply_to, self._paint_lines
        )
        # Textual calls the action of a key on the app. Each of them is a method of one part.
        for part in (self.time, self.requests, self.runs, self.preferences, self.navigation):
            for name in dir(part):
                if name.startswith("action_"):
                    setattr(self, name, getattr(part, name))
        self._notifier = notifier or Notifier()
        self._notes = notes
        self._is_folding = False
        # The moment that was drawn last. An unchanged moment is not drawn again.
        self._drawn: Moment | None = None
        self._cells = ChangedCells()
        self._header = Line(id="header")
        self._facts = Line(id="facts")

    def compose(self) -> ComposeResult:
        yield self._header
        yield self.navigation.tabs
        yield self._facts
        yield self.navigation.compose()
        with Vertical(id="too-small"):
            yield self.navigation.notice
        yield self.time.bar
        yield self.navigation.keys

    def on_mount(self) -> None:
        for note in self._notes:
            self.notify(note)
        for each in SCREENS:
            self.bind(each.key, f"screen('{each.name}')", description=each.title)
        self.navigation.view.first_focus.focus()
        self.navigation.keys.draw(self.navigation.open)
        self._tick()
        self.set_interval(1 / PAINTS_PER_SECOND, self._tick)
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        self.call_after_refresh(Thread(target=load_all, daemon=True).start)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Add our own mappings to fewer colours. Rich would draw dark bands black on black."""
        filters, colours = super().get_line_filters(), self.console.color_system
        if self.theme == TERMINAL.theme.name or (colours == "standard" and not self.is_headless):
            return [*filters, in_16_colours(self.theme)]
        return [*filters, in_256_colours(self.theme)] if colours == "256" else filters

    @property
    def palette(self) -> Palette:
        return palette_of(self.theme)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Send only the cells that changed: Textual would send whole lines."""
        super()._display(screen, self._cells.only_changes(renderable))

    def watch_theme(self) -> None:
        """Show another theme at once."""
        self._drawn = None
        self._paint()

    @property
    def moment(self) -> Moment:
        return self.view_state.moment

    @property
    def _is_ending(self) -> bool:
        return not self.time.bar.is_attached

    def _tick(self) -> None:
        """Fold the frames that arrived, even while the view is paused, and show the result.

        If an earlier batch is still being folded, show what has been folded so far.
        """
        self.view_state.fetch()
        if self._is_folding:
            self._paint()
        else:
            self._fold()

    def _fold(self) -> None:
        self._is_folding = not self.view_state.take()
        if self._is_folding:
            call_after(self, GAP_SECONDS, self._fold)
        else:
            self._paint()

    def _paint(self) -> None:
        if not self.is_running or self._is_ending:  # the timer may fire while screens are removed
            return
        failure = self.view_state.feed.failure()
        if failure is not None:
            self.exit(failure)
            return
        self.view_state.tick()
        self.requests.tick()
        self._notify_findings()
        self.time.paint()
        self._paint_lines()
        moment, view = self.moment, self.navigation.view
        view.count(self.requests.tally)
        if moment is not self._drawn and len(self.screen_stack) == 1:  # no dialog is above it
            self._drawn = moment
            view.show(moment)

    def _paint_lines(self) -> None:
        moment, width, feed = self.moment, self.size.width, self.view_state.feed
        self._header.set_text(header(moment, self.time.status, width, self.palette))
        status = AppStatus(
            open_requests=self.requests.progress,
            rejected=tuple(feed.rejected().items()),
            notes=feed.notes(),
            proven=self.navigation.proven,
            muted=self.view_state.muted,
            is_overview=self.navigation.open == SCREENS[0].name,
        )
        parts = status_parts(moment, status, self.palette)
        self._facts.set_text(status_line(parts, width, self.palette))
        self.navigation.mark()

    def _notify_findings(self) -> None:
        """Write the notifications that are due to the terminal. There are none about a recording."""
        view_state = self.view_state
        if view_state.playback.has_present:
            codes = self._notifier.due(view_state.cluster, view_state.now(), view_state.muted)
            if codes and self._driver is not None and not self.is_headless:
                self._driver.write(codes)

    def notify(self, message: str, *, markup: bool = False, **more: Any) -> None:
        """Show a message without markup. Brackets in an error text are not markup, and may be unbalanced."""
        super().notify(text.printable(message), markup=markup, **more)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys that have nothing to act on, so that they are not listed."""
        if self._is_ending:  # keys must not open anything
            return False
        is_allowed = all(part.allows(action) for part in (self.time, self.requests, self.runs))
        return is_allowed and super().check_action(action, parameters)

    async def on_event(self, event: events.Event) -> None:
        """Take the keys of the user's settings for those that they stand for, except in typed text."""
        if isinstance(event, (events.InputEvent, events.Paste)) and not self.screen_stack:  # the app ends
            return
        if isinstance(event, events.Key) and not event.is_forwarded and not isinstance(self.focused, Input):
            meant = self.preferences.meant(event)
            if meant is None:
                return
            event = meant
        await super().on_event(event)

    def get_key_display(self, binding: Binding) -> str:
        """Show the user's own key where there is one."""
        return self.preferences.shown_key(binding.key) or super().get_key_display(binding)

    def on_screen_pane_selected(self, message: ScreenPane.Selected) -> None:
        self.navigation.selection = message.selection

    async def on_screen_pane_drilled(self, message: ScreenPane.Drilled) -> None:
        await self.navigation.drill(message)

    def on_screen_pane_requested(self, message: ScreenPane.Requested) -> None:
        self.requests.request_one(message.kind, message.agents)

    def on_screen_pane_muted(self, message: ScreenPane.Muted) -> None:
        self.view_state.mute(message.finding)
        self.navigation.view.show(self.moment)
        self._paint_lines()

    @on(SeekBar.Sought)
    def _seek(self, message: SeekBar.Sought) -> None:
        message.stop()
        self.time.seek(message.at)

    async def on_click(self, event: events.Click) -> None:
        """List the runs on a click on their name; on a click next to it, open the palette with all keys."""
        if event.widget is not self._header:
            return
        if pressed_by(event.style) is not None and self.runs.allows("runs"):
            self.runs.action_runs()
        else:
            self.action_command_palette()

    def on_resize(self, event: events.Resize) -> None:
        """Show a notice instead of cut-off screens when the terminal is too small."""
        self.navigation.check_size(event.size)
        # The height decides which keys the bar has; its own size may be the same.
        self.call_after_refresh(self.navigation.keys.draw)
        self.time.bar.set_class(event.size.height < LOW_SCREEN_LINES, "low")
        self._paint_lines()

    def action_help(self) -> None:
        title = next(each.title for each in SCREENS if each.name == self.navigation.open)
        self.push_screen(Help(title, self.screen))

    def action_help_quit(self) -> None:
        """Exit on Ctrl+C, as other programs do. Where text is selected, Ctrl+C copies it instead."""
        self.exit()

    def action_maximise(self) -> None:
        """Toggle whether the screen also uses the lines around it."""
        self.screen.toggle_class("maximised")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield from palette_commands(self, screen)
        if self.view_state.playback.has_present:
            yield from self._notifier.commands()
        yield from self.preferences.commands(self.navigation.open, self.navigation.view)

    def action_find_figure(self) -> None:
        """Open a list of the figures that the plot can show, to search."""
        self.push_screen(CommandPalette([Plots], placeholder="Search for a figure to plot"))

    def action_redraw(self) -> None:
        """Send the whole screen, over which another program may have written."""
        self.screen.refresh()

    async def _begin_again(self, followed: FollowedRun) -> None:
        """Show another run from the start."""
        self.time.stop_recording()  # a recording is of one run
        self._notifier.forget()
        self.view_state.follow(followed.feed, followed.history)
        self.requests.send_through(followed.request_sender)
        self._drawn = None
        await self.navigation.begin_again()
        self._paint()
