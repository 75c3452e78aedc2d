"""The memory screen: the memory of each device by use, growing arrays, and headroom for programs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from jaxtop.base import units
from jaxtop.model import (
    Grower,
    ProgramView,
    at_peaks,
    growers,
    memory_total,
    memory_views,
)
from jaxtop.model.host import SIMULATED
from jaxtop.tui.columns.devices import empty
from jaxtop.tui.columns.memory import MemoryRow, MemoryRowContext, columns_for
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import EMPTY, Moment
from jaxtop.tui.draw.bars import bar_line
from jaxtop.tui.draw.panes.memory_columns import MIN_HEIGHT, MemoryColumns, memory_columns
from jaxtop.tui.draw.panes.peak import device_peak_lines
from jaxtop.tui.draw.stacked_bar import legend, parts_of
from jaxtop.tui.filters.figures import understand
from jaxtop.tui.filters.memory import FIELDS
from jaxtop.tui.screens.tables import DeviceTablePane
from jaxtop.tui.widgets.detail import Detail, Words
from jaxtop.tui.widgets.filter import CONDITIONS, FilteredTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult

    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.ink import Ink

# With fewer lines than this the part below is hidden, because the table needs them all.
ROOM_BELOW = 17
# The most lines of the part below the table.
MAX_LINES_BELOW = 8
# The fewest lines of the part below the table.
MIN_LINES_BELOW = 3
# The fewest rows that the table keeps.
MIN_ROWS = 6
# The share of the lines that the table keeps.
TABLE_SHARE = 0.3


def limit_in_words(context: MemoryRowContext) -> str:
    """Return the limit of the fullest device, and what is free on it."""
    if not context.moment.fullest:
        return ""
    fullest = context.moment.fullest[0]
    if fullest.limit_bytes is None or fullest.used_bytes is None:
        return "no limit known: relative to the fullest"
    simulated = " (simulated)" if fullest.limit_source == SIMULATED else ""
    free = max(0, fullest.limit_bytes - fullest.used_bytes)
    return f"limit {units.size(fullest.limit_bytes)}{simulated}, {units.size(free)} free on the fullest"


def summary(context: MemoryRowContext, width: int, ink: Ink) -> Text:
    views = [view for view, held in zip(context.views, context.used, strict=True) if held is not None]
    if not views:
        return Text()
    total, used = memory_total(views), sum(filter(None, context.used))
    fullest = context.moment.fullest[0]
    held = f"{len(views):,} {'device holds' if len(views) == 1 else 'devices hold'} {units.size(used)}"
    most = f"most on device {fullest.id}: {units.size(fullest.used_bytes)}"
    if context.has_limits:
        end = sum(view.device.limit_bytes or 0 for view in views)
        share = units.share(used / end if end else None)  # these devices may have no limits while others do
        simulated = " (simulated)" if fullest.limit_source == SIMULATED else ""
        source = fullest.memory_source or units.NA
        summary = f"{held} of {units.size(end)}{simulated} ({share}), {most}; source {source}"
    else:
        end = sum(total)
        summary = f"{held}, {most}, no limit known; source arrays"
    if (ago := context.moment.counted_ago) is not None:
        summary += f"; arrays counted {units.age(ago)} ago"
    head = Text(text.printable(summary), no_wrap=True, overflow="ellipsis", end="")
    head.truncate(width, overflow="ellipsis")
    whole = bar_line(parts_of(total, ink.palette), end, width, ink)
    return Text("\n").join([head, whole, *legend(total, width, ink)])


def growing(found: list[Grower], height: int, palette: Palette) -> Text:
    lines = [Text("GROWING per device", f"bold {palette.label}", end="")]
    for each in found[: max(0, height - 1)]:
        line = Text(f"+{units.size(each.bytes_per_minute)}/min", palette.warning, no_wrap=True, end="")
        name = f"  {each.name or 'unnamed'}  {units.size(each.bytes_per_device)}"
        line.append(text.printable(name), palette.foreground)
        line.append(text.printable(f"  {each.created or ''}"), palette.muted)
        lines.append(line)
    if not found:
        lines.append(Text("nothing found", palette.muted, end=""))
    return Text("\n").join(lines)


def headroom(programs: list[ProgramView], height: int, palette: Palette) -> Text:
    known = [view for view in programs if view.adds_bytes is not None]
    known.sort(key=lambda view: -(view.adds_bytes or 0))
    lines = [Text("HEADROOM for a launch", f"bold {palette.label}", end="")]
    for view in known[: max(0, height - 1)]:
        runs, is_large = bool(view.function_per_second), (view.headroom_bytes or 0) < 0
        line = Text(no_wrap=True, end="")
        if is_large and not runs:  # a running program fits: its last launch may still hold memory
            line.append("▲ ", palette.bad)
        line.append(text.printable(f"{view.function} +{units.size(view.adds_bytes)}"))
        free = view.free_bytes
        line.append(", limit unknown" if free is None else f" of {units.size(free)} free", palette.muted)
        if runs:
            line.append(" · running", palette.good)
        lines.append(line)
    if not known:
        lines.append(Text("no programs yet", palette.muted, end=""))
    return Text("\n").join(lines)


class MemoryScreen(DeviceTablePane[MemoryRow]):
    """The cluster as one bar, one line per device, and below these the growers and the headroom.

    `B` shows in their place what was alive at the peak of the device under the cursor.
    """

    DEFAULT_CSS = """
    MemoryScreen #summary { height: auto; padding: 0 2; }
    MemoryScreen #columns { padding: 0 1; display: none; }
    MemoryScreen #below { background: $surface; }
    MemoryScreen.low #below { display: none; }
    MemoryScreen #below Static { width: 1fr; height: 1fr; padding: 0 2; text-wrap: nowrap;
                                    text-overflow: ellipsis; }
    MemoryScreen #peak { display: none; height: auto; min-height: 4; max-height: 50%; padding: 0 2;
                             background: $surface; text-wrap: nowrap; text-overflow: ellipsis; }
    MemoryScreen.peak #peak { display: block; }
    MemoryScreen.peak #below { display: none; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("B", "peak", "Peak")]

    def __init__(self) -> None:
        super().__init__(columns_for(MemoryRowContext(EMPTY, []), 0), self._understand)
        self._summary = Words(id="summary")
        self._columns = Detail(id="columns")
        self._growing = Words(id="growing")
        self._headroom = Words(id="headroom")
        self._below = Horizontal(id="below")
        self._peak = Words(id="peak")
        self._row_context = MemoryRowContext(EMPTY, [])

    def compose(self) -> ComposeResult:
        yield self._summary
        yield self._columns
        yield FilteredTable(self.table, CONDITIONS.format("memory>60G & optimizer>20G | host~node1"))
        with self._below:
            yield self._growing
            yield self._headroom
        yield self._peak

    def action_peak(self) -> None:
        """Show what was alive at the peak of the device under the cursor, or no longer."""
        self.toggle_class("peak")
        self._redraw()

    def _understand(self, typed: str) -> Callable[[MemoryRow], bool] | None:
        return understand(typed, FIELDS, self.table.columns)

    def _prepare(self, moment: Moment) -> None:
        views = memory_views(moment.cluster, moment.device_views)
        context = self._row_context = MemoryRowContext(moment, views, self.app.no_color)
        self._fit_columns()
        rows = [MemoryRow(view.device, context, view) for view in context.views]
        self.table.update_rows(rows, empty(moment), at=moment.now)

    def _fit_columns(self) -> None:
        self.table.update_columns(columns_for(self._row_context, self.size.width))

    def _draw(self) -> None:
        palette, moment = self.palette, self.moment
        whole = summary(self._row_context, max(0, self.size.width - 4), self.ink)
        self._summary.set_text(whole)
        self._lay_out(whole.plain.count("\n") + 1)
        self._columns.show(partial(memory_columns, self._figures(), self.ink))
        if self.has_class("peak"):
            self._peak.set_text(self._peak_text(palette))
        elif not self.has_class("low"):
            self._growing.set_text(growing(growers(moment.cluster), MAX_LINES_BELOW, palette))
            self._headroom.set_text(headroom(moment.program_views, MAX_LINES_BELOW, palette))

    def _lay_out(self, above: int) -> None:
        """Give the columns what the summary, the rows and the part below leave."""
        height, moment = self.size.height, self.moment
        listed = max(
            len(growers(moment.cluster)), sum(view.adds_bytes is not None for view in moment.program_views)
        )
        below = 1 + min(MAX_LINES_BELOW - 1, max(1, listed)) if height >= ROOM_BELOW else 0
        rows = 1 + min(len(self._row_context.views), max(MIN_ROWS, int(TABLE_SHARE * height)))
        if len(self._row_context.views) > height - above - below - 1:  # rows that are not seen have no bars
            lacking = max(0, MIN_HEIGHT - (height - above - rows - below))
            below = max(min(below, MIN_LINES_BELOW), below - lacking)
        left = height - above - rows - (height // 2 if self.has_class("peak") else below)
        self.set_class(not below, "low")
        self._columns.display = left >= MIN_HEIGHT and bool(self._row_context.views)
        self._columns.styles.height = max(1, left)
        self._below.styles.height = below

    def _figures(self) -> MemoryColumns:
        context = self._row_context
        launch = context.moment.heaviest_launch
        adds, function = (0, "") if launch is None else (launch.adds_bytes or 0, launch.function)
        end = context.end if context.has_limits else None
        return MemoryColumns(context.views, context.used, adds, function, end, limit_in_words(context))

    def _peak_text(self, palette: Palette) -> Text:
        row, moment = self.table.row, self.moment
        host = moment.host(row.device.agent) if row is not None else None
        if row is None or host is None:
            return Text()
        peaks, at = at_peaks(moment.cluster, host), row.device.position
        peak = peaks[at] if at < len(peaks) else None
        lines = device_peak_lines(moment.label_of(row.device), peak, partial(moment.ago, host), palette)
        return Text("\n").join(lines)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._fit_columns()
