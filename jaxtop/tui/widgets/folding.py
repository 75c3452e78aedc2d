"""A table of a tree whose branches fold and open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from textual.binding import Binding, BindingType
from textual.message import Message

from jaxtop.base.units import NA
from jaxtop.model.arrays.tree import flatten
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from textual import events

    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.table import Column

OPEN, FOLDED, INDENT = "▾", "▸", 2


class Branch(Protocol):
    """A node of a tree, identified by its path."""

    @property
    def path(self) -> tuple[Hashable, ...]: ...
    @property
    def label(self) -> str: ...
    @property
    def depth(self) -> int: ...
    @property
    def is_branch(self) -> bool: ...
    @property
    def children(self) -> Sequence[Any]: ...
    @property
    def opens_by_default(self) -> bool: ...


AnyNode = TypeVar("AnyNode", bound=Branch)


class Folds:
    """Which branches are open: those that the user opened, and those that are open by default."""

    def __init__(self) -> None:
        self._chosen: dict[tuple[Hashable, ...], bool] = {}
        self.all = False

    def holds_open(self, node: Branch, *, unasked: bool) -> bool:
        return self._chosen.get(node.path, self.all or unasked)

    def set(self, node: Branch, *, is_open: bool) -> None:
        self._chosen[node.path] = is_open

    def reset(self, *, everything: bool) -> None:
        """Forget what the user folded: open all branches, or only those that are open by default."""
        self._chosen.clear()
        self.all = everything


class FoldingTable(Table[AnyNode]):
    """A table of the nodes below the top-level nodes, which `_top` returns."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Fold or open"),
        Binding("left,h", "fold", "Fold, or go to the branch", show=False),
        Binding("right,l", "unfold", "Unfold, or go to the first in it", show=False),
        Binding("asterisk", "unfold_all", "Unfold all, and back", show=False, key_display="*"),
        Binding("less_than_sign", "shift(-1)", "Columns to the left", show=False, key_display="<"),
        Binding("greater_than_sign", "shift(1)", "Columns to the right", show=False, key_display=">"),
    ]

    class Arranged(Message):
        """Rows appeared, disappeared or moved."""

    def __init__(
        self,
        columns: Callable[[Callable[[AnyNode], str]], Sequence[Column[AnyNode]]],
        understand: Callable[[str], Callable[[Any], bool]],
        *,
        noun: str,
        sort: str | None,
        tone: Callable[[AnyNode, Palette], str | None] | None = None,
    ) -> None:
        """Create a tree without rows. `columns` receives the function that writes the first cell of a row."""
        super().__init__(
            columns(self._first_cell),
            lambda node: node.path,
            noun=noun,
            sort=sort,
            tone=tone,
            understand=understand,
        )
        self._folds, self._folds_filtered = Folds(), Folds()
        self._offer = columns

    def renew_columns(self) -> None:
        """Ask for the columns again; they may have other titles now."""
        self.update_columns(self._offer(self._first_cell))

    def _top(self) -> Sequence[AnyNode]:
        raise NotImplementedError

    def _opens_unasked(self, node: AnyNode) -> bool:
        return node.opens_by_default

    def filter_by(self, text: str) -> None:
        before = self.words
        super().filter_by(text)
        if before != self.words:
            self._folds_filtered.reset(everything=False)

    def _arrange(self) -> None:
        was_stale = self._stale
        super()._arrange()
        if was_stale:
            self.post_message(self.Arranged())

    def _ordered(self) -> list[AnyNode]:
        return flatten(self._top(), self.is_open, self._query.in_order)

    def _place_cursor(self) -> bool:
        """Put the cursor on its row, or on the nearest branch if that row is folded away or merged."""
        is_placed = super()._place_cursor()
        wanted = self._wanted
        if not self._shown or not isinstance(wanted, tuple) or self._shown[self._cursor].path == wanted:
            return is_placed
        nearest = _nearest(self._shown, wanted)
        if nearest is not None:
            self._cursor = nearest
        return is_placed or nearest is not None

    @property
    def _folds_now(self) -> Folds:
        return self._folds_filtered if self.words.strip() else self._folds

    def is_open(self, node: AnyNode) -> bool:
        return self._folds_now.holds_open(node, unasked=self._opens_unasked(node))

    def _set_open(self, node: AnyNode, *, is_open: bool) -> None:
        self._folds_now.set(node, is_open=is_open)
        self._wanted = node.path  # a row that the user folds is the selected one
        self._touch()

    def action_choose(self) -> None:
        node = self.row
        if node is not None and node.is_branch:
            self._set_open(node, is_open=not self.is_open(node))
        else:
            super().action_choose()

    def action_fold(self) -> None:
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
        node = self.row
        if node is None or not node.is_branch:
            return
        if self.is_open(node):
            self._go(self._cursor + 1)
        else:
            self._set_open(node, is_open=True)

    def action_unfold_all(self) -> None:
        folds = self._folds_now
        folds.reset(everything=not folds.all)
        self._reveal = True
        self._touch()

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold a branch whose sign was clicked. Other clicks go to the handler of Table."""
        at = event.get_content_offset(self)
        index = -1 if at is None else self.scroll_offset.y + at.y - 1
        if at is not None and at.y > 0 and 0 <= index < len(self.shown):
            node = self._shown[index]
            sign = self._layout.slots[0].x + INDENT * node.depth
            if node.is_branch and sign <= at.x <= sign + 1:
                event.stop().prevent_default()
                self._set_open(node, is_open=not self.is_open(node))
                self._go(index)

    def _first_cell(self, node: AnyNode) -> str:
        sign = " " if not node.is_branch else OPEN if self.is_open(node) else FOLDED
        return f"{' ' * (INDENT * node.depth)}{sign} {node.label or NA}"


def _nearest(shown: Sequence[Branch], path: tuple[Hashable, ...]) -> int | None:
    """Return the row nearest to a path that has none: one below that path, or else the branch above it."""
    nearest, steps = None, 0
    for i, node in enumerate(shown):
        if node.path[: len(path)] == path:
            return i
        if len(node.path) > steps and path[: len(node.path)] == node.path:
            nearest, steps = i, len(node.path)
    return nearest
