"""`jaxtop plan`: say what a run would need, and how fast it would be, on other meshes and other shardings."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import times
from jaxtop.base.clock import steady
from jaxtop.cli import replay, settings, targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.reading.gather import measured
from jaxtop.cli.text.formats import JSON, add_formats
from jaxtop.cli.text.words import legible, note, number
from jaxtop.features.planning import compile as plan_compile
from jaxtop.features.planning.model.arguments import parse_bytes, parse_count, parse_mesh, parse_rule
from jaxtop.features.planning.model.plan import CannotPlan, Goal, NeverPlannable, PlanRequest
from jaxtop.store import saved_probe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jaxtop.features.planning.model.plan import Plan, Today
    from jaxtop.model import Cluster

FITS, NOTHING_FITS, CANNOT = 0, 1, 2
FORMATS = ("text", JSON)
# The profiler takes a window about every ten seconds while somebody watches, and the first one at once.
USUAL_WAIT = 20.0
# A look at whether enough was measured takes some milliseconds.
_BETWEEN_LOOKS_S = 1.0
# The width of text that is not for a terminal.
_WIDTH = 120
_SECONDS = number("between 0 and 3600 seconds", 0, 3600)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 a candidate fits or may fit, 1 none fits, 2 nothing could be planned"
    targets.add_arguments(parser, "recordings or folders of them", "then the name of a run in them")
    asked = parser.add_argument_group("what to compare with today's layout (default: some likely meshes)")
    asked.add_argument(
        "--mesh", action="append", default=[], metavar="AXES", help="mesh, such as data=8,model=4; repeatable"
    )
    asked.add_argument("--devices", metavar="N", help="all meshes of this many devices with today's axes")
    asked.add_argument("--all", action="store_true", help="all meshes of today's devices, and of fewer")
    asked.add_argument(
        "--shard",
        action="append",
        default=[],
        metavar="NAME:SPEC",
        help="divide the arrays of this name: state.opt_state:data by the axis data, params:None,model by "
        "whole specs, params:replicated; repeatable",
    )
    asked.add_argument(
        "--memory", metavar="SIZE", help="memory of a device, such as 80G (default: the allocator's limit)"
    )
    asked.add_argument(
        "--for",
        dest="goal",
        choices=[goal.value for goal in Goal],
        default=Goal.THROUGHPUT.value,
        help=f"what to sort by (default: {Goal.THROUGHPUT.value})",
    )
    plan_compile.add_arguments(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help="run the demo's model on some meshes of this machine's CPU, or on those of --mesh; predict all "
        "from the first, and print predicted beside measured",
    )
    add_formats(parser, FORMATS)
    parser.add_argument(
        "--explain", action="store_true", help="also print where each number comes from, and the arrays"
    )
    parser.add_argument(
        "--wait",
        type=_SECONDS,
        default=USUAL_WAIT,
        metavar="S",
        help="seconds to measure a live run at most; it ends early once its step and its collectives were "
        f"measured (default: {USUAL_WAIT:.0f})",
    )
    parser.add_argument(
        "--peaks",
        action="store_true",
        help="ask a process what holds memory at the peak of its step: narrower bounds of the memory",
    )
    parser.add_argument("--at", metavar="T", help=f"a time in a recording (default: its end): {times.FORMS}")


def main(arguments: argparse.Namespace) -> int:
    files = replay.recordings_in(arguments, "planned", has_names=True)
    try:
        asked = _asked(arguments, files)
        if arguments.check:
            return _check(asked, arguments)
        return _plan_recording(files, asked, arguments) if files else _plan_live(asked, arguments)
    except CannotPlan as error:
        raise UserError(legible(str(error)), CANNOT) from None


def _asked(arguments: argparse.Namespace, files: Sequence[Path]) -> PlanRequest:
    if files and arguments.peaks:
        raise CannotPlan("--peaks asks running processes; a recording has the peaks that were asked for")
    if arguments.mesh and (arguments.devices is not None or arguments.all):
        raise CannotPlan("--mesh says which meshes to compare: leave out --devices and --all")
    return PlanRequest(
        meshes=tuple(dict.fromkeys(map(parse_mesh, arguments.mesh))),
        devices=None if arguments.devices is None else parse_count(arguments.devices),
        every=arguments.all,
        limit_bytes=None if arguments.memory is None else parse_bytes(arguments.memory),
        rules=tuple(map(parse_rule, arguments.shard)),
        goal=Goal(arguments.goal),
    )


def _check(asked: PlanRequest, arguments: argparse.Namespace) -> int:
    from jaxtop.features.planning import (
        demo_check as plan_check,  # imported late: few use it, and it needs the demo
    )

    is_of_a_run = arguments.target or arguments.hostfile or arguments.via is not None
    if (
        is_of_a_run
        or arguments.explain
        or arguments.compile is not None
        or asked != PlanRequest(asked.meshes)
    ):
        raise CannotPlan("--check runs the demo's model as it is: give it --mesh or --json, and nothing else")
    return plan_check.main(asked.meshes, _PlanInputsCheck, as_json=arguments.format == JSON)


def _plan_recording(files: list[Path], asked: PlanRequest, arguments: argparse.Namespace) -> int:
    from jaxtop.features.planning.model.today import today  # imported late: errors above must be fast

    names = [each for each in arguments.target if Path(each) not in files]
    if len(names) > 1:
        raise CannotPlan(f"name one run of the recordings instead of {' and '.join(names)}")
    with replay.opened(files) as (session, span):
        at = span[1] if arguments.at is None else replay.time_in(arguments.at, span)
        cluster = replay.with_history(session, span, at)
        status = _print(today(cluster, at, *names), asked, at, arguments)
        if not names:
            _note_choice(cluster, at)
        replay.print_notes(session)
    return status


def _plan_live(asked: PlanRequest, arguments: argparse.Namespace) -> int:
    tuning = settings.load().tuning
    source = targets.open_source(arguments)
    cluster, now, notes = measured(
        source, arguments.wait, tuning, _PlanInputsCheck(), CANNOT, with_peaks=arguments.peaks
    )
    try:
        status = _print(_today(cluster, now), asked, now, arguments)
        _note_choice(cluster, now)
    finally:  # they may also be why nothing can be planned
        for line in notes:
            note(line)
    return status


def _note_choice(cluster: Cluster, now: float) -> None:
    """Print which of several runs is planned."""
    from jaxtop.features.planning.model.today import plannable  # as above

    newest, *others = (f"{run.name or 'one without a name'} ({run.id})" for run in plannable(cluster, now))
    if others:
        more = f" and {len(others) - 3} more" * (len(others) > 3)
        listed = f"{', '.join(others[:3])}{more}"
        note(f"planned {newest}, the newest of {len(others) + 1} runs; name another: {listed}")


def _today(cluster: Cluster, now: float) -> Today:
    from jaxtop.features.planning.model.today import today  # as above

    return today(cluster, now, probe=saved_probe.last())


class _PlanInputsCheck:
    """Says whether what a plan is made of has been measured; looks at it once a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, cluster: Cluster, _: float) -> bool:
        now = steady()
        if now < self._next:
            return False
        self._next = now + _BETWEEN_LOOKS_S
        try:
            found = _today(cluster, now)
        except NeverPlannable:
            return True
        except CannotPlan:
            return False
        step = found.step
        timed = all(each.transfer_us is not None for each in found.exchanges)
        is_complete = step is not None and step.communication_ms is not None
        return is_complete and timed and found.has_inventory


