"""Which screen is open, the ways from one to another, and what is shown where a screen has no room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import ContentSwitcher, Static

from jaxtop.tui.core.moment import EMPTY, NOTHING, Selection
from jaxtop.tui.looks import LookApp
from jaxtop.tui.screens import SCREENS
from jaxtop.tui.screens.overview import OverviewView, proof_of
from jaxtop.tui.widgets.key_bar import KeyBar

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.geometry import Size

    from jaxtop.model import Finding
    from jaxtop.tui.ingest import Feed
    from jaxtop.tui.screens.base import View

# The least columns and lines of a screen, and those of the overview.
SMALLEST, SMALLEST_OVERVIEW = (60, 16), (40, 10)


class NavigationApp(LookApp):
    """An app of screens, of which one is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "jump", "Jump", show=False),
        Binding("w", "worst", "Proof of the worst finding", show=False),
        Binding("escape", "return", "Back", show=False),
    ]

    def __init__(self, feed: Feed | None, clock: Callable[[], float], **parts: Any) -> None:
        super().__init__(feed, clock, **parts)
        self._selection: Selection = NOTHING
        # The finding whose proof the open screen shows.
        self._proven: tuple[str, str, str] | None = None
        self._keys = KeyBar()
        self._notice = Static()
        # The screens that were opened, by name.
        self._views: dict[str, View] = {}
        self._open = SCREENS[0].name
        self._visited: list[str] = []

    @property
    def _view(self) -> View:
        return self._view_of(self._open)

    def _view_of(self, name: str) -> View:
        """Return the screen of this name, which is made when it opens."""
        if name not in self._views:
            view = next(each for each in SCREENS if each.name == name).view()
            view.id = f"screen-{name}"
            self._dress(name, view)
            self._views[name] = view
        return self._views[name]

    @property
    def _muted(self) -> set[tuple[str, str, str]]:
        """The findings that the user muted in this view."""
        overview = self._view_of(SCREENS[0].name)
        return overview.muted if isinstance(overview, OverviewView) else set()

    def _check_size(self, size: Size) -> None:
        if not self.screen_stack:  # the app ends
            return
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
        if not self._bar.is_attached:  # the app ends: nothing can be mounted any more
            return
        self._proven = None
        before, view, is_first = self._view, self._view_of(name), False
        if view is not before:
            self._visited.append(self._open)
            switcher = self.query_one(ContentSwitcher)
            is_first = not view.is_attached
            if is_first and not await self._mounted(view, switcher):
                self._visited.pop()
                return
            self._open, switcher.current = name, view.id
            self._check_size(self.size)
            if before.figure is not None:
                view.look_at(before.figure)
        moment = self.moment
        if self._selection.agent is not None:
            view.selection = self._selection  # or a screen that shows a moment first selects on its own
        view.show(moment if moment.cluster.changes else EMPTY)
        view.select(self._selection)
        if is_first:
            accused = (each.row for each in moment.findings if each.proof.screen == name)
            view.point_at(next(accused, ""))
        if view.is_attached:
            # `focus()` would do it later, and the bar show keys of the screen before until then.
            view.screen.set_focus(view.first_focus)
        self._keys.draw(name)

    async def _mounted(self, view: View, switcher: ContentSwitcher) -> bool:
        """Mount a screen, not shown yet; return whether it is there, which it is not once the app ends.

        `add_content` mounts it a turn of the loop later: the app may end before that.
        """
        if switcher.is_attached:
            view.display = False
            with self.batch_update():
                await switcher.mount(view)
        return view.is_attached

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

    async def _begin_again(self) -> None:
        """Open the first screen, with nothing selected."""
        self._selection, self._proven = NOTHING, None
        switcher = self.query_one(ContentSwitcher)
        switcher.current = None
        await switcher.remove_children()
        self._views, self._open, self._visited = {}, SCREENS[0].name, []
        if not await self._mounted(self._view, switcher):
            return
        switcher.current = self._view.id
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
