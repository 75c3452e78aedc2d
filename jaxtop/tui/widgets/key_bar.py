"""The screens by name, and the keys that matter on the open one; on a low terminal both share a line."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from jaxtop.tui.core.palette import Palette, palette_of
from jaxtop.tui.draw.switches import pressed_by, run_pressed
from jaxtop.tui.widgets.time_bar import LIVE_LINE_FROM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual import events
    from textual.binding import ActiveBinding

    from jaxtop.base.feature import ScreenEntry
    from jaxtop.model import Severity

SCREEN_ACTION = "screen("
# The action that goes back in time. The bar shows its key where no other line does.
BACK = "step(-1)"
# The screens have a line of their own from this height on.
TABS_FROM = 30
# A lost user needs these keys: they are always there.
PALETTE = "command_palette"
GENERAL = (PALETTE, "help", "quit")
# The most keys of the open screen.
MAX_KEYS = 4
# The least width at which the keys of the screen are shown.
MIN_WIDTH = 50
# The columns above the least width that make room for one more key.
COLUMNS_A_KEY = 20


class Item(NamedTuple):
    """A key, its description, the action that a click runs, and a short description.

    `severity` is that of the worst finding which the screen proves; None without any.
    """

    key: str
    label: str
    action: str
    is_open: bool = False
    short: str = ""
    severity: Severity | None = None
    # Of the screens: how long it keeps its name where room is scarce.
    keeps: int = 0

    @property
    def text(self) -> str:
        mark = "" if self.severity is None else self.severity.sign
        return f"{self.key} {self.label}".rstrip() + mark


Items = tuple[Item, ...]


def tabs(screens: Items, width: int, palette: Palette, gap: str = "  ") -> Text:
    """Return the screens by name. Names that do not fit give way to short ones, then to the keys alone.

    Before a name goes, the screens move together: the sign of a finding takes no name.
    """
    line = Text(no_wrap=True, end="")
    shown = _shortened(screens, width, len(gap))
    if sum(bool(item.label) for item in shown) < len(screens):
        gap = " "
        shown = _shortened(screens, width, len(gap))
    for item in shown:
        style = Style(
            color=palette.accent if item.is_open else palette.label,
            bold=item.is_open, reverse=item.is_open, meta={"press": item.action},
        )  # fmt: skip
        line.append(gap)
        line.append(item.key, style + Style(color=palette.accent, bold=True))
        if item.label:
            line.append(f" {item.label}", style)
        if item.severity is not None:
            line.append(item.severity.sign, style + Style(color=palette.severity_colour(item.severity.rank)))
    line.truncate(width)
    return line


def _shortened(screens: Items, width: int, gap: int) -> Sequence[Item]:
    """Shorten names until the line fits: the one that gains most first, those with a finding last.

    Then the rarest screens lose their names, and if keys alone are too long, their place. The open screen
    keeps its name.
    """
    shown = list(screens)

    def is_too_long() -> bool:
        return sum(gap + len(item.text) for item in shown) > width

    def rank(item: Item) -> tuple[bool, int]:
        return item.severity is None, len(item.label) - len(item.short)

    to_shorten = sorted((item for item in screens if item.short and not item.is_open), key=rank)
    while is_too_long() and to_shorten:
        item = to_shorten.pop()
        shown[shown.index(item)] = item._replace(label=item.short)
    closed = [item for item in reversed(screens) if not item.is_open]
    rarest_first = [item.key for item in sorted(closed, key=attrgetter("keeps"))]
    for key in rarest_first:
        if is_too_long():
            shown = [item._replace(label="") if item.key == key else item for item in shown]
    for key in rarest_first:
        if is_too_long():
            shown = [item for item in shown if item.key != key]
    return shown


def footer(keys: Items, general: Items, width: int, palette: Palette) -> Text:
    """Return the keys of the open screen on the left, as many as fit, and the general ones on the right."""
    right = _keys(general, palette)
    for count in range(min(len(keys), MAX_KEYS), -1, -1):
        left = _keys(keys[:count], palette)
        if left.cell_len + right.cell_len <= width:
            break
    return _apart(left, right, width)


def one_line(screens: Items, keys: Items, general: Items, width: int, palette: Palette) -> Text:
    """Return the screens and the keys in one line. The key that goes back in time stays.

    The palette has no key there: a click on the header opens it, too.
    """
    count = min(MAX_KEYS, max(0, (width - MIN_WIDTH) // COLUMNS_A_KEY))
    kept = tuple(item for i, item in enumerate(keys) if i < count or item.action == BACK)
    right = _keys((*kept, *(item for item in general if item.action != PALETTE)), palette)
    return _apart(tabs(screens, width - right.cell_len, palette, " "), right, width)


def _keys(items: Iterable[Item], palette: Palette) -> Text:
    line = Text()
    for item in items:
        press = Style(meta={"press": item.action})
        line.append(f" {item.key}", Style(color=palette.accent, bold=True) + press)
        line.append(f" {item.label} ", Style(color=palette.label) + press)
    return line


def _apart(left: Text, right: Text, width: int) -> Text:
    between = " " * max(0, width - left.cell_len - right.cell_len)
    line = Text.assemble(left, between, right, no_wrap=True, end="")
    line.truncate(width)
    return line


class Tabs(Static):
    """The screens, on a line of their own."""

    DEFAULT_CSS = """
    Tabs { height: 1; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__(id="tabs")

    async def on_click(self, event: events.Click) -> None:
        await run_pressed(event, self.app)


class KeyBar(Static):
    """A line of the active key bindings; a click does what the key does."""

    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 1; background: $panel; }
    """

    def __init__(self, tabs: Tabs | None = None, screens: Sequence[ScreenEntry] = ()) -> None:
        """Create it, with the screens in their order."""
        super().__init__(id="keys")
        self._tabs, self._screens = tabs, {each.name: each for each in screens}
        self._actions: dict[str, ActiveBinding] = {}
        self._open = ""
        self._found: Mapping[str, Severity] = {}
        # What the lines show. The keys may change with each focus, and mostly do not.
        self._drawn: object = None

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.draw())
        self.call_after_refresh(self.draw)

    def on_resize(self) -> None:
        self.draw()

    def mark(self, found: Mapping[str, Severity]) -> None:
        """Mark the screens with findings: their worst severity by the name of the screen."""
        if found != self._found:
            self._found = found
            self.draw()

    def draw(self, open_screen: str | None = None) -> None:
        if open_screen is not None:
            self._open = open_screen
        if not self.is_attached or self.app.screen_stack[-1:] != [self.screen]:
            return
        screens, keys, general = items = self._items()
        palette, width = palette_of(self.app.theme), self.size.width
        has_line = self._tabs is not None and self.app.size.height >= TABS_FROM
        drawn = (items, self.app.theme, width, has_line)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        if self._tabs is not None:
            self._tabs.display = has_line
            if has_line:
                self._tabs.update(tabs(screens, width, palette), layout=False)
        if has_line or not screens:
            line = footer(keys, general, width, palette)
        else:
            line = one_line(screens, keys, general, width, palette)
        self.update(line, layout=False)

    def _items(self) -> tuple[Items, Items, Items]:
        """Return the screens, the keys with those of the open screen first, and the general ones."""
        own, of_app, general = list[Item](), list[Item](), list[Item]()
        screens: dict[str, Item] = {}
        self._actions = {}
        is_low = self.app.size.height < LIVE_LINE_FROM and not self.screen.query("TimeBar.on")
        for active in self.screen.active_bindings.values():
            binding, action = active.binding, active.binding.action
            is_shown = binding.show or action == PALETTE or (is_low and action == BACK)
            if not is_shown or not active.enabled or action in self._actions:
                continue
            self._actions[action] = active
            key = self.app.get_key_display(binding)
            label = "Rewind" if action == BACK else binding.description
            if action.startswith(SCREEN_ACTION):
                name = action[len(SCREEN_ACTION) + 1 : -2]
                screen = self._screens[name]
                severity = self._found.get(name)
                screens[name] = Item(
                    key, label, action, name == self._open, screen.short, severity, screen.keeps
                )
            elif action in GENERAL:
                general.append(Item(key, label, action))
            else:
                (of_app if active.node is self.app else own).append(Item(key, label, action))
        general.sort(key=lambda item: GENERAL.index(item.action))
        in_order = tuple(screens[name] for name in self._screens if name in screens)
        return in_order, (*own, *of_app), tuple(general)

    async def on_click(self, event: events.Click) -> None:
        """Run the action where its key is bound, which is not always the app."""
        action = pressed_by(event.style)
        if action in self._actions:
            event.stop()
            await self.app.run_action(action, self._actions[action].node)
