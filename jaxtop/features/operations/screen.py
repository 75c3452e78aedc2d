"""The operations screen: where the time of each program goes, and what bounds each operation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from jaxtop.base import units
from jaxtop.features.operations.filters import understand
from jaxtop.features.operations.model import COLLECTIVE, OperationRow
from jaxtop.features.operations.pane import name_of, pane
from jaxtop.features.operations.rates import times_by_rates
from jaxtop.tui.draw.panes.facts import first_fitting
from jaxtop.tui.draw.table import Column, figure_column, muted, words_column
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.screens.collectives import untimed
from jaxtop.tui.screens.tables import TablePane
from jaxtop.tui.widgets.detail import Detail, Words
from jaxtop.tui.widgets.filter import CONDITIONS, FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Hashable

    from textual.app import ComposeResult

    from jaxtop.features.operations.model import ProgramTime
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette

# The share of the lines that the table keeps.
TABLE_SHARE = 0.45
# The fewest rows that the table keeps.
MIN_ROWS = 6
# The lines of the summary, of the header and above the pane.
SURROUNDING_LINES = 3
# A lower pane is hidden.
MIN_PANE_LINES = 7
# The lines of the facts alone.
FACT_LINES = 9


def _name_colour(row: OperationRow, palette: Palette) -> str | None:
    return muted(row, palette) if row.view.op is None else None


def _ratio(row: OperationRow) -> float | None:
    return None if row.view.roof is None else row.view.roof.ratio


def _reached(row: OperationRow) -> float | None:
    return None if row.view.roof is None else row.view.roof.reached


def _times(value: float | None) -> str:
    return units.NA if value is None else f"{units.amount(value)}×"


def _estimated(value: float | None) -> str:
    return units.NA if value is None else f"~{units.share(value)}"


COLUMNS: tuple[Column[OperationRow], ...] = (
    words_column("operation", "operation", 16, lambda row: name_of(row.view), _name_colour, flexible=True),
    figure_column("share", "share", 5, lambda row: row.view.time_share, units.share),
    figure_column("time", "time", 6, lambda row: row.view.time_us, units.micros),
    words_column("kind", "kind", 11, lambda row: row.view.kind),
    words_column("source", "line", 16, lambda row: row.view.source),
    words_column("bound", "bound by", 13, lambda row: row.view.bound),
    figure_column("ratio", "by", 5, _ratio, _times),
    figure_column("reached", "roofline", 8, _reached, _estimated),
    figure_column("flops", "flops", 6, lambda row: row.view.flops, units.amount),
    figure_column("bytes", "bytes", 6, lambda row: row.view.bytes, units.size),
    figure_column("runs", "runs", 6, lambda row: row.view.runs, units.plain),
)
PROGRAM: Column[OperationRow] = words_column("program", "program", 16, lambda row: row.time.program)


def empty(moment: Moment) -> str:
    if not moment.host_views:
        return "no operations yet: no process has reported"
    return f"no operations yet: {untimed(moment)}"


def summary(time: ProgramTime, moment: Moment, width: int, palette: Palette) -> Text:
    """Return what bounds the program of the row under the cursor, and from how much that is known."""
    bounds = ", ".join(f"{units.share(share)} {bound}-bound" for bound, share in time.bounds.items())
    host = moment.host(time.agents[0])
    age = "" if host is None else f", {units.age(moment.ago(host, time.at_ms))} ago"
    seen = f"{time.launches:,} launches on single devices{age}"
    one = f"{units.micros(time.launch_us)} of operations per launch"  # the sum: they may run side by side
    variants = [
        [time.program, one, bounds, seen, "~ estimates"],
        [time.program, one, bounds, seen],
        [time.program, one, bounds],
        [one, bounds],
        [bounds or one],
    ]
    return first_fitting(variants, width, palette.muted)


class OperationsScreen(TablePane[Table[OperationRow]]):
    """One line per operation, and below it where the time of its program goes."""

    DEFAULT_CSS = """
    OperationsScreen #program { height: 1; padding: 0 2; }
    OperationsScreen #operation { padding: 0 2; border-top: solid $panel; }
    OperationsScreen.low #operation { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "app.window", "Window now")]

    def __init__(self) -> None:
        super().__init__(
            Table((*COLUMNS, PROGRAM), lambda row: row.key, noun="operation", pinned=1, understand=understand)
        )
        self._times: list[ProgramTime] = []
        self._rows: list[OperationRow] = []
        self._program = Words(id="program")
        self._pane = Detail(id="operation")
        self._run: Column[OperationRow] = words_column(
            "run", "run", 12, lambda row: self.moment.run_name(row.time.run)
        )

    def compose(self) -> ComposeResult:
        yield self._program
        yield FilteredTable(self.table, CONDITIONS.format("kind=matmul | share>5 & bound=memory"))
        yield self._pane

    def _prepare(self, moment: Moment) -> None:
        self._times = times_by_rates(moment.cluster, moment.now, moment.probe)
        self._rows = [OperationRow(time, view) for time in self._times for view in time.operations]
        self.table.update_columns(self._columns())
        self.table.update_rows(self._rows, empty(moment), at=moment.now)

    def _draw(self) -> None:
        row, height = self.table.row, self.size.height
        # Without its rates a device has no roofline, and the facts need little.
        is_drawn = row is not None and row.time.rates.flops and row.time.rates.bytes
        most = int(TABLE_SHARE * height) if is_drawn else height - SURROUNDING_LINES - FACT_LINES
        left = height - SURROUNDING_LINES - min(len(self._rows), max(MIN_ROWS, most))
        self.set_class(row is None or left < MIN_PANE_LINES, "low")
        if row is None:
            self._program.set_text(Text())
            return
        self._program.set_text(summary(row.time, self.moment, max(0, self.size.width - 4), self.palette))
        self._pane.styles.height = max(1, left + 1)
        self._pane.show(partial(pane, row.time, row.view, self.ink))

    def _columns(self) -> tuple[Column[OperationRow], ...]:
        """Return the columns; the program comes first where there are several, and so does the run."""
        first, *others = COLUMNS
        columns = (PROGRAM, *others) if len(self._times) > 1 else (*others, PROGRAM)
        return (first, self._run, *columns) if len(self.moment.runs) > 1 else (first, *columns)

    def point_at(self, row: Hashable) -> None:
        """Put the cursor on the longest operation of this program, or on the operation of this name."""
        found = [each for each in self._rows if row in (each.time.program, each.view.op)]
        self.table.select(found[0].key if found else None)

    def _chosen(self, row: Any) -> None:
        """Open a collective on its screen, and the program of any other operation."""
        if row.view.kind == COLLECTIVE and row.view.op is not None:
            self.post_message(
                ScreenPane.Drilled(self.selection, "collectives", row=(*row.time.key, row.view.op))
            )
        else:
            self.post_message(ScreenPane.Drilled(self.selection, "programs", row=row.time.program))
