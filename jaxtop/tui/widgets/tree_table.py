"""The arrays as a tree in a table."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from jaxtop.model.arrays.tree import Node, grow
from jaxtop.tui.widgets.folding import FoldingTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.model import ArrayView

# If a filter has at most this many matches, all branches are open by default.
FEW = 200
# Below the top level, a branch with more children is folded by default, or it would hide the rows after it.
GLANCE = 20


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
        if self._query.test is not None and self._matching <= FEW:
            return True
        return node.opens_by_default and (node.depth == 0 or len(node.children) <= GLANCE)
