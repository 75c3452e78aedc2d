"""The match of a launch in a trace with one of several loaded programs of the same name."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet


class LoadedExecutable(NamedTuple):
    """A loaded program: `number` is the compiler's module number, `ops` its collectives; None if unknown."""

    name: str
    fingerprint: str | None
    number: int | None
    ops: frozenset[str] | None


def launched_program(
    loaded: Sequence[LoadedExecutable], name: str, number: int | None, ops: AbstractSet[str]
) -> LoadedExecutable | None:
    """Return the program that was launched; None if several are possible, or none.

    `loaded` is in the order of compilation; `number` and `ops` are what the trace has of the launch.
    """
    named = [each for each in loaded if each.name == name]
    if number is not None:
        exact = [each for each in named if each.number == number]
        named = exact or _with_numbers_around(loaded, name, number)
    named = [each for each in named if each.ops is None or ops <= each.ops]
    if len(named) > 1:
        named = [each for each in named if each.ops is not None and not each.ops - ops] or named
    return named[0] if len(named) == 1 else None


class Numbers:
    """The numbers of programs that are too large to be asked for theirs, learned from their launches.

    While a function has one program, its launches have the number of that program. Launches with another
    number are of another variant.
    """

    def __init__(self) -> None:
        self._of: dict[tuple[str, str | None], int] = {}

    def learn(
        self, loaded: Sequence[LoadedExecutable], launched: Iterable[tuple[str, int | None]] = ()
    ) -> tuple[LoadedExecutable, ...]:
        """Return the loaded programs with their numbers; `launched` are names and numbers in a trace."""
        if not loaded:  # they are being read
            return ()
        self._of = {key: self._of[key] for each in loaded if (key := each[:2]) in self._of}
        numbered = self._numbered(loaded)
        for name, number in dict.fromkeys(launched):
            if number is None or any(each.number == number for each in numbered):
                continue
            found = _with_numbers_around(numbered, name, number)
            if not found:  # it was compiled again, and so has another number
                self._of = {key: each for key, each in self._of.items() if key[0] != name}
                found = _with_numbers_around(self._numbered(loaded), name, number)
            if len(found) == 1 and found[0].fingerprint is not None:
                self._of[name, found[0].fingerprint] = number
            numbered = self._numbered(loaded)
        return numbered

    def _numbered(self, loaded: Sequence[LoadedExecutable]) -> tuple[LoadedExecutable, ...]:
        return tuple(
            each if each.number is not None else each._replace(number=self._of.get(each[:2]))
            for each in loaded
        )


def _with_numbers_around(
    loaded: Sequence[LoadedExecutable], name: str, number: int
) -> list[LoadedExecutable]:
    """Return the unnumbered programs of this name that the compiler may have given this number.

    Numbers ascend: a program's number is between those of the programs compiled before and after it.
    """
    numbers = [each.number for each in loaded if each.number is not None]
    if any(one >= other for one, other in pairwise(numbers)):
        return [each for each in loaded if each.name == name and each.number is None]
    place, found = 0, []
    for each in loaded:
        if each.number is not None:
            place += 1
        elif each.name == name:
            before = numbers[place - 1] if place else -1
            if before < number and (place == len(numbers) or number < numbers[place]):
                found.append(each)
    return found
