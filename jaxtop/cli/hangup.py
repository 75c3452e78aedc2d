"""End a command whose terminal is gone: by its own means, else by the signal, else at once."""

from __future__ import annotations

import atexit
import ctypes
import os
import select
import signal
import stat
import threading
import time
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from jaxtop.base import debuglog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import App
    from textual.driver import Driver

STREAMS = INPUT, OUTPUT, ERRORS = (0, 1, 2)
# So long each means may take; a recording is finished and processes are ended in the first.
OWN_MEANS_S, SIGNAL_S = 1.5, 0.5
ASK_AGAIN_S = 0.05
GONE = select.POLLHUP | select.POLLERR


class _Command:
    """What has to end: the app that is shown, if one is, and what was begun for it."""

    def __init__(self) -> None:
        self.app: App[Any] | None = None
        self.watched: set[int] = set()
        self.is_ending = False


_command = _Command()


def watch(files: Iterable[int] = STREAMS) -> None:
    """End this command once one of these files is a terminal that is gone, also if it is gone already.

    The kernel signals only the processes whose controlling terminal it is, and a script may ignore that.
    """
    new = {each for each in files if _is_device(each)} - _command.watched
    if not new:
        return
    if not _command.watched and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, _on_signal)
    _command.watched |= new
    Thread(target=_wait, args=(new,), name="jaxtop terminal", daemon=True).start()


def shown(app: App[Any] | None) -> bool:
    """Say which app is shown from now on; return whether the command is ending."""
    _command.app = app
    return _command.is_ending


def is_ending() -> bool:
    """Return whether the terminal is gone."""
    return _command.is_ending


def _is_device(file: int) -> bool:
    """Whether this file may be a terminal: one that is gone says that it is none."""
    with suppress(OSError):
        return stat.S_ISCHR(os.fstat(file).st_mode)
    return False


def _wait(files: set[int]) -> None:
    if _gone(files, None):
        _drop(_gone(files, 0))
        os.kill(os.getpid(), signal.SIGHUP)
        _end()


def _gone(files: Iterable[int], timeout: float | None) -> list[int]:
    """Return the files that have no other side any more; wait for one without a timeout."""
    poll = select.poll()
    for file in files:
        poll.register(file, 0)
    while True:
        found = poll.poll(timeout)
        for file, event in found:
            if event & select.POLLNVAL:  # closed here, not there
                poll.unregister(file)
        gone = [file for file, event in found if event & GONE]
        if gone or timeout is not None or not found:
            return gone


def _drop(files: Iterable[int]) -> None:
    """Let what is written to these files vanish, and reading wait: it would find the end again and again."""
    silent, _open = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    for file in files:
        os.dup2(silent if file == INPUT else nothing, file)


def _on_signal(_number: int, _frame: object) -> None:
    """Start to end: an app is asked to, all else is interrupted as by Ctrl-C."""
    if _command.is_ending:
        return
    _command.is_ending = True
    debuglog.warning("terminal", "the terminal is gone")
    atexit.register(_by_signal)  # the status says why
    Thread(target=_end, daemon=True).start()
    if _command.app is None:
        raise KeyboardInterrupt


def _end() -> None:
    """End the process within the time that each means has."""
    deadline = time.monotonic() + OWN_MEANS_S
    while time.monotonic() < deadline:
        app = _command.app
        if app is not None and app.is_running:
            app.call_later(app.exit)
        time.sleep(ASK_AGAIN_S)
    _by_signal()
    time.sleep(SIGNAL_S)
    os._exit(128 + signal.SIGHUP)


def _by_signal() -> None:
    """End the process by the default action of SIGHUP. Python sets actions in its main thread only."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    libc.signal(signal.SIGHUP, None)  # SIG_DFL is a null pointer
    os.kill(os.getpid(), signal.SIGHUP)


def lenient(driver: type[Driver]) -> type[Driver]:
    """Return a driver whose output may fail.

    The thread that writes for Textual would die of an error, and the app then stop at its full queue.
    """

    class LenientDriver(driver):  # type: ignore[misc, valid-type]
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            self._file: Any = _Lenient(self._file)

    return LenientDriver


class _Lenient:
    """A file that drops what cannot be written."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
