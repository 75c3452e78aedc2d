"""Walks from the variables of running functions to the arrays that they hold."""

from __future__ import annotations

import math
import operator
import weakref
from typing import TYPE_CHECKING, Any

from jaxtop_agent.arrays import frames
from jaxtop_agent.arrays.containers import KEY, is_plain
from jaxtop_agent.arrays.paths import ANY, Path, dissolve, root
from jaxtop_agent.arrays.values import ARRAY, SAMPLES, UNKNOWN, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtop_agent.arrays.containers import Container

# If a container holds more arrays than this, or more containers, they share one name.
MOST_ARRAYS, MOST_CONTAINERS = 64, 256
# The number of children that are read from a container at a time.
AT_ONCE = 256
# A container with more children is read only if samples of it hold an array.
LARGE = 512
# The depth of nested containers that is read.
MAX_DEPTH = 40
# Shown instead of a function if the script has registered the name.
WATCH_FUNCTION = "agent.watch"
# Above this number all places are forgotten, and the next walk starts from nothing.
MOST_PATHS = 30_000
# After this many objects of one variable the walk continues with the next.
MOST_VISITED = 300_000
# A variable with more objects than this and no array is skipped for one census, then for twice as many, up to
# MAX_SKIPPED_CENSUSES: a model may be empty only for the moment.
MAX_OBJECTS_WITHOUT_ARRAY = 500
MAX_SKIPPED_CENSUSES = 10
# The number of generators' arrays that are remembered.
MOST_REMEMBERED = 1000


