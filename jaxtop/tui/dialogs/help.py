"""The help page and the command palette, generated from the key bindings: they list only keys that work."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.text import Text
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from jaxtop.base import units
from jaxtop.model import Severity
from jaxtop.tui.core import text
from jaxtop.tui.core.palette import PALETTES, SIGN, STEP_PARTS, palette_of
from jaxtop.tui.draw.ink import Ink, ink_of
from jaxtop.tui.draw.legend import ramp
from jaxtop.tui.draw.panel import beside, cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from textual import events
    from textual.binding import ActiveBinding, BindingType

# Bindings that Textual adds by itself and that are of no use here.
NOT_LISTED = frozenset({"help_quit", "app.focus_next", "app.focus_previous", "screen.copy_text"})
# The groups of keys, by the actions of the keys. Others are those of the open screen if it binds them, and
# else work everywhere.
_GROUPS = {
    "Move": "move page top bottom shift end scroll_down scroll_up scroll_home scroll_end",
    "Look closer": "jump worst return window capture stacks",
    "Time": "pause record step skip go_to event to_start to_end interval faster loop mark",
    "Screens": "screen",
}
_GROUP_OF = {action: group for group, actions in _GROUPS.items() for action in actions.split()}
EVERYWHERE = "Everywhere"
# The most columns of text.
MAX_COLUMNS = 3
# The least width of a column.
MIN_COLUMN_WIDTH = 36
# The most width of all columns.
MAX_WIDTH = 140
# The space between two columns.
COLUMN_GAP = 3
# The columns of the frame, the padding and the scroll bar.
FRAME_WIDTH = 5
# The lines of the frame, of the search, and a blank one.
FRAME_HEIGHT = 4


class HelpEntry(NamedTuple):
    """A key or a sign, and what it does or means."""

    sign: Text
    meaning: str

    def has(self, words: Sequence[str]) -> bool:
        """Return whether it has all these words."""
        said = f"{self.sign.plain} {self.meaning}".casefold()
        return all(word in said for word in words)


Section = tuple[str, list[HelpEntry]]


class Search(Input):
    """What is searched for. `?` closes the help, and so does `q` as its first letter."""

    def on_key(self, event: events.Key) -> None:
        if event.character == "?" or (event.character == "q" and not self.value):
            event.stop()
            event.prevent_default()
            self.screen.dismiss()


class Help(ModalScreen[None]):
    """The keys that work now, those of the open screen first, and the meaning of signs and colours."""

    DEFAULT_CSS = """
    Help { align: center middle; background: $background 60%; }
    Help #help { border: round $primary; padding: 0 1; background: $background; }
    Help Input, Help Input:focus { background: $background; padding: 0; margin-bottom: 1; }
    Help VerticalScroll { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close"),
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("down", "scroll(1)", "Down", show=False),
        Binding("pageup", "scroll(-10)", "Page up", show=False),
        Binding("pagedown", "scroll(10)", "Page down", show=False),
    ]

    def __init__(self, title: str, screen: Screen[Any]) -> None:
        super().__init__()
        self._active = [
            each for each in screen.active_bindings.values() if each.binding.action not in NOT_LISTED
        ]
        self._view_title = title
        self._search = Search(placeholder="type to search", compact=True)
        self._page = Static()

    def compose(self) -> ComposeResult:
        with Vertical(id="help") as box:
            box.border_title, box.border_subtitle = "Help", "Esc closes"
            yield self._search
            with VerticalScroll(can_focus=False):
                yield self._page

    def on_mount(self) -> None:
        self._search.focus()

    def on_resize(self) -> None:
        self._draw()

    def on_input_changed(self) -> None:
        self._draw()

    def on_click(self) -> None:
        self.dismiss()

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def _draw(self) -> None:
        ink = ink_of(palette_of(self.app.theme), plain=self.app.no_color)
        sections = [
            *key_sections(self._active, self.app, self._view_title, ink),
            ("Signs", list(_signs(ink))),
            ("Colours", list(_colours(ink))),
        ]
        width = min(self.app.size.width, MAX_WIDTH)
        whole, words = page(sections, width - FRAME_WIDTH, ink), self._search.value.casefold().split()
        box = self.query_one("#help")
        box.styles.width, box.styles.height = width, min(self.app.size.height, len(whole) + FRAME_HEIGHT)
        found = [(title, [each for each in entries if each.has(words)]) for title, entries in sections]
        shown = page([each for each in found if each[1]], width - FRAME_WIDTH, ink) if words else whole
        self._page.update(Text("\n").join(shown or [Text("nothing has these words", ink.note)]))


