"""The app that holds the screens. It reads frames from a feed, folds them, and shows the result."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import ContentSwitcher, Static

from jaxtop.tui.colours256 import Colours256
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import EMPTY, NOTHING, Moment, Selection
from jaxtop.tui.core.palette import Palette, palette_of
from jaxtop.tui.dialogs.help import Help, palette_commands
from jaxtop.tui.draw.switches import pressed_by
from jaxtop.tui.facts import facts
from jaxtop.tui.header import TimeStatus, header
from jaxtop.tui.looks import LookApp
from jaxtop.tui.screens import SCREENS
from jaxtop.tui.screens.overview import OverviewView, proof_of
from jaxtop.tui.screens.places import Places
from jaxtop.tui.screens.stacks import StacksView
from jaxtop.tui.time_keys import LOW
from jaxtop.tui.widgets.detail import Line
from jaxtop.tui.widgets.key_bar import KeyBar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual import events
    from textual.app import ComposeResult, SystemCommand
    from textual.filter import LineFilter
    from textual.geometry import Size
    from textual.screen import Screen

    from jaxtop.model import Finding
    from jaxtop.tui.ingest import Feed
    from jaxtop.tui.screens.base import View

PAINTS_PER_SECOND = 4
# The least columns and lines of a screen, and those of the overview.
SMALLEST, SMALLEST_OVERVIEW = (60, 16), (40, 10)

_IN_256 = Colours256()


class JaxtopApp(LookApp):
    """The app of `jaxtop attach` and `jaxtop replay`. It returns a line to print after exit, or None."""

    CSS_PATH = "app.tcss"
    TITLE = "jaxtop"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = LookApp.COMMANDS | {Places}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit", priority=False),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("colon,ctrl+p", "command_palette", "Palette", key_display=":", show=False),
        Binding("z", "jump", "Jump", show=False),
        Binding("w", "worst", "Proof of the worst finding", show=False),
        Binding("t", "theme", "Theme", show=False),
        Binding("M", "maximise", "Maximise", show=False),
        Binding("escape", "return", "Back", show=False),
    ]

    def __init__(self, feed: Feed | None, clock: Callable[[], float] = time.time, **parts: Any) -> None:
        """Create the app for a feed, a history, or both; `parts` are those of `LookApp`."""
        super().__init__(feed, clock, **parts)
        # The moment that was drawn last. An unchanged moment is not drawn again.
        self._drawn: Moment | None = None
        self._selection: Selection = NOTHING
        # The finding whose proof the open screen shows.
        self._proven: tuple[str, str, str] | None = None
        self._header = Line(id="header")
        self._facts = Line(id="facts")
        self._keys = KeyBar()
        self._notice = Static()
        self._views = self._made_views()
        # The name of the open screen.
        self._open = SCREENS[0].name
        self._visited: list[str] = []

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._facts
        with ContentSwitcher(initial=self._view.id, id="body"):
            yield self._view  # the others are mounted when opened: ten would double the time to start
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

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Add our own colour mapping for 256 colours. Rich would draw dark bands black on black."""
        filters = super().get_line_filters()
        return [*filters, _IN_256] if self.console.color_system == "256" else filters

    @property
    def _view(self) -> View:
        return self._views[self._open]

    def _made_views(self) -> dict[str, View]:
        views = {each.name: each.view() for each in SCREENS}
        for name, view in views.items():
            view.id = f"screen-{name}"
        self._dress(views)
        return views

    @property
    def _muted(self) -> set[tuple[str, str, str]]:
        """The findings that the user muted in this view."""
        overview = self._views[SCREENS[0].name]
        return overview.muted if isinstance(overview, OverviewView) else set()

    @property
    def palette(self) -> Palette:
        return palette_of(self.theme)

    def _paint(self) -> None:
        if not self.is_running:  # the timer may fire while the screens are being removed
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
        if isinstance(self._view, StacksView):
            self._view.count(self._tally.summary)
        if moment is not self._drawn and self.screen is self.screen_stack[0]:
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
            self._requests.progress,
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

    def _check_size(self, size: Size) -> None:
        below = self.screen_stack[0]  # not the help above it
        small, was_small = _is_too_small(size, self._open), below.has_class("small")
        below.set_class(small, "small")
        if was_small and not small:  # what is hidden loses the focus
            self._view.first_focus.focus()
        if small:
            width, height = _smallest(self._open)
            elsewhere = "" if self._open == SCREENS[0].name else "; press 1 for the overview"
            self._notice.update(f"jaxtop needs at least {width}×{height} characters here{elsewhere}")

    def on_view_selected(self, message: View.Selected) -> None:
        self._selection = message.selection

    async def on_view_drilled(self, message: View.Drilled) -> None:
        self._selection = message.selection
        finding = message.finding
        if finding is not None and _is_too_small(self.size, message.screen):
            await self._explain(finding)
            return
        await self.action_screen(message.screen)
        if message.filter or message.row:
            self._view.filter_by(message.filter)
        self._view.point_at(message.row)
        if finding is not None:
            self._view.reveal(finding.proof.column)
            self._proven = finding.key
            self._paint_lines(self.moment)
        if message.screen == "stacks" and self._playback.is_live and self._lacks_stacks:
            self._sample_stacks()  # they are the proof

    async def _explain(self, finding: Finding) -> None:
        """Show the explanation of a finding, where the terminal has no room for its proof."""
        if self._open != SCREENS[0].name:
            await self.action_screen(SCREENS[0].name)
        if isinstance(self._view, OverviewView):
            self._view.explain(finding)

    async def action_screen(self, name: str) -> None:
        self._proven = None
        before, view, is_first = self._view, self._views[name], False
        if view is not before:
            self._visited.append(self._open)
            switcher = self.query_one(ContentSwitcher)
            is_first = not view.is_attached
            if is_first:
                await switcher.add_content(view)
            self._open, switcher.current = name, view.id
            self._keys.draw(name)
            self._check_size(self.size)
            if before.figure is not None:
                view.look_at(before.figure)
        moment = self.moment
        if self._selection.agent is not None:
            view.selection = self._selection  # or a screen that shows a moment first selects on its own
        view.show(moment if moment.cluster.changes else EMPTY)
        view.select(self._selection)
        if is_first:
            accused = (each.proof.row for each in moment.findings if each.proof.screen == name)
            view.point_at(next(accused, ""))
        view.first_focus.focus()

    def action_worst(self) -> None:
        worst = next((each for each in self.moment.findings if each.key not in self._muted), None)
        if worst is None:
            self.notify("there are no findings", timeout=2)
        else:
            self.post_message(proof_of(worst, self.moment))

    async def action_jump(self) -> None:
        ring = ("mesh", "hosts", "devices")
        at = ring.index(self._open) + 1 if self._open in ring else 0
        await self.action_screen(ring[at % len(ring)])

    async def action_return(self) -> None:
        if self._visited:
            name = self._visited.pop()
            await self.action_screen(name)
            self._visited.pop()

    async def action_stacks(self) -> None:
        self._sample_stacks()
        if self._open != "stacks":
            await self.action_screen("stacks")

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
        """Open the first screen, with nothing selected."""
        self._drawn, self._selection, self._proven = None, NOTHING, None
        switcher = self.query_one(ContentSwitcher)
        switcher.current = None
        await switcher.remove_children()
        self._views, self._open, self._visited = self._made_views(), SCREENS[0].name, []
        await switcher.add_content(self._view, set_current=True)
        self._keys.draw(self._open)
        self._check_size(self.size)
        self._view.first_focus.focus()
        self._paint()


def _smallest(name: str) -> tuple[int, int]:
    """Return the width and height that a screen needs."""
    return SMALLEST_OVERVIEW if name == SCREENS[0].name else SMALLEST


def _is_too_small(size: Size, name: str) -> bool:
    width, height = _smallest(name)
    return size.width < width or size.height < height
