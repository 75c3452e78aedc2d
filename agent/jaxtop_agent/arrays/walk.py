"""Walks from the variables of running functions to the arrays that the script holds in them."""

from __future__ import annotations

import math
import operator
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from jaxtop_agent.arrays import frames
from jaxtop_agent.arrays.containers import KEY, Container, container, is_plain
from jaxtop_agent.arrays.paths import ANY, Path, dissolve, root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# More arrays side by side than these, or containers, share one name.
MOST_ARRAYS, MOST_CONTAINERS = 64, 256
# A container is looked into so many children at a time.
AT_ONCE = 256
# Of a large container so many children are looked at, and of theirs, to see whether it is worth it.
LARGE, SAMPLES, SAMPLED_DEPTH = 512, 16, 3
DEEPEST = 40
# In place of a function, where the script has registered the name.
REGISTERED = "agent.watch"
# More places than these are forgotten, and the walk begins anew.
MOST_PATHS = 30_000
# After so much of one variable the walk goes on with the next.
MOST_VISITED = 300_000
# A variable with so much in it and no array is left alone for so many censuses.
BARREN, BARREN_FOR = 500, 10
# So many arrays of generators are remembered.
MOST_REMEMBERED = 1000

_UNKNOWN: Any = object()
_ARRAY: Any = object()


