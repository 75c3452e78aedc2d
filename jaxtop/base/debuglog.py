"""The debug log of jaxtop itself: the file that JAXTOP_DEBUG names, and the standard logger `jaxtop`.

This module neither imports `logging` nor calls `logging.getLogger`: a script that has not set up the logger
`jaxtop` gets no line of ours, whatever handlers its root logger has. By default, the thread that adds a line
writes it. In a training process the agent has a thread for that.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.base.forks import LONGEST_WAIT, ForkLock

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "JAXTOP_DEBUG"
LOGGER = "jaxtop"
# The numbers of `logging`.
DEBUG, INFO, WARNING = 10, 20, 30
LEVELS = {DEBUG: "debug", INFO: "info", WARNING: "warning"}
# The same text is written this often, then once per interval with the number of times it was left out.
AT_FIRST, INTERVAL_S, MOST_TEXTS = 3, 60.0, 500
MOST_WAITING, MOST_CHARACTERS = 500, 8000
# The bytes that one process writes to the file.
MOST_BYTES = 64 << 20
STANDARD_ERROR = 2
_IMPORTED = time.time()


class _Line(NamedTuple):
    at: float
    level: int
    part: str
    text: str


class _Count:
    """How often a text came, and what was left out since it was last written."""

    def __init__(self) -> None:
        self.times = 0
        self.left_out = 0
        self.due = 0.0


class DebugLog:
    """Lines for the file and for the logger. No method raises; of an exception only the text is stored."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        if self._path is not None:
            with suppress(OSError):  # the working directory does not exist
                self._path = self._path.absolute()  # the script may change its working directory
        self._waiting: deque[_Line] = deque(maxlen=MOST_WAITING)
        self._counts: dict[tuple[str, str], _Count] = {}
        self._bytes = 0
        self._dropped = 0
        # Held while a thread writes; a fork waits for it.
        self.writing = ForkLock()
        # Called after each new line: `write`, or what wakes the thread that calls `write`.
        self.deliver: Callable[[], None] = self.write

    def add(
        self, level: int, part: str, text: str, detail: object = "", error: BaseException | None = None
    ) -> None:
        """Add a line, with the traceback of `error`; repetitions of `text` with any detail are limited."""
        with suppress(Exception):
            if self._path is None and _logger(level) is None:
                return
            now = time.monotonic()
            left_out = self._left_out(part, text, now)
            if left_out is None:
                return
            words = f"{text}: {detail}" if detail != "" else text
            if left_out:
                words += f" ({left_out} more such lines since the last one)"
            if error is not None:
                words += "\n" + _traceback(error)
            if len(self._waiting) == MOST_WAITING:
                self._dropped += 1
            self._waiting.append(_Line(time.time(), level, part, words[:MOST_CHARACTERS]))
            self.deliver()

    def _left_out(self, part: str, text: str, now: float) -> int | None:
        """Return how many lines of this text were left out before; None to leave out this one, too."""
        if len(self._counts) >= MOST_TEXTS:
            self._counts.clear()
        count = self._counts.setdefault((part, text), _Count())
        count.times += 1
        if count.times > AT_FIRST and now < count.due:
            count.left_out += 1
            return None
        left_out, count.left_out, count.due = count.left_out, 0, now + INTERVAL_S
        return left_out

    def write(self) -> None:
        """Write the lines that wait, unless another thread does so."""
        if not self.writing.lock.acquire(timeout=LONGEST_WAIT):
            return
        try:
            while self._waiting:
                lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
                if self._dropped:
                    text = f"{self._dropped} lines were dropped: they came faster than they can be written"
                    lines.append(_Line(time.time(), WARNING, "debug log", text))
                    self._dropped = 0
                self._to_file(lines)
                for line in lines:
                    with suppress(Exception):  # a handler of the script
                        _to_logger(line)
        finally:
            self.writing.lock.release()

    def _to_file(self, lines: list[_Line]) -> None:
        if self._path is None:
            return
        # One write per batch: lines of several processes do not mix.
        text = "".join(map(_formatted, lines)).encode(errors="backslashreplace")
        self._bytes += len(text)
        if self._bytes > MOST_BYTES:
            self._give_up(self._path, f"this process has written {MOST_BYTES >> 20} MB")
            return
        try:
            from jaxtop.base import private  # only where there is a file

            # Not left open: a script may close all descriptors, and the number may then be another file's.
            fd = private.append(self._path)
            try:
                os.write(fd, text)
            finally:
                os.close(fd)
        except OSError as error:
            self._give_up(self._path, error.strerror or str(error))

    def _give_up(self, path: Path, why: str) -> None:
        self._path = None
        with suppress(OSError):
            os.write(STANDARD_ERROR, f"jaxtop: {VARIABLE}={path} cannot be written: {why}\n".encode())

    def forked(self, text: str) -> None:
        """After a fork, in the child: leave the lines that wait to the parent, and write one of the child's.

        The logger does not get it: another thread of the parent may have held a lock of `logging`.
        """
        with suppress(Exception):
            self._waiting.clear()
            self.writing = ForkLock()
            self.deliver = self.write
            self._to_file([_Line(time.time(), INFO, "fork", text)])


