"""The names for arrays that the script has registered with `agent.watch()`."""

from __future__ import annotations

import weakref
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.arrays.paths import Path
    from jaxtop_agent.arrays.walk import Walk


class WatchedNames:
    """The registered names. Functions are called at each census; of a pytree only the paths are kept.

    The registered arrays identify the places where the script holds them. From then on these places have the
    registered names, whatever arrays they hold.
    """

    def __init__(self) -> None:
        self.callables: dict[str, Callable[[], Any]] = {}
        # A state that is registered again in every step keeps its places.
        self._walks: dict[str, Walk] = {}
        self._arrays: dict[str, list[tuple[weakref.ref[Any], Path]]] = {}
        self.changes = 0

    def watch(self, names: dict[str, Any]) -> None:
        """Register names, on the script's thread; a name given again replaces the earlier registration."""
        # Imported by scripts that register names only. Nothing here may load the census, or the wire and its
        # libraries: this is the script's thread.
        from jaxtop_agent import jaxprivate
        from jaxtop_agent.arrays.paths import likeness
        from jaxtop_agent.arrays.walk import Walk

        for name, value in names.items():
            if type(value) in (FunctionType, MethodType, partial):  # other callables may be pytrees
                self._replace(name, value, [])
                continue
            if name not in self._walks:
                self._walks[name] = Walk(jaxprivate.array_type(), likeness, bool, bool)
            places = self._walks[name].places_in(name, value)
            arrays = [
                (weakref.ref(array), places[id(array)])
                for array in jaxprivate.live_arrays()
                if id(array) in places
            ]
            self._replace(name, None, arrays)
        self.changes += 1

    def _replace(
        self, name: str, read: Callable[[], Any] | None, arrays: list[tuple[weakref.ref[Any], Path]]
    ) -> None:
        """Register a name in place of an earlier registration of either sort."""
        # New dicts: the agent's thread may be iterating over the old ones.
        others = {each: found for each, found in self.callables.items() if each != name}
        self.callables = others if read is None else {**others, name: read}
        self._arrays = {**self._arrays, name: arrays}

    def rename(self, places: dict[int, Path]) -> None:
        """Give the places that hold registered arrays their registered names."""
        successors = []
        for reference, registered in (entry for found in self._arrays.values() for entry in found):
            array = reference()
            if array is None:
                successors.append(registered)
            else:
                place = places.setdefault(id(array), registered)
                if place is not registered:
                    place.alias = registered
        if successors:
            _match(successors, places)
            seen = {place.alias for place in places.values()}
            for registered in successors:
                if registered not in seen:
                    # The walk does not reach its array, so the census assigns one by kind.
                    places[-id(registered)] = registered


def _match(successors: list[Path], places: dict[int, Path]) -> None:
    """Give a registered name to the one place with the same kind of array and the same end of the path.

    Such a place holds the array that replaced the registered one.
    """
    by_end: dict[tuple[Any, ...], set[Path]] = {}
    for place in places.values():
        if place.kind is not None and place.alias is None and not isinstance(place.kind, tuple):
            by_end.setdefault((place.kind.shape, place.kind.dtype, place.key), set()).add(place)
    for registered in successors:
        kind = registered.kind
        shape, dtype = kind if isinstance(kind, tuple) else (kind.shape, kind.dtype)
        alike = by_end.get((shape, dtype, registered.key), ()) if registered.parent is not None else ()
        same = [place for place in alike if _ends_as(place, registered)]
        if len(same) == 1:
            same[0].alias = registered


def _ends_as(place: Path | None, registered: Path) -> bool:
    """Whether the path of a place ends like the registered path without its first part, the name."""
    end: Path | None = registered
    while end is not None and end.parent is not None:
        if place is None or place.key != end.key:
            return False
        place, end = place.parent, end.parent
    return True
