"""The arrays screen: a tree by name, the memory of each array, and the slice on each device."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jaxtop.base import units
from jaxtop.model.arrays.tree import MIXED, Node, grow, path_to
from jaxtop.tui.columns.figures import with_bar
from jaxtop.tui.core import text
from jaxtop.tui.core.slices import slices_of
from jaxtop.tui.draw.panes.array import growth
from jaxtop.tui.draw.table import NONE, Column, figure_column
from jaxtop.tui.filters.arrays import understand
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.screens.tables import TablePane
from jaxtop.tui.widgets.array_pane import ArrayPane
from jaxtop.tui.widgets.filter import CONDITIONS, FilteredTable
from jaxtop.tui.widgets.folding import FoldingTable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from textual import events
    from textual.app import ComposeResult

    from jaxtop.model import ArrayView
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette

# From this width on, the pane is beside the tree; otherwise it is below.
PANE_BESIDE_WIDTH = 110
# From this width on, the pane beside the tree is wider.
WIDE_PANE_WIDTH = 180
# From this many lines on, the pane below the tree is higher.
HIGH_PANE_LINES = 30
# With fewer lines, the pane below the tree is hidden.
MIN_PANE_LINES = 17
ENDED_NOTE = "run ended: its last arrays"
# If a filter has at most this many matches, all branches are open by default.
FEW_MATCHES = 200
# Below the top level, a branch with more children is folded by default, or it would hide the rows after it.
MAX_UNFOLDED = 20


def _fact(key: str, title: str, width: int, fact: str) -> Column[Node]:
    def write(node: Node) -> str:
        return node.shared(fact) or units.NA

    def style(node: Node, palette: Palette) -> str | None:
        return palette.muted if node.shared(fact) == MIXED else None

    return Column(key, title, width, "left", write, write, style)


def _elements(node: Node) -> tuple[int, ...] | None:
    return None if node.view is None else node.view.shape


def _shape(node: Node) -> str:
    view = node.view
    return NONE if view is None else text.shape(view.shape, view.groups)


def _replication(node: Node) -> int | None:
    copies = node.shared("replication")
    return None if copies == MIXED else copies


def _copies(node: Node) -> str:
    copies = node.shared("replication")
    return NONE if copies == MIXED else units.NA if copies is None else f"×{copies:,}"


def _growing(node: Node, palette: Palette) -> str | None:
    return palette.warning if (node.grown_bytes or 0) > 0 else None


def empty(moment: Moment) -> str:
    if not moment.host_views:
        return "no arrays yet: no process has reported"
    if reasons := moment.not_on("arrays"):
        return f"arrays are not counted: {reasons[0]}"
    if not any(view.host.arrays.at_ms for view in moment.host_views):
        return "no arrays yet: no process has counted its arrays"
    return "no arrays: no process holds any"


class TreeTable(FoldingTable[Node]):
    """Arrays as a tree. While a filter is set, sums include only the matching arrays."""

    _views: Sequence[ArrayView] = ()
    _run_names: Mapping[str, str] = MappingProxyType({})
    _grown: Sequence[Node] | None = None
    _matching = 0

    def update_views(self, views: Sequence[ArrayView], run_names: Mapping[str, str], empty: str) -> None:
        """Replace the arrays. The tree is rebuilt only if the arrays or the run names changed."""
        if views is not self._views or run_names != self._run_names:
            self._views, self._run_names = views, run_names
            self._grown = None
            self._touch()
        if empty != self._empty:
            self._empty = empty
            self._touch()

    def filter_by(self, text: str) -> None:
        before = self.words
        super().filter_by(text)
        if before != self.words:
            self._grown = None

    def _top(self) -> Sequence[Node]:
        if self._grown is None:
            test = self._query.test
            views = self._views if test is None else [view for view in self._views if test(view)]
            self._matching = len(views)
            self._grown = grow(views, self._run_names)
        return self._grown

    def _tally(self) -> tuple[int, int]:
        return self._matching, len(self._views)

    def _opens_unasked(self, node: Node) -> bool:
        if self._query.test is not None and self._matching <= FEW_MATCHES:
            return True
        return node.opens_by_default and (node.depth == 0 or len(node.children) <= MAX_UNFOLDED)


class ArraysScreen(TablePane[TreeTable]):
    """The tree of arrays, with the details of the array under the cursor beside or below it."""

    DEFAULT_CSS = """
    ArraysScreen { layout: horizontal; }
    ArraysScreen FilteredTable { width: 1fr; height: 1fr; }
    ArraysScreen #array { width: 40; height: 1fr; padding: 0 1; border-left: solid $panel; }
    ArraysScreen.-wide #array { width: 58; }
    ArraysScreen.-below { layout: vertical; }
    ArraysScreen.-below #array { width: 1fr; height: 10; border-left: none; border-top: solid $panel; }
    ArraysScreen.-below.-tall #array { height: 14; }
    ArraysScreen.-low #array { display: none; }
    """

    def __init__(self) -> None:
        super().__init__(TreeTable(self._columns, understand, noun="array", sort="bytes", tone=self._tone))
        self._views: Sequence[ArrayView] = ()
        self._total = 0
        self._past_runs: frozenset[Hashable] = frozenset()
        self._counted = ""
        self._pane = ArrayPane()

    def _columns(self, name: Callable[[Node], str]) -> tuple[Column[Node], ...]:
        return (
            Column("name", "name", 26, "left", lambda node: node.order, name, flexible=True),
            figure_column("bytes", "per dev", 7, lambda node: node.bytes_per_device, units.size),
            replace(
                with_bar(
                    figure_column("share", "of all", 4, self._share, units.share, style=self._bar_colour),
                    self._share,
                ),
                align="left",
            ),
            Column("shape", "shape", 12, "left", _elements, _shape, largest_first=True),
            _fact("dtype", "dtype", 8, "dtype"),
            _fact("spec", "spec", 20, "sharding"),
            figure_column("growth", "growth", 7, lambda node: node.grown_bytes, growth, style=_growing),
            figure_column("global", "global", 6, lambda node: node.bytes_global, units.size),
            Column("replication", "copies", 6, "right", _replication, _copies, largest_first=True),
            figure_column("count", "count", 6, lambda node: node.count, units.number),
            _fact("role", "role", 10, "role"),
            _fact("memory", "memory", 11, "memory_kind"),
            _fact("created", "made at", 22, "created"),
        )

    def compose(self) -> ComposeResult:
        yield FilteredTable(self.table, CONDITIONS.format("bytes>1G & role=optimizer | !shape~1024"))
        yield self._pane

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        self.set_class(width < PANE_BESIDE_WIDTH, "-below")
        self.set_class(width >= WIDE_PANE_WIDTH, "-wide")
        self.set_class(height >= HIGH_PANE_LINES, "-tall")
        self.set_class(width < PANE_BESIDE_WIDTH and height < MIN_PANE_LINES, "-low")

    def _prepare(self, moment: Moment) -> None:
        if moment.array_views is not self._views:
            self._views = moment.array_views
            self._total = sum([view.held_bytes for view in self._views])
        ago = moment.counted_ago
        self._counted = "" if ago is None else f"counted {units.age(ago)} ago"
        if reasons := moment.not_on("arrays"):
            self._counted = f"not counted in every process: {reasons[0]}"
        self._past_runs = frozenset(run.id for run in moment.runs if run.has_ended)
        self.table.update_views(self._views, moment.run_names, empty(moment))

    def point_at(self, row: Hashable) -> None:
        named = (view for view in self._views if view.name == row)
        view = next(named, None)
        if view is not None:
            self.table.select(path_to(view.run, view.function, view.name, view.created).steps)

    def _tone(self, node: Node, palette: Palette) -> str | None:
        return palette.muted if node.run in self._past_runs else None

    def _bar_colour(self, node: Node, palette: Palette) -> str | None:
        return self._tone(node, palette) or palette.trend

    def _share(self, node: Node) -> float | None:
        """Return the share of the memory of all arrays on all devices. These shares add up to 1."""
        return node.held_bytes / self._total if self._total else None

    def _draw(self) -> None:
        node = self.table.row
        is_past = node is not None and node.run in self._past_runs
        self._pane.show_node(node, self.ink, ENDED_NOTE if is_past else self._counted)

    def _chosen(self, row: Any) -> None:
        view = row.view
        if view is not None and slices_of(view) is not None:
            self.selection = self.selection._replace(array=view.key, collective=None)
            self.post_message(ScreenPane.Drilled(self.selection, "mesh"))
