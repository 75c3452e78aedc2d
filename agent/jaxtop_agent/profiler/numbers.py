"""The number of each launch in a trace that all processes give it.

From JAX 0.10 on, the host's `Execute` has it: it rises by one with each launch of the program. Before, it is
how many launches of the program the process had made: processes that run the same script count alike. The
launch hook notes each launch shortly after `Execute` returns.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

from jaxtop.base.names import program_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtop.traces import TraceContents
    from jaxtop_agent.hooks.launches import NumberedLaunch

# A note of the hook comes after its launch by at most this share of the time until the next launch. Clocks
# that are further apart would take one launch for another.
MAX_NOTE_DELAY = 0.25
# A launch outside JAX's fast path is noted just before it.
EARLIEST_NS = 1_000_000


def numbers(
    seen: TraceContents, noted: Sequence[NumberedLaunch], began_ns: int
) -> dict[tuple[str, int], int]:
    """Return the numbers of launches, by module and run; those that are in doubt have none.

    `began_ns` is when the trace began, by the clock of the notes. A device may lag behind the host, so that
    the trace shows launches that the host made before: these are numbered by their order.
    """
    by_program: dict[str, list[NumberedLaunch]] = {}
    for each in noted:
        by_program.setdefault(program_of(each.function), []).append(each)
    runs: dict[str, dict[int, int]] = {}
    for span in seen.spans:
        of_module = runs.setdefault(span.module, {})
        of_module[span.run] = min(span.start, of_module.get(span.run, span.start))
    found: dict[tuple[str, int], int] = {}
    for module, starts in runs.items():
        order = sorted(starts, key=lambda run: starts[run])
        known = {run: seen.numbers[module, run] for run in order if (module, run) in seen.numbers}
        if not known:
            executed = {run: seen.executed[module, run] for run in order if (module, run) in seen.executed}
            known = _matched(executed, by_program.get(module, []), began_ns)
        found.update({(module, run): number for run, number in _in_order(order, known).items()})
    return found


def _matched(
    executed: Mapping[int, tuple[int, int]], noted: Sequence[NumberedLaunch], began_ns: int
) -> dict[int, int]:
    """Return the numbers of launches, if the `Execute` of each has exactly one note in its time."""
    order = sorted(executed, key=lambda run: executed[run])
    times = [each.at - began_ns for each in noted]
    found: dict[int, int] = {}
    for place, run in enumerate(order):
        start, end = executed[run]
        following = executed[order[place + 1]][0] if place + 1 < len(order) else None
        # The next launch limits how late a note may be; for the last launch, the one before it does.
        if following is None:
            before = executed[order[place - 1]] if place else None
            following = end + (start - before[1] if before is not None else 4 * EARLIEST_NS)
        latest = end + MAX_NOTE_DELAY * max(0, following - end)
        inside = range(bisect_left(times, start - EARLIEST_NS), bisect_left(times, latest))
        after = [i for i in inside if times[i] >= start] or list(inside)
        if len(after) != 1:
            return {}
        found[run] = noted[after[0]].number
    return found if all(later > number for number, later in pairwise(found.values())) else {}


def _in_order(order: Sequence[int], known: Mapping[int, int]) -> dict[int, int]:
    """Return the numbers of all runs of a program, if those that are known follow their order."""
    if not known:
        return {}
    places = {run: place for place, run in enumerate(order)}
    shifts = {number - places[run] for run, number in known.items()}
    if len(shifts) != 1:
        return dict(known)
    shift = shifts.pop()
    return {run: place + shift for run, place in places.items()}