class Walk:
    """Finds the place of each array. Between two breaths nothing of the script's is held."""

    def __init__(
        self,
        array_type: type,
        kind_of: Callable[[Any], Any],
        is_time_to_breathe: Callable[[], bool],
        breathe: Callable[[], object],
    ) -> None:
        self._array_type = array_type
        self._kind_of = kind_of
        self._is_time_to_breathe = is_time_to_breathe
        self._breathe = breathe
        self._kinds: dict[type, Container | None] = {array_type: _ARRAY}
        self._roots: dict[tuple[Any, ...], Path] = {}
        self._made = 0
        self._census = 0
        # Of the walk under way: how to read each variable, what was read since the last breath, and by the
        # id of each container where it was met.
        self._sources: dict[Path, Callable[[], Any]] = {}
        self._values: dict[Path, Any] = {}
        self._met: dict[int, Path] = {}
        self._named: dict[int, Path] = {}
        self._most = math.inf
        # Arrays that were seen in generators while these ran, by their ids. A loop over a generator holds it
        # on the stack of its function, where nobody sees it once it is suspended.
        self._remembered: dict[int, tuple[weakref.ref[Any], Path]] = {}
        self._is_remembering = False
        # Of the variable under way: weak references to one of its first arrays, and to its last.
        self._ends: list[Any] = [None, None]

    def places(
        self, registered: Iterable[tuple[str, Callable[[], Any]]], most: float = math.inf
    ) -> dict[int, Path]:
        """Where the script holds its arrays now, by the id of the array; what was registered comes first.

        Stops soon after it has found more than `most`.
        """
        self._census += 1
        if self._made > MOST_PATHS:
            self.forget()
        reader = frames.Reader()
        self._named, self._most = {}, most
        self._sources = {self._root((name,), name, REGISTERED): read for name, read in registered}
        generators = []
        for variable in frames.variables():
            path = self._root(variable, variable.name, variable.function)
            if path.barren_until < self._census:
                self._sources[path] = partial(reader.read, variable)
                if variable.is_of_a_generator:
                    generators.append(path)
        self._remember(generators, reader)
        for path in list(self._sources):
            before = len(self._named)
            self._ends = [None, None]
            visited = self._walk(path, reader)
            if path.ends is None or any(map(operator.is_not, path.ends, self._ends)):
                path.ends, path.renewed = tuple(self._ends), self._census
            if visited > BARREN and len(self._named) == before:
                path.barren_until = self._census + BARREN_FOR
        self._recall()
        return self._end(reader)

    def places_in(self, name: str, value: Any) -> dict[int, Path]:
        """Where the arrays in this value are, under this name."""
        variable = self._root((name,), name, REGISTERED)
        self._sources = {variable: lambda: value}
        self._named = {}
        reader = frames.Reader()
        self._walk(variable, reader)
        return self._end(reader)

    def forget(self) -> None:
        """All places, and what is known of them."""
        dissolve(list(self._roots.values()))
        self._roots.clear()
        self._remembered.clear()
        self._made = 0

    def _remember(self, generators: list[Path], reader: frames.Reader) -> None:
        """Look at these first: they may be suspended in a moment. Names from elsewhere come before theirs."""
        if generators:
            self._is_remembering = True
            for path in generators:
                self._walk(path, reader)
            self._is_remembering = False
            self._named, self._met = {}, {}

    def _note(self, array: Any, place: Path) -> None:
        if len(self._remembered) < MOST_REMEMBERED:
            self._remembered[id(array)] = weakref.ref(array), place

    def _note_arrays(self, children: Iterable[Any]) -> None:
        if self._is_remembering:
            for child in children:
                if type(child) is self._array_type:
                    self._note(child, self._named[id(child)])

    def _recall(self) -> None:
        """Name the arrays that were seen in generators, if they are still there and have no other name."""
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

    def _end(self, reader: frames.Reader) -> dict[int, Path]:
        """What was found; nothing else of this walk is kept."""
        self._let_go(reader)
        self._sources, self._met = {}, {}
        return self._named

    def _let_go(self, reader: frames.Reader) -> None:
        reader.let_go()
        self._values.clear()

    def _walk(self, variable: Path, reader: frames.Reader) -> int:
        """Go through everything under one variable; returns how much there was."""
        visited = 0
        pending = [(variable, 0, 0)]
        while pending and visited < MOST_VISITED and len(self._named) <= self._most:
            if self._is_time_to_breathe():
                self._let_go(reader)  # before, not after: what the script drops meanwhile shall be gone
                self._breathe()
            visited += self._visit(pending)
        return visited

    def _visit(self, pending: list[tuple[Path, int, int]]) -> int:
        """Look at what is next, or at a part of it. What it holds of the script's ends with this function."""
        path, start, depth = pending.pop()
        try:
            value = self._value(path)
            within = self._kind(value)
            if within is _ARRAY:
                self._named.setdefault(id(value), path)
                if self._is_remembering:
                    self._note(value, path)
                path.aval_id, path.kind = id(value.aval), self._kind_of(value)
            if within is None or within is _ARRAY or not (start or self._is_new(path, value)):
                return 1
            size = within.size(value)
            if size > LARGE and not start and not self._is_worth_it(value, within, SAMPLED_DEPTH):
                return SAMPLES
            stop = min(size, start + AT_ONCE)
            if stop < size:
                pending.append((path, stop, depth))
            keys, children = within.part(value, start, stop)
            inner = self._sort_out(path, within, size, keys, children)
        except Exception:  # the script changes it at this moment: there is no name in here this time
            return 1
        if depth < DEEPEST:
            pending += [(each, 0, depth + 1) for each in reversed(inner)]
        return len(children) + 1

    def _sort_out(
        self, path: Path, within: Container, size: int, keys: Iterable[Any], children: Iterable[Any]
    ) -> list[Path]:
        """Name the arrays among the children of a container; returns the places of the containers."""
        kinds, named, array_type = self._kinds, self._named, self._array_type
        shown = path.shown or path
        places = shown.children or {}
        are_plain, is_crowded = within.access != KEY, size > MOST_ARRAYS
        inner, last = [], None
        for key, child in zip(keys, children, strict=False):
            kind = type(child)
            if kind is not array_type and kinds.get(kind, _UNKNOWN) is None:
                continue
            if not are_plain and type(key) is not str and not is_plain(key):
                key = ANY  # noqa: PLW2901 - nothing of the user's may be hashed or printed
            if kind is array_type:  # all in line: this is done for each array, and it is most of the work
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
            elif self._kind(child) is not None:
                inner.append(self._inner(path, within, size, key))
                self._values[inner[-1]] = child
        self._note_arrays(children)
        if last is not None:  # there is one weak reference to an object, so that these can be compared
            self._ends[1] = weakref.ref(last)
            self._ends[0] = self._ends[0] or self._ends[1]
        return inner

    def _inner(self, path: Path, within: Container, size: int, key: Any) -> Path:
        """The place of a container in another."""
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

    def _kind(self, value: Any) -> Container | None:
        kind = type(value)
        if kind not in self._kinds:
            try:
                self._kinds[kind] = container(kind)
            except Exception:  # a class that is not like others
                self._kinds[kind] = None
        return self._kinds[kind]

    def _is_worth_it(self, value: Any, within: Container, depth: int) -> bool:
        """Whether there is an array among the first children of a container, or among theirs."""
        _, children = within.part(value, 0, min(SAMPLES, within.size(value)))
        for child in children:
            inside = self._kind(child)
            if inside is _ARRAY or (
                inside is not None and depth and self._is_worth_it(child, inside, depth - 1)
            ):
                return True
        return False

    def _is_new(self, path: Path, value: Any) -> bool:
        """Whether this container was not met before; ids that were met may be another's by now."""
        before = self._met.setdefault(id(value), path)
        if before is path:
            return True
        if self._value(before) is value:
            return False
        self._met[id(value)] = path
        return True

    def _value(self, path: Path) -> Any:
        """What is at this place now: as it was just read, or read anew from the variable on."""
        value = self._values.get(path, _UNKNOWN)
        if value is _UNKNOWN:
            source = self._sources.get(path)
            if source is not None:
                value = source()
            elif path.parent is None or path.key is ANY:
                value = None
            else:
                holder = self._value(path.parent)
                within = self._kind(holder)
                value = None if within is None or within is _ARRAY else within.child(holder, path.key)
            self._values[path] = value
        return value
