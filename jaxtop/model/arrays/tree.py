"""The arrays as a tree, by the paths in their names. Branches are created on first access."""

from __future__ import annotations

import re
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from jaxtop.model.arrays.groups import on_fullest_device

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from jaxtop.model.arrays.groups import ArrayView

MODULE = "module level"
NO_NAME = "(no name)"
NO_ORIGIN = "(unknown origin)"
# The value of a fact in which the arrays differ.
MIXED = "mixed"

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_PLAIN = r"""[^\[\]'"]"""
# A key in brackets, which may contain quotes and brackets; an attribute or the variable; or the remainder.
_PART = re.compile(rf"\[(?:{_QUOTED}|{_PLAIN}|\[(?:{_QUOTED}|{_PLAIN})*\])*\]|\.?[^.\[]+|.+", re.DOTALL)
_DIGITS = re.compile(r"(\d{1,18})", re.ASCII)


def path_parts(name: str) -> tuple[str, ...]:
    """Return the parts of a name: the variable, then each attribute or key."""
    return tuple(_PART.findall(name))


class TreePath(NamedTuple):
    """The steps from the root to an array; the first `open_steps` of them are open by default."""

    steps: tuple[str, ...]
    open_steps: int


@lru_cache(maxsize=1 << 16)
def path_to(run: str, function: str | None, name: str | None, created: str | None) -> TreePath:
    """Return the path by run, function and name. Unnamed arrays are placed by the line that created them."""
    if not name:
        return TreePath((run, NO_NAME, f"made at {created}" if created else NO_ORIGIN), 1)
    if function is None:
        return TreePath((run, *path_parts(name)), 2)
    return TreePath((run, MODULE if function == "<module>" else f"{function}()", *path_parts(name)), 3)


# An array and the path to it.
_Member = tuple[TreePath, "ArrayView"]


class Node:
    """All arrays whose paths share their first steps, or a single array.

    A node covers all steps up to the first at which its arrays differ, so no node has exactly one child.
    """

    __slots__ = ("_children", "_members", "_sums", "depth", "label", "opens_by_default", "path")

    def __init__(
        self,
        path: tuple[Hashable, ...],
        label: str,
        depth: int,
        members: list[_Member],
        *,
        opens_by_default: bool = False,
    ) -> None:
        self.path = path
        self.label = label
        self.depth = depth
        # Whether the node is open by default.
        self.opens_by_default = opens_by_default
        self._members = members
        self._children: Sequence[Node] | None = None
        self._sums: dict[str, Any] = {}

    @property
    def views(self) -> list[ArrayView]:
        return [view for _, view in self._members]

    @property
    def view(self) -> ArrayView | None:
        """The array, if there is only one."""
        return self._members[0][1] if len(self._members) == 1 else None

    @property
    def run(self) -> Hashable:
        return self.path[0]

    @property
    def is_branch(self) -> bool:
        return len(self._members) > 1

    @property
    def children(self) -> Sequence[Node]:
        if self._children is None:
            self._children = _branches(self._members, self.path, self.depth + 1) if self.is_branch else ()
        return self._children

    @property
    def bytes_per_device(self) -> int:
        """The bytes of these arrays on the fullest device."""
        return self._on_fullest_device("bytes_per_device")  # type: ignore[return-value]

    @property
    def bytes_global(self) -> int:
        return self._sum("bytes_global")

    @property
    def held_bytes(self) -> int:
        """The bytes on all devices together."""
        return self._sum("held_bytes")

    @property
    def count(self) -> int:
        return self._sum("count")

    @property
    def grown_bytes(self) -> int | None:
        """The growth on the device with most growth, of the arrays that were observed long enough."""
        return self._on_fullest_device("grown_bytes")

    def _on_fullest_device(self, fact: str) -> int | None:
        if len(self._members) == 1:
            return getattr(self._members[0][1], fact)  # type: ignore[no-any-return]
        if fact not in self._sums:
            self._sums[fact] = on_fullest_device(self.views, attrgetter(fact))
        return self._sums[fact]  # type: ignore[no-any-return]

    def _sum(self, fact: str) -> int:
        if fact not in self._sums:
            self._sums[fact] = sum(map(attrgetter(fact), self.views))
        return self._sums[fact]  # type: ignore[no-any-return]

    def shared(self, fact: str) -> Any:
        """Return a fact that is the same for all arrays of the node; MIXED if they differ."""
        key = f"shared {fact}"
        if key not in self._sums:
            read: Callable[[ArrayView], Any] = attrgetter(fact)
            first = read(self._members[0][1])
            same = all(read(view) == first for _, view in self._members)
            self._sums[key] = first if same else MIXED
        return self._sums[key]

    @property
    def order(self) -> tuple[str | int, ...]:
        """The sort key of the label among its siblings."""
        return _natural(self.label)


