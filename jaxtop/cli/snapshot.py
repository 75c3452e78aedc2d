"""`jaxtop snapshot`: print the cluster once as text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jaxtop.base.clock import steady
from jaxtop.cli import hangup, settings, targets
from jaxtop.cli.reading.complaints import complaints, incomplete
from jaxtop.cli.reading.gather import USUAL_WAIT, ask_for_peaks, gather, watch
from jaxtop.cli.text.formats import FORMATS, add_formats, written
from jaxtop.cli.text.words import note, number
from jaxtop.model import Cluster, State, host_views
from jaxtop.model.findings.coverage import VITAL
from jaxtop.model.findings.reducer import MUTED
from jaxtop.store import saved_probe

if TYPE_CHECKING:
    import argparse

# The longest wait for the cause of a stall, which needs 2 to 5 s of watching.
LONGEST_DIAGNOSIS_S = 7.0
ALL_LIVE, SOME_MISSING, NOTHING_REACHED = 0, 1, 2
_SECONDS = number("between 0 and 3600 seconds", 1e-6, 3600)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    add_formats(parser, FORMATS)
    parser.add_argument(
        "--wait",
        type=_SECONDS,
        metavar="S",
        help=f"seconds to wait for slow processes (default: {USUAL_WAIT:.0f}), and for a run of that name "
        "to start where there is none",
    )
    parser.add_argument(
        "--watch",
        type=_SECONDS,
        metavar="S",
        help="seconds to watch first: collectives are timed only while a viewer is connected",
    )
    parser.add_argument(
        "--peaks",
        action="store_true",
        help="ask a process of each run what holds memory at the peaks of its programs (programs[].peak)",
    )


def main(arguments: argparse.Namespace) -> int:
    tuning = settings.load().tuning
    hangup.watch([hangup.OUTPUT])  # nobody would read what this waits for
    source = targets.open_awaited(arguments, arguments.wait)
    try:
        cluster = gather(source, arguments.wait or USUAL_WAIT, tuning)
        if arguments.watch:
            watch(source, cluster, arguments.watch)
        # Which process holds up a hanging run shows a few seconds after this viewer came.
        if _is_being_diagnosed(cluster):
            watch(source, cluster, LONGEST_DIAGNOSIS_S, lambda: not _is_being_diagnosed(cluster))
        if arguments.peaks:
            ask_for_peaks(source, cluster)
    finally:
        source.close()
    now = steady()
    cluster.check(now)
    sys.stdout.write(written(arguments.format, cluster, now, saved_probe.last()))
    sys.stdout.flush()
    for line in complaints(cluster, source, now):
        note(line)
    return status(cluster, now)


def _is_being_diagnosed(cluster: Cluster) -> bool:
    doubts = [why for (_, rule), why in cluster.findings.unchecked.items() if rule == VITAL and why != MUTED]
    return bool(doubts) or any(each.reported is None for each in cluster.stalls.values())


def status(cluster: Cluster, now: float) -> int:
    """Return the exit status: whether all hosts, some or none are live."""
    views = host_views(cluster, now)
    if not any(view.host.hello for view in views):
        return NOTHING_REACHED
    all_live = all(view.state is State.LIVE for view in views) and not cluster.unmet
    return ALL_LIVE if all_live and not incomplete(cluster) else SOME_MISSING
