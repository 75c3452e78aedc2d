"""The ledger of a job as text: the verdict first, then what the time went to, attempts and checkpoints."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.base.names import legible
from jaxtop.cli.text.words import aligned
from jaxtop.features.ledger.model import WORDS
from jaxtop.model.wall_time.time_spent import PRODUCTIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.features.ledger.model import Attempt, JobLedger, ProcessLedger
    from jaxtop.wire import Save

HOUR_S = 3600.0
BAR = 24
# Less lost device time than this is not reported of an attempt.
WORTH_SAYING_S = 1.0
# From this share of the steps on, the first sentence has what took it.
MUCH_OF_STEPS = 0.2
# The most processes that are listed by themselves: those that spent most on something else than steps.
MAX_PROCESSES = 4
# A process is worse than the others if it spent this much more of its time, as a share, on other things.
WORSE = 0.05


def device_time(seconds: float, whole: float | None = None) -> str:
    """Format device-seconds in seconds, minutes or hours, in the unit of the `whole` that they belong to."""
    whole = seconds if whole is None else whole
    if whole < 600:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if whole < HOUR_S * 2 else f"{seconds / HOUR_S:,.2f} h"


def by_size(job: JobLedger) -> list[tuple[str, float]]:
    """Return what the time went to: steps first, then the rest by size."""
    return sorted(job.spent.items(), key=lambda each: (each[0] != PRODUCTIVE, -each[1]))


def to_text(job: JobLedger, now: float) -> str:
    """Return the ledger as lines."""
    lines = [verdict(job), ""]
    lines += _kinds(job)
    lines += attempts(job)
    lines += checkpoints(job, now)
    lines += processes(job)
    return "\n".join(map(legible, lines)) + "\n"


def verdict(job: JobLedger) -> str:
    """Return in a sentence what share of the time was productive, and what took most of the rest."""
    devices = max(each.devices for each in job.attempts)
    over = f"{units.age(job.until - job.started)} on {devices:,} device{'s' if devices != 1 else ''}"
    if job.goodput is None:
        return f"{job.name}: {over}, nothing measured yet"
    rest = [each for each in by_size(job) if each[0] != PRODUCTIVE]
    most = f", most of the rest {WORDS[rest[0][0]]} ({rest[0][1] / job.total:.1%})" if rest else ""
    return f"{job.name}: goodput {job.goodput:.1%}{most}; {over}{_within_steps(job)}"


def _within_steps(job: JobLedger) -> str:
    """Return what took much of the steps, which count as productive as a whole; empty if nothing did."""
    shares = {} if job.step_parts is None else job.step_parts.shares
    lost = [(share, name) for name, share in shares.items() if name not in ("compute", "unknown")]
    share, name = max(lost, default=(0.0, ""))
    return f"; of its steps {name.replace('_', ' ')} {units.share(share)}" if share >= MUCH_OF_STEPS else ""


def _kinds(job: JobLedger) -> Iterator[str]:
    rows = [("SPENT ON", "DEVICE TIME", "SHARE", "")]
    for kind, seconds in by_size(job):
        share = seconds / job.total
        spent = f"{device_time(seconds, job.total):>11}"
        rows.append((WORDS[kind], spent, f"{share:6.1%}", "█" * round(share * BAR)))
    rows.append(("in all", f"{device_time(job.total):>11}", "", ""))
    yield from aligned(rows)
    yield from steps(job)
    yield from queue(job)


def steps(job: JobLedger) -> Iterator[str]:
    """Say where the steps went, if that is known."""
    if job.step_parts is not None:
        shares = job.step_parts.shares.items()
        parts = ", ".join(f"{name.replace('_', ' ')} {units.share(share)}" for name, share in shares)
        yield f"steps of the last {units.age(job.step_parts.seconds)}: {parts}"


def queue(job: JobLedger) -> Iterator[str]:
    """Say how full the input queue of a process is: of the one whose queue is empty most often."""
    processes = job.attempts[-1].processes
    seen = [(each, each.queue) for each in processes if each.queue is not None and each.queue.looks]
    if not seen:
        return
    process, worst = max(seen, key=lambda each: each[1].empty_share)
    whose = "" if len(processes) == 1 else f" of {process.label}"
    most = "" if worst.capacity is None else f" of {worst.capacity}"
    yield f"input queue{whose}: {worst.depth}{most} batches, empty in {worst.empty_share:.0%} of looks"


def attempts(job: JobLedger) -> Iterator[str]:
    if len(job.attempts) == 1 and not job.attempts[0].ending:
        return
    yield ""
    rows = [("ATTEMPT", "STARTED", "RAN", "STEPS", "ENDED")]
    for i, each in enumerate(job.attempts):
        is_last = i == len(job.attempts) - 1
        rows.append(
            (
                str(i + 1),
                _time_text(each.started),
                units.age(each.until - each.started),
                units.number(each.steps),
                _ended(each, is_last=is_last),
            )
        )
    yield from aligned(rows)
    if job.unknown_losses:
        restarts = len(job.attempts) - 1
        yield f"after {job.unknown_losses} of {restarts} restarts it is not known what was done again:"
        yield "no checkpoint was seen before them"
    for host, times in job.culprits():
        yield f"{host} was the first to end in {times} attempts"


def _ended(attempt: Attempt, *, is_last: bool) -> str:
    words = [attempt.ending or ("running, or ended without a word" if is_last else "ended without a word")]
    lost, committed = sum((attempt.since_commit() or {}).values()), attempt.committed
    if not is_last and committed is not None and lost >= WORTH_SAYING_S:
        step = "" if committed.step is None else f" of step {committed.step:,}"
        words.append(f"{device_time(lost)} since the checkpoint{step} were done again")
    return "; ".join(words)


def checkpoints(job: JobLedger, now: float) -> Iterator[str]:
    saves = [save for each in job.attempts for save in _saves_of(each)]
    if not saves:
        return
    yield ""
    blocked = median(each.blocked_ms for each in saves) / 1000
    count = f"{len(saves)} checkpoints, each" if len(saves) > 1 else "a checkpoint, it"
    yield f"{count} held up the script for {units.seconds(blocked)}{' (median)' if len(saves) > 1 else ''}"
    written = [(each.written_bytes, each.committed_ms - each.at_ms) for each in saves if each.committed_ms]
    sizes = [(size, took_ms) for size, took_ms in written if size]
    if sizes:
        rate = median(1000 * size / max(1, took_ms) for size, took_ms in sizes)
        each = units.in_bytes(median(size for size, _ in sizes))
        yield f"the process wrote {each} for each, {units.in_bytes(rate)} a second"
    last = job.attempts[-1]
    committed, risk = last.committed, last.since_commit()
    if committed is None or risk is None:
        yield "no checkpoint of this attempt is known to be complete"
        return
    step = "" if committed.step is None else f" of step {committed.step:,}"
    since = units.age(max(0.0, min(now, last.until) - committed.at_ms / 1000))
    at_risk = f"{device_time(sum(risk.values()))} of device time are not saved"
    yield f"the last complete one{step} began {since} before the end;"
    yield f"since then, {at_risk}"


def _saves_of(attempt: Attempt) -> Sequence[Save]:
    """Return the checkpoints of an attempt, as the process reports them that has seen most."""
    return max((each.saves for each in attempt.processes), key=len, default=())


def processes(job: JobLedger) -> Iterator[str]:
    """Name the processes of the last attempt that spent more on something else than steps than the others."""
    last = job.attempts[-1].processes
    if len(last) < 2:
        return
    shares = {each.agent: _other_share(each) for each in last}
    usual = median(shares.values())
    by_share = sorted(last, key=lambda each: -shares[each.agent])
    worse = [each for each in by_share if shares[each.agent] - usual >= WORSE]
    if not worse:
        return
    yield ""
    rows = [("PROCESS", "NOT STEPS", "MOST OF IT")]
    for each in worse[:MAX_PROCESSES]:
        rest = {kind: seconds for kind, seconds in each.spent.items() if kind != PRODUCTIVE}
        largest = max(rest, key=rest.__getitem__)
        most = f"{WORDS[largest]}, {units.seconds(rest[largest])}"
        rows.append((each.label, f"{shares[each.agent]:.1%} (others {usual:.1%})", most))
    yield from aligned(rows)


def _other_share(process: ProcessLedger) -> float:
    total = sum(process.spent.values())
    return 1 - process.spent.get(PRODUCTIVE, 0.0) / total if total else 0.0


def _time_text(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
