"""The whole app: what is on the terminal around the open screen, and how often it is painted."""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import ContentSwitcher

from jaxtop.tui.colours256 import Colours256
from jaxtop.tui.core import text
from jaxtop.tui.core.palette import Palette, palette_of
from jaxtop.tui.dialogs.help import Help, palette_commands
from jaxtop.tui.draw.switches import pressed_by
from jaxtop.tui.facts import facts
from jaxtop.tui.header import TimeStatus, header
from jaxtop.tui.navigation import NavigationApp
from jaxtop.tui.screens import SCREENS, load_all
from jaxtop.tui.screens.places import Places
from jaxtop.tui.time_keys import LOW
from jaxtop.tui.widgets.detail import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual import events
    from textual.app import ComposeResult, SystemCommand
    from textual.filter import LineFilter
    from textual.screen import Screen

    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.ingest import Feed

PAINTS_PER_SECOND = 4

_IN_256 = Colours256()


class JaxtopApp(NavigationApp):
    """The app of `jaxtop attach` and `jaxtop replay`. It returns a line to print after exit, or None."""

    CSS_PATH = "app.tcss"
    TITLE = "jaxtop"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = NavigationApp.COMMANDS | {Places}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit", priority=False),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("colon,ctrl+p", "command_palette", "Palette", key_display=":", show=False),
        Binding("t", "theme", "Theme", show=False),
        Binding("M", "maximise", "Maximise", show=False),
    ]

    def __init__(self, feed: Feed | None, clock: Callable[[], float] = time.time, **parts: Any) -> None:
        """Create the app for a feed, a history, or both; `parts` are those of `NavigationApp`."""
        super().__init__(feed, clock, **parts)
        # The moment that was drawn last. An unchanged moment is not drawn again.
        self._drawn: Moment | None = None
        self._header = Line(id="header")
        self._facts = Line(id="facts")

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._facts
        with ContentSwitcher(initial=self._view.id, id="body"):
            yield self._view  # the others are made when they open: all would double the time to start
        with Vertical(id="too-small"):
            yield self._notice
        yield self._bar
        yield self._keys

    def on_mount(self) -> None:
        for each in SCREENS:
            self.bind(each.key, f"screen('{each.name}')", description=each.title)
        self._view.first_focus.focus()
        self._keys.draw(self._open)
        self._tick()
        self.set_interval(1 / PAINTS_PER_SECOND, self._tick)
        self.call_after_refresh(Thread(target=load_all, daemon=True).start)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Add our own colour mapping for 256 colours. Rich would draw dark bands black on black."""
        filters = super().get_line_filters()
        return [*filters, _IN_256] if self.console.color_system == "256" else filters

    @property
    def palette(self) -> Palette:
        return palette_of(self.theme)

    def _paint(self) -> None:
        if not self.is_running or not self._bar.is_attached:  # the timer may fire while screens are removed
            return
        failure = self._feed.failure()
        if failure is not None:
            self.exit(failure)
            return
        self._playback.tick(self._now())
        self._notify_outcomes()
        self._notify_findings(self._muted)
        self._paint_time()
        moment = self.moment
        self._paint_lines(moment)
        self._view.count(self._tally.summary)
        if moment is not self._drawn and len(self.screen_stack) == 1:  # no dialog is above it
            self._drawn = moment
            self._view.show(moment)

    def _paint_lines(self, moment: Moment) -> None:
        clock = text.time_of_day(moment.now)
        status = TimeStatus(self._mode, clock, self._playback.is_live, self._recording_status)
        width = self.size.width
        self._header.read(header(moment, status, width, self.palette))
        line = facts(
            moment,
            self._feed.rejected(),
            width,
            self.palette,
            self._progress,
            notes=self._feed.notes(),
            proven=self._proven,
            muted=self._muted,
        )
        self._facts.read(line)

    async def on_click(self, event: events.Click) -> None:
        """List the runs on a click on their name; on one beside it, open the palette with all keys."""
        if event.widget is not self._header:
            return
        if pressed_by(event.style) is not None and self._runs is not None:
            self.action_runs()
        else:
            self.action_command_palette()

    def on_resize(self, event: events.Resize) -> None:
        """Show a notice instead of cut-off screens when the terminal is too small."""
        self._check_size(event.size)
        # The height decides which keys the bar has; its own size may be the same.
        self.call_after_refresh(self._keys.draw)
        self._bar.set_class(event.size.height < LOW, "low")
        self._paint_lines(self.moment)

    def action_help(self) -> None:
        title = next(each.title for each in SCREENS if each.name == self._open)
        self.push_screen(Help(title, self.screen))

    def action_help_quit(self) -> None:
        """Exit on Ctrl+C, as other programs do. Where text is selected, Ctrl+C copies it instead."""
        self.exit()

    def action_maximise(self) -> None:
        """Toggle whether the screen also uses the lines around it."""
        self.screen.toggle_class("maximised")

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        yield from palette_commands(self, screen)
        yield from self._notifier_commands()
        yield from self._look_commands()

    async def _begin_again(self) -> None:
        self._drawn = None
        await super()._begin_again()
