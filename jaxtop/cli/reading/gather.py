"""Follows a source until the cluster is known, or measured for long enough."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from jaxtop import wire
from jaxtop.base.clock import steady
from jaxtop.cli.errors import UserError
from jaxtop.cli.reading.complaints import complaints, incomplete
from jaxtop.cli.text.words import note
from jaxtop.model import Cluster, State, host_views, newest_hosts, runs
from jaxtop.model.host import NO_ARRAYS
from jaxtop.model.tuning import AS_DECLARED

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop.model import Host, Tuning
    from jaxtop.sources import Source

# The longest wait for peaks, and how long after one no other follows.
LONGEST_PEAKS_S, BETWEEN_PEAKS_S = 20.0, 1.5
# Few hosts need longer to answer a command that then measures.
LONGEST_GATHERING_S = USUAL_WAIT = 5.0


def gather(source: Source, wait: float, tuning: Tuning = AS_DECLARED) -> Cluster:
    """Follow the source until every host has reported or has a known reason not to, or the time is up."""
    cluster = Cluster(tuning=tuning)
    watch(
        source,
        cluster,
        wait,
        lambda: (
            source.is_settled and not incomplete(cluster) and all(map(_has_spoken, newest_hosts(cluster)))
        ),
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
    takes_stopped: bool = False,
) -> tuple[Cluster, float, list[str]]:
    """Follow a source for at most `wait` seconds, and close it; return the cluster, the time and complaints.

    It ends early once `is_enough(cluster, when measuring began)` returns true. `with_peaks` then asks what
    holds memory at the peaks of programs. With `takes_stopped`, processes that are known and stopped are an
    answer, although none of their figures can be read: then it does not measure.

    Raises:
        UserError: No process has answered; `not_reached` is the exit status.
    """
    try:
        begun = steady()
        cluster = gather(source, min(wait, LONGEST_GATHERING_S), tuning)
        views = host_views(cluster, steady())
        is_reached = any(view.host.hello for view in views)
        is_known = is_reached or (takes_stopped and any(view.state is State.STOPPED for view in views))
        left = wait - (steady() - begun)
        since = steady()
        if is_reached and left > 0 and not is_enough(cluster, since):
            note(f"measuring for up to {left:.0f} s")
            watch(source, cluster, left, lambda: is_enough(cluster, since))
        if with_peaks:
            ask_for_peaks(source, cluster)
    finally:
        source.close()
    now = steady()
    notes = complaints(cluster, source, now)
    if not is_known:
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


def ask_for_peaks(source: Source, cluster: Cluster) -> None:
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


def _has_spoken(host: Host) -> bool:
    if host.link.state not in (wire.LinkState.UP, wire.LinkState.CONNECTING):
        return True
    if host.pulse_at is None or host.hello is None:
        return False
    # The first pulse may be from before a viewer came. It has figures only once they were sampled.
    if host.pulse.sampled_ms is None:
        return False
    # Nobody counts the arrays until a viewer comes. A document without them would show a run without meshes.
    return host.arrays is not NO_ARRAYS or host.hello.sources.get("arrays") != "on"
