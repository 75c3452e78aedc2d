"""The offsets between the clocks of hosts, from shared collectives: all members leave one together."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

# A collective of one launch: program, launch, operation, round in a loop, number of the group.
Instance = tuple[str, tuple[int, int], str, int, int]


class Machine(NamedTuple):
    """A machine: when collectives ended on it by its clock, and how far process 0's clock is ahead of it."""

    ends: Mapping[Instance, int]
    shift_ns: int = 0


class AlignedMachine(NamedTuple):
    """A machine on the common time line.

    `shift_ns` is to be added to its times. `shared` is the number of collectives that gave it, 0 where only
    its clock did. `apart_ns` is the median distance of their ends after it; None without any.
    """

    shift_ns: int
    shared: int = 0
    apart_ns: int | None = None


def aligned(machines: Sequence[Machine]) -> list[AlignedMachine]:
    """Return the place of each machine on the time line of the first.

    Machines may share collectives with others than the first: then they follow those.
    """
    found: dict[int, AlignedMachine] = {}
    known: dict[Instance, list[int]] = {}
    while len(found) < len(machines):
        number, common = _next(machines, found, known)
        place = AlignedMachine(machines[number].shift_ns - machines[0].shift_ns)
        if common:
            ends = machines[number].ends
            apart = [median(known[each]) - ends[each] for each in common]
            shift = round(median(apart))
            place = AlignedMachine(shift, len(common), round(median(abs(each - shift) for each in apart)))
        found[number] = place
        for instance, end in machines[number].ends.items():
            known.setdefault(instance, []).append(end + place.shift_ns)
    return [found[number] for number in range(len(machines))]


def _next(
    machines: Sequence[Machine], done: Container[int], known: Container[Instance]
) -> tuple[int, list[Instance]]:
    """Return the machine that shares most collectives with those that are placed, and which."""
    best, common = -1, list[Instance]()
    for number, machine in enumerate(machines):
        if number in done:
            continue
        shared = [each for each in machine.ends if each in known]
        if best < 0 or len(shared) > len(common):
            best, common = number, shared
    return best, common
