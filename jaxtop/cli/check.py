"""`jaxtop check`: say what is wrong with a run, and how bad it is by the exit status."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from typing import TYPE_CHECKING

from jaxtop.base.clock import steady
from jaxtop.cli import replay, settings, targets
from jaxtop.cli.reading.gather import measured
from jaxtop.cli.text.formats import add_formats
from jaxtop.cli.text.words import note, number
from jaxtop.model import Severity, host_views, reported_findings
from jaxtop.model.findings.reducer import CHECK_EVERY, MUTED

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from jaxtop.export.check import Checkup
    from jaxtop.model import Cluster

NOT_REACHED = 3
FORMATS = ("text", "json", "markdown")
# Most rules report after a few seconds.
USUAL_WAIT = 15.0
# A run in which nothing is found is watched for at least this many seconds: most rules must hold for a while.
LEAST_SECONDS = 3 * CHECK_EVERY
_SECONDS = number("between 0 and 3600 seconds", 0, 3600)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser, "recordings or folders of them")
    add_formats(parser, FORMATS)
    parser.add_argument(
        "--wait",
        type=_SECONDS,
        metavar="S",
        help="seconds to measure a live run at most; it ends early once all rules were checked or something "
        f"critical was found (default: {USUAL_WAIT:.0f}); where no live run has that name, it waits as "
        "long for one to start, before it looks for one that has ended",
    )
    parser.add_argument("--at", metavar="T", help="the time to check in a recording (default: its end)")
    parser.add_argument("--rules", action="store_true", help="name the rules that could not be checked")


def main(arguments: argparse.Namespace) -> int:
    files = replay.recordings_in(arguments, "checked")
    return _check_recording(files, arguments) if files else _check_live(arguments)


def _check_recording(files: list[Path], arguments: argparse.Namespace) -> int:
    from jaxtop.export.check import Checkup  # imported late: errors above must be fast

    with replay.opened(files) as (session, span):
        at = span[1] if arguments.at is None else replay.time_in(arguments.at, span)
        checkup = Checkup.of(replay.checked(session, span, at), at)
        checkup = dataclasses.replace(checkup, opens=shlex.join(["jaxtop", "replay", *map(str, files)]))
        _print(checkup, arguments)
        replay.print_notes(session)
    return checkup.status


def _check_live(arguments: argparse.Namespace) -> int:
    from jaxtop.export.check import Checkup  # as above

    tuning = settings.load().tuning
    source = targets.open_awaited(arguments, arguments.wait, with_ended=True)
    wait = USUAL_WAIT if arguments.wait is None else arguments.wait
    cluster, now, notes = measured(source, wait, tuning, _is_enough, NOT_REACHED, takes_stopped=True)
    cluster.check(now)
    checkup = Checkup.of(cluster, now)
    _print(checkup, arguments)
    for line in notes:
        note(line)
    return checkup.status


def _is_enough(cluster: Cluster, since: float) -> bool:
    """Return whether more time would change nothing, or too little to wait for it."""
    now = steady()
    if any(each.severity is Severity.CRITICAL for each in reported_findings(cluster)):
        return True
    if all(view.state.has_exited for view in host_views(cluster, now)):
        return True
    unmeasured = [why for why in cluster.findings.unchecked.values() if why != MUTED]
    is_pending = any(not each.is_reported for each in cluster.findings.ongoing.values())
    return now - since >= LEAST_SECONDS and not is_pending and not unmeasured


def _print(checkup: Checkup, arguments: argparse.Namespace) -> None:
    from jaxtop.export import check

    if arguments.format == "json":
        text = check.to_json(checkup)
    elif arguments.format == "markdown":
        text = check.to_markdown(checkup, names_rules=arguments.rules)
    else:
        text = check.to_text(checkup, coloured=_takes_colours(), names_rules=arguments.rules)
    sys.stdout.write(text)
    sys.stdout.flush()


def _takes_colours() -> bool:
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    return sys.stdout.isatty() and not is_plain
