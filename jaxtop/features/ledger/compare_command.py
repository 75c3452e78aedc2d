"""`jaxtop compare`: which of two runs is slower, beyond the noise of both, and in what they differ."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import times
from jaxtop.base.clock import steady
from jaxtop.cli import replay, settings, targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine import processes
from jaxtop.cli.text.formats import JSON, add_formats
from jaxtop.cli.text.output import ProgressLine
from jaxtop.cli.text.words import note, number
from jaxtop.features.ledger.command import from_files, is_ledger, ledger_of_this_user
from jaxtop.model.state import HISTORY
from jaxtop.store import runfiles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from jaxtop.features.ledger.compare import ComparedRun
    from jaxtop.features.ledger.compare_facts import FindingsSeen
    from jaxtop.features.ledger.compare_steps import CountedSteps
    from jaxtop.features.ledger.model import JobLedger
    from jaxtop.model import Cluster
    from jaxtop.sources import Session

FORMATS = ("text", JSON)
SAME, DIFFERENT, UNREADABLE = 0, 1, 3
# Steps are counted over at most this many seconds before the moment that is compared.
LONGEST_S = 1800.0
# Seconds between two looks for findings, and how long before that moment they begin.
LOOKS_EVERY_S, LOOKED_AT_S = 2.0, 60.0
# Frames between two updates of the progress on screen.
FRAMES_A_LOOK = 2000
# For how long a live run is followed.
USUAL_WAIT = 30.0
_SECONDS = number("between 1 and 3600 seconds", 1, 3600)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "recording, ledger or folder of them, the lineage of a job, or a live run"
    parser.add_argument("a", metavar="A", help=f"{what}: {targets.forms(*targets.SHORTHANDS)}")
    parser.add_argument(
        "b",
        metavar="B",
        nargs="?",
        help="the same (default: the run that --hostfile or --via leads to, or your newest live run)",
    )
    targets.add_options(parser)
    for name in ("A", "B"):
        parser.add_argument(
            f"--at-{name.lower()}",
            metavar="T",
            help=f"compare {name} as it was at this time of its recording (default: when it last made "
            f"steps): {times.FORMS}",
        )
    parser.add_argument(
        "--wait",
        type=_SECONDS,
        default=USUAL_WAIT,
        metavar="S",
        help=f"seconds to follow a live run (default: {USUAL_WAIT:.0f})",
    )
    add_formats(parser, FORMATS)


def main(arguments: argparse.Namespace) -> int:
    from jaxtop.features.ledger import compare, compare_text  # imported late: errors must be fast

    _refuse_what_says_nothing(arguments)
    processes.end_with_sigterm()  # it clears the line that shows how far it is
    sides = [
        _side(name, given, at, arguments)
        for name, given, at in (
            ("A", arguments.a, arguments.at_a),
            ("B", arguments.b, arguments.at_b),
        )
    ]
    found = compare.Comparison(*sides)
    sys.stdout.write(compare_text.to_json(found) if arguments.format == JSON else compare_text.to_text(found))
    return DIFFERENT if found.is_real else SAME


def _refuse_what_says_nothing(arguments: argparse.Namespace) -> None:
    """Raise an error for an option that is about neither A nor B."""
    for which, given, at in (("a", arguments.a, arguments.at_a), ("b", arguments.b, arguments.at_b)):
        if at is not None and not (given and replay.is_recording(Path(given))):
            raise UserError(f"--at-{which} needs a recording, and {given or 'the live run'} is none")
    if arguments.hostfile and arguments.b is not None:
        raise UserError("--hostfile names the hosts of B: leave B out")
    if arguments.b is not None and all(_is_of_files(each) for each in (arguments.a, arguments.b)):
        for option in ("via", "map", "owner"):
            if getattr(arguments, option):
                raise UserError(f"--{option} is for a live run, and neither A nor B is one")


def _is_of_files(given: str) -> bool:
    return replay.is_recording(Path(given)) or is_ledger(Path(given))


def _side(which: str, given: str | None, at: str | None, arguments: argparse.Namespace) -> ComparedRun:
    """Return one of the two runs; an error says which of them it is about."""
    name = given or "the live run"
    try:
        if given is None:
            return _live(name, [], arguments)
        path = Path(given)
        if replay.is_recording(path):
            return _recorded(which, path, at)
        if is_ledger(path):
            return _run_of_ledgers(path.name or given, from_files([path]))
        is_here = arguments.via is None and "://" not in given
        if is_here and not _lives(given):
            if jobs := ledger_of_this_user(given):
                return _run_of_ledgers(given, jobs)
            _refuse_folder(path)
        return _live(name, [given], arguments)
    except UserError as error:
        raise UserError(f"{which} ({name}): {error}", UNREADABLE) from None


def _lives(name: str) -> bool:
    """Return whether a live run of this user has the name."""
    living = (each.hello for each in runfiles.find() if not each.is_stale)
    return any(name in (hello.name, hello.run, hello.agent) for hello in living)


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        raise UserError("there is neither a recording nor a ledger in this folder")


def _recorded(which: str, path: Path, typed: str | None) -> ComparedRun:
    from jaxtop.features.ledger.compare_facts import FindingsSeen

    with replay.opened([path]) as (session, span), _progress(f"{which}: {path}") as show:
        end = span[1] if typed is None else replay.time_in(typed, span)
        counts = _counted(session, span[0], end, show, goes_back=typed is None)
        at = counts.last_step()
        if at is None:
            raise UserError("it has no steps" + (f" before {typed}" if typed else ""))
        since = max(
            at - LOOKED_AT_S, min(counts.by_agent[agent].marks[0].at for agent in counts.made_steps())
        )

        def show_fold(until: float) -> None:
            show("looking for findings", 1 - (at - until) / (at - since + HISTORY))

        replay.with_history(session, span, since, show_fold)
        seen, moment = FindingsSeen(), since
        while (moment := moment + LOOKS_EVERY_S) < at:
            seen.add_moment(session.at(moment))
            show_fold(moment)
        side = _run_of_cluster(path.name or str(path), session.at(at), at, counts, seen)
    for line in session.notes:
        note(line)
    return side


@contextmanager
def _progress(what: str) -> Iterator[Callable[[str, float], None]]:
    """Yield what shows how far an activity is, as a share; the line is cleared at the end."""
    line, shown = ProgressLine(), ""

    def show(activity: str, part: float) -> None:
        nonlocal shown
        text = f"{what}: {activity}: {min(1, max(0, part)):.0%}"
        if text != shown:
            line.show(text)
            shown = text

    try:
        yield show
    finally:
        line.show("")


def _counted(
    session: Session, first: float, end: float, show: Callable[[str, float], None], *, goes_back: bool
) -> CountedSteps:
    """Count the steps before a time; where there are none, before an earlier time."""
    from jaxtop.features.ledger.compare_steps import CountedSteps

    while True:
        start = max(first, end - LONGEST_S)
        counts = CountedSteps()
        for i, frame in enumerate(session.frames(None if start == first else start, end)):
            counts.feed(frame)
            if i % FRAMES_A_LOOK == 0:
                show("counting steps", (frame.at - start) / max(1e-9, end - start))
        if counts.made_steps() or start == first or not goes_back:
            return counts
        end = start


def _run_of_cluster(
    name: str, cluster: Cluster, at: float, counts: CountedSteps, seen: FindingsSeen
) -> ComparedRun:
    from jaxtop.features.ledger import compare, compare_facts, compare_steps
    from jaxtop.model.hosts import interval

    run = compare_facts.run_in(cluster, at, counts.made_steps(at))
    if run is None:
        raise UserError("it has no steps")
    agents = {view.host.agent for view in run.hosts}
    steps = {agent: each for agent, each in counts.by_agent.items() if agent in agents and each.steps}
    took = compare_steps.times_of(steps.values(), interval(cluster))
    if took is None:
        raise UserError("it has no steps")
    facts, knows = compare_facts.facts_of(cluster, at, run, steps, seen)
    since = min(each.marks[0].at for each in steps.values())
    return compare.ComparedRun(
        name,
        took,
        compare_facts.parts_of(cluster, at, run, since, took.usual),
        compare_facts.spent_of(steps.values()),
        facts,
        knows,
        seen.ever(run.id),
        run.name or run.id,
        at,
        len(run.hosts),
    )


def _run_of_ledgers(name: str, jobs: Sequence[JobLedger]) -> ComparedRun:
    """Return the last attempt with steps at the latest of these jobs."""
    from jaxtop.features.ledger import compare, compare_facts, compare_steps

    job = jobs[-1]
    made_steps = (
        each.processes for each in reversed(job.attempts) if any(one.steps for one in each.processes)
    )
    attempt = next(made_steps, ())
    took = compare_steps.times_of_ledgers(attempt)
    if took is None:
        raise UserError("it has no steps")
    return compare.ComparedRun(
        name,
        took,
        spent=compare_facts.spent_of_ledgers(attempt),
        facts=compare_facts.machines_of_ledgers(attempt),
        knows=frozenset({compare.Kind.DEVICES}),
        run=job.name,
        processes=len(attempt),
    )


def _live(name: str, target: list[str], arguments: argparse.Namespace) -> ComparedRun:
    from jaxtop.cli.reading.complaints import complaints
    from jaxtop.features.ledger.compare_facts import FindingsSeen
    from jaxtop.features.ledger.compare_steps import CountedSteps
    from jaxtop.model import Cluster, host_views

    hosts = None if target else arguments.hostfile
    source = targets.open_source(Namespace(**{**vars(arguments), "target": target, "hostfile": hosts}))
    cluster, counts, seen = Cluster(tuning=settings.load().tuning), CountedSteps(), FindingsSeen()
    look = time.monotonic()
    end = look + arguments.wait
    note(f"following {name} for {arguments.wait:.0f} s")
    try:
        while (left := end - time.monotonic()) > 0:
            for frame in source.poll(min(left, LOOKS_EVERY_S)):
                cluster.feed(frame)
                counts.feed(frame)
            if time.monotonic() >= look:
                seen.add_moment(cluster)
                look += LOOKS_EVERY_S
    finally:
        source.close()
    at = steady()
    if not any(view.host.hello for view in host_views(cluster, at)):
        raise UserError("; ".join(complaints(cluster, source, at)) or "no process was reached")
    return _run_of_cluster(name, cluster, at, counts, seen)
