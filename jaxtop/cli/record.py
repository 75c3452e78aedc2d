"""`jaxtop record`: record a live session to a file, without the app."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop import processes
from jaxtop.cli import garbage, targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.words import amount, duration, legible, length, size
from jaxtop.clock import steady
from jaxtop.model import Cluster, hosts, runs, state_of
from jaxtop.model.liveness import was_never_reached
from jaxtop.recording import Limits, RecordingWriter, plain
from jaxtop.sources import SessionRecorder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from jaxtop.sources import LiveSource

NOTHING_REACHED, FAILED = 2, 1
TELL_EVERY = 0.5
# Seconds to continue after the last process has ended: its last messages may still be on their way.
LINGER = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    targets.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="the file; by default named after the run"
    )
    parser.add_argument(
        "--duration", type=duration, metavar="D", help="90s, 15m, 2h; by default until the run ends"
    )
    parser.add_argument(
        "--max-size", type=amount, metavar="SIZE", help="begin another file when one is so large: 100M, 2G"
    )
    parser.add_argument(
        "--max-files", type=int, metavar="N", help="of these keep the last N (needs --max-size)"
    )


def main(arguments: argparse.Namespace) -> int:
    if arguments.max_files is not None and (arguments.max_size is None or arguments.max_files < 1):
        raise UserError("--max-files N keeps the last N files: it needs --max-size, and N from 1 up")
    source = targets.open_source(arguments)
    signal.signal(signal.SIGTERM, _as_interrupt)
    garbage.rarely()
    try:
        return Recording(source, arguments.output, Limits(arguments.max_size, None, arguments.max_files)).run(
            arguments.duration
        )
    finally:
        source.close()


class Recording:
    """The recording of a live source, with its progress line."""

    def __init__(self, source: LiveSource, output: Path | None, limits: Limits) -> None:
        self._source, self._output, self._limits = source, output, limits
        self._cluster = Cluster()
        self._taping: SessionRecorder | None = None
        self._begun = time.monotonic()
        self._tells = sys.stderr.isatty()

    def run(self, seconds: float | None) -> int:
        """Record until the time is up, the run ends, the user interrupts, or the recording fails."""
        over_since: float | None = None
        tell_due = 0.0
        held = []  # frames from before the run is known, which gives the file its name
        try:
            while seconds is None or time.monotonic() - self._begun < seconds:
                frames = self._source.poll(0.25)
                for frame in frames:
                    self._cluster.feed(frame)
                now = steady()
                if self._taping is None:
                    held += frames
                    if self._output is not None or self._has_met_somebody():
                        output = self._output or Path(default_name(self._cluster))
                        self._taping = SessionRecorder(begin(output, self._limits))
                        frames, held = held, []
                if self._taping is not None:
                    self._taping.take(frames, self._cluster, now)
                    if self._taping.tape.is_over:
                        break
                if time.monotonic() >= tell_due:
                    tell_due = time.monotonic() + TELL_EVERY
                    written = 0 if self._taping is None else self._taping.tape.size
                    self._tell(f"recording {self._what()}, {size(written)}")
                over_since = (over_since or time.monotonic()) if self._is_over(now) else None
                if over_since is not None and time.monotonic() - over_since >= LINGER:
                    break
        except KeyboardInterrupt:
            pass
        return self._finish()

    def _is_over(self, now: float) -> bool:
        found = hosts(self._cluster)
        are_over = all(state_of(host, now).is_over or was_never_reached(host) for host in found)
        return bool(found) and not self._cluster.unmet and are_over

    def _has_met_somebody(self) -> bool:
        return any(host.hello for host in hosts(self._cluster))

    def _finish(self) -> int:
        what, taping = self._what(), self._taping
        if taping is not None:
            finish(taping, self._cluster, self._tell)
        self._tell("")
        if taping is not None and taping.tape.failure is not None:
            why, files = taping.tape.failure, _names(taping.tape)
            raise UserError(f"the recording ended early: {why}; what there is is in {files}", FAILED)
        if taping is None or not self._has_met_somebody():
            for path in taping.tape.files if taping is not None else ():
                path.unlink(missing_ok=True)  # it has no frames of a host
            unmet = self._cluster.unmet.values()
            whys = [f"{each.endpoint}: {targets.why(each.link)}" for each in unmet]
            raise UserError("; ".join(whys) or "nobody was met, nothing is recorded", NOTHING_REACHED)
        print(f"recorded {what}, {size(taping.tape.size)} to {_names(taping.tape)}")
        return 0

    def _what(self) -> str:
        expected = sum(max(run.process_count or 0, len(run.hosts)) for run in runs(self._cluster, steady()))
        met = sum(host.hello is not None for host in hosts(self._cluster))
        return f"{met} of {expected} hosts, {length(time.monotonic() - self._begun)}"

    def _tell(self, line: str) -> None:
        """Replace the progress line on a terminal."""
        if self._tells:
            print(f"\r\x1b[K{legible(line)}", end="", file=sys.stderr, flush=True)


def _names(tape: RecordingWriter) -> str:
    return ", ".join(map(str, tape.files))


def default_name(cluster: Cluster) -> str:
    """Return a file name with the run and the time."""
    named = next((run.name or run.id for run in runs(cluster, steady())), "") or "run"
    return f"{plain(named)}-{time.strftime('%Y%m%d-%H%M%S')}.mcap"


def begin(path: Path, limits: Limits = Limits()) -> RecordingWriter:  # noqa: B008 - the default is immutable
    """Start a recording to this file; raise `UserError` if that is impossible."""
    if path.exists():
        raise UserError(f"{path} exists already; choose another name, or remove it")
    tape = RecordingWriter(path, {"tape": f"viewer-{time.time_ns():x}", **processes.about_this()}, limits)
    tape.start()
    if tape.failure is not None:
        raise UserError(f"{path} cannot be written: {tape.failure}")
    return tape


def finish(taping: SessionRecorder, cluster: Cluster, tell: Callable[[str], None]) -> None:
    """End the recording and report progress. If interrupted, the file remains as it is, which is valid."""
    ended = threading.Thread(target=taping.finish, args=(cluster,), daemon=True)
    ended.start()
    try:
        while ended.is_alive():
            ended.join(TELL_EVERY)
            tell(f"finishing {taping.tape.path.name}: {taping.tape.progress * 100:.0f}%")
    except KeyboardInterrupt:
        tell("")


def _as_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
