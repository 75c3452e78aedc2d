"""The names of arrays: paths from variables through containers, kept from one census to the next.

A state that is rebuilt each step has new arrays each step, at the same paths. So names belong to paths. Paths
are kept, and walking a state again creates no new objects.
"""

from __future__ import annotations

from typing import Any

import msgspec

from jaxtop_agent.arrays.containers import ATTRIBUTE, Container
from jaxtop_agent.arrays.roles import GRADIENTS, OPTIMIZER, PARAMETERS, role_of

# The key that stands for all children if there are too many to name each one.
ANY = ...
LONGEST_NAME = 200


def likeness(array: Any) -> tuple[tuple[int, ...], str]:
    """Return what identifies the kind of an array before any array of that kind was counted."""
    return tuple(array.shape), str(array.dtype)


class Path(msgspec.Struct, gc=False, eq=False):
    """A place in the script's data. It keeps no array alive."""

    key: Any
    parent: Path | None
    name: str
    function: str
    role: str | None
    children: dict[Any, Path] | None = None
    # The kind of the array last seen here (its likeness, if it was only registered), and the id of the `aval`
    # from which the kind was read.
    kind: Any = None
    aval_id: int = 0
    # The census in which an array was last counted here, and that in which a deleted one was last counted.
    counted: int = 0
    departed: int = 0
    # For a variable: weak references to its first and last array, and the census in which they last changed.
    ends: Any = None
    renewed: int = 0
    # The same place under the name that the script has registered.
    alias: Path | None = None
    # If there are too many such places to name each one: the place that stands for all of them.
    shown: Path | None = None
    # Up to this census the place is skipped, because it held many objects and no array.
    barren_until: int = 0
    # For how many censuses it was skipped last.
    skipped: int = 0

    def add(self, key: Any, within: Container) -> Path:
        """Create the place of a child that has none yet."""
        name = self.name if within.is_box else (self.name + _step(key, within.access))[:LONGEST_NAME]
        added = Path(key, self, name, self.function, self._role_of(key, within))
        if self.children is None:
            self.children = {}
        self.children[key] = added
        return added

    @property
    def variable(self) -> Path:
        """The place of the variable at which this path begins."""
        path = self
        while path.parent is not None:
            path = path.parent
        return path

    def _role_of(self, key: Any, within: Container) -> str | None:
        by_name = role_of(key)
        if self.role in (GRADIENTS, OPTIMIZER):
            # An optimizer object may hold the model, as `optimizer.model`. Deeper inside, a tree with the
            # shape of the model holds moments or gradients.
            is_outermost = self.parent is None or self.parent.role != self.role
            is_object = within.access == ATTRIBUTE and within.role is None
            if is_outermost and is_object and by_name == PARAMETERS:
                return by_name
            return within.role if within.role == OPTIMIZER else self.role
        return within.role or by_name or self.role


def root(name: str, function: str) -> Path:
    return Path(name, None, name, function, role_of(name))


def dissolve(paths: list[Path]) -> None:
    """Break up trees of paths: they have reference cycles, and the garbage collector does not track them."""
    while paths:
        path = paths.pop()
        if path.children:
            paths += path.children.values()
        path.children = path.parent = path.alias = path.shown = path.kind = path.ends = None


def _step(key: Any, access: int) -> str:
    if key is ANY:
        return "[*]"
    return f".{key}" if access == ATTRIBUTE else f"[{key!r}]"
