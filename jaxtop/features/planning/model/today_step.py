"""The program of the step that the run repeats today."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.programs.rates import launch_rates_of, program_of
from jaxtop.model.programs.views import launched_lately

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop import wire
    from jaxtop.model.host import Host

# A step launches its program a whole number of times, if the measured number is so near to it.
NEARLY_WHOLE = 0.15


class StepProgram(NamedTuple):
    """The program that a step mainly consists of, how often a step launches it, and its peak."""

    program: wire.Program | None = None
    launches: float = 1.0
    peak: wire.Peak | None = None


def step_of(members: Iterable[Host], devices: int) -> StepProgram:
    """Return the program on all of the mesh in which the devices spend most of a step.

    Where no window has shown how long launches take, it is the one that needs most memory.
    """
    best: tuple[tuple[bool, float, int], wire.Program, Host] | None = None
    members = list(members)
    repeats = repeats_a_step(members)
    for host in members:
        names = _names_of_step(host) if not repeats or host.pulse.rhythm is not None else set[str]()
        measured = launch_rates_of(host)
        for program in host.programs.programs:
            is_on_mesh = program.devices in (None, devices)
            if program.name not in names or not (is_on_mesh or repeats):
                continue  # before the first steps, only operations on single devices may have been launched
            launched = host.launches_in_windows.get(program.name)
            times = None if launched is None else launched.times.get(program.fingerprint)
            seconds = times.seconds if times is not None and times.number else 0.0
            rate = measured.rate_of(program.name, program.fingerprint)
            busy = seconds * (rate if rate is not None else 0.0)
            needs = (program.argument_bytes or 0) + (program.temp_bytes or 0)
            rank = is_on_mesh, busy, needs
            if best is None or rank > best[0]:
                best = rank, program, host
    if best is None:
        return StepProgram()
    _, program, host = best
    return StepProgram(
        program, _launches_per_step(host, program), host.peaks.get((program.name, program.fingerprint))
    )


def has_inventory(members: Iterable[Host], program: wire.Program | None) -> bool:
    key = None if program is None else (program.name, program.fingerprint)
    return any(key in host.inventories for host in members)


def _names_of_step(host: Host) -> set[str]:
    """Return the names of the programs of a step; else of those launched lately, or of all that were.

    A program that was launched once, such as one that makes the parameters, is not a step's.
    """
    rhythm = host.pulse.rhythm
    if rhythm is not None and rhythm.functions:
        return {program_of(each) for each in rhythm.functions}
    again = {program_of(each) for each, count in host.launches.items() if count > 1}
    return again & launched_lately(host) or again


def _launches_per_step(host: Host, program: wire.Program) -> float:
    rhythm = host.pulse.rhythm
    if rhythm is None:
        return 1.0
    rate = launch_rates_of(host).rate_of(program.name, program.fingerprint)
    if rate and rhythm.milli_per_s:
        found = rate * 1000 / rhythm.milli_per_s
        whole = max(1, round(found))
        return float(whole) if abs(found - whole) <= NEARLY_WHOLE * whole else found
    return float(max(1, sum(program_of(each) == program.name for each in rhythm.functions)))


def repeats_a_step(members: Iterable[Host]) -> bool:
    """Return whether a process has found the step that the run repeats."""
    return any(host.pulse.rhythm is not None for host in members)
