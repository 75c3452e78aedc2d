"""The help screen and the command palette, generated from the key bindings: they list only keys that work."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult, SystemCommand
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from jaxtop.tui.core import text
from jaxtop.tui.core.palette import PALETTES, palette_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from textual.binding import Binding, BindingType

# Bindings that Textual adds by itself and that are of no use here.
NOT_LISTED = frozenset({"help_quit", "app.focus_next", "app.focus_previous", "screen.copy_text"})


class Help(ModalScreen[None]):
    """The keys that work now, and the meaning of the signs."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,question_mark,q", "dismiss", "Close")]

    def __init__(self, title: str, screen: Screen[Any]) -> None:
        super().__init__()
        active = (each.binding for each in screen.active_bindings.values())
        self._keys = [each for each in active if each.action not in NOT_LISTED]
        self._view_title = title

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme)
        with VerticalScroll(id="help"):
            yield Static(Text(f"Keys on {self._view_title}", "bold"))
            yield Static(keys_table(self._keys, self.app.get_key_display))
            yield Static(Text("\nStates", "bold"))
            signs = Text()
            for state, sign in text.STATE_SIGNS.items():
                signs.append(f" {sign} {state.value} ", palette.of_state(state))
            yield Static(signs)
            yield Static(
                Text(
                    "\nEverything also works with the mouse: click keys below, headers, rows and cells.\n"
                    "Press Esc to close.",
                    palette.muted,
                )
            )

    def on_mount(self) -> None:
        self.query_one("#help").focus()

    def on_click(self) -> None:
        self.dismiss()


def keys_table(bindings: Iterable[Binding], display: Callable[[Binding], str]) -> Table:
    """Return a table of keys and their descriptions. Keys with the same description share a line."""
    lines: dict[str, list[str]] = {}
    for binding in bindings:
        if binding.description:
            shown = display(binding)
            keys = lines.setdefault(binding.description, [])
            if shown not in keys:
                keys.append(shown)
    table = Table.grid(padding=(0, 3))
    for description, keys in lines.items():
        table.add_row(Text(" ".join(keys), "bold"), Text(description))
    return table


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
