"""The test of whether several processes traced the same launch under one number.

On accelerators, launches are numbered by counting them in each process. A process that counted differently
would be joined with another launch, which looks like a very late host. Two tests show that: all members of a
collective leave it at the same time, and all processes launch their programs in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.model.windows import LaunchTraceCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop import wire
    from jaxtop.model.collectives.layout import Layout
    from jaxtop.model.windows import PendingLaunch, ProgramKey

# Clocks drift apart between two comparisons, and the trace begins a little after its clock is read.
APART_US = 5_000
# In these, a device may have sent its part long before another one receives it. Of the one-way kinds in
# `traces/parts.py`, only these have groups.
ONE_WAY_IN_GROUPS = frozenset({"collective-permute", "collective-broadcast"})


def traced(window: wire.Window, run: str) -> dict[int, LaunchTraceCheck]:
    """Return what tests each launch of a window, by its place in it.

    Without the common clock, the order of programs alone tests it.
    """
    ends: dict[int, dict[tuple[str, int], int]] = {}
    for each in window.rounds:
        known = [duration for duration in each.durations_us if duration is not None]
        if known and window.common_us is not None:
            end = window.common_us + each.start_us + max(known)
            ends.setdefault(each.launch, {})[window.ops[each.op], each.round] = end
    order = tuple(
        ((run, *window.programs[each.program]), each.number)
        for each in sorted(window.launches, key=lambda each: each.start_us)
        if each.number is not None
    )
    return {
        place: LaunchTraceCheck(ends.get(place, {}), window.clock_error_us, order)
        for place in range(len(window.launches))
    }


def are_one(pending: PendingLaunch, layout: Layout | None) -> bool:
    """Return whether all processes that reported this launch traced the same one, as far as that shows."""
    if len(pending.traced) < 2:
        return True
    first, *others = (each.order for each in pending.traced.values())
    return all(_in_same_order(first, other) for other in others) and _end_together(pending, layout)


def _in_same_order(one: Sequence[tuple[ProgramKey, int]], other: Sequence[tuple[ProgramKey, int]]) -> bool:
    common = set(one) & set(other)
    return [each for each in one if each in common] == [each for each in other if each in common]


def _end_together(pending: PendingLaunch, layout: Layout | None) -> bool:
    """Return whether the processes that meet in a collective left it at the same time."""
    if layout is None:
        return True
    for key, reports in pending.rows.items():
        shortest = min(
            (each for durations in reports.values() for each in durations if each is not None), default=0
        )
        for agents in _meeting(layout, key[0], pending.traced):
            known = [each for agent in agents if key in (each := pending.traced[agent]).ends]
            if len(known) < 2:
                continue
            ends = [each.ends[key] for each in known]
            errors = sorted(each.clock_error_us for each in known)
            if max(ends) - min(ends) > APART_US + shortest + sum(errors[-2:]):
                return False
    return True


def _meeting(layout: Layout, op: str, agents: Iterable[str]) -> Iterable[list[str]]:
    """Return the processes whose devices are in the same groups of a collective that all leave together."""
    collective, grouped = layout.of_op.get(op), layout.groups_of(op)
    if collective is None or collective.kind in ONE_WAY_IN_GROUPS or grouped is None:
        return ()
    group_of = {place: number for number, group in enumerate(grouped.places) for place in group}
    found: dict[frozenset[int], list[str]] = {}
    for agent in agents:
        own = frozenset(
            group_of[place]
            for place in layout.places.get(agent, ())
            if place is not None and place in group_of
        )
        if own:
            found.setdefault(own, []).append(agent)
    return found.values()
