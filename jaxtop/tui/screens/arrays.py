"""The arrays screen: a tree by name, the memory of each array, and the slice on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from jaxtop.model.arrays.tree import MIXED, Node
from jaxtop.tui import text
from jaxtop.tui.draw.array_pane import growth
from jaxtop.tui.draw.table import NOTHING, Column, figure
from jaxtop.tui.filters.arrays import shape_in_words, understand
from jaxtop.tui.screens.base import View
from jaxtop.tui.screens.devices import gauge
from jaxtop.tui.slices import slices_of
from jaxtop.tui.widgets.array_pane import ArrayPane
from jaxtop.tui.widgets.filter import CONDITIONS, FilteredTable
from jaxtop.tui.widgets.tree_table import TreeTable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.widget import Widget

    from jaxtop.model import ArrayView
    from jaxtop.tui.moment import Moment
    from jaxtop.tui.palette import Palette
    from jaxtop.tui.widgets.table import Table

# From BESIDE characters on the pane is beside the tree, from WIDE on it is wider. Otherwise it is below.
BESIDE, WIDE = 110, 180
# From TALL lines on the pane below is higher. Below the tree it is hidden with fewer than LOW lines.
TALL, LOW = 30, 17
ENDED_NOTE = "run ended: its last arrays"


def _fact(key: str, title: str, width: int, fact: str) -> Column[Node]:
    """Return a column of a text that an array has, or that all arrays of a branch share."""

    def write(node: Node) -> str:
        return node.shared(fact) or text.NA

    def style(node: Node, palette: Palette) -> str | None:
        return palette.muted if node.shared(fact) == MIXED else None

    return Column(key, title, width, "left", write, write, style)


def _elements(node: Node) -> tuple[int, ...] | None:
    return None if node.view is None else node.view.shape


def _shape(node: Node) -> str:
    view = node.view
    return NOTHING if view is None else shape_in_words(view.shape, view.groups)


def _replication(node: Node) -> int | None:
    copies = node.shared("replication")
    return None if copies == MIXED else copies


def _copies(node: Node) -> str:
    copies = node.shared("replication")
    return NOTHING if copies == MIXED else text.NA if copies is None else f"×{copies:,}"


def _growing(node: Node, palette: Palette) -> str | None:
    return palette.warning if (node.grown_bytes or 0) > 0 else None


def columns_for(
    name: Callable[[Node], str],
    share: Callable[[Node], float | None],
    bar: Callable[[Node, Palette], str | None],
) -> tuple[Column[Any], ...]:
    """Return the columns of arrays, most important first."""
    return (
        Column("name", "name", 26, "left", lambda node: node.order, name, flexible=True),
        figure("bytes", "per dev", 7, lambda node: node.bytes_per_device, text.size),
        Column(
            "share",
            "of all",
            11,
            "left",
            share,
            lambda node: gauge(share(node)),
            bar,
            largest_first=True,
        ),
        Column("shape", "shape", 12, "left", _elements, _shape, largest_first=True),
        _fact("dtype", "dtype", 8, "dtype"),
        _fact("spec", "spec", 20, "sharding"),
        figure("growth", "growth", 7, lambda node: node.grown_bytes, growth, style=_growing),
        figure("global", "global", 6, lambda node: node.bytes_global, text.size),
        Column("replication", "copies", 6, "right", _replication, _copies, largest_first=True),
        figure("count", "count", 6, lambda node: node.count, text.number),
        _fact("role", "role", 10, "role"),
        _fact("memory", "memory", 11, "memory_kind"),
        _fact("created", "made at", 22, "created"),
    )


def empty(moment: Moment) -> str:
    """Return why there are no arrays."""
    if not moment.hosts:
        return "no arrays yet: no host has reported"
    if reasons := moment.not_on("arrays"):
        return f"arrays are not counted: {reasons[0]}"
    if not any(view.host.arrays.at_ms for view in moment.hosts):
        return "no arrays yet: no host has counted its arrays"
    return "no arrays: no host holds any"


class ArraysView(View):
    """The tree of arrays, with the details of the array under the cursor beside or below it."""

    KEY: ClassVar[str] = "4"
    TITLE: ClassVar[str] = "Arrays"
    DEFAULT_CSS = """
    ArraysView { layout: horizontal; }
    ArraysView FilteredTable { width: 1fr; height: 1fr; }
    ArraysView #array { width: 40; height: 1fr; padding: 0 1; border-left: solid $panel; }
    ArraysView.-wide #array { width: 58; }
    ArraysView.-below { layout: vertical; }
    ArraysView.-below #array { width: 1fr; height: 10; border-left: none; border-top: solid $panel; }
    ArraysView.-below.-tall #array { height: 14; }
    ArraysView.-low #array { display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._views: Sequence[ArrayView] = ()
        self._total = 0
        self._past_runs: frozenset[Hashable] = frozenset()
        self._counted = ""
        self.table = TreeTable(
            lambda name: columns_for(name, self._share, self._bar_colour),
            understand,
            noun="array",
            sort="bytes",
            tone=self._tone,
        )

    def compose(self) -> ComposeResult:
        yield FilteredTable(self.table, CONDITIONS.format("bytes>1G & role=optimizer | !shape~1024"))
        yield ArrayPane(id="array")

    def on_mount(self) -> None:
        self.watch(self.app, "theme", self._show_pane, init=False)

    def on_resize(self, event: events.Resize) -> None:
        """Place the pane where there is room for it."""
        width, height = event.size
        self.set_class(width < BESIDE, "-below")
        self.set_class(width >= WIDE, "-wide")
        self.set_class(height >= TALL, "-tall")
        self.set_class(width < BESIDE and height < LOW, "-low")
        self.call_after_refresh(self._show_pane)

    def show(self, moment: Moment) -> None:
        super().show(moment)
        if moment.arrays is not self._views:
            self._views = moment.arrays
            self._total = sum([view.held_bytes for view in self._views])
        ago = moment.counted_ago
        self._counted = "" if ago is None else f"counted {text.age(ago)} ago"
        if reasons := moment.not_on("arrays"):
            self._counted = f"not counted on every host: {reasons[0]}"
        self._past_runs = frozenset(run.id for run in moment.runs if run.has_ended)
        self.table.update_views(self._views, moment.run_names, empty(moment))
        self._show_pane()

    @property
    def first_focus(self) -> Widget:
        return self.table

    def _tone(self, node: Node, palette: Palette) -> str | None:
        """Return the muted colour for arrays of a run that has ended."""
        return palette.muted if node.run in self._past_runs else None

    def _bar_colour(self, node: Node, palette: Palette) -> str | None:
        return self._tone(node, palette) or palette.theme.primary

    def _share(self, node: Node) -> float | None:
        """Return the share of the memory of all arrays on all devices. These shares add up to 1."""
        return node.held_bytes / self._total if self._total else None

    def _show_pane(self) -> None:
        if self.is_mounted:
            node = self.table.row
            is_past = node is not None and node.run in self._past_runs
            note = ENDED_NOTE if is_past else self._counted
            self.query_one(ArrayPane).show(node, self.ink, note)

    def on_table_moved(self, message: Table.Moved) -> None:
        """Show the array under the cursor in the pane."""
        message.stop()
        self._show_pane()

    def on_folding_table_arranged(self, message: TreeTable.Arranged) -> None:
        """Redraw the pane, because another row may be under the cursor."""
        message.stop()
        self._show_pane()

    def on_table_chosen(self, message: Table.Chosen) -> None:
        """Show the slices of the array on the mesh."""
        message.stop()
        view = message.row.view
        if view is not None and slices_of(view) is not None:
            self.selection = self.selection._replace(array=view.key, collective=None)
            self.post_message(View.Drilled(self.selection, "1"))
