"""A table of a tree: its branches fold, and rows are sorted among their siblings."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding
from textual.message import Message

from jaxtop.cluster.tree import Node, flatten, grow
from jaxtop.tui.expressions import Wrong
from jaxtop.tui.renderables import table as draw
from jaxtop.tui.text import NA
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from textual import events
    from textual.binding import BindingType

    from jaxtop.cluster import ArrayView
    from jaxtop.tui.palette import Palette
    from jaxtop.tui.renderables.table import Column

OPEN, FOLDED, INDENT = "▾", "▸", 2
# As many matches of a filter are seen without unfolding anything.
FEW = 200
# A branch of more is not unfolded unasked, lest it hide what comes after it; except at the top.
GLANCE = 20


class Folds:
    """Which branches are open: those that a person opened, and those that are unless folded."""

    def __init__(self) -> None:
        self._chosen: dict[tuple[Hashable, ...], bool] = {}
        self.all = False

    def holds_open(self, node: Node, *, unasked: bool) -> bool:
        return self._chosen.get(node.path, self.all or unasked)

    def set(self, node: Node, *, is_open: bool) -> None:
        self._chosen[node.path] = is_open

    def reset(self, *, everything: bool) -> None:
        """All branches open, or as they are without being asked for."""
        self._chosen.clear()
        self.all = everything


class TreeTable(Table[Node]):
    """Arrays as a tree. With a filter on, its sums are those of the arrays that match."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Fold or open"),
        Binding("left,h", "fold", "Fold, or go to the branch", show=False),
        Binding("right,l", "unfold", "Unfold, or go to the first in it", show=False),
        Binding("asterisk", "unfold_all", "Unfold all, and back", show=False, key_display="*"),
        Binding("less_than_sign", "shift(-1)", "Columns to the left", show=False, key_display="<"),
        Binding("greater_than_sign", "shift(1)", "Columns to the right", show=False, key_display=">"),
    ]

    class Refused(Message):
        """What was typed as a filter means nothing."""

        def __init__(self, wrong: Wrong) -> None:
            super().__init__()
            self.wrong = wrong

    class Arranged(Message):
        """Rows came, went or changed their places."""

    def __init__(
        self,
        columns: Callable[[Callable[[Node], str]], Sequence[Column[Node]]],
        understand: Callable[[str], Callable[[ArrayView], bool]],
        *,
        noun: str,
        sort: str,
        tone: Callable[[Node, Palette], str | None],
    ) -> None:
        """A tree without rows.

        Args:
            columns: Makes the columns, with what writes the first.
            understand: Makes a test of an array from what is typed as a filter; or raises Wrong.
            noun: What an array is called.
            sort: The key of the column to sort by.
            tone: The colour of a row's cells that have none of their own.
        """
        super().__init__(columns(self._first_cell), lambda node: node.path, noun=noun, sort=sort, tone=tone)
        self._understand = understand
        self._test: Callable[[ArrayView], bool] | None = None
        self._views: Sequence[ArrayView] = ()
        self._run_names: Mapping[str, str | None] = {}
        self._top: Sequence[Node] | None = None
        self._matching = 0
        self._folds, self._folds_filtered = Folds(), Folds()

    # What it shows

    def update_views(
        self, views: Sequence[ArrayView], run_names: Mapping[str, str | None], empty: str
    ) -> None:
        """These are the arrays now. The tree grows anew only from other arrays."""
        if views is not self._views or run_names != self._run_names:
            self._views, self._run_names = views, run_names
            self._top = None
            self._touch()
        if empty != self._empty:
            self._empty = empty
            self._touch()

    def filter_by(self, text: str) -> None:
        """As the words of other tables, and conditions; what means nothing leaves all as it was."""
        try:
            test = self._understand(text) if text.strip() else None
        except Wrong as wrong:
            self.post_message(self.Refused(wrong))
            return
        self._counted = (-1, -1)  # said anew even if it is the same: the line may tell of a mistake
        if text != self._filter:
            self._test, self._top = test, None
            self._folds_filtered.reset(everything=False)
        super().filter_by(text)
        self._touch()

    def _arrange(self) -> None:
        was_stale = self._stale
        super()._arrange()
        if was_stale:
            self.post_message(self.Arranged())

    def _ordered(self) -> list[Node]:
        if self._top is None:
            test = self._test
            views = self._views if test is None else [view for view in self._views if test(view)]
            self._matching = len(views)
            self._top = grow(views, self._run_names)
        return flatten(self._top, self.is_open, self._in_order)

    def _in_order(self, nodes: Sequence[Node]) -> list[Node]:
        return draw.in_order(nodes, self._sort, descending=self._descending)

    def _tally(self) -> tuple[int, int]:
        return self._matching, len(self._views)

    def _place_cursor(self) -> bool:
        """On its row; or, where that is folded away or one with others now, on the branch it is in."""
        is_placed = super()._place_cursor()
        wanted = self._wanted
        if not self._shown or not isinstance(wanted, tuple) or self._shown[self._cursor].path == wanted:
            return is_placed
        nearest = _nearest(self._shown, wanted)
        if nearest is not None:
            self._cursor = nearest
        return is_placed or nearest is not None

    # Folding

    @property
    def _folds_now(self) -> Folds:
        return self._folds if self._test is None else self._folds_filtered

    def is_open(self, node: Node) -> bool:
        """Whether the children of a node are shown."""
        if self._test is not None and self._matching <= FEW:
            unasked = True
        else:
            unasked = node.open_unasked and (node.depth == 0 or len(node.children) <= GLANCE)
        return self._folds_now.holds_open(node, unasked=unasked)

    def _set_open(self, node: Node, *, is_open: bool) -> None:
        self._folds_now.set(node, is_open=is_open)
        self._wanted = node.path  # who folds a row has chosen it
        self._touch()

    def action_choose(self) -> None:
        """Fold or unfold a branch; open an array."""
        node = self.row
        if node is not None and node.is_branch:
            self._set_open(node, is_open=not self.is_open(node))
        else:
            super().action_choose()

    def action_fold(self) -> None:
        """Fold the branch; where there is nothing to fold, go to the one it is in."""
        node = self.row
        if node is None:
            return
        if node.is_branch and self.is_open(node):
            self._set_open(node, is_open=False)
            return
        above = range(self._cursor - 1, -1, -1)
        parent = next((i for i in above if self._shown[i].depth < node.depth), None)
        if parent is not None:
            self._go(parent)

    def action_unfold(self) -> None:
        """Unfold the branch; where it is open, go to the first in it."""
        node = self.row
        if node is None or not node.is_branch:
            return
        if self.is_open(node):
            self._go(self._cursor + 1)
        else:
            self._set_open(node, is_open=True)

    def action_unfold_all(self) -> None:
        """Show everything; once more, only what is shown without being asked for."""
        folds = self._folds_now
        folds.reset(everything=not folds.all)
        self._reveal = True
        self._touch()

    def on_click(self, event: events.Click) -> None:
        """The sign before a branch folds it. For the rest the handler of other tables runs after this one."""
        at = event.get_content_offset(self)
        index = -1 if at is None else self.scroll_offset.y + at.y - 1
        if at is not None and at.y > 0 and 0 <= index < len(self.shown):
            node = self._shown[index]
            sign = self._layout.slots[0].x + INDENT * node.depth
            if node.is_branch and sign <= at.x <= sign + 1:
                event.stop().prevent_default()
                self._set_open(node, is_open=not self.is_open(node))
                self._go(index)

    def _first_cell(self, node: Node) -> str:
        sign = " " if not node.is_branch else OPEN if self.is_open(node) else FOLDED
        return f"{' ' * (INDENT * node.depth)}{sign} {node.label or NA}"


def _nearest(shown: Sequence[Node], path: tuple[Hashable, ...]) -> int | None:
    """The row that stands for a path that has none: one that goes on from it, or the branch it is in."""
    nearest, steps = None, 0
    for i, node in enumerate(shown):
        if node.path[: len(path)] == path:
            return i
        if len(node.path) > steps and path[: len(node.path)] == node.path:
            nearest, steps = i, len(node.path)
    return nearest


class FilteredTree(FilteredTable[Node]):
    """A tree and its filter, which says what is wrong with a condition."""

    DEFAULT_CSS = """
    FilteredTree #filter #count.wrong { color: $error; }
    """

    def __init__(self, table: TreeTable) -> None:
        super().__init__(table, "words, or conditions: bytes>1G & role=optimizer | !shape~1024")

    def on_tree_table_refused(self, message: TreeTable.Refused) -> None:
        """Say what is wrong where otherwise the matches are counted; the rows stay."""
        message.stop()
        self._count.update(f"✗ {message.wrong}")
        self._count.add_class("wrong")

    @on(Table.Counted)
    def _forgive(self) -> None:
        """What was wrong no longer is; the matches are counted by the handler of all tables."""
        self._count.remove_class("wrong")
