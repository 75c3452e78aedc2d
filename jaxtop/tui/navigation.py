"""The open screen, the ways from one to another, and the notice where a screen has no room."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import ContentSwitcher, Static

from jaxtop.model import Severity
from jaxtop.tui.core.moment import EMPTY, NO_SELECTION, Selection
from jaxtop.tui.screens import SCREENS
from jaxtop.tui.screens.overview import OverviewScreen, proof_of
from jaxtop.tui.widgets.key_bar import KeyBar, Tabs

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App
    from textual.geometry import Size

    from jaxtop.model import Finding
    from jaxtop.model.finding import FindingKey
    from jaxtop.tui.request_keys import RequestKeys
    from jaxtop.tui.screens.base import ScreenPane
    from jaxtop.tui.view_state import ViewState

# The smallest terminal of a screen, in columns and lines.
MIN_SIZE = (60, 16)
# The smallest terminal of a screen that has pictures for small terminals.
MIN_PICTURE_SIZE = (40, 10)
DRAWN_SMALLER = {"overview", "plot"}
SCREEN_NAMES = frozenset(each.name for each in SCREENS)


class Navigation:
    """The screens of the app, of which one is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "jump", "Jump", show=False),
        Binding("w", "worst", "Proof of the worst finding", show=False),
        Binding("escape", "return", "Back", show=False),
    ]

    def __init__(
        self,
        app: App[str],
        view_state: ViewState,
        requests: RequestKeys,
        apply_preferences: Callable[[str, ScreenPane], None],
        repaint: Callable[[], None],
    ) -> None:
        """Create the screens.

        `apply_preferences` prepares a new screen, `repaint` draws the lines around the open one.
        """
        self._app = app
        self._view_state = view_state
        self._requests = requests
        self._apply_preferences = apply_preferences
        self._repaint = repaint
        self.selection: Selection = NO_SELECTION
        # The finding whose proof the open screen shows.
        self.proven: FindingKey | None = None
        self.tabs = Tabs()
        self.keys = KeyBar(self.tabs, SCREENS)
        self.notice = Static()
        # The screens that were opened, by name.
        self._views: dict[str, ScreenPane] = {}
        self.open = SCREENS[0].name
        self._visited: list[str] = []

    def compose(self) -> ContentSwitcher:
        """Return the open screen; the others are made when they open: all would double the time to start."""
        self._switcher = ContentSwitcher(self.view, initial=self.view.id, id="body")
        return self._switcher

    @property
    def view(self) -> ScreenPane:
        """The open screen."""
        return self._view_of(self.open)

    def _view_of(self, name: str) -> ScreenPane:
        """Return the screen of this name, which is made when it opens."""
        if name not in self._views:
            view = next(each for each in SCREENS if each.name == name).view()
            view.id, view.screen_names = f"screen-{name}", SCREEN_NAMES
            view.muted = self._view_state.muted
            self._apply_preferences(name, view)
            self._views[name] = view
        return self._views[name]

    def mark(self) -> None:
        """Mark the tabs of the screens that prove findings with the worst of them."""
        found: dict[str, Severity] = {}
        for each in self._view_state.moment.findings:  # the worst first
            if each.severity is not Severity.INFO and each.key not in self._view_state.muted:
                found.setdefault(each.proof.screen, each.severity)
        self.keys.mark(found)

    def check_size(self, size: Size) -> None:
        if not self._app.screen_stack:  # the app ends
            return
        below = self._app.screen_stack[0]  # not the help above it
        small, was_small = _is_too_small(size, self.open), below.has_class("small")
        below.set_class(small, "small")
        if was_small and not small:  # what is hidden loses the focus
            self.view.first_focus.focus()
        if small:
            width, height = _smallest(self.open)
            elsewhere = "" if self.open == SCREENS[0].name else "; press 1 for the overview"
            self.notice.update(f"jaxtop needs at least {width}×{height} characters here{elsewhere}")

    async def drill(self, message: ScreenPane.Drilled) -> None:
        self.selection = message.selection
        finding = message.finding
        if finding is not None and _is_too_small(self._app.size, message.screen):
            await self._explain(finding)
            return
        await self.action_screen(message.screen)
        if message.filter or message.row:
            self.view.filter_by(message.filter)
        self.view.point_at(message.row)
        if finding is not None:
            self.view.reveal(finding.proof.column)
            self.proven = finding.key
            self._repaint()
        if message.screen == "stacks" and self._view_state.playback.is_live and self._requests.lacks_stacks:
            self._requests.sample_stacks()  # they are the proof

    async def _explain(self, finding: Finding) -> None:
        """Show the explanation of a finding, where the terminal has no room for its proof."""
        if self.open != SCREENS[0].name:
            await self.action_screen(SCREENS[0].name)
        if isinstance(self.view, OverviewScreen):
            self.view.explain(finding)

    async def action_screen(self, name: str) -> None:
        if not self._switcher.is_attached:  # the app ends: nothing can be mounted any more
            return
        self.proven = None
        before, view, is_first = self.view, self._view_of(name), False
        if view is not before:
            self._visited.append(self.open)
            is_first = not view.is_attached
            if is_first and not await self._mounted(view):
                self._visited.pop()
                return
            self.open, self._switcher.current = name, view.id
            self.check_size(self._app.size)
            if before.figure is not None:
                view.start_with(before.figure)
        moment = self._view_state.moment
        if self.selection.agent is not None:
            view.selection = self.selection  # or a screen that shows a moment first selects on its own
        view.show(moment if moment.cluster.changes else EMPTY)
        view.select(self.selection)
        if is_first:
            accused = (each.row for each in moment.findings if each.proof.screen == name)
            view.point_at(next(accused, ""))
        if view.is_attached:
            # `focus()` would do it later, and the bar show keys of the screen before until then.
            view.screen.set_focus(view.first_focus)
        self.keys.draw(name)

    async def _mounted(self, view: ScreenPane) -> bool:
        """Mount a screen, not shown yet; return whether it is there, which it is not once the app ends.

        `add_content` mounts it a turn of the loop later: the app may end before that.
        """
        if self._switcher.is_attached:
            view.display = False
            with self._app.batch_update():
                await self._switcher.mount(view)
        return view.is_attached

    def action_worst(self) -> None:
        view_state = self._view_state
        worst = next((each for each in view_state.moment.findings if each.key not in view_state.muted), None)
        if worst is None:
            self._app.notify("there are no findings", timeout=2)
        else:
            self._app.post_message(proof_of(worst, view_state.moment))

    async def action_jump(self) -> None:
        ring = ("mesh", "hosts", "devices")
        at = ring.index(self.open) + 1 if self.open in ring else 0
        await self.action_screen(ring[at % len(ring)])

    async def action_return(self) -> None:
        if self._visited:
            name = self._visited.pop()
            await self.action_screen(name)
            self._visited.pop()

    async def action_stacks(self) -> None:
        self._requests.sample_stacks()
        if self.open != "stacks":
            await self.action_screen("stacks")

    async def begin_again(self) -> None:
        """Open the first screen, with nothing selected."""
        self.selection, self.proven = NO_SELECTION, None
        self._switcher.current = None
        await self._switcher.remove_children()
        self._views, self.open, self._visited = {}, SCREENS[0].name, []
        if not await self._mounted(self.view):
            return
        self._switcher.current = self.view.id
        self.keys.draw(self.open)
        self.check_size(self._app.size)
        self.view.first_focus.focus()


def _smallest(name: str) -> tuple[int, int]:
    """Return the width and height that a screen needs."""
    return MIN_PICTURE_SIZE if name in DRAWN_SMALLER else MIN_SIZE


def _is_too_small(size: Size, name: str) -> bool:
    width, height = _smallest(name)
    return size.width < width or size.height < height
