"""The rewind buffer: a bounded recording of a live session, to go back to, deleted at the end."""

from __future__ import annotations

import math
import os
import tempfile
from argparse import ArgumentTypeError
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base.units import in_bytes
from jaxtop.cli.errors import UserError
from jaxtop.cli.settings import MIN_REWIND, USUAL_REWIND
from jaxtop.cli.text.words import amount
from jaxtop.model.session.summary import SessionSummary
from jaxtop.model.tuning import AS_DECLARED
from jaxtop.recording import NotARecording, RecordingWriter
from jaxtop.sources import Session, SessionRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.model import Cluster, Tuning
    from jaxtop.wire import Frame

VARIABLE = "JAXTOP_REWIND"
# The buffer has at most this many files. The oldest is deleted when a further one is begun.
FILES = 4
# The longest time that the user waits for queued frames to be written.
SYNC_SECONDS = 0.5


def size_of(typed: str | None, configured: str | None = None) -> int:
    """Return the size limit of the buffer: as typed, else from the environment, the file, or the default."""
    text = typed if typed is not None else os.environ.get(VARIABLE) or configured
    try:
        return amount(text or USUAL_REWIND, MIN_REWIND)
    except ArgumentTypeError as error:
        raise UserError(f"{'--rewind' if typed is not None else VARIABLE}: {error}") from None


class _File:
    """A part of the session, in a file without a name, so that nothing remains after a crash."""

    def __init__(self, tuning: Tuning, begun_at: float) -> None:
        self.begun_at = begun_at
        path = Path(tempfile.mkdtemp(prefix="jaxtop-")) / "rewind.mcap"
        writer = RecordingWriter(path, {"writer": "kept"}, compacts=False, is_unnamed=True)
        try:
            writer.start()
            self.session = Session([path], tuning=tuning)
            self.recorder = SessionRecorder(writer)
        except NotARecording:
            raise OSError(writer.failure) from None
        finally:
            for remove in (path.unlink, path.parent.rmdir):
                with suppress(OSError):
                    remove()

    def catch_up(self, when: float) -> None:
        """Have what is queued written and read, if the file as it was read ends before this time."""
        span = self.session.span
        if span is None or when > span[1]:
            self.recorder.writer.sync(SYNC_SECONDS)
            self.session.refresh()

    def close(self) -> None:
        self.recorder.writer.end()
        self.session.close()


class RewindBuffer:
    """A recording in a few files without names; the oldest is deleted when there are too many."""

    def __init__(self, most_bytes: int, tuning: Tuning = AS_DECLARED) -> None:
        self._tuning = tuning
        self._most_bytes = most_bytes
        self._files: list[_File] = []
        self._dropped = 0
        self._failure = ""
        self._overview: tuple[tuple[SessionSummary, ...], SessionSummary] = (), SessionSummary()
        self._begin_file()

    def take(self, frames: Sequence[Frame], cluster: Cluster, now: float) -> None:
        if not self._files:
            return
        recorder = self._files[-1].recorder
        recorder.take(frames, cluster, now)
        is_full = recorder.writer.failure is None and recorder.writer.size >= self._most_bytes // FILES
        if is_full and frames and self._begin_file(frames[-1].at):
            # Not with the next frames, which are of several times: a keyframe shows only the last of them.
            self._files[-1].recorder.begin(cluster, frames[-1].at)

    def close(self) -> None:
        for each in self._files:
            each.recorder.writer.end()
        for each in self._files:
            each.recorder.writer.finish(SYNC_SECONDS)
            each.session.close()

    def _begin_file(self, at: float = -math.inf) -> bool:
        """Begin a file, and drop the oldest if there are too many; return whether that was possible."""
        try:
            begun = _File(self._tuning, at)
        except OSError as error:
            self._failure = (
                f"no rewind buffer: {error.strerror or error}" if not self._files else self._failure
            )
            return False
        if self._files:
            self._files[-1].recorder.writer.end()
        self._files.append(begun)
        if len(self._files) > FILES:
            self._files.pop(0).close()
            self._dropped += 1
        return True

    # The interface for the app

    @property
    def span(self) -> tuple[float, float] | None:
        spans = [span for each in self._files if (span := each.session.span) is not None]
        return (spans[0][0], spans[-1][1]) if spans else None

    @property
    def start(self) -> float | None:
        return self._files[0].session.start if self._files else None

    @property
    def is_growing(self) -> bool:
        return True

    @property
    def overview(self) -> SessionSummary:
        """The summary of all files, rebuilt when the summary of one of them has changed."""
        parts = tuple(each.session.overview for each in self._files)
        previous, whole = self._overview
        if len(parts) != len(previous) or any(a is not b for a, b in zip(parts, previous, strict=True)):
            whole = parts[0] if parts else SessionSummary()
            for file, part in zip(self._files[1:], parts[1:], strict=True):
                # The first keyframe of a file has all events so far.
                new = tuple(each for each in part.events if each.at > file.begun_at)
                whole = whole.followed_by(SessionSummary(part.bins, new))
            self._overview = parts, whole
        return whole

    @property
    def notes(self) -> tuple[str, ...]:
        if not self._files:
            return (self._failure,)
        failure = self._files[-1].recorder.writer.failure
        notes = []
        if self._dropped:
            notes.append(f"older history was dropped: the rewind buffer holds {in_bytes(self._most_bytes)}")
        if failure is not None:
            notes.append(f"the rewind buffer stopped: {failure}")
        return tuple(notes)

    def at(self, when: float) -> Cluster:
        file = next((each for each in reversed(self._files) if each.begun_at <= when), self._files[0])
        file.catch_up(when)  # the frames of an older file may still be queued, too
        return file.session.at(when)
