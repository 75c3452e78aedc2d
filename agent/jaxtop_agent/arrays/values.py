"""The values of the script at the places of a walk: held between two rests, read again after a rest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jaxtop_agent.arrays import frames
from jaxtop_agent.arrays.containers import Container, container
from jaxtop_agent.arrays.paths import ANY

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.arrays.paths import Path

# A container may be sampled before it is read: this many children, and of each as many children.
SAMPLES, SAMPLED_DEPTH = 16, 3
# What `kind` returns for an array.
ARRAY: Any = object()
UNKNOWN: Any = object()


class Values:
    """Reads variables and what is in them. After `let_go` it holds no object of the script."""

    def __init__(self, array_type: type) -> None:
        # How to read objects of each type; None if they are not read.
        self.kinds: dict[type, Container | None] = {array_type: ARRAY}
        # The values read since the last rest.
        self.held: dict[Path, Any] = {}
        # How to read the variables of this walk.
        self._sources: dict[Path, Callable[[], Any]] = {}
        self._reader = frames.FrameReader()

    def add(self, path: Path, read: Callable[[], Any]) -> None:
        """Add a variable of this walk and the function that returns its value."""
        self._sources[path] = read

    def add_variable(self, path: Path, variable: frames.Variable) -> None:
        """Add a variable of a running function."""
        self._sources[path] = partial(self._reader.read, variable)

    def variables(self) -> list[Path]:
        """Return the places of the variables, in the order in which they were added."""
        return list(self._sources)

    def let_go(self) -> None:
        """Drop all objects of the script, so that what it drops meanwhile is freed."""
        self._reader.let_go()
        self.held.clear()

    def end(self) -> None:
        """End the walk: drop the objects and the variables."""
        self.let_go()
        self._sources = {}

    def kind(self, value: Any) -> Container | None:
        """Return how to read a value: None if it is not read, `ARRAY` if it is an array."""
        kind = type(value)
        if kind not in self.kinds:
            try:
                self.kinds[kind] = container(kind)
            except Exception:  # an unusual class
                self.kinds[kind] = None
        return self.kinds[kind]

    def value_at(self, path: Path) -> Any:
        """Return the value at a place: as read since the last rest, or read again from the variable."""
        value = self.held.get(path, UNKNOWN)
        if value is UNKNOWN:
            source = self._sources.get(path)
            if source is not None:
                value = source()
            elif path.parent is None or path.key is ANY:
                value = None
            else:
                holder = self.value_at(path.parent)
                within = self.kind(holder)
                value = None if within is None or within is ARRAY else within.child(holder, path.key)
            self.held[path] = value
        return value

    def samples_hold_an_array(self, value: Any, within: Container, depth: int = SAMPLED_DEPTH) -> bool:
        """Whether the first children of a container, or their first children, include an array."""
        _, children = within.part(value, 0, min(SAMPLES, within.size(value)))
        for child in children:
            inside = self.kind(child)
            if inside is ARRAY or (
                inside is not None and depth and self.samples_hold_an_array(child, inside, depth - 1)
            ):
                return True
        return False
