"""Which runs of a program, one on each device, are the same launch.

A launch is one act of the host. So a run belongs to the host's `Execute` that it was traced back to. A device
runs the launches of a program in the order in which the host made them. So runs without an `Execute` find
their launch by their place among runs that have one, or if none has, by their place from the beginning.

Collectives test the result: all members of a group leave one at the same time. Where they do not, the runs
are not one launch, and nothing is measured.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.traces.parts import ENDS_APART, NOT_MATCHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtop.traces.executes import HostEvent
    from jaxtop.traces.parts import TraceContents

# The clocks of the devices of one process agree to some tens of microseconds in the traces that were seen.
CLOCKS_NS = 1_000_000
# How many launches later or earlier a device may begin than another one in a trace without the host.
MOST_SHIFT = 64


class ProgramVariant(NamedTuple):
    """A program of a trace: its module, and what tells it from others of this name."""

    module: str
    variant: str


@dataclass(eq=False)
class ProgramRun:
    """A program on one device, once. `busy_ns` is the time of its `operations`.

    `ends` has the end and the duration of its collectives, by name and round.
    """

    program: ProgramVariant
    device: int
    start: int
    end: int
    number: int | None = None
    root: HostEvent | None = None
    ends: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    busy_ns: int = 0
    operations: int = 0
    is_cut: bool = False


def assign(
    runs: Sequence[ProgramRun], shown: Iterable[tuple[ProgramVariant, int]], seen: TraceContents
) -> dict[ProgramRun, int]:
    """Return the launch of each run, as a number within its module; note the runs that have none.

    `shown` has the devices on which the trace shows each program, also without a run.
    """
    of_program: defaultdict[ProgramVariant, defaultdict[int, list[ProgramRun]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in sorted(runs, key=lambda each: each.start):
        of_program[run.program][run.device].append(run)
    of_module: defaultdict[str, list[list[ProgramRun]]] = defaultdict(list)
    for program, of_device in of_program.items():
        of_module[program.module] += _launches(of_device, seen)
    found: dict[ProgramRun, int] = {}
    for module, launches in of_module.items():
        launches.sort(key=lambda ones: min(run.start for run in ones))
        for number, ones in enumerate(launches):
            root = next((run.root for run in ones if run.root is not None), None)
            if root is not None:
                seen.executed[module, number] = root.start, root.end
                if root.number is not None:
                    seen.numbers[module, number] = root.number
            found.update(dict.fromkeys(ones, number))
            seen.assigned_ns += sum(run.busy_ns for run in ones)
    _note_cut(found, shown, seen)
    return found


def _launches(of_device: Mapping[int, Sequence[ProgramRun]], seen: TraceContents) -> list[list[ProgramRun]]:
    """Return the launches of a program, each with its runs."""
    runs = [run for ones in of_device.values() for run in ones]
    ranks = _ranked(of_device) if any(run.root is not None for run in runs) else _in_order(of_device)
    ranked: defaultdict[int, list[ProgramRun]] = defaultdict(list)
    for run in runs:
        if run in ranks:
            ranked[ranks[run]].append(run)
        else:
            seen.leave(NOT_MATCHED, run.busy_ns)
    found = []
    for ones in ranked.values():
        if are_together(ones):
            found.append(ones)
        else:
            seen.leave(ENDS_APART, sum(run.busy_ns for run in ones))
    return found


def _note_cut(
    found: Mapping[ProgramRun, int], shown: Iterable[tuple[ProgramVariant, int]], seen: TraceContents
) -> None:
    """Note the launches that the trace does not have on all devices of their program, or only in part.

    A launch with fewer operations on one device than on the others is not whole, unless it never has more.
    The host may have put it on a device for which the trace lacks it.
    """
    devices: defaultdict[ProgramVariant, set[int]] = defaultdict(set)
    for program, device in shown:
        devices[program].add(device)
    launches: defaultdict[tuple[ProgramVariant, int], list[ProgramRun]] = defaultdict(list)
    for run, number in found.items():
        launches[run.program, number].append(run)
    sizes: defaultdict[tuple[ProgramVariant, int], Counter[int]] = defaultdict(Counter)
    for (program, _), ones in launches.items():
        for run in ones:
            sizes[program, run.device][run.operations] += 1
    for (program, number), ones in launches.items():
        is_uneven = len({run.operations for run in ones}) > 1
        lacks = [run.operations < max(sizes[program, run.device]) for run in ones]
        put_on = len(ones[0].root.devices) if ones[0].root is not None else 0
        if (
            len(ones) < max(put_on, len(devices[program]))
            or (is_uneven and any(lacks))
            or any(run.is_cut for run in ones)
        ):
            seen.cut.add((program.module, number))


def _ranked(of_device: Mapping[int, Sequence[ProgramRun]]) -> dict[ProgramRun, int]:
    """Return the place of each run among the host's launches of this program, negative before the first."""
    roots = {run.root for ones in of_device.values() for run in ones if run.root is not None}
    place = {root: i for i, root in enumerate(sorted(roots, key=lambda each: each.start))}
    found: dict[ProgramRun, int] = {}
    for ones in of_device.values():
        known = [(i, place[run.root]) for i, run in enumerate(ones) if run.root is not None]
        found.update({ones[i]: rank for i, rank in known})
        if not known or any(later <= rank for (_, rank), (_, later) in pairwise(known)):
            continue  # this device did not keep the order of the host, so places prove nothing
        first, rank = known[0]
        found.update({ones[i]: rank - (first - i) for i in range(first)})
        for (before, its_rank), (after, next_rank) in pairwise(known):
            if after - before == next_rank - its_rank:
                found.update({ones[i]: its_rank + i - before for i in range(before + 1, after)})
        last, rank = known[-1]
        found.update({ones[i]: rank + i - last for i in range(last + 1, len(ones))})
    return found


