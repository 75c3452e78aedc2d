"""`jaxtop snapshot`: print the cluster once as text."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base.clock import steady
from jaxtop.cli import hangup, settings, targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.formats import FORMATS, add_formats, written
from jaxtop.cli.text.words import legible, note, number
from jaxtop.model import Cluster, State, host_views, newest_hosts, runs
from jaxtop.model.findings.coverage import VITAL
from jaxtop.model.findings.reducer import MUTED
from jaxtop.model.host import NO_ARRAYS, REFUSES_KEY
from jaxtop.model.hosts import seen_by
from jaxtop.model.liveness import was_never_reached
from jaxtop.model.tuning import AS_DECLARED
from jaxtop.store import runfiles, saved_probe

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from jaxtop.model import Host, HostView, Run, Tuning
    from jaxtop.sources import Source

# The longest wait for peaks, and how long after one no other follows.
LONGEST_PEAKS_S, BETWEEN_PEAKS_S = 20.0, 1.5
# Few hosts need longer to answer a command that then measures.
LONGEST_GATHERING_S = USUAL_WAIT = 5.0
# The longest wait for the cause of a stall, which needs 2 to 5 s of watching.
LONGEST_DIAGNOSIS_S = 7.0
# JAX and its devices need up to so long to end.
LONG_EXIT_S = 5.0
# The most processes of which a line says why they are not live.
MOST_REASONS = 5
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
        # Who holds up a run that hangs shows a few seconds after this viewer came.
        if _is_being_diagnosed(cluster):
            watch(source, cluster, LONGEST_DIAGNOSIS_S, lambda: not _is_being_diagnosed(cluster))
        if arguments.peaks:
            _ask_for_peaks(source, cluster)
    finally:
        source.close()
    now = steady()
    cluster.check(now)
    sys.stdout.write(written(arguments.format, cluster, now, saved_probe.last()))
    sys.stdout.flush()
    for line in complaints(cluster, source, now):
        note(line)
    return status(cluster, now)


def _ask_for_peaks(source: Source, cluster: Cluster) -> None:
    """Ask the first live process of each run, and wait until the peaks of its programs have come."""
    asked: list[str] = []
    refused: list[str] = []

    def done(agent: str, reply: wire.Reply | None) -> None:
        if reply is None or reply.error:
            refused.append(agent)
            note(f"no peaks: {reply.error if reply else 'no answer'}")

    for run in runs(cluster, steady()):
        live = [view.host for view in run.hosts if view.state is State.LIVE and view.host.programs.programs]
        for host in live[:1]:
            asked.append(host.agent)
            source.request(host.agent, wire.Request("peaks"), partial(done, host.agent))
    seen = dict.fromkeys(asked, 0)
    since = time.monotonic()

    def is_enough() -> bool:
        nonlocal since
        now = {agent: len(cluster.hosts[agent].peaks) for agent in asked}
        if now != seen:
            seen.update(now)
            since = time.monotonic()
        waiting = [agent for agent in asked if agent not in refused and not now[agent]]
        return not waiting and time.monotonic() - since > BETWEEN_PEAKS_S

    watch(source, cluster, LONGEST_PEAKS_S, is_enough)


def _is_being_diagnosed(cluster: Cluster) -> bool:
    doubts = [why for (_, rule), why in cluster.findings.unchecked.items() if rule == VITAL and why != MUTED]
    return bool(doubts) or any(each.reported is None for each in cluster.stalls.values())


_IS = {
    State.DIED: "has died",
    State.ENDED: "has ended",
    State.REFUSED: REFUSES_KEY,
    State.UNREACHABLE: "is not reachable from here",
}


def gather(source: Source, wait: float, tuning: Tuning = AS_DECLARED) -> Cluster:
    """Follow the source until every host has reported or has a known reason not to, or the time is up."""
    cluster = Cluster(tuning=tuning)
    watch(
        source,
        cluster,
        wait,
        lambda: source.is_settled and not _lacking(cluster) and all(map(_has_spoken, newest_hosts(cluster))),
    )
    return cluster


def measured(
    source: Source,
    wait: float,
    tuning: Tuning,
    is_enough: Callable[[Cluster, float], bool],
    not_reached: int,
    *,
    with_peaks: bool = False,
) -> tuple[Cluster, float, list[str]]:
    """Follow a source for at most `wait` seconds, and close it; return the cluster, the time and complaints.

    It ends early once `is_enough(cluster, when measuring began)` returns true. `with_peaks` then asks what
    holds memory at the peaks of programs.

    Raises:
        UserError: No process has answered; `not_reached` is the exit status.
    """
    try:
        begun = steady()
        cluster = gather(source, min(wait, LONGEST_GATHERING_S), tuning)
        is_reached = any(view.host.hello for view in host_views(cluster, steady()))
        left = wait - (steady() - begun)
        since = steady()
        if is_reached and left > 0 and not is_enough(cluster, since):
            note(f"measuring for up to {left:.0f} s")
            watch(source, cluster, left, lambda: is_enough(cluster, since))
        if with_peaks:
            _ask_for_peaks(source, cluster)
    finally:
        source.close()
    now = steady()
    notes = complaints(cluster, source, now)
    if not is_reached:
        raise UserError("; ".join(notes) or "no process was found", not_reached)
    return cluster, now, notes


def watch(
    source: Source, cluster: Cluster, seconds: float, is_enough: Callable[[], bool] = lambda: False
) -> None:
    """Follow the source for this many seconds, or until `is_enough` returns true."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for frame in source.poll(left):
            cluster.feed(frame)
        if is_enough():
            break


