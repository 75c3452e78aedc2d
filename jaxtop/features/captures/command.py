"""`jaxtop capture`: a full profile of several processes at the same moment, for XProf and Perfetto."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import hostnames
from jaxtop.base.clock import steady
from jaxtop.base.names import as_file_name
from jaxtop.base.units import in_bytes
from jaxtop.cli import settings, targets, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.live.broadcast import Broadcast, request_to
from jaxtop.cli.machine.processes import end_with_sigterm
from jaxtop.cli.text.output import ProgressLine
from jaxtop.cli.text.words import amount, legible, note, number
from jaxtop.features.captures.result import NONE_CAPTURED, bar, failures, finished, summary
from jaxtop.wire import LinkState
from jaxtop.wire.captures import LONGEST_MS, MOST_BYTES

if TYPE_CHECKING:
    from jaxtop.features.captures.capture import Capture, Wish
    from jaxtop.features.captures.finish import FinishedCapture, ProcessesAtStart
    from jaxtop.features.captures.folder import CaptureFolder
    from jaxtop.model import Cluster, Host, HostView
    from jaxtop.sources import Source

SOME_FAILED = 1
# The steps that are captured by default.
STEPS = 5
# The most seconds that these steps may take.
MAX_STEPS_S = 60.0
# The size of a trace by default, in bytes.
SIZE = 32 << 20
# The least size that a user may set.
MIN_SIZE = 1 << 20
# The most size that a user may set.
MAX_SIZE = MOST_BYTES
# More processes at once are a mistake more often than a wish: the traces have some megabytes each.
MAX_PROCESSES = 256
POLL_S, PROGRESS_S = 0.05, 0.2
# The seconds to wait for processes to report.
GATHER_S = 5.0
# The seconds to wait for short windows, whose durations are compared.
WINDOWS_S = 8.0
# After Ctrl-C, processes are told to stop for at most this long.
FAREWELL_S = 3.0
_STEPS = number("a number of steps from 1 to 100000", 1, 100_000, "")
_SECONDS = number("between 0.01 and 600 seconds", 0.01, LONGEST_MS / 1000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="the folder for captures (default: RUN-captures)"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--steps",
        type=_STEPS,
        metavar="N",
        help=f"end after N steps, after {MAX_STEPS_S:.0f} s at the latest (default: {STEPS})",
    )
    length.add_argument("--seconds", type=_SECONDS, metavar="S", help="end after S seconds, 0.01 to 600")
    parser.add_argument(
        "--hosts",
        type=_indexes,
        metavar="LIST",
        help="processes to capture, by index: 0,3 or 0-7,16 (default: all)",
    )
    parser.add_argument(
        "--max-size",
        type=_size,
        metavar="SIZE",
        default=SIZE,
        help=f"end in a process when its trace has this size (default: {in_bytes(SIZE)})",
    )


def _indexes(text: str) -> list[int]:
    try:
        return [int(each) for each in hostnames.expand(f"[{text}]")]
    except (hostnames.BadHosts, ValueError):
        raise argparse.ArgumentTypeError(f"{text} is not a list such as 0,3 or 0-7,16") from None


def _size(text: str) -> int:
    count = amount(text, MIN_SIZE)
    if count > MAX_SIZE:
        raise argparse.ArgumentTypeError(f"{text} is more than {in_bytes(MAX_SIZE)}")
    return count


def main(arguments: argparse.Namespace) -> int:
    from jaxtop.cli.reading.gather import gather  # imports the model: errors above must be fast
    from jaxtop.features.captures.capture import Capture
    from jaxtop.features.captures.finish import known

    tuning = settings.load().tuning
    source = targets.open_source(arguments)
    end_with_sigterm()
    terminal.collect_rarely()
    progress = ProgressLine()
    try:
        cluster = gather(source, GATHER_S, tuning)
        views = chosen(cluster, arguments.hosts)
        _wait_for_windows(source, cluster, views, progress)
        about = known(cluster, [view.host.agent for view in views])
        folder = begun(arguments.output or default_folder([view.host for view in views]))
        names = {agent: about.file_name(agent) for agent in about.hosts}
        wish = wish_of(arguments.steps, arguments.seconds, arguments.max_size)
        job = Capture(names, wish, lambda agent: folder.draft(names[agent]), steady())
        try:
            _follow(source, job, progress)
        except BaseException:
            _end(source, job)
            folder.drop_drafts()
            raise
    finally:
        source.close()
        progress.show("")
    result = finished(folder, about, job, lambda share: progress.show(f"merging {bar(share)}"))
    progress.show("")
    return _report(job, about, result)


def wish_of(steps: float | None, seconds: float | None, most_bytes: int) -> Wish:
    from jaxtop.features.captures.capture import Wish  # as in `main`

    if seconds is not None:
        return Wish(seconds, most_bytes)
    return Wish(MAX_STEPS_S, most_bytes, int(steps or STEPS))


def chosen(cluster: Cluster, indexes: list[int] | None) -> list[HostView]:
    """Return the live processes to capture; raise `UserError` if they are none, too many, or of two runs."""
    from jaxtop.cli.reading.complaints import why_none  # as in `main`
    from jaxtop.model import runs

    found = [run for run in runs(cluster, steady()) if any(_can_be_asked(view) for view in run.hosts)]
    if len(found) > 1:
        names = ", ".join(run.name or run.id for run in found[:5])
        raise UserError(f"{len(found)} runs are live ({legible(names)}): name one of them")
    if not found:
        raise UserError(why_none(cluster, steady()) or "no live process was found", NONE_CAPTURED)
    views = [view for view in found[0].hosts if _can_be_asked(view)]
    if indexes is not None:
        views = [view for view in views if view.host.process_index in indexes]
        lacking = sorted(set(indexes) - {view.host.process_index for view in views})
        if lacking:
            which = ", ".join(map(str, lacking[:10]))
            raise UserError(f"no live process has the index {which}")
    if len(views) > MAX_PROCESSES:
        raise UserError(f"{len(views)} processes are more than {MAX_PROCESSES}: choose with --hosts 0-7")
    return views


def _can_be_asked(view: HostView) -> bool:
    return view.host.hello is not None and not view.state.has_exited and view.host.link.state is LinkState.UP


def default_folder(hosts: list[Host]) -> Path:
    hello = hosts[0].hello
    name = "" if hello is None else hello.name or hello.run or ""
    return Path(f"{as_file_name(name or 'run')}-captures")


def begun(root: Path) -> CaptureFolder:
    """Create the folder of a capture; raise `UserError` if that is impossible."""
    from jaxtop.features.captures.folder import CaptureFolder  # as in `main`

    try:
        return CaptureFolder(root.absolute())
    except OSError as error:
        raise UserError(f"{root} cannot be written: {error.strerror or error}", 1) from None


def _wait_for_windows(
    source: Source, cluster: Cluster, views: list[HostView], progress: ProgressLine
) -> None:
    """Have a short window of each process, to compare the capture with; ask for one if there is none.

    Not of GPUs: there each use of the profiler is a risk of its own.
    """
    from jaxtop.cli.reading.gather import watch  # as in `main`

    hosts = [view.host for view in views]
    agents = [host.agent for host in hosts if host.hello and host.hello.platform in {"cpu", "tpu"}]

    def lacking() -> list[str]:
        return [agent for agent in agents if not cluster.hosts[agent].window.is_short]

    if without := lacking():
        progress.show("taking a short window, to compare with")
        asking = Broadcast(request_to("window", without, steady()), without)

        def is_enough() -> bool:
            asking.advance(source)
            return asking.is_done and (not lacking() or bool(asking.refused))

        is_enough()
        watch(source, cluster, WINDOWS_S, is_enough)


def _follow(source: Source, job: Capture, progress: ProgressLine) -> None:
    from jaxtop.features.captures.member import doing  # as in `main`

    due = 0.0
    while not job.is_done:
        job.advance(source)
        source.poll(POLL_S)
        now = time.monotonic()
        if now >= due:
            due = now + PROGRESS_S
            members = list(job.members.values())
            received = sum(each.received for each in members)
            share = f" {bar(job.share)} {in_bytes(received)}" if received else ""
            progress.show(doing(members, now) + share)


def _end(source: Source, job: Capture) -> None:
    """Tell the processes that nobody wants their traces any more."""
    job.stop()
    end = time.monotonic() + FAREWELL_S
    while not job.is_done and time.monotonic() < end:
        job.advance(source)
        source.poll(POLL_S)


def _report(job: Capture, about: ProcessesAtStart, result: FinishedCapture) -> int:
    for line in summary(job, result):
        print(legible(line))
    failed = failures(about, job)
    for line in failed:
        note(line)
    return SOME_FAILED if failed else 0