class Walk:
    """Finds the place of each array. While it rests, it holds no object of the script."""

    def __init__(
        self,
        array_type: type,
        kind_of: Callable[[Any], Any],
        is_time_to_breathe: Callable[[], bool],
        release_gil: Callable[[], object],
    ) -> None:
        self._array_type = array_type
        self._kind_of = kind_of
        self._is_time_to_breathe = is_time_to_breathe
        self._release_gil = release_gil
        self._values = Values(array_type)
        self._roots: dict[tuple[Any, ...], Path] = {}
        self._made = 0
        self._census = 0
        # For the current walk: the place at which each container was found, by id.
        self._visited: dict[int, Path] = {}
        self._named: dict[int, Path] = {}
        self._most = math.inf
        # Arrays found in generators while these ran, by id. A loop holds its generator on the stack of its
        # function, where it cannot be found while it is suspended.
        self._remembered: dict[int, tuple[weakref.ref[Any], Path]] = {}
        self._is_remembering = False
        # For the current variable: weak references to one of its first arrays, and to its last.
        self._ends: list[Any] = [None, None]

    def places(
        self, registered: Iterable[tuple[str, Callable[[], Any]]], most: float = math.inf
    ) -> dict[int, Path]:
        """Return the places of the script's arrays by the array's id; registered names take precedence.

        The walk stops soon after it has found more than `most` arrays.
        """
        self._census += 1
        if self._made > MOST_PATHS:
            self.forget()
        self._named, self._most = {}, most
        try:
            self._walk_all(registered)
        finally:
            self._end()
        return self._named

    def places_in(self, name: str, value: Any) -> dict[int, Path]:
        """Return the places of the arrays in `value`, with paths that begin with `name`."""
        variable = self._root((name,), name, WATCH_FUNCTION)
        self._named = {}
        self._values.add(variable, lambda: value)
        try:
            self._walk(variable)
        finally:
            self._end()
        return self._named

    def forget(self) -> None:
        """Forget all places and what was learned about them."""
        dissolve(list(self._roots.values()))
        self._roots.clear()
        self._remembered.clear()
        self._made = 0

    def _walk_all(self, registered: Iterable[tuple[str, Callable[[], Any]]]) -> None:
        for name, read in registered:
            self._values.add(self._root((name,), name, WATCH_FUNCTION), read)
        generators = []
        for variable in frames.variables():
            path = self._root(variable, variable.name, variable.function)
            if path.barren_until < self._census:
                self._values.add_variable(path, variable)
                if variable.is_of_a_generator:
                    generators.append(path)
        self._remember(generators)
        for path in self._values.variables():
            before = len(self._named)
            self._ends = [None, None]
            visited = self._walk(path)
            if path.ends is None or any(map(operator.is_not, path.ends, self._ends)):
                path.ends, path.renewed = tuple(self._ends), self._census
            is_barren = visited > MAX_OBJECTS_WITHOUT_ARRAY and len(self._named) == before
            path.skipped = min(MAX_SKIPPED_CENSUSES, 2 * path.skipped or 1) if is_barren else 0
            path.barren_until = self._census + path.skipped
        self._recall()

    def _remember(self, generators: list[Path]) -> None:
        """Walk the generators first, as they may be suspended soon; names found elsewhere take precedence."""
        if generators:
            self._is_remembering = True
            for path in generators:
                self._walk(path)
            self._is_remembering = False
            self._named, self._visited = {}, {}

    def _note(self, array: Any, place: Path) -> None:
        if len(self._remembered) < MOST_REMEMBERED:
            self._remembered[id(array)] = weakref.ref(array), place

    def _note_arrays(self, children: Iterable[Any]) -> None:
        if self._is_remembering:
            for child in children:
                if type(child) is self._array_type:
                    self._note(child, self._named[id(child)])

    def _recall(self) -> None:
        """Name the arrays found in generators, if they still exist and have no other name."""
        for array_id, (reference, place) in list(self._remembered.items()):
            array = reference()
            if array is None or array.is_deleted():
                del self._remembered[array_id]
            else:
                self._named.setdefault(array_id, place)

    def _root(self, key: tuple[Any, ...], name: str, function: str) -> Path:
        path = self._roots.get(key)
        if path is None:
            path = self._roots[key] = root(name, function)
            self._made += 1
        return path

    def _end(self) -> None:
        """End the walk: of the script's objects, keep only the ids of the arrays."""
        self._values.end()
        self._visited = {}

    def _walk(self, variable: Path) -> int:
        """Walk everything below one variable; return the number of objects visited."""
        visited = 0
        pending = [(variable, 0, 0)]
        while pending and visited < MOST_VISITED and len(self._named) <= self._most:
            if self._is_time_to_breathe():
                self._values.let_go()
                self._release_gil()
            visited += self._visit(pending)
        return visited

    def _visit(self, pending: list[tuple[Path, int, int]]) -> int:
        """Visit the next object, or a part of it; return the number of objects visited.

        The references to the script's objects end with this function.
        """
        path, start, depth = pending.pop()
        try:
            value = self._values.value_at(path)
            within = self._values.kind(value)
            if within is ARRAY:
                self._named.setdefault(id(value), path)
                if self._is_remembering:
                    self._note(value, path)
                path.aval_id, path.kind = id(value.aval), self._kind_of(value)
            if within is None or within is ARRAY or not (start or self._is_new(path, value)):
                return 1
            size = within.size(value)
            if size > LARGE and not start and not self._values.samples_hold_an_array(value, within):
                return SAMPLES
            stop = min(size, start + AT_ONCE)
            if stop < size:
                pending.append((path, stop, depth))
            keys, children = within.part(value, start, stop)
            inner = self._sort_out(path, within, size, keys, children)
        except Exception:  # the script is changing it: it gets no names this time
            return 1
        if depth < MAX_DEPTH:
            pending += [(each, 0, depth + 1) for each in reversed(inner)]
        return len(children) + 1

    def _sort_out(
        self, path: Path, within: Container, size: int, keys: Iterable[Any], children: Iterable[Any]
    ) -> list[Path]:
        """Name the arrays among the children of a container; return the places of the containers."""
        values, named, array_type = self._values, self._named, self._array_type
        kinds, shown = values.kinds, path.shown or path
        places = shown.children or {}
        are_plain, is_crowded = within.access != KEY, size > MOST_ARRAYS
        inner, last = [], None
        for key, child in zip(keys, children, strict=False):
            kind = type(child)
            if kind is not array_type and kinds.get(kind, UNKNOWN) is None:
                continue
            if not are_plain and type(key) is not str and not is_plain(key):
                key = ANY  # noqa: PLW2901 - hashing or printing the key would run the user's code
            if kind is array_type:  # inlined: this runs for each array and is most of the work
                if is_crowded:
                    key = ANY  # noqa: PLW2901 - one name for all of them
                array_id = id(child)
                if array_id not in named:
                    last = child
                    place = places.get(key)
                    if place is None:
                        place = self._child(shown, key, within)
                    named[array_id] = place
                    aval = child.aval
                    if id(aval) != place.aval_id:
                        place.aval_id = id(aval)
                        place.kind = self._kind_of(child)
            elif values.kind(child) is not None:
                inner.append(self._inner(path, within, size, key))
                values.held[inner[-1]] = child
        self._note_arrays(children)
        if last is not None:  # Python reuses an object's weak reference, so `is` compares them
            self._ends[1] = weakref.ref(last)
            self._ends[0] = self._ends[0] or self._ends[1]
        return inner

    def _inner(self, path: Path, within: Container, size: int, key: Any) -> Path:
        """Return the place of a container inside another."""
        shown = path.shown or path
        if shown is path and size <= MOST_CONTAINERS and key is not ANY:
            return self._child(path, key, within)
        stands_for_it = self._child(shown, ANY if size > MOST_CONTAINERS else key, within)
        return Path(key, path, "", "", None, shown=stands_for_it)

    def _child(self, path: Path, key: Any, within: Container) -> Path:
        found = None if path.children is None else path.children.get(key)
        if found is None:
            self._made += 1
            found = path.add(key, within)
        return found

    def _is_new(self, path: Path, value: Any) -> bool:
        """Whether this container was not visited before; a known id may now belong to another object."""
        before = self._visited.setdefault(id(value), path)
        if before is path:
            return True
        if self._values.value_at(before) is value:
            return False
        self._visited[id(value)] = path
        return True