def _formatted(line: _Line) -> str:
    """Return the line for the file; each further line of a traceback begins with the pid, too."""
    seconds, rest = divmod(line.at, 1)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(rest * 1000):03}Z"
    start = f"{at} {os.getpid()}"
    text = line.text.replace("\n", f"\n{start}   | ")
    return f"{start} {line.part} {LEVELS[line.level]}: {text}\n"


def _traceback(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error)).rstrip()


def _logger(level: int) -> Any:
    """Return the logger `jaxtop` if the script has given it a level or a handler, and it takes this level."""
    logging: Any = sys.modules.get("logging")
    root = getattr(logging, "root", None)
    if root is None:
        return None
    logger = root.manager.loggerDict.get(LOGGER)
    if not isinstance(logger, logging.Logger) or logger.disabled or root.manager.disable >= level:
        return None
    if not logger.level and all(isinstance(each, logging.NullHandler) for each in logger.handlers):
        return None
    return logger if level >= logger.getEffectiveLevel() else None


def _to_logger(line: _Line) -> None:
    logger = _logger(line.level)
    if logger is None:
        return
    logging: Any = sys.modules["logging"]
    # Not through the constructor: it asks for the current `threading.Thread`, and a thread that has none is
    # listed by `threading.enumerate()` from then on.
    record = logging.LogRecord.__new__(logging.LogRecord)
    record.__dict__.update(
        name=LOGGER,
        msg=line.text,
        args=(),
        levelname=logging.getLevelName(line.level),
        levelno=line.level,
        pathname=__file__,
        filename="debuglog.py",
        module="debuglog",
        lineno=0,
        funcName=line.part,
        exc_info=None,
        exc_text=None,
        stack_info=None,
        created=line.at,
        msecs=int(line.at % 1 * 1000) + 0.0,
        relativeCreated=(line.at - _IMPORTED) * 1000,
        thread=threading.get_ident(),
        threadName=f"jaxtop {line.part}",
        processName=None,
        process=os.getpid(),
        taskName=None,
    )
    logger.handle(record)


LOG = DebugLog(os.environ.get(VARIABLE))


def debug(part: str, text: str, detail: object = "") -> None:
    """Add a line about something ordinary."""
    LOG.add(DEBUG, part, text, detail)


def info(part: str, text: str, detail: object = "") -> None:
    """Add a line about a change."""
    LOG.add(INFO, part, text, detail)


def warning(part: str, text: str, detail: object = "", error: BaseException | None = None) -> None:
    """Add a line about something that failed, with the traceback of `error`."""
    LOG.add(WARNING, part, text, detail, error)
