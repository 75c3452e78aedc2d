"""The hosts screen: the activity, resource use and last contact of each process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from jaxtop.model import FIGURES, STEP_TIME, recent, reported_figures
from jaxtop.model.findings.postmortem import has_failed, postmortem_of
from jaxtop.model.hosts import seen_by
from jaxtop.model.shares import shares_of
from jaxtop.model.wall_time.step_parts import parts_of_hosts
from jaxtop.tui.columns.devices import tone
from jaxtop.tui.columns.figures import ReportedNames
from jaxtop.tui.columns.host_row import HostRow
from jaxtop.tui.columns.hosts import FOLLOWED, PINNED_COLUMNS, STEP, columns_for, reported_steps
from jaxtop.tui.core.moment import EMPTY, Moment, Selection
from jaxtop.tui.core.text import writer
from jaxtop.tui.draw.panes.curves import Curve, facts_above_curves
from jaxtop.tui.draw.panes.hardware import LONGEST_TREND
from jaxtop.tui.draw.panes.host import HostSubject, host_pane, served_lines
from jaxtop.tui.filters.figures import OF_HOSTS, understand
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.screens.tables import TablePane
from jaxtop.tui.widgets.detail import Detail
from jaxtop.tui.widgets.filter import CONDITIONS, FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

# With fewer lines than this the pane is hidden, because the table needs them all.
ROOM_BELOW = 18
# The lines of the facts of the pane.
FACT_LINES = 9
# The lines around the rows of the table.
ROW_PADDING = 2
# The fewest rows that the table keeps.
MIN_TABLE_LINES = 6
# The columns beside the text of the pane.
BESIDE = 4
_CURVES = (STEP_TIME, FIGURES["process_cpu_cores"], FIGURES["memory_used_bytes"])


def empty(moment: Moment) -> str:
    if not moment.cluster.unmet:
        return "no processes yet: waiting for a run"
    return f"no processes yet: no answer from {', '.join(moment.cluster.unmet)}"


class HostsScreen(TablePane[Table[HostRow]]):
    """One line per host, with the details of the one under the cursor below."""

    FOLLOWED = FOLLOWED
    DEFAULT_CSS = """
    HostsScreen #host-pane { height: 9; padding: 0 2; border-top: solid $panel; }
    HostsScreen.low #host-pane { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(
            Table(
                columns_for(EMPTY),
                lambda row: row.host.agent,
                noun="host",
                pinned=PINNED_COLUMNS,
                sort="process",
                tone=tone,
                understand=lambda typed: understand(typed, OF_HOSTS, self.table.columns),
            )
        )
        self._reported = ReportedNames()
        self._step_figures: frozenset[str] = frozenset()
        self._pane = Detail(id="host-pane")

    def compose(self) -> ComposeResult:
        yield FilteredTable(self.table, CONDITIONS.format("cpu>80 & step>1.2 | state!=live"))
        yield self._pane

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < ROOM_BELOW, "low")
        super().on_resize(event)

    def _prepare(self, moment: Moment) -> None:
        rows = [HostRow(view, moment) for view in moment.host_views]
        times = [time for row in rows if (time := row.derived(STEP)) is not None]
        for row in rows:
            row.longest_step = max(times, default=None)
        reported = self._reported.see(moment)
        self._step_figures |= reported_steps(rows)
        self.table.update_columns(columns_for(moment, reported, self._step_figures, self._followed))
        self.table.update_rows(rows, empty(moment), at=moment.now)

    def _draw(self) -> None:
        if self.has_class("low"):
            return
        # What the rows leave blank shows curves of the selected host.
        spare = self.size.height - ROW_PADDING - max(MIN_TABLE_LINES, len(self.moment.host_views))
        self._pane.styles.height = max(FACT_LINES, spare)
        row, ink = self.table.row, self.ink
        if row is None:
            self._pane.show(lambda _width, _height: Text())
            return
        past = recent(self.moment.cluster, row.host.agent, STEP_TIME, 0, LONGEST_TREND)
        label = self.moment.label(row.host)
        subject = HostSubject(
            label, row.state, row.current, row.view.host, row.age, row.rhythm, past, row.still,
            seen_by(self.moment.cluster, row.host, self.moment.now),
            postmortem_of(self.moment.cluster, row.view.host, row.state)
            if has_failed(row.view.host, row.state) else None,
            shares_of(parts_of_hosts(self.moment.cluster, self.moment.now).get(row.host.agent)),
        )  # fmt: skip
        facts, shown = partial(host_pane, subject, ink), self._curves(row)
        served = len(served_lines(row.current, ink, self.size.width - BESIDE))
        self._pane.show(facts_above_curves(facts, FACT_LINES + served, shown, ink))

    def _curves(self, row: HostRow) -> list[Curve]:
        """Return the figures of a host whose past is known."""
        cluster, agent = self.moment.cluster, row.host.agent
        last = row.view.host
        reported = reported_figures([last.pulse])
        return [
            Curve(figure.title, partial(recent, cluster, agent, figure, 0), writer(figure))
            for figure in _CURVES
            if figure.name in reported
        ]

    def select(self, selection: Selection) -> None:
        super().select(selection)
        self.table.select(selection.agent)
        self._redraw()

    def _moved(self, row: Any) -> None:
        """Select the host. The selected device stays selected if it is on the same host."""
        agent = row.host.agent
        if agent != self.selection.agent:
            self.selection = Selection(agent)
        self._redraw()
        self.post_message(ScreenPane.Selected(self.selection))

    def _chosen(self, row: Any) -> None:
        host = row.host
        devices = host.hello.devices if host.hello else ()
        self.selection = Selection(host.agent, devices[0].id if devices else None)
        self.post_message(ScreenPane.Drilled(self.selection, "devices"))
