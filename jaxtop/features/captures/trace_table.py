"""Format the contents of one trace as text."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from jaxtop.cli.text.words import aligned, legible
from jaxtop.features.captures.trace_document import problems

if TYPE_CHECKING:
    from jaxtop.traces.contents import Contents, TracedProgram
    from jaxtop.traces.waits import TracedLaunch

NA = "n/a"
# Of each program, this many launches are listed: those with the longest waits. The JSON object has all.
MAX_LAUNCHES = 8


def lines(contents: Contents) -> list[str]:
    """Return the devices, the programs, the longest waits, and the problems."""
    parts = [[_head(contents)], _programs(contents), *map(_waits, contents.programs)]
    parts.append([f"problem: {legible(each)}" for each in problems(contents)])
    return [line for part in parts if part for line in ("", *part)][1:]


def _head(contents: Contents) -> str:
    kinds = Counter(each.kind or "kind unknown" for each in contents.devices)
    devices = "; ".join(f"{count} × {legible(kind)}" for kind, count in kinds.items())
    unassigned = contents.seen.unassigned
    share = NA if unassigned is None else f"{unassigned:.1%}"
    about = f"{contents.platform}, {devices}" if devices else contents.platform
    return f"{about}: {contents.seen.events:,} events, {share} of the operations' time unassigned"


def _programs(contents: Contents) -> list[str]:
    if not contents.programs:
        return []
    rows = [["PROGRAM", "LAUNCHES", "CUT", "DEVICES PER LAUNCH", "COLLECTIVES", "LONGEST WAIT, MEDIAN"]]
    rows += [
        [
            legible(each.name),
            str(len(each.launches)),
            str(sum(launch.is_cut for launch in each.launches)),
            _ranges([len(launch.devices) for launch in each.launches]),
            _ranges([launch.collectives for launch in each.launches]),
            _longest(each),
        ]
        for each in contents.programs
    ]
    return aligned(rows)


def _ranges(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"


def _longest(program: TracedProgram) -> str:
    waits = [_most(each) for each in program.launches if each.waits is not None]
    return _ms(round(median(waits))) if waits else NA


def _most(launch: TracedLaunch) -> int:
    return max((each for each in launch.waits or () if each is not None), default=-1)


def _waits(program: TracedProgram) -> list[str]:
    """Return the waits of each device in the launches in which one waited longest."""
    measured = [place for place, each in enumerate(program.launches) if each.waits is not None]
    if not measured:
        return []
    longest = sorted(measured, key=lambda place: -_most(program.launches[place]))[:MAX_LAUNCHES]
    rows = [["LAUNCH", "COLLECTIVE", *(f"DEVICE {device}" for device in program.devices)]]
    for place in sorted(longest):
        launch = program.launches[place]
        where = legible(launch.waited_in or NA)
        rows.append([str(place), where, *(NA if each is None else _ms(each) for each in launch.waits or ())])
    title = f"{legible(program.name)}: waits of each device, in the collective in which one waited longest,"
    if len(measured) > len(longest):
        title += f" in {len(longest)} of {len(measured)} launches, those with the longest waits"
    return [title.rstrip(","), *aligned(rows)]


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.3f} ms" if ns < 1_000_000 else f"{ns / 1e6:.1f} ms"