def _print(today: Today, asked: PlanRequest, at: float, arguments: argparse.Namespace) -> int:
    from jaxtop.features.planning import document as as_json  # as above
    from jaxtop.features.planning import report as as_text
    from jaxtop.features.planning.model.planner import plan

    if today.program is None and today.step is None:
        why = today.before_steps or f"the program of the step of {today.name or today.run} is not known"
        raise CannotPlan(f"{why}; plan it after its first steps")
    found = plan(today, asked)
    if arguments.compile is not None:
        try:
            compiled = plan_compile.compile_all(
                today, found.candidates, arguments.compile, arguments.compile_limit
            )
            found = plan(today, asked, compiled)
        except UserError as error:  # the plan is good without it
            note(f"{error}; nothing was compiled")
    if arguments.format == JSON:
        text = as_json.to_json(found, at, with_arrays=arguments.explain)
    else:
        width = shutil.get_terminal_size((_WIDTH, 0)).columns
        text = as_text.to_text(found, width, explained=arguments.explain)
    sys.stdout.write(text)
    sys.stdout.flush()
    return _status(found)


def _status(plan: Plan) -> int:
    """Return whether a candidate fits, today's layout aside unless it is the only one."""
    others = [each for each in plan.candidates if not each.is_today] or plan.candidates
    return NOTHING_FITS if all(each.fits is False for each in others) else FITS
