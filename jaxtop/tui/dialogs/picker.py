"""The list of the live runs of this user: before the app opens, and in it to switch to another run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from jaxtop.tui.core.palette import DARK, PALETTES
from jaxtop.tui.draw.table import Column, words_column
from jaxtop.tui.widgets.key_bar import KeyBar
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    # A run, by its id and the cells of its row.
    Row = tuple[str, Sequence[str]]

# The list is renewed this often, in seconds.
RENEWED_EVERY = 2.0


class LiveRuns(NamedTuple):
    """The live runs, the newest first: the titles of the columns, and the cells of each run by its id."""

    titles: Sequence[str]
    cells: Mapping[str, Sequence[str]]


class RunPicker(ModalScreen[str | None]):
    """A list with one line per run. It returns the id of the chosen run; None if the user leaves it."""

    DEFAULT_CSS = """
    RunPicker { layout: vertical; background: $background; }
    RunPicker #title { height: 1; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "dismiss", "Leave"),
        Binding("escape", "dismiss", "Leave", show=False),
    ]

    def __init__(self, live: Callable[[], LiveRuns], shown: Collection[str] = ()) -> None:
        """Create the list; `shown` are the ids of the runs that are marked, because the app shows them."""
        super().__init__()
        self._live = live
        self._marked = shown
        self._mark: Column[Row] = words_column("shown", "", 1, lambda run: "●" if run[0] in shown else " ")
        self._title = Static(id="title", markup=False)
        self._table: Table[Row] = Table((), lambda run: run[0], noun="run")
        self._renew()
        self._table.select(next(iter(shown), None))

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._table
        yield KeyBar()

    def on_mount(self) -> None:
        self._table.focus()
        self.set_interval(RENEWED_EVERY, self._renew)

    def _renew(self) -> None:
        titles, cells = self._live()
        widths = [max(map(len, column)) for column in zip(titles, *cells.values(), strict=True)]
        columns = [_column(i, *each) for i, each in enumerate(zip(titles, widths, strict=True))]
        self._table.update_columns([*([self._mark] if self._marked else []), *columns])
        self._table.update_rows(list(cells.items()), "no live runs")
        self._title.update(f" {len(cells)} live {'run' if len(cells) == 1 else 'runs'}: choose one")

    def on_table_chosen(self, message: Table.Chosen) -> None:
        self.dismiss(message.row[0])


def _column(number: int, title: str, width: int) -> Column[Row]:
    read: Callable[[Row], str] = lambda run: run[1][number]  # noqa: E731 - to name its type
    return words_column(title, title, width, read)


class Picker(App[str]):
    """The list alone, before the app opens."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, live: Callable[[], LiveRuns]) -> None:
        super().__init__()
        for palette in PALETTES.values():
            self.register_theme(palette.theme)
        self.theme = DARK.theme.name
        self._live = live

    def on_mount(self) -> None:
        self.push_screen(RunPicker(self._live), self.exit)
