"""Checkpoints that do not come any more, and saves that one process holds up."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.model.finding import Evidence, Finding, Proof, Severity, Subject
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.model.findings.trends import makes_steps
from jaxtop.model.tuning import Number
from jaxtop.model.wall_time.time_spent import lately, seconds_by_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.host import Host
    from jaxtop.wire import Save

SOURCE = "the ledgers of the processes: Orbax's reports, and functions on the stack"
# The fewest checkpoints that show how often they usually come.
MIN_CHECKPOINTS = 3
OVERDUE_RATIO = Number("times", 3.0, "reported from this many times the usual distance on")
# And from this many seconds beyond the usual on: runs that save every few seconds waver.
MIN_OVERDUE_S = 60.0
LONGER_RATIO = Number("times", 2.0, "reported from this many times the median of the others on")
LONGER_MS = Number("ms", 1000.0, "and this many milliseconds longer")
LONGER_RESTORE = Number("times", 2.0, "reported from this many times the median of the others on")
LONGER_RESTORE_S = Number("seconds", 30.0, "and this many seconds longer")
RESTORING = "restoring"
# Saves of several processes that begin within this time are one checkpoint.
SAME_MS = 30_000


def _overdue(facts: RunFacts) -> Iterator[Finding]:
    stepping = [view.current for view in facts.reporting if makes_steps(view)]
    if not stepping:
        raise Unmeasured("no step is made")
    host = max(stepping, key=lambda each: len(each.ledger.saves))
    saves = [each for each in host.ledger.saves if each.committed_ms is not None]
    if len(saves) < MIN_CHECKPOINTS:
        raise Unmeasured("too few checkpoints were seen to know how often they come")
    usual = median(later.at_ms - earlier.at_ms for earlier, later in pairwise(saves)) / 1000
    since = facts.read_time() - saves[-1].at_ms / 1000
    if since < max(facts.number(OVERDUE_RATIO) * usual, usual + MIN_OVERDUE_S):
        return
    devices = sum(max(1, len(each.devices)) for each in stepping)
    every, at_risk = units.in_minutes(usual / 60), units.in_minutes(since * devices / 60)
    yield Finding(
        Severity.WARNING,
        0.9,
        f"no checkpoint is complete since {units.in_minutes(since / 60)}, usually one comes every {every}: "
        f"{at_risk} of device time are at risk",
        evidence=(
            Evidence("since the last complete checkpoint", since, "seconds", SOURCE, host.pulse_at),
            Evidence("usual distance", usual, "seconds", SOURCE, host.pulse_at),
        ),
        proof=Proof("hosts"),
    )


def _uneven(facts: RunFacts) -> Iterator[Finding]:
    hosts = [view.current for view in facts.reporting]
    last = [(host, save) for host in hosts if (save := _last_save(host)) is not None]
    if len(facts.present) < 2 or len(last) < 2:
        raise Unmeasured("fewer than two processes have saved a checkpoint")
    newest = max(save.at_ms for _, save in last)
    same = [(host, save) for host, save in last if newest - save.at_ms <= SAME_MS]
    worst, save = max(same, key=lambda each: each[1].blocked_ms)
    others = [other.blocked_ms for host, other in same if host is not worst]
    if not others:
        return
    usual = median(others)
    if save.blocked_ms < max(facts.number(LONGER_RATIO) * usual, usual + facts.number(LONGER_MS)):
        return
    yield Finding(
        Severity.WARNING,
        0.8,
        f"the last checkpoint held up {facts.named([worst])} for {units.in_ms(save.blocked_ms)}, "
        f"the others for {units.in_ms(usual)}",
        Subject.of(worst),
        evidence=(
            Evidence("held up", save.blocked_ms / 1000, "seconds", SOURCE, worst.pulse_at),
            Evidence("the others, median", usual / 1000, "seconds", SOURCE, worst.pulse_at),
        ),
        proof=Proof("hosts", row=worst.agent),
    )


def _restoring(facts: RunFacts) -> Iterator[Finding]:
    hosts = [view.current for view in facts.reporting if view.current.ledger.at_ms]
    if len(facts.present) < 2 or len(hosts) < 2:
        raise Unmeasured("fewer than two processes have said what they spend their time on")
    slow = [host for host in hosts if lately(host) == RESTORING]
    if not slow or 2 * len(slow) > len(hosts):
        return
    usual = median(_restored(host) for host in hosts if host not in slow)
    worst = max(slow, key=_restored)
    took = _restored(worst)
    if took < max(facts.number(LONGER_RESTORE) * usual, usual + facts.number(LONGER_RESTORE_S)):
        return
    yield Finding(
        Severity.CRITICAL,
        0.9,
        f"{facts.named(slow)} {'is' if len(slow) == 1 else 'are'} still restoring after "
        f"{units.in_minutes(took / 60)}; the others took {units.in_minutes(usual / 60)} and wait",
        Subject.of(worst),
        evidence=(
            Evidence("time in restoring", took, "seconds", SOURCE, worst.pulse_at),
            Evidence("the others, median", usual, "seconds", SOURCE, worst.pulse_at),
        ),
        proof=Proof("hosts", row=worst.agent),
        explains=("stalled",),
    )


def _restored(host: Host) -> float:
    return seconds_by_kind(host.ledger.spent_ms).get(RESTORING, 0.0)


def _last_save(host: Host) -> Save | None:
    return host.ledger.saves[-1] if host.ledger.saves else None


RULES = (
    Rule(
        name="restore_held_up",
        title="Restore held up",
        threshold="a few processes restore for twice as long as the others, which are done, and 30 s longer",
        rationale="All devices are idle until the last process has read its part.",
        source=SOURCE,
        advice="Look at the disk and the network of that host; its stacks [9] say which file it reads.",
        check=_restoring,
        numbers=(LONGER_RESTORE, LONGER_RESTORE_S),
    ),
    Rule(
        name="no_checkpoint",
        title="No checkpoint",
        threshold="no complete checkpoint for three times the usual distance, and a minute more than it",
        rationale="If the run dies, everything since the last complete checkpoint is done again.",
        source=SOURCE,
        advice="Look whether the disk is full, and at the log of the script; save by hand if you can.",
        check=_overdue,
        numbers=(OVERDUE_RATIO,),
    ),
    Rule(
        name="uneven_checkpoint",
        title="Checkpoint held up",
        threshold="the last checkpoint held up one process twice as long as the others, and a second longer",
        rationale="All processes wait for the slowest one before they go on.",
        source=SOURCE,
        advice="Look at the disk and the network of that host, and at how much it writes.",
        check=_uneven,
        numbers=(LONGER_RATIO, LONGER_MS),
    ),
)
