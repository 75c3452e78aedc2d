"""A recording that is written on a thread of its own: whoever gives it frames never waits for a disk."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtop.recording.compact import compact
from jaxtop.recording.writer import Keyframe, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtop.wire import Frame

# A disk that does not take this much in time is too slow: the recording ends there.
MOST_WAITING_BYTES = 64 << 20
# The rest of the disk is for the run.
LEAST_FREE = 64 << 20
LOOK_AT_DISK_EVERY = 10.0
# What comes is taken when the file is flushed next, and at once where it is so much.
MUCH = 64 << 10
# For the file to be closed after something failed.
FAILED_WAIT = 1.0
# Each file begins with the whole state; one that ends sooner would hold little else.
SHORTEST = 2.0


@dataclass(frozen=True)
class Limits:
    """How large and how long a file may become before the next one is begun, and how many are kept."""

    size: int | None = None
    seconds: float | None = None
    files: int | None = None
    waiting: int = MOST_WAITING_BYTES


class RecordingWriter:
    """Frames and keyframes go in, files come out. What goes wrong is said by `failure`, and not raised.

    `run` is to be called on a thread; `start` makes one.
    """

    def __init__(
        self,
        path: Path,
        about: Mapping[str, str],
        limits: Limits = Limits(),
        *,
        flush_every: float = 1.5,
        compacts: bool = True,
        is_unnamed: bool = False,
    ) -> None:
        """A tape that will write to this file.

        Args:
            path: The first file; of further ones the name has a number.
            about: What the files say of themselves.
            limits: How large they may become.
            flush_every: A killed writer loses what came since the last flush.
            compacts: Whether finished files are written anew in large chunks.
            is_unnamed: Whether the file's name is taken away once it is open.
        """
        self._path, self._about, self._limits = path, dict(about), limits
        self._flush_every, self._compacts, self._is_unnamed = flush_every, compacts, is_unnamed
        self._queue: deque[Frame | Keyframe] = deque()
        # Bytes; each is counted by one thread alone, or counts would get lost.
        self._given = self._taken = 0
        self._clock: tuple[float, float | None] | None = None
        self._bell = threading.Event()
        self._opened, self._done = threading.Event(), threading.Event()
        self._synced: threading.Event | None = None
        self._is_ending = False
        self._writer: Writer | None = None
        self._begun = 0.0
        self._number = 0
        self._finished_bytes = 0
        self._files: list[Path] = []
        self.failure: str | None = None
        self.progress = 0.0  # of writing a file anew
        self.wants_keyframe = True  # a file was begun
        self.turns = 0  # of the thread that writes: while they do not rise, the disk does not answer

    def start(self) -> None:
        """Begin, on a thread of its own; returns once the file is there, or cannot be."""
        threading.Thread(target=self.run, name="jaxtop tape", daemon=True).start()
        self._opened.wait(5)

    @property
    def path(self) -> Path:
        """The file that is written to now."""
        return self._files[-1] if self._files else self._path

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of this recording that are kept."""
        return tuple(self._files)

    @property
    def size(self) -> int:
        """Bytes in all these files."""
        writer = self._writer
        return self._finished_bytes + (writer.size if writer is not None else 0)

    @property
    def is_over(self) -> bool:
        """Whether nothing is recorded any more."""
        return self.failure is not None or self._done.is_set()

    def write(self, frames: Iterable[Frame]) -> None:
        """Record these frames; returns at once."""
        if self.is_over:
            return
        for frame in frames:
            self._given += len(frame.raw)
            self._queue.append(frame)
        waiting = self._given - self._taken
        if waiting > self._limits.waiting:
            self._fail(f"the disk is too slow: {waiting >> 20} MB were waiting to be written")
            self._queue.clear()  # who would write it may stand in a disk that does not answer
        elif waiting > MUCH:
            self._bell.set()

    def write_keyframe(self, keyframe: Keyframe) -> None:
        """Record the state at a time; returns at once."""
        self.wants_keyframe = False
        if not self.is_over:
            self._queue.append(keyframe)
            self._bell.set()

    def note_clock(self, offset_s: float, error_s: float | None) -> None:
        """Note how far the clock behind the times is from that of process 0."""
        self._clock = offset_s, error_s

    def sync(self, timeout: float = 1.0) -> None:
        """Wait until all that was given is in the file, for a short while."""
        self._synced = done = threading.Event()
        self._bell.set()
        if not self.is_over:
            done.wait(timeout)

    def finish(self, timeout: float | None = None) -> bool:
        """End the recording in order, and wait for that; False if it did not come in time."""
        self.end()
        if self.failure is not None:  # a disk that does not answer would be waited for without end
            timeout = FAILED_WAIT
        return self._done.wait(timeout)

    def end(self) -> None:
        """Have it end in order; returns at once."""
        self._is_ending = True
        self._bell.set()

    def forsake(self) -> None:
        """In a forked child, which has no thread that writes: let go of the parent's file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()

    # On the tape's own thread

    def run(self) -> None:
        """Write until told to end, or until something fails."""
        try:
            self._open()
            self._opened.set()
            self._serve()
            self._take()
            self._close()
        except Exception as error:  # noqa: BLE001 - a recording may fail; what is recorded goes on
            self._fail(reason(error))
        finally:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.abandon()
            self._queue.clear()
            self._done.set()
            self._opened.set()

    def _serve(self) -> None:
        flush_due = time.monotonic()
        look_due = flush_due + LOOK_AT_DISK_EVERY
        while not self._is_ending and self.failure is None:
            self._bell.wait(max(0.0, flush_due - time.monotonic()))
            self._bell.clear()
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
                    self._files[-1].stat()  # a folder that was taken away
            if synced is not None:
                synced.set()

    def _take(self) -> None:
        while self._queue and self.failure is None and self._writer is not None:
            item = self._queue.popleft()
            if isinstance(item, Keyframe):
                self._writer.write_keyframe(item)
                continue
            self._writer.write(item)
            self._taken += len(item.raw)
            if self._is_full(self._writer):
                self._close()
                self._open()
        clock, self._clock = self._clock, None
        if clock is not None and self._writer is not None:
            self._writer.note_clock(*clock)

    def _is_full(self, writer: Writer) -> bool:
        size, seconds = self._limits.size, self._limits.seconds
        age = time.monotonic() - self._begun
        is_large = size is not None and writer.size >= size and age >= SHORTEST
        return is_large or (seconds is not None and age >= seconds)

    def _open(self) -> None:
        self._number += 1
        path = self._path
        if self._number > 1:
            path = path.with_name(f"{path.stem}-{self._number:03}{path.suffix}")
        self._look_for_room()
        # One that is written anew gets its index then; one without a name is read by us alone.
        has_index = not self._compacts and not self._is_unnamed
        self._writer = Writer(path, self._about, is_indexed=has_index)
        self._begun = time.monotonic()
        self._files.append(path)
        self.wants_keyframe = self.wants_keyframe or self._number > 1
        while self._limits.files is not None and len(self._files) > self._limits.files:
            oldest = self._files.pop(0)
            with suppress(OSError):
                self._finished_bytes -= oldest.stat().st_size
                oldest.unlink()

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
            with suppress(OSError):  # no room to write it anew: it is good as it is
                compact(path, self._advance)
        self._finished_bytes += path.stat().st_size

    def _advance(self, part: float) -> None:
        self.progress = part

    def _look_for_room(self) -> None:
        folder = Path(tempfile.gettempdir()) if self._is_unnamed else self._path.parent
        if shutil.disk_usage(folder).free < LEAST_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _fail(self, why: str) -> None:
        if self.failure is None:
            self.failure = why
        self._bell.set()


def reason(error: BaseException) -> str:
    """Why a recording ended, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    first_line = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