def status(cluster: Cluster, now: float) -> int:
    """Return the exit status: whether all hosts, some or none are live."""
    views = host_views(cluster, now)
    if not any(view.host.hello for view in views):
        return NOTHING_REACHED
    all_live = all(view.state is State.LIVE for view in views) and not cluster.unmet
    return ALL_LIVE if all_live and not _lacking(cluster) else SOME_MISSING


def complaints(cluster: Cluster, source: Source, now: float) -> list[str]:
    """Return the problems that the figures of the document do not show clearly, one per line."""
    lines = _not_live(cluster, now)
    lines += [
        f"only {len(run.hosts)} of the {run.process_count} processes of {run.name or run.id} have been found"
        for run in _lacking(cluster)
    ]
    lines += _unmet(cluster)
    rejected = source.rejected + cluster.rejected
    lines += [f"{count} messages were skipped: {what}" for what, count in rejected.items()]
    return lines + source.notes


def why_none(cluster: Cluster, now: float) -> str:
    """Return in one line why no process is live; empty if nothing is known of any."""
    lines = [*_not_live(cluster, now), *_unmet(cluster)]
    more = len(lines) - MOST_REASONS
    return legible("; ".join(lines[:MOST_REASONS])) + (f"; and {more} more" if more > 0 else "")


def _not_live(cluster: Cluster, now: float) -> list[str]:
    return [
        f"{view.host.label} {_IS.get(view.state, f'is {view.state}')}{_way_out(view.host)}{_lingers(view)}"
        f"{_seen(cluster, view.host, now)}"
        for view in host_views(cluster, now)
        if view.state is not State.LIVE
    ]


def _lingers(view: HostView) -> str:
    """Return that a process of this machine still exits, if its script has ended and it is still there."""
    hello = view.host.hello
    if hello is None or view.state is not State.ENDED or not runfiles.still_exits(hello):
        return ""
    waits = "jax.distributed waits there for the others, or " if (hello.process_count or 1) > 1 else ""
    bye = view.host.bye
    is_long = bye is not None and time.time() - bye.at_ms / 1000 >= LONG_EXIT_S
    why = f": {waits}a thread or child of the script does not end" if is_long else ""
    return f", but its process {hello.pid} is still in its exit{why}"


def _unmet(cluster: Cluster) -> list[str]:
    return [f"{unmet.endpoint}: {unmet.why}" for unmet in cluster.unmet.values()]


def _way_out(host: Host) -> str:
    """Return what to do if a tunnel reaches an agent, but not its telemetry port."""
    if not was_never_reached(host) or host.peer is None or host.link.endpoint == host.peer.telemetry:
        return ""
    port = host.peer.telemetry.rpartition(":")[2]
    way = f"also forward port {port} to the same number, or to another with --map"
    return f": {host.link.endpoint} is not reachable; {way}"


def _seen(cluster: Cluster, host: Host, now: float) -> str:
    return f"; {seen}" if (seen := seen_by(cluster, host, now)) else ""


def _lacking(cluster: Cluster) -> list[Run]:
    """Return the runs with missing processes, whose agents are late or were never started."""
    return [run for run in runs(cluster, steady()) if len(run.hosts) < (run.process_count or 0)]


def _has_spoken(host: Host) -> bool:
    if host.link.state not in ("up", "connecting"):
        return True
    if host.pulse_at is None or host.hello is None:
        return False
    # The first pulse may be from before a viewer came. It has figures only once they were sampled.
    if host.pulse.sampled_ms is None:
        return False
    # Nobody counts the arrays until a viewer comes. A document without them would show a run without meshes.
    return host.arrays is not NO_ARRAYS or host.hello.sources.get("arrays") != "on"