def _in_order(of_device: Mapping[int, Sequence[ProgramRun]]) -> dict[ProgramRun, int]:
    """Return the place of each run on its device, shifted where the device's first run was not the first."""
    counts = {len(ones) for ones in of_device.values()}
    plain = {run: i for ones in of_device.values() for i, run in enumerate(ones)}
    if len(counts) == 1 and all(are_together(ones) for ones in zip(*of_device.values(), strict=True)):
        return plain
    most = max(of_device, key=lambda device: len(of_device[device]))
    found = {run: i for i, run in enumerate(of_device[most])}
    for device, ones in of_device.items():
        if device != most and (shift := _shift(of_device[most], ones)) is not None:
            found.update({run: i + shift for i, run in enumerate(ones)})
    return found if len({run.device for run in found}) > 1 else {}


def _shift(ones: Sequence[ProgramRun], others: Sequence[ProgramRun]) -> int | None:
    """Return the only number of launches by which these are shifted so that collectives end together."""
    fits = []
    for shift in range(-min(len(others) - 1, MOST_SHIFT), min(len(ones) - 1, MOST_SHIFT) + 1):
        pairs = [(ones[i + shift], other) for i, other in enumerate(others) if 0 <= i + shift < len(ones)]
        if all(_are_met(one, other) for one, other in pairs):
            fits.append(shift)
    return fits[0] if len(fits) == 1 else None


def are_together(runs: Sequence[ProgramRun]) -> bool:
    """Return whether these runs of several devices are one launch, as far as collectives show it.

    Runs of one `Execute` are, and runs without collectives may be. Of others, all must be connected by
    collectives that end at the same time: the groups of one may hold only some of the devices.
    """
    if runs[0].root is not None and all(run.root is runs[0].root for run in runs):
        return True
    if not any(run.ends for run in runs):
        return True
    left, reached = [*runs[1:]], [runs[0]]
    while reached and left:
        one = reached.pop()
        met = [other for other in left if _are_met(one, other)]
        reached += met
        left = [other for other in left if other not in met]
    return not left


def _are_met(one: ProgramRun, other: ProgramRun) -> bool:
    """Return whether these runs left a collective together."""
    common = one.ends.keys() & other.ends.keys()
    return any(_is_same(one.ends[key], other.ends[key]) for key in common)


def _is_same(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return abs(one[0] - other[0]) <= max(CLOCKS_NS, min(one[1], other[1]))
