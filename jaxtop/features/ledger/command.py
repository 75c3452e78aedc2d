"""`jaxtop report`: what a run spent its time on, live, from recordings, or from the files of processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base.clock import steady
from jaxtop.cli import replay, targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.formats import JSON, add_formats
from jaxtop.cli.text.output import new_file
from jaxtop.cli.text.words import note
from jaxtop.store import ledgers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jaxtop.features.ledger.model import JobLedger
    from jaxtop.model import Cluster, Finding

FORMATS = ("text", JSON, "html")
FOUND, NOTHING_FOUND = 0, 3


class Report(NamedTuple):
    """The jobs to report on, and the findings of their runs, which files do not have."""

    jobs: Sequence[JobLedger]
    findings: Sequence[Finding] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser, "recordings", "ledgers or folders of them", "the lineage of a job")
    add_formats(parser, FORMATS)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write into this new file")


def main(arguments: argparse.Namespace) -> int:
    now = steady()
    found = read(arguments, now)
    if not found.jobs:
        note("nothing is known of what these processes spent their time on")
        return NOTHING_FOUND
    written = _written(found, arguments.format, now)
    if arguments.output is None:
        sys.stdout.write(written)
    else:
        with new_file(arguments.output) as draft:
            draft.write_text(written, "utf-8")
    return FOUND


def _written(found: Report, form: str, now: float) -> str:
    from jaxtop.features.ledger import document, html, text  # imported late: errors must be fast

    if form == JSON:
        return document.to_json(found.jobs)
    if form == "html":
        return html.to_html(found.jobs, now, found.findings)
    return "\n".join(text.to_text(each, now) for each in found.jobs)


def read(arguments: argparse.Namespace, now: float) -> Report:
    """Return the jobs that the arguments name: files, recordings, a lineage of this user, or a live run."""
    given = [Path(each) for each in arguments.target]
    if given and all(map(is_ledger, given)):
        return Report(from_files(given))
    if given and all(map(replay.is_recording, given)):
        with replay.opened(given) as (session, span):
            return _report_of_cluster(session.at(span[1]), span[1])
    if len(given) <= 1 and not (arguments.hostfile or arguments.via):
        name = arguments.target[0] if arguments.target else None
        own = ledger_of_this_user(name)
        if own and (name is not None or not _lives()):
            return Report(own)
    return _live(arguments, now)


def is_ledger(path: Path) -> bool:
    """Return whether a path is a ledger, or a folder that has some."""
    return path.suffix == ledgers.SUFFIX or (path.is_dir() and any(path.glob(f"*{ledgers.SUFFIX}")))


def from_files(given: list[Path]) -> list[JobLedger]:
    """Return the jobs in ledgers and folders of them."""
    from jaxtop.features.ledger import collect

    paths = [inside for path in given for inside in (_inside(path) if path.is_dir() else [path])]
    jobs, problems = collect.ledgers_of_files(paths)
    if not jobs:
        raise UserError("; ".join(problems) or "there is no ledger")
    for each in problems:
        note(each)
    return jobs


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{ledgers.SUFFIX}"))


def ledger_of_this_user(lineage: str | None) -> list[JobLedger]:
    """Return the ledger of a lineage among the files of this user; without a name, of the latest one."""
    from jaxtop.features.ledger import collect

    folder = ledgers.folder()
    if folder is None or not folder.is_dir():
        return []
    jobs, _ = collect.ledgers_of_files(_inside(folder))
    return jobs[-1:] if lineage is None else [each for each in jobs if each.name == lineage]


def _lives() -> bool:
    from jaxtop.store import runfiles

    return any(not each.is_stale for each in runfiles.find())


def _report_of_cluster(cluster: Cluster, at: float) -> Report:
    from jaxtop.features.ledger import collect
    from jaxtop.model import reported_findings

    return Report(collect.ledgers_of_cluster(cluster, at), reported_findings(cluster))


def _live(arguments: argparse.Namespace, now: float) -> Report:
    from jaxtop.cli.reading.complaints import complaints
    from jaxtop.cli.reading.gather import USUAL_WAIT, gather

    source = targets.open_source(arguments, note)
    try:
        cluster = gather(source, USUAL_WAIT)
    finally:
        source.close()
    for line in complaints(cluster, source, now):
        note(line)
    return _report_of_cluster(cluster, steady())
