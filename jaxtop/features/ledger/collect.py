"""Makes ledgers of jobs: from a cluster, live or recorded, and from the files that processes left."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from jaxtop.features.ledger.model import Attempt, JobLedger, ProcessLedger, StepParts, TimeSpent
from jaxtop.model.figures import scalar_figures
from jaxtop.model.hosts import runs
from jaxtop.model.shares import NAMES, WHOLE
from jaxtop.model.steps.scalars import curve_of
from jaxtop.model.wall_time.time_spent import seconds_by_kind
from jaxtop.store import ledgers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jaxtop.model import Cluster, Host
    from jaxtop.model.hosts import Run
    from jaxtop.model.series import Point
    from jaxtop.model.shares import PastSteps
    from jaxtop.store.ledgers import LedgerFile


def ledgers_of_cluster(cluster: Cluster, now: float) -> list[JobLedger]:
    """Return the ledger of each run in a cluster that has one."""
    found = []
    for run in runs(cluster, now):
        processes = tuple(
            _ledger_of_host(view.host, view.current) for view in run.hosts if view.host.ledger.at_ms
        )
        if processes:
            name, parts = run.name or run.id, _step_parts(cluster.past_steps.get(run.id))
            found.append(JobLedger(name, [Attempt(run.id, name, processes)], parts, _scalars(run)))
    return found


def _scalars(run: Run) -> dict[str, list[Point]]:
    """Return the scalars over time that the first process of a run reports, losses first."""
    host = next((view.host for view in run.hosts if view.host.curves.curves), None)
    if host is None:
        return {}
    figures = scalar_figures(each.name for each in host.curves.curves)
    return {each.field: curve_of(host, each.field) for each in figures}


def _step_parts(past: PastSteps | None) -> StepParts | None:
    """Return the mean of the samples of a run's steps; None where no part was measured."""
    samples = [each for each in past.samples if each.parts] if past is not None else []
    whole = sum(each.after_ms for each in samples)
    if not whole:
        return None
    shares = {
        name: sum(each.parts[i] * each.after_ms for each in samples) / whole / WHOLE
        for i, name in enumerate(NAMES)
    }
    return StepParts(shares, whole / 1000)


def _ledger_of_host(host: Host, current: Host) -> ProcessLedger:
    ledger = host.ledger
    points = [(each.at_ms, each.spent_ms) for each in ledger.past] + [(ledger.at_ms, ledger.spent_ms)]
    error = host.error
    return ProcessLedger(
        host.agent,
        host.hostname or host.agent,
        host.process_index,
        len(host.devices),
        ledger.started_ms / 1000,
        tuple(TimeSpent(at / 1000, seconds_by_kind(spent)) for at, spent in points),
        ledger.steps,
        ledger.saves,
        "" if host.bye is None else host.bye.reason,
        "" if error is None else f"{error.type}: {error.message}",
        current.activity.input_queue,
    )


def ledgers_of_files(paths: Iterable[Path]) -> tuple[list[JobLedger], list[str]]:
    """Return the ledgers of the jobs whose files these are, the latest last, and why others were left out."""
    by_lineage: dict[str, dict[str, list[LedgerFile]]] = defaultdict(lambda: defaultdict(list))
    problems = []
    for path in paths:
        try:
            found = ledgers.read(path)
        except ledgers.NotALedger as error:
            problems.append(str(error))
            continue
        except OSError as error:
            problems.append(f"{path} cannot be read: {error.strerror}")
            continue
        by_lineage[found.who.lineage][found.who.run or found.who.agent].append(found)
    jobs = [
        JobLedger(
            lineage,
            [
                Attempt(run, files[0].who.name, tuple(map(_ledger_of_file, sorted(files, key=_index))))
                for run, files in attempts.items()
            ],
        )
        for lineage, attempts in by_lineage.items()
    ]
    return sorted(jobs, key=lambda each: each.until), problems


def _index(file: LedgerFile) -> tuple[bool, int]:
    index = file.who.process_index
    return index is None, index or 0


def _ledger_of_file(file: LedgerFile) -> ProcessLedger:
    who, last = file.who, file.sums[-1] if file.sums else None
    started = who.started_ms / 1000
    if last is not None:
        # Its first line is from the start of the agent, the sums are from the start of the process.
        started = last.at_ms / 1000 - sum(last.spent_s.values())
    return ProcessLedger(
        who.agent,
        who.hostname,
        who.process_index,
        who.devices,
        started,
        tuple(TimeSpent(each.at_ms / 1000, each.spent_s, each.steps) for each in file.sums),
        None if last is None else last.steps,
        file.saves,
        "" if last is None else last.end,
        "" if last is None else last.error,
    )
