from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from jaxtop.tui.draw.table import Column, words
from jaxtop.tui.palette import DARK, PALETTES
from jaxtop.tui.widgets.key_bar import KeyBar
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# The cells of a run, as `jaxtop ls` shows them.
Cells = tuple[str, ...]


class Picker(App[int]):
    """A list with one line per run. It returns the number of the chosen run, or None if the user quits."""

    CSS = "#title { height: 1; background: $panel; } Screen { layout: vertical; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("escape", "quit", "Quit", show=False),
    ]

    def __init__(self, titles: Cells, runs: Sequence[Cells]) -> None:
        super().__init__()
        for palette in PALETTES.values():
            self.register_theme(palette.theme)
        self.theme = DARK.theme.name
        self._runs = list(enumerate(runs))
        widths = [max(len(cell) for cell in column) for column in zip(titles, *runs, strict=True)]
        self.table: Table[tuple[int, Cells]] = Table(
            [_column(i, *each) for i, each in enumerate(zip(titles, widths, strict=True))],
            lambda run: run[0],
            noun="run",
        )

    def compose(self) -> ComposeResult:
        yield Static(f" {len(self._runs)} live runs: choose one", id="title", markup=False)
        yield self.table
        yield KeyBar()

    def on_mount(self) -> None:
        self.table.update_rows(self._runs)
        self.table.focus()

    def on_table_chosen(self, message: Table.Chosen) -> None:
        self.exit(message.row[0])


def _column(number: int, title: str, width: int) -> Column[tuple[int, Cells]]:
    read: Callable[[tuple[int, Cells]], str] = lambda run: run[1][number]  # noqa: E731 - to name its type
    return words(str(number), title, width, read)
