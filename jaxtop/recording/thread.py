"""Write a recording on a thread of its own, so that callers never wait for the disk."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.base import room
from jaxtop.base.names import reason
from jaxtop.base.units import in_bytes
from jaxtop.recording.compact import compact
from jaxtop.recording.writer import Keyframe, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtop.wire import Frame

# The recording fails if more than this waits to be written: the disk is too slow.
MOST_WAITING_BYTES = 64 << 20
# The recording fails if less than this is free: the run needs the rest of the disk.
LEAST_FREE = room.LEAST_FREE_DISK
LOOK_AT_DISK_EVERY = 10.0
# Frames are normally written at the next flush. If this many bytes wait, they are written at once.
BATCH_BYTES = 64 << 10
# Seconds to wait for the file to be closed after a failure.
FAILED_WAIT = 1.0
# Each file begins with the full state. A file shorter than this would hold little else.
MIN_FILE_SECONDS = 2.0


@dataclass(frozen=True)
class RecordingLimits:
    """The size and duration at which the next file is begun, and how many files are kept."""

    size: int | None = None
    seconds: float | None = None
    files: int | None = None
    waiting: int = MOST_WAITING_BYTES


class RecordingWriter:
    """Write frames and keyframes to files. Errors are reported in `failure` and are not raised.

    Call `run` on a thread, or `start`, which makes one.
    """

    def __init__(
        self,
        path: Path,
        about: Mapping[str, str],
        limits: RecordingLimits = RecordingLimits(),
        *,
        flush_every: float = 1.5,
        compacts: bool = True,
        is_unnamed: bool = False,
    ) -> None:
        """Prepare a recording; `run` opens the file.

        Args:
            path: The first file. The names of further files have a number.
            about: The metadata that each file gets.
            limits: The limits of size, duration and number of files.
            flush_every: Seconds between flushes. A killed writer loses the frames since the last flush.
            compacts: Whether finished files are rewritten in large chunks.
            is_unnamed: Whether the caller unlinks the file once it is open.
        """
        self._path, self._about, self._limits = path, dict(about), limits
        self._flush_every, self._compacts, self._is_unnamed = flush_every, compacts, is_unnamed
        self._queue: deque[Frame | Keyframe] = deque()
        # Bytes. Only one thread changes each counter; otherwise updates would be lost.
        self._given = self._taken = 0
        self._clock: tuple[float, float | None] | None = None
        self._wakeup = threading.Event()
        self._opened, self._done = threading.Event(), threading.Event()
        self._synced: threading.Event | None = None
        self._is_ending = False
        self._writer: Writer | None = None
        self._begun = 0.0
        self._number = 0
        self._finished_bytes = 0
        self._files: list[Path] = []
        self.failure: str | None = None
        self.progress = 0.0  # of rewriting a finished file, from 0 to 1
        self._is_full = False  # the next whole keyframe begins a new file
        self.wants_keyframe = True  # a whole one, with which a file begins
        self.keyframe_bytes = 0  # of the last keyframe, before compression
        self.turns = 0  # loops of the writing thread: while it does not rise, the disk does not answer

    def start(self) -> None:
        """Start the writing thread; return once the file is open or has failed to open."""
        threading.Thread(target=self.run, name="jaxtop recording", daemon=True).start()
        self._opened.wait(5)

    @property
    def path(self) -> Path:
        return self._files[-1] if self._files else self._path

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of this recording that were not deleted."""
        return tuple(self._files)

    @property
    def size(self) -> int:
        writer = self._writer
        return self._finished_bytes + (writer.size if writer is not None else 0)

    @property
    def is_over(self) -> bool:
        return self.failure is not None or self._done.is_set()

    def write(self, frames: Iterable[Frame]) -> None:
        """Queue these frames; return at once."""
        if self.is_over:
            return
        for frame in frames:
            self._given += len(frame.raw)
            self._queue.append(frame)
        waiting = self._given - self._taken
        if waiting > self._limits.waiting:
            self._fail(f"the disk is too slow: {in_bytes(waiting)} were waiting to be written")
            self._queue = deque()  # the writing thread may be blocked by a disk that does not answer
        elif waiting > BATCH_BYTES:
            self._wakeup.set()

    def write_keyframe(self, keyframe: Keyframe) -> None:
        """Queue a keyframe; return at once."""
        if keyframe.is_whole:
            self.wants_keyframe = False
        if not self.is_over:
            self._queue.append(keyframe)
            self._wakeup.set()

    def note_clock(self, offset_s: float, error_s: float | None) -> None:
        """Record how far the clock of these times is from that of process 0."""
        self._clock = offset_s, error_s

    def sync(self, timeout: float = 1.0) -> None:
        """Wait until everything queued is in the file, for at most `timeout` seconds."""
        self._synced = done = threading.Event()
        self._wakeup.set()
        if not self.is_over:
            done.wait(timeout)

    def finish(self, timeout: float | None = None) -> bool:
        """End the recording cleanly and wait for that; return False on timeout."""
        self.end()
        if self.failure is not None:  # otherwise it could wait without end for a disk that does not answer
            timeout = FAILED_WAIT
        return self._done.wait(timeout)

    def end(self) -> None:
        """Ask the writing thread to end the recording cleanly; return at once."""
        self._is_ending = True
        self._wakeup.set()

    def after_fork(self) -> None:
        """Close the parent's file in a forked child, which has no writing thread."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()

    # On the writing thread

    def run(self) -> None:
        """Write until asked to end, or until something fails."""
        try:
            self._open()
            self._opened.set()
            self._serve()
            self._take()
            self._close()
        except Exception as error:  # noqa: BLE001 - a failed recording must not stop the session
            self._fail(reason(error))
        finally:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.abandon()
            self._queue.clear()
            self._done.set()
            self._opened.set()
            if self._synced is not None:
                self._synced.set()

    def _serve(self) -> None:
        flush_due = time.monotonic()
        look_due = flush_due + LOOK_AT_DISK_EVERY
        while not self._is_ending and self.failure is None:
            self._wakeup.wait(max(0.0, flush_due - time.monotonic()))
            self._wakeup.clear()
            self.turns += 1
            synced, self._synced = self._synced, None
            self._take()
            now = time.monotonic()
            if self._writer is not None and (now >= flush_due or synced is not None):
                self._writer.flush()
                flush_due = now + self._flush_every
            if now >= look_due:
                look_due = now + LOOK_AT_DISK_EVERY
                self._look_for_room()
                if not self._is_unnamed:
                    self._files[-1].stat()  # raises if the folder was removed
            if synced is not None:
                synced.set()

    def _take(self) -> None:
        queue = self._queue  # `write` replaces it when the recording fails
        while queue and self.failure is None and self._writer is not None:
            item = queue.popleft()
            if isinstance(item, Keyframe):
                self._take_keyframe(item, self._writer)
                continue
            self._writer.write(item)
            self._taken += len(item.raw)
            if not self._is_full and self._has_reached_limit(self._writer):
                self._is_full = self.wants_keyframe = True
        clock, self._clock = self._clock, None
        if clock is not None and self._writer is not None:
            self._writer.note_clock(*clock)

    def _take_keyframe(self, keyframe: Keyframe, writer: Writer) -> None:
        """Write a keyframe, in the next file if this one is full: each file opens alone at all its times."""
        if self._is_full and keyframe.is_whole:
            self._close()
            writer = self._open()
            self._is_full = False
        self.keyframe_bytes = writer.write_keyframe(keyframe)

    def _has_reached_limit(self, writer: Writer) -> bool:
        size, seconds = self._limits.size, self._limits.seconds
        age = time.monotonic() - self._begun
        is_large = size is not None and writer.size >= size and age >= MIN_FILE_SECONDS
        return is_large or (seconds is not None and age >= seconds)

    def _open(self) -> Writer:
        self._look_for_room()
        self._number += 1
        path = first = self._path
        while self._number > 1:
            path = first.with_name(f"{first.stem}-{self._number:03}{first.suffix}")
            if not os.path.lexists(path):  # else a file of another recording
                break
            self._number += 1
        # Compaction adds the index, and a file without a name is read only by this process.
        has_index = not self._compacts and not self._is_unnamed
        self._writer = writer = Writer(path, self._about, is_indexed=has_index)
        self._begun = time.monotonic()
        self._files.append(path)
        while self._limits.files is not None and len(self._files) > self._limits.files:
            oldest = self._files.pop(0)
            with suppress(OSError):
                self._finished_bytes -= oldest.stat().st_size
                oldest.unlink()
        return writer

    def _close(self) -> None:
        writer = self._writer
        if writer is None:
            return
        writer.finish()
        self._writer = None
        if self._is_unnamed:
            self._finished_bytes += writer.size
            return
        path = self._files[-1]
        if self._compacts:
            with suppress(OSError):  # no room to rewrite it: the file is valid as it is
                self._look_for_room(writer.size)
                compact(path, partial(setattr, self, "progress"))
        self._finished_bytes += path.stat().st_size

    def _look_for_room(self, needed: int = 0) -> None:
        """Raise `OSError` if the run would have too little of the disk, with this many bytes more written."""
        folder = Path(tempfile.gettempdir()) if self._is_unnamed else self._path.parent
        room.require_disk(folder, LEAST_FREE + needed)

    def _fail(self, why: str) -> None:
        if self.failure is None:
            self.failure = why
        self._wakeup.set()
