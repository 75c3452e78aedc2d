"""The last line of the app: the screens, the open one highlighted, and as many other keys as fit."""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from jaxtop.tui.draw.switches import pressed_by
from jaxtop.tui.widgets.time_bar import LIVE_LINE_FROM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events
    from textual.binding import ActiveBinding

SCREEN_ACTION = "screen("
# The action that goes back in time. The bar shows its key where no other line does.
BACK = "step(-1)"
# The keys of screens, in their order.
ORDER = "123D4567O890W"
# A narrow bar never drops these keys: a lost user needs them.
NEVER_DROPPED = ("help", "quit")
# For the short names of screens this many other keys are dropped.
MOST_DROPPED = 2


class Item(NamedTuple):
    """A key, its description, the action that a click runs, and a short description."""

    key: str
    label: str
    action: str
    is_open: bool = False
    short: str = ""


@lru_cache(maxsize=64)  # it is drawn whenever the keys may have changed
def key_bar(screens: tuple[Item, ...], keys: tuple[Item, ...], width: int) -> Text:
    """Return the line: the screens on the left, the other keys on the right.

    If the line is too long, the screens that are not open have their short names, then only their keys. Two
    of the other keys are dropped for the short names, but what more keys do here matters more. Then the open
    screen has its short name or none, the blanks are left out, and more keys are dropped, the first one
    first.
    """
    needed = [item for item in keys if item.action in NEVER_DROPPED]
    dropped = [item for item in keys if item.action not in NEVER_DROPPED]
    short = [item if item.is_open else item._replace(label=item.short or item.label) for item in screens]
    only_open = [item if item.is_open else item._replace(label="") for item in screens]
    open_short = [item._replace(label=item.short if item.is_open else "") for item in screens]
    bare = [item._replace(label="") for item in screens]
    ways: list[tuple[Sequence[Item], Sequence[Item], str]] = [
        (screens, keys, " "),
        (short, keys, " "),
        *((short, [*dropped[i:], *needed], " ") for i in range(1, MOST_DROPPED + 1)),
        (only_open, keys, " "),
        (open_short, keys, " "),
        (bare, keys, " "),
        *((bare, [*dropped[i:], *needed], "") for i in range(len(dropped) + 1)),
    ]
    line = Text()
    for left, right, gap in ways:
        shown, verbs = _items(left, gap), _items(right)
        between = max(1, width - shown.cell_len - verbs.cell_len)
        line = Text.assemble(shown, " " * between, verbs, no_wrap=True, end="")
        if line.cell_len <= width:
            break
    line.truncate(width)
    return line


def _items(items: Sequence[Item], gap: str = " ") -> Text:
    line = Text()
    for item in items:
        press = Style(meta={"press": item.action})
        line.append(gap)
        line.append(item.key, Style(bold=True, reverse=item.is_open) + press)
        line.append(
            f" {item.label}" if item.label else "", Style(bold=item.is_open, reverse=item.is_open) + press
        )
    return line


class KeyBar(Static):
    """A bar of the active key bindings; a click does what the key does."""

    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 1; background: $panel; }
    """

    def __init__(self, short: Mapping[str, str] = MappingProxyType({})) -> None:
        """Create it; `short` has the short names of screens by the actions that open them."""
        super().__init__(id="keys")
        self._short = short
        self._actions: dict[str, ActiveBinding] = {}
        self._open = ""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.draw())
        self.call_after_refresh(self.draw)

    def on_resize(self) -> None:
        self.draw()

    def draw(self, open_screen: str | None = None) -> None:
        if open_screen is not None:
            self._open = open_screen
        if not self.is_attached or self.app.screen_stack[-1:] != [self.screen]:
            return
        screens: list[Item] = []
        keys: list[Item] = []
        self._actions = {}
        is_low = self.app.size.height < LIVE_LINE_FROM and not self.screen.query("TimeBar.on")
        for active in self.screen.active_bindings.values():
            binding = active.binding
            is_shown = binding.show or (is_low and binding.action == BACK)
            if not is_shown or not active.enabled:
                continue
            self._actions[binding.action] = active
            shown = self.app.get_key_display(binding)
            is_screen = binding.action.startswith(SCREEN_ACTION)
            item = Item(
                shown,
                "Rewind" if binding.action == BACK else binding.description,
                binding.action,
                is_screen and binding.action == f"{SCREEN_ACTION}'{self._open}')",
                self._short.get(binding.action, ""),
            )
            (screens if is_screen else keys).append(item)
        screens.sort(key=lambda item: ORDER.find(item.key))
        keys.sort(key=lambda item: item.action in NEVER_DROPPED)
        self.update(key_bar(tuple(screens), tuple(keys), self.size.width), layout=False)

    async def on_click(self, event: events.Click) -> None:
        action = pressed_by(event.style)
        if action in self._actions:
            event.stop()
            await self.app.run_action(action, self._actions[action].node)
