"""A memo of the results that are expensive to derive from a cluster."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Sequence

T = TypeVar("T")


class Derived:
    """Results by name and member, each with the inputs from which it was derived.

    A result is derived again if an input is another object: the fold replaces what it changes. The results of
    members that left are dropped.
    """

    def __init__(self) -> None:
        self._tables: dict[str, dict[Hashable, tuple[Sequence[object], Any]]] = {}

    def copy(self) -> Derived:
        copied = Derived()
        copied._tables = {name: table.copy() for name, table in self._tables.items()}
        return copied

    def get(self, name: str, inputs: Sequence[object], derive: Callable[[], T]) -> T:
        """Return a result that the cluster has once."""
        return self.of(name, None, (None,), inputs, derive)

    def of(
        self,
        name: str,
        member: Hashable,
        members: Collection[Any],
        inputs: Sequence[object],
        derive: Callable[[], T],
    ) -> T:
        """Return a result that each of the members has."""
        table = self._tables.setdefault(name, {})
        found = table.get(member)
        if found is None or len(found[0]) != len(inputs) or not all(map(is_, found[0], inputs)):
            found = table[member] = inputs, derive()
        if len(table) > len(members):
            for left in [each for each in table if each not in members]:
                del table[left]
        return found[1]

    def last(self, name: str, member: Hashable = None) -> Any:
        """Return the last result, whatever its inputs were; None if there is none."""
        found = self._tables.get(name, {}).get(member)
        return None if found is None else found[1]

    def same(self, name: str, value: T) -> T:
        """Return the last value if it equals this one, so that it is the same object as an input."""
        last = self.last(name)
        if last is None or last != value:
            self._tables[name] = {None: ((), value)}
            return value
        return last  # type: ignore[no-any-return]

    def members(self, name: str) -> set[Hashable]:
        return set(self._tables.get(name, {}))
