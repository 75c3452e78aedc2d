"""`jaxtop replay`: show recordings in the app, or print one moment or the figures over time as text."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop.base import times
from jaxtop.base.feature import options_of
from jaxtop.base.units import in_bytes
from jaxtop.cli import settings, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine import processes
from jaxtop.cli.preferences import preferences_of
from jaxtop.cli.text.formats import FORMATS, add_formats, written
from jaxtop.cli.text.output import ProgressLine, new_file
from jaxtop.cli.text.words import note, number
from jaxtop.model.hosts import interval
from jaxtop.model.state import HISTORY
from jaxtop.recording import NotARecording
from jaxtop.sources import Session
from jaxtop.sources.session import FARTHEST_ON

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from jaxtop.model import Cluster

# --export skips times without frames that are longer than this, in seconds.
LONGEST_LULL = 3600.0
# History is folded in short steps; this many make the longest step.
HISTORY_PARTS = 6
MCAP_JSON = "mcap-json"
_SPEED = number("a speed from 0.25 to 64", 0.25, 64, units="x×")
_STEP = number("a number of seconds from 0.01 to 86400", 0.01, 86400)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="*", type=Path, metavar="FILE", help="recordings or folders of them; several are merged"
    )
    parser.add_argument("--start", metavar="T", help=f"start at this time: {times.FORMS}")
    parser.add_argument(
        "--speed", type=_SPEED, default=1.0, metavar="X", help="speed, 0.25 to 64 (default: 1)"
    )
    parser.add_argument("--loop", action="store_true", help="restart at the end")
    parser.add_argument("--at", metavar="T", help="print this moment instead of opening the app")
    add_formats(parser, FORMATS, " of --at, or without it of the last moment")
    parser.add_argument(
        "--export",
        nargs="+",
        metavar=("FORMAT", "OUT"),
        help=f"print the figures over time: {', '.join(FORMATS)}; or write them to a new MCAP file of JSON, "
        f"for Foxglove: {MCAP_JSON} OUT",
    )
    parser.add_argument("--step", type=_STEP, metavar="S", help="seconds between the figures of --export")


def main(arguments: argparse.Namespace) -> int:
    form, out, more = _export(arguments.export)
    files = [*(arguments.file or ()), *more]
    if not files:
        raise UserError("give the FILE to replay; see jaxtop replay --help")
    is_moment = arguments.at is not None or arguments.format is not None
    if is_moment and form is not None:
        raise UserError("--at and --format print one moment, --export all of them: give only one")
    shown = next((each for each in options_of("replay") if each.is_asked(arguments)), None)
    if shown is not None and (is_moment or form is not None):
        raise UserError(f"{shown.NAME} shows the app, --at and --export print text: give only one")
    with opened(files) as (session, span):
        start = None if arguments.start is None else time_in(arguments.start, span)
        if is_moment:
            at = span[1] if arguments.at is None else time_in(arguments.at, span)
            _print_moment(session, span, at, arguments.format or FORMATS[0])
        elif out is not None:
            _write_json(session, start, arguments.step, out)
        elif form is not None:
            _print_series(session, start, form, arguments.step)
        elif shown is None:
            terminal.need("for text use --at T or --export FORMAT")
            show(session, start, speed=arguments.speed, loop=arguments.loop)
    return 0 if shown is None else int(shown.serve(arguments))


def _export(words: list[str] | None) -> tuple[str | None, Path | None, list[Path]]:
    """Return the format of --export, the file to write (None: print), and the FILEs after these."""
    if words is None:
        return None, None, []
    form, *rest = words
    if form not in (*FORMATS, MCAP_JSON):
        raise UserError(f"--export takes {', '.join(FORMATS)} or {MCAP_JSON}, and {form} is none of them")
    if form == MCAP_JSON and not rest:
        raise UserError(f"--export {MCAP_JSON} needs the file to write: --export {MCAP_JSON} OUT")
    files = list(map(Path, rest))
    return form, files.pop(0) if form == MCAP_JSON else None, files


def recordings_in(arguments: argparse.Namespace, what_happens: str, *, has_names: bool = False) -> list[Path]:
    """Return the recordings among the targets; without any, the command is about a live run.

    `what_happens` says what the command does to it: a live run is "checked" as it is now. With `has_names`,
    the other targets are names of runs in the recordings.
    """
    files = [Path(each) for each in arguments.target if is_recording(Path(each))]
    others = 0 if has_names else len(arguments.target) - len(files)
    if files and (others or arguments.hostfile or arguments.via is not None):
        raise UserError("give either recordings or a live run")
    if arguments.at is not None and not files:
        raise UserError(f"--at needs a recording; a live run is {what_happens} as it is now")
    return files


def is_recording(path: Path) -> bool:
    # A folder may have the name of a run.
    return path.suffix == ".mcap" or (path.is_dir() and any(path.glob("*.mcap")))


@contextmanager
def opened(given: list[Path]) -> Iterator[tuple[Session, tuple[float, float]]]:
    """Open recordings and folders of them; yield the session, and the times of its first and last moment."""
    try:
        session = Session(*_files(given), settings.load().tuning)
    except NotARecording as error:
        raise UserError(str(error)) from None
    try:
        span = session.span
        if span is None:
            raise UserError(f"{', '.join(map(str, given))} is empty: no complete part was written")
        yield session, span
    finally:
        session.close()


def _files(given: list[Path]) -> tuple[list[Path], set[Path]]:
    """Return the files, and those of them that no name on the command line asks for."""
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(path.glob("*.mcap"))
            if not inside:
                raise UserError(f"no recording in {path}: the names of recordings end in .mcap")
            found += inside
        else:
            found.append(path)
    return list(dict.fromkeys(found)), set(found).difference(given)


def time_in(text: str, span: tuple[float, float]) -> float:
    """Return the moment of a session that a typed time names."""
    try:
        return times.parse(text, *span)
    except ValueError as error:
        raise UserError(str(error)) from None


def with_history(
    session: Session,
    span: tuple[float, float],
    at: float,
    show: Callable[[float], object] = lambda _: None,
) -> Cluster:
    """Return the cluster at a time with its history, which keyframes do not have.

    `show` is called with each time that it has come to.
    """
    # Larger steps than the farthest would begin at a keyframe; smaller ones show how far it is.
    for before in range(HISTORY, 0, -int(FARTHEST_ON) // HISTORY_PARTS):
        session.at(max(span[0], at - before))
        show(at - before)
    return session.at(at)


def checked(session: Session, span: tuple[float, float], at: float) -> Cluster:
    """Return the cluster at a time with what is wrong with it, as it was found live."""
    cluster = with_history(session, span, at)
    cluster.check(at)
    return cluster


def _print_moment(session: Session, span: tuple[float, float], at: float, form: str) -> None:
    sys.stdout.write(written(form, checked(session, span, at), at))
    print_notes(session)


def _print_series(session: Session, start: float | None, form: str, step: float | None) -> None:
    from jaxtop.export.series import SERIES  # as above

    for line in SERIES[form](_moments(session, start, step)):
        sys.stdout.write(line)
    print_notes(session)


def _write_json(session: Session, start: float | None, step: float | None, out: Path) -> None:
    from jaxtop.export import mcap_json  # as above

    processes.end_with_sigterm()
    line = ProgressLine()
    with new_file(out) as draft:
        try:
            done = mcap_json.write(
                session, draft, start, step, lambda part: line.show(f"writing {out}: {part * 100:.0f}%")
            )
        finally:
            line.show("")
    print(f"wrote {done.messages} messages on {done.topics} topics, {in_bytes(out.stat().st_size)} to {out}")
    if done.unreadable:
        note(f"{done.unreadable} unreadable messages were left out")
    if done.topics_left_out:
        note(f"{done.topics_left_out} topics were left out: a file can have {done.topics}")
    print_notes(session)


def _moments(session: Session, start: float | None, step: float | None) -> Iterator[tuple[float, Cluster]]:
    span = session.span
    assert span is not None
    at, end = start if start is not None else span[0], span[1]
    while True:
        cluster = session.at(at)
        yield at, cluster
        if at >= end:
            return
        at += step or interval(cluster)
        following = session.following(at)
        # A wrong clock, or a pause of weeks, would fill the disk with empty moments.
        if following is None or following - at > LONGEST_LULL:
            at = end if following is None else following
        at = min(end, at)


def print_notes(session: Session) -> None:
    """Print what the user should know of the files."""
    sys.stdout.flush()
    for line in session.notes:
        note(line)


def show(session: Session, start: float | None, **how: Any) -> None:
    """Open the app on a session at this time; `how` has the other fields of a `Start`."""
    from jaxtop.base.clock import steady
    from jaxtop.tui.app import JaxtopApp  # heavy: errors above must be fast
    from jaxtop.tui.playback import Start

    terminal.collect_rarely()
    app = JaxtopApp(
        None,
        steady,
        history=session,
        replay=Start(start, **how),
        preferences=preferences_of(settings.load()),
    )
    failure = terminal.show(app)
    if failure:
        raise UserError(failure)
