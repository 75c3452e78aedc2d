"""What the script calls its arrays: paths from variables through containers, kept from census to census.

A state that is rebuilt each step has new arrays each step, at the same paths. So names belong to paths, and
paths stay: walking a state again makes no new objects.
"""

from __future__ import annotations

from typing import Any

import msgspec

from jaxtop_agent.arrays.containers import ATTRIBUTE, Container
from jaxtop_agent.arrays.roles import GRADIENTS, OPTIMIZER, PARAMETERS, role_of

# Stands for all children where there are too many for a name each.
ANY = ...
LONGEST_NAME = 200


class Path(msgspec.Struct, gc=False, eq=False):
    """A place in the script's data. Plain facts only: nothing here keeps an array alive."""

    key: Any
    parent: Path | None
    name: str
    function: str
    role: str | None
    children: dict[Any, Path] | None = None
    # The kind of the array that was last seen here (where it was only registered: its likeness), and the id
    # of the `aval` that told it.
    kind: Any = None
    aval_id: int = 0
    # The census in which an array was last counted here, and in which one was counted after its end.
    counted: int = 0
    departed: int = 0
    # Of a variable: weak references to the first and the last array in it, and the census in which these
    # were others than before.
    ends: Any = None
    renewed: int = 0
    # The same place under the name that the script has registered.
    alias: Path | None = None
    # Where it is one of too many to have a name each: the place that stands for all of them.
    shown: Path | None = None
    # Until that census nothing is looked for here: there was much, and no array among it.
    barren_until: int = 0

    def add(self, key: Any, within: Container) -> Path:
        """A place for a child that has none yet."""
        name = self.name if within.is_box else (self.name + _step(key, within.access))[:LONGEST_NAME]
        added = Path(key, self, name, self.function, self._role_of(key, within))
        if self.children is None:
            self.children = {}
        self.children[key] = added
        return added

    @property
    def variable(self) -> Path:
        """The place that it all hangs on."""
        path = self
        while path.parent is not None:
            path = path.parent
        return path

    def _role_of(self, key: Any, within: Container) -> str | None:
        by_name = role_of(key)
        if self.role in (GRADIENTS, OPTIMIZER):
            # An optimizer may hold the model: `optimizer.model`. Below its state there is none: a
            # model-shaped tree of moments, or of gradients, is no model.
            is_object = self.parent is None and within.access == ATTRIBUTE and within.role is None
            if is_object and by_name == PARAMETERS:
                return by_name
            return within.role if within.role == OPTIMIZER else self.role
        return within.role or by_name or self.role


def root(name: str, function: str) -> Path:
    """The place of a variable."""
    return Path(name, None, name, function, role_of(name))


def dissolve(paths: list[Path]) -> None:
    """Take trees of paths apart: they know their parents, and no garbage collector looks after them."""
    while paths:
        path = paths.pop()
        if path.children:
            paths += path.children.values()
        path.children = path.parent = path.alias = path.shown = path.kind = path.ends = None


def _step(key: Any, access: int) -> str:
    if key is ANY:
        return "[*]"
    return f".{key}" if access == ATTRIBUTE else f"[{key!r}]"
