"""`jaxtop report`: what a run spent its time on, live, from recordings, or from the files of processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base.clock import steady
from jaxtop.cli import replay, targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.text.formats import JSON, add_formats
from jaxtop.cli.text.words import note
from jaxtop.store import ledgers

if TYPE_CHECKING:
    import argparse

    from jaxtop.features.ledger.model import JobLedger

FORMATS = ("text", JSON)
FOUND, NOTHING_FOUND = 0, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser, "recordings", "ledgers or folders of them", "the lineage of a job")
    add_formats(parser, FORMATS)


def main(arguments: argparse.Namespace) -> int:
    from jaxtop.features.ledger import document, text  # imported late: errors above must be fast

    now = steady()
    jobs = found(arguments, now)
    if not jobs:
        note("nothing is known of what these processes spent their time on")
        return NOTHING_FOUND
    if arguments.format == JSON:
        sys.stdout.write(document.to_json(jobs))
    else:
        sys.stdout.write("\n".join(text.to_text(each, now) for each in jobs))
    return FOUND


def found(arguments: argparse.Namespace, now: float) -> list[JobLedger]:
    """Return the jobs that the arguments name: files, recordings, a lineage of this user, or a live run."""
    from jaxtop.features.ledger import collect

    given = [Path(each) for each in arguments.target]
    if given and all(map(_is_ledger, given)):
        return _from_files(given)
    if given and all(replay.is_recording(each) for each in given):
        with replay.opened(given) as (session, span):
            return collect.of_cluster(session.at(span[1]), span[1])
    if len(given) <= 1 and not (arguments.hostfile or arguments.via):
        name = arguments.target[0] if arguments.target else None
        own = _of_this_user(name)
        if own and (name is not None or not _lives()):
            return own
    return _live(arguments, now)


def _is_ledger(path: Path) -> bool:
    return path.suffix == ledgers.SUFFIX or (path.is_dir() and any(path.glob(f"*{ledgers.SUFFIX}")))


def _from_files(given: list[Path]) -> list[JobLedger]:
    from jaxtop.features.ledger import collect

    paths = [inside for path in given for inside in (_inside(path) if path.is_dir() else [path])]
    jobs, problems = collect.of_files(paths)
    for each in problems:
        note(each)
    if not jobs:
        raise UserError(problems[0] if problems else "there is no ledger")
    return jobs


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{ledgers.SUFFIX}"))


def _of_this_user(lineage: str | None) -> list[JobLedger]:
    """Return the ledger of a lineage among the files of this user; without a name, of the latest one."""
    from jaxtop.features.ledger import collect

    folder = ledgers.folder()
    if folder is None or not folder.is_dir():
        return []
    jobs, _ = collect.of_files(_inside(folder))
    return jobs[-1:] if lineage is None else [each for each in jobs if each.name == lineage]


def _lives() -> bool:
    from jaxtop.store import runfiles

    return any(not each.is_stale for each in runfiles.find())


def _live(arguments: argparse.Namespace, now: float) -> list[JobLedger]:
    from jaxtop.cli.reading.complaints import complaints
    from jaxtop.cli.reading.gather import USUAL_WAIT, gather
    from jaxtop.features.ledger import collect

    source = targets.open_source(arguments, note)
    try:
        cluster = gather(source, USUAL_WAIT)
    finally:
        source.close()
    for line in complaints(cluster, source, now):
        note(line)
    return collect.of_cluster(cluster, steady())
