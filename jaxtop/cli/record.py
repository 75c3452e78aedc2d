"""`jaxtop record`: record a live session to a file, without the app."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import processes
from jaxtop.base.clock import steady
from jaxtop.base.names import as_file_name
from jaxtop.base.units import in_bytes, length
from jaxtop.cli import settings, targets, terminal
from jaxtop.cli.errors import UserError
from jaxtop.cli.machine.processes import end_with_sigterm
from jaxtop.cli.reading.complaints import why_none
from jaxtop.cli.text.output import ProgressLine, must_be_new
from jaxtop.cli.text.words import amount, duration
from jaxtop.model import Cluster, host_views, newest_hosts, runs
from jaxtop.model.liveness import was_never_reached
from jaxtop.model.naming.sentences import counted
from jaxtop.recording import RecordingLimits, RecordingWriter
from jaxtop.sources import SessionRecorder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from jaxtop.model import Tuning
    from jaxtop.sources import Source

NOTHING_REACHED, FAILED = 2, 1
PROGRESS_SECONDS = 0.5
# Seconds to continue after the last process has ended: its last messages may still be on their way.
LINGER = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="the file (default: named after the run)"
    )
    parser.add_argument(
        "--duration",
        type=duration,
        metavar="D",
        help="time to record: 90s, 15m, 2h (default: until the run ends)",
    )
    parser.add_argument(
        "--max-size", type=amount, metavar="SIZE", help="start another file at this size: 100M, 2G"
    )
    parser.add_argument(
        "--max-files", type=int, metavar="N", help="keep only the last N files (needs --max-size)"
    )


def main(arguments: argparse.Namespace) -> int:
    if arguments.max_files is not None and (arguments.max_size is None or arguments.max_files < 1):
        raise UserError("--max-files needs --max-size, and a number of at least 1")
    tuning = settings.load().tuning
    source = targets.open_source(arguments)
    end_with_sigterm()
    terminal.collect_rarely()
    try:
        limits = RecordingLimits(arguments.max_size, None, arguments.max_files)
        return LiveRecording(source, arguments.output, limits, tuning).run(arguments.duration)
    finally:
        source.close()


class LiveRecording:
    """The recording of a live source, with its progress line."""

    def __init__(self, source: Source, output: Path | None, limits: RecordingLimits, tuning: Tuning) -> None:
        self._source, self._output, self._limits = source, output, limits
        self._cluster = Cluster(tuning=tuning)
        self._recorder: SessionRecorder | None = None
        self._begun = time.monotonic()
        self._progress = ProgressLine()

    def run(self, seconds: float | None) -> int:
        """Record until the time is up, the run ends, the user interrupts, or the recording fails."""
        ended_at: float | None = None
        progress_due = 0.0
        early = []  # frames from before the run is known, which gives the file its name
        try:
            while seconds is None or time.monotonic() - self._begun < seconds:
                frames = self._source.poll(0.25)
                for frame in frames:
                    self._cluster.feed(frame)
                now = steady()
                if self._recorder is None:
                    early += frames
                    if self._output is not None or self._has_met_somebody():
                        output = self._output or Path(default_name(self._cluster))
                        self._recorder = SessionRecorder(begin(output, self._limits))
                        frames, early = early, []
                if self._recorder is not None:
                    self._recorder.take(frames, self._cluster, now)
                    if self._recorder.writer.is_over:
                        break
                if time.monotonic() >= progress_due:
                    progress_due = time.monotonic() + PROGRESS_SECONDS
                    written = 0 if self._recorder is None else self._recorder.writer.size
                    self._progress.show(f"recording {self._recorded_so_far()}, {in_bytes(written)}")
                ended_at = (ended_at or time.monotonic()) if has_ended(self._cluster, now) else None
                if ended_at is not None and time.monotonic() - ended_at >= LINGER:
                    break
        except KeyboardInterrupt:
            pass
        return self._finish()

    def _has_met_somebody(self) -> bool:
        return any(host.hello for host in newest_hosts(self._cluster))

    def _finish(self) -> int:
        what, recorder = self._recorded_so_far(), self._recorder
        if recorder is not None:
            finish(recorder, self._cluster, self._progress.show)
        self._progress.show("")
        if recorder is not None and recorder.writer.failure is not None:
            why, files = recorder.writer.failure, _names(recorder.writer)
            raise UserError(f"the recording stopped early: {why}; see what was recorded in {files}", FAILED)
        if recorder is None or not self._has_met_somebody():
            for path in recorder.writer.files if recorder is not None else ():
                path.unlink(missing_ok=True)  # it has no frames of a host
            why = why_none(self._cluster, steady()) or "no process was found"
            raise UserError(f"nothing was recorded: {why}", NOTHING_REACHED)
        print(f"recorded {what}, {in_bytes(recorder.writer.size)} to {_names(recorder.writer)}")
        return 0

    def _recorded_so_far(self) -> str:
        expected = sum(max(run.process_count or 0, len(run.hosts)) for run in runs(self._cluster, steady()))
        hosts = newest_hosts(self._cluster)
        met = sum(host.hello is not None for host in hosts)
        return f"{met} of {counted(expected, hosts)}, {length(time.monotonic() - self._begun)}"


def has_ended(cluster: Cluster, now: float) -> bool:
    """Return whether every process that was reached has exited."""
    found = host_views(cluster, now)
    all_ended = all(view.state.has_exited or was_never_reached(view.host) for view in found)
    return bool(found) and not cluster.unmet and all_ended


def _names(writer: RecordingWriter) -> str:
    return ", ".join(map(str, writer.files))


def default_name(cluster: Cluster) -> str:
    named = next((run.name or run.id for run in runs(cluster, steady())), "") or "run"
    return f"{as_file_name(named)}-{time.strftime('%Y%m%d-%H%M%S')}.mcap"


def begin(path: Path, limits: RecordingLimits = RecordingLimits()) -> RecordingWriter:  # noqa: B008 - the default is immutable
    """Start a recording to this file; raise `UserError` if that is impossible."""
    must_be_new(path)
    writer = RecordingWriter(
        path, {"writer": f"viewer-{time.time_ns():x}", **processes.identity_of_this_process()}, limits
    )
    writer.start()
    if writer.failure is not None:
        raise UserError(f"{path} cannot be written: {writer.failure}")
    return writer


def finish(recorder: SessionRecorder, cluster: Cluster, show_progress: Callable[[str], None]) -> None:
    """End the recording and report progress. If interrupted, the file remains as it is, which is valid."""
    ended = threading.Thread(target=recorder.finish, args=(cluster,), daemon=True)
    ended.start()
    try:
        while ended.is_alive():
            ended.join(PROGRESS_SECONDS)
            show_progress(f"finishing {recorder.writer.path.name}: {recorder.writer.progress * 100:.0f}%")
    except KeyboardInterrupt:
        show_progress("")