@lru_cache(maxsize=1 << 14)
def _natural(label: str) -> tuple[str | int, ...]:
    """Return a sort key that ignores case and puts `[10]` after `[9]`."""
    pieces = _DIGITS.split(label.lower())
    return tuple(int(piece) if i % 2 else piece for i, piece in enumerate(pieces))


def grow(views: Iterable[ArrayView], run_names: Mapping[str, str]) -> Sequence[Node]:
    """Return the top nodes of the tree: the runs, or the content of the only run."""
    members = [(path_to(view.run, view.function, view.name, view.created), view) for view in views]
    if len(run_names) > 1:
        return _branches(members, (), 0, run_names)
    return _branches(members, (members[0][1].run,), 0) if members else ()


def _branches(
    members: list[_Member],
    path: tuple[Hashable, ...],
    depth: int,
    labels: Mapping[str, str] | None = None,
) -> Sequence[Node]:
    level = len(path)
    groups: dict[str, list[_Member]] = {}
    ended: list[_Member] = []
    for member in members:
        steps = member[0].steps
        if level < len(steps):
            groups.setdefault(steps[level], []).append(member)
        else:
            ended.append(member)
    nodes = [_node(group, level, depth, labels or {}) for group in groups.values()]
    for member in ended:
        view = member[1]
        nodes.append(Node((*path, view.key), form(view), depth, [member]))
    return nodes


def _node(members: list[_Member], level: int, depth: int, labels: Mapping[str, str]) -> Node:
    path = members[0][0]
    steps, end = path.steps, level + 1
    while end < len(steps) and all(steps[end : end + 1] == each.steps[end : end + 1] for each, _ in members):
        end += 1
    label = labels.get(steps[level], steps[level])
    for step in steps[level + 1 : end]:
        label += step if step[0] in ".[" else f": {step}"
    if end == len(steps) and len(members) == 1 and not members[0][1].name:
        label += f" {form(members[0][1])}"
    return Node(steps[:end], label, depth, members, opens_by_default=level < path.open_steps)


def form(view: ArrayView) -> str:
    """Return dtype and shape, which distinguish an array from others of its name: `float32[8, 128]`."""
    if view.groups > 1:
        return f"{view.groups:,} smaller groups"
    return f"{view.dtype}[{', '.join(map(str, view.shape))}]"


class _Branch(Protocol):
    @property
    def is_branch(self) -> bool: ...
    @property
    def children(self) -> Sequence[Any]: ...


AnyNode = TypeVar("AnyNode", bound=_Branch)


def flatten(
    nodes: Sequence[AnyNode],
    is_open: Callable[[AnyNode], bool],
    in_order: Callable[[Sequence[AnyNode]], Sequence[AnyNode]],
) -> list[AnyNode]:
    """Return the visible nodes from top to bottom, with siblings in order."""
    found: list[AnyNode] = []
    left = [*reversed(in_order(nodes))]
    while left:
        node = left.pop()
        found.append(node)
        if node.is_branch and is_open(node):
            left += reversed(in_order(node.children))
    return found