def key_sections(active: Iterable[ActiveBinding], app: App[Any], title: str, ink: Ink) -> list[Section]:
    """Return the keys by group, those of the open screen first. Keys that do the same share a line."""
    groups: dict[str, dict[str, list[str]]] = {each: {} for each in (title, *_GROUPS, EVERYWHERE)}
    for each in active:
        binding = each.binding
        if binding.description:
            action = binding.action.removeprefix("app.").partition("(")[0]
            group = _GROUP_OF.get(action, EVERYWHERE if each.node is app else title)
            keys = groups[group].setdefault(binding.description, [])
            shown = app.get_key_display(binding)
            if shown not in keys:
                keys.append(shown)
    return [
        (group, [HelpEntry(Text(" ".join(keys), ink.accent), what) for what, keys in found.items()])
        for group, found in groups.items()
        if found
    ]


def _signs(ink: Ink) -> Iterator[HelpEntry]:
    for state, sign in text.STATE_SIGNS.items():
        yield HelpEntry(Text(sign, ink.palette.state_colour(state)), f"host {state.value}")
    for severity in Severity:
        yield HelpEntry(
            Text(severity.sign, ink.palette.severity_colour(severity.rank)), f"{severity.value} finding"
        )
    yield HelpEntry(Text(SIGN, ink.palette.warning), "figure past its threshold")
    for sign, meaning in (("≥", "lower bound"), ("~", "estimate"), (units.NA, "unknown, never 0")):
        yield HelpEntry(Text(sign, ink.figure), meaning)


def _colours(ink: Ink) -> Iterator[HelpEntry]:
    yield HelpEntry(ramp(ink), "from low to high")
    for number, part in enumerate(STEP_PARTS):
        yield HelpEntry(Text("██", ink.category(number)), f"{part}, in a step")
    yield HelpEntry(Text("██", ink.divider), "time that nothing explains")
    yield HelpEntry(Text("q", ink.accent), "key, cursor, selection")
    yield HelpEntry(Text("grey", ink.note), "no data, or a note")


def page(sections: Iterable[Section], width: int, ink: Ink) -> list[Text]:
    """Return sections in as many columns as the width has room for, about equally long."""
    blocks = [_block(*each, ink) for each in sections]
    count = max(1, min(MAX_COLUMNS, (width + COLUMN_GAP) // (MIN_COLUMN_WIDTH + COLUMN_GAP)))
    room = (width + COLUMN_GAP) // count - COLUMN_GAP
    least, most = max(map(len, blocks), default=0), sum(map(len, blocks))
    height = next(each for each in range(least, most + 1) if len(_columns(blocks, each)) <= count)
    columns = _columns(blocks, height)
    for column in columns:
        for line in column:
            cut(line, room, pad=True)
            line.pad_right(COLUMN_GAP if column is not columns[-1] else 0)
    return beside(columns)


def _block(title: str, entries: Sequence[HelpEntry], ink: Ink) -> list[Text]:
    """Return the lines of a section, and a blank one."""
    widest = max((each.sign.cell_len for each in entries), default=0)
    lines = [Text(title, ink.figure)]
    for each in entries:
        blank = " " * (widest - each.sign.cell_len + 2)
        lines.append(Text.assemble(each.sign, blank, (each.meaning, ink.label), no_wrap=True))
    return [*lines, Text()]


def _columns(blocks: Iterable[list[Text]], height: int) -> list[list[Text]]:
    """Return the blocks in columns of at most this height."""
    columns: list[list[Text]] = [[]]
    for block in blocks:
        if columns[-1] and len(columns[-1]) + len(block) > height:
            columns.append([])
        columns[-1] += block
    return columns


def palette_commands(app: App[Any], screen: Screen[Any]) -> Iterator[SystemCommand]:
    offered = set()
    for active in screen.active_bindings.values():
        binding = active.binding
        if (
            binding.description
            and binding.description not in offered
            and binding.action not in ("command_palette", "app.command_palette", *NOT_LISTED)
        ):
            offered.add(binding.description)
            keys = app.get_key_display(binding)
            yield SystemCommand(
                f"{binding.description} ({keys})",
                binding.tooltip,
                partial(app.run_action, binding.action, active.node),
            )
    for palette in PALETTES.values():
        name = palette.theme.name
        title = f"Theme: {name.removeprefix('jaxtop-').replace('-', ' ')}"
        yield SystemCommand(title, "colours", partial(setattr, app, "theme", name))
