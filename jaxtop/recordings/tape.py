"""A recording that is written on a thread of its own: whoever gives it frames never waits for a disk."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtop.recordings.compact import compact
from jaxtop.recordings.writer import Keyframe, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from jaxtop.wire import Frame

# What a killed writer loses at most is what came since the last flush.
FLUSH_EVERY = 1.5
# A disk that does not take this much in time is too slow: the recording ends there.
MOST_WAITING_BYTES = 64 << 20
# The rest of the disk is for the run.
LEAST_FREE = 64 << 20
LOOK_AT_DISK_EVERY = 10.0


@dataclass(frozen=True)
class Limits:
    """The largest size of a file, after which the next is begun; how many of them are kept."""

    size: int | None = None
    files: int | None = None


class Tape:
    """Frames and keyframes go in, files come out. What goes wrong is said by `failure`, and not raised."""

    def __init__(
        self,
        path: Path,
        about: Mapping[str, str],
        limits: Limits = Limits(),
        *,
        compacts: bool = True,
        start: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """Begin a recording.

        Args:
            path: The first file; of further ones the name has a number.
            about: What the file says of itself.
            limits: How large it may become.
            compacts: Whether the finished file is written anew in large chunks.
            start: Starts the thread, where a thread of `threading` will not do.
        """
        self._path, self._about, self._limits, self._compacts = path, dict(about), limits, compacts
        self._queue: deque[Frame | Keyframe] = deque()
        self._waiting = 0  # bytes
        self._bell = threading.Event()
        self._ending = False
        self._done = threading.Event()
        self._files: list[Path] = []
        self._written = 0
        self._wants_keyframe = False
        self.failure: str | None = None
        self.progress = 0.0  # of writing it anew
        self._writer: Writer | None = self._open(path)
        self._start(start)

    def _start(self, start: Callable[[Callable[[], None]], None] | None) -> None:
        if start is not None:
            start(self._run)
        else:
            threading.Thread(target=self._run, name="jaxtop tape", daemon=True).start()

    @property
    def path(self) -> Path:
        """The file that is written to now."""
        return self._files[-1]

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of this recording that are kept."""
        return tuple(self._files)

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        writer = self._writer
        return self._written + (writer.size if writer is not None else 0)

    @property
    def is_over(self) -> bool:
        """Whether nothing is recorded any more."""
        return self.failure is not None or self._done.is_set()

    @property
    def wants_keyframe(self) -> bool:
        """Whether a new file was begun, which needs a keyframe at its beginning."""
        return self._wants_keyframe

    def write(self, frames: Iterable[Frame]) -> None:
        """Record these frames; returns at once."""
        if self.is_over:
            return
        for frame in frames:
            self._queue.append(frame)
            self._waiting += len(frame.raw)
        if self._waiting > MOST_WAITING_BYTES:
            self._fail(f"the disk is too slow: {self._waiting >> 20} MB were waiting to be written")
        self._bell.set()

    def write_keyframe(self, keyframe: Keyframe) -> None:
        """Record the state at a time; returns at once."""
        self._wants_keyframe = False
        if not self.is_over:
            self._queue.append(keyframe)
            self._bell.set()

    def sync(self, timeout: float = 1.0) -> None:
        """Wait until all that was given is in the file, for a short while."""
        done = threading.Event()
        self._synced = done
        self._bell.set()
        done.wait(timeout)

    def finish(self, timeout: float | None = None) -> None:
        """End the recording in order, and wait for that."""
        self._ending = True
        self._bell.set()
        self._done.wait(timeout)

    # On the tape's own thread

    _synced: threading.Event | None = None

    def _run(self) -> None:
        flush_due = look_due = time.monotonic()
        try:
            while not self._ending and self.failure is None:
                self._bell.wait(FLUSH_EVERY)
                self._bell.clear()
                synced, self._synced = self._synced, None
                self._take()
                now = time.monotonic()
                if self._writer is not None and (now >= flush_due or synced is not None):
                    self._writer.flush()
                    flush_due = now + FLUSH_EVERY
                if now >= look_due:
                    look_due = now + LOOK_AT_DISK_EVERY
                    self._look_at_disk()
                if synced is not None:
                    synced.set()
            if self.failure is None:
                self._take()
                self._close()
        except Exception as error:  # noqa: BLE001 - a recording may fail; what is recorded goes on
            self._fail(reason(error))
        finally:
            if self._writer is not None:
                self._writer.abandon()
                self._writer = None
            self._queue.clear()
            self._done.set()

    def _take(self) -> None:
        while self._queue and self.failure is None and self._writer is not None:
            item = self._queue.popleft()
            if isinstance(item, Keyframe):
                self._writer.write_keyframe(item)
                continue
            self._writer.write(item)
            self._waiting -= len(item.raw)
            limit = self._limits.size
            if limit is not None and self._writer.size >= limit:
                self._rotate()

    def _rotate(self) -> None:
        self._close()
        number = len(self._files) + 1 if self._limits.files is None else self._number + 1
        self._number = number
        self._writer = self._open(self._path.with_name(f"{self._path.stem}-{number:03}{self._path.suffix}"))
        self._wants_keyframe = True
        while self._limits.files is not None and len(self._files) > self._limits.files:
            oldest = self._files.pop(0)
            with suppress(OSError):
                self._written -= oldest.stat().st_size
                oldest.unlink()

    _number = 1

    def _open(self, path: Path) -> Writer:
        writer = Writer(path, self._about)
        self._files.append(path)
        return writer

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.finish()
        path = self._files[-1]
        if self._compacts:
            with suppress(OSError):  # no room to write it anew: it is good as it is
                compact(path, self._advance)
        self._written += path.stat().st_size

    def _advance(self, part: float) -> None:
        self.progress = part

    def _look_at_disk(self) -> None:
        if shutil.disk_usage(self._path.parent).free < LEAST_FREE:
            raise OSError(28, os.strerror(28))

    def _fail(self, why: str) -> None:
        if self.failure is None:
            self.failure = why
        self._bell.set()


def reason(error: BaseException) -> str:
    """Why a recording ended, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": ")
