"""End a command whose terminal is gone, or an app by a signal; by force where it does not end by itself."""

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

STREAMS = INPUT, OUTPUT, ERRORS = (0, 1, 2)
# How long each means may take. In the first, a recording is finished and processes are ended.
OWN_MEANS_S, SIGNAL_S = 1.5, 0.5
# Where the terminal is still there, somebody waits for the end.
ASKED_S = 15.0
ASK_AGAIN_S = 0.05
GONE = select.POLLHUP | select.POLLERR


class _Command:
    """What has to end: the app that is shown, if one is, and what was begun for it."""

    def __init__(self) -> None:
        self.app: App[Any] | None = None
        self.watched: set[int] = set()
        # The signal that ends it, and what the app does not handle itself.
        self.signal: signal.Signals | None = None
        self.handlers: dict[signal.Signals, Any] = {}


_command = _Command()


def watch(files: Iterable[int] = STREAMS) -> None:
    """End this command once one of these files is a terminal that is gone, even if it is gone already.

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
    """Say which app is shown, and to be ended by signals, from now on; return whether one is ending it."""
    _command.app = app
    if threading.current_thread() is threading.main_thread():
        _handle_signals(is_shown=app is not None)
    return _command.signal is not None


def _handle_signals(*, is_shown: bool) -> None:
    """Let signals end an app as its own key does: else its terminal would stay without echo and lines."""
    if not is_shown:
        for each, handler in _command.handlers.items():
            signal.signal(each, handler)
        _command.handlers.clear()
        return
    for each in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(each)
        if handler not in (signal.SIG_IGN, None):
            _command.handlers.setdefault(each, handler)
            signal.signal(each, _on_signal)


def is_ending() -> bool:
    """Return whether a signal ends the command."""
    return _command.signal is not None


def is_gone() -> bool:
    """Return whether the terminal is gone."""
    return _command.signal is signal.SIGHUP


def _is_device(file: int) -> bool:
    """Whether this file may be a terminal: one that is gone says that it is none."""
    with suppress(OSError):
        return stat.S_ISCHR(os.fstat(file).st_mode)
    return False


def _wait(files: set[int]) -> None:
    if _gone(files, None):
        _drop(_gone(files, 0))
        os.kill(os.getpid(), signal.SIGHUP)
        _end(signal.SIGHUP)


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
    waiting, _open = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    for file in files:
        os.dup2(waiting if file == INPUT else nothing, file)


def _on_signal(number: int, _frame: object) -> None:
    """Start to end: an app is asked to, all else is interrupted as by Ctrl-C."""
    if _command.signal is not None:
        return
    _command.signal = signal.Signals(number)
    debuglog.warning("terminal", f"ended by {_command.signal.name}")
    atexit.register(_by_signal, _command.signal)  # the status says why
    Thread(target=_end, args=(_command.signal,), daemon=True).start()
    if _command.app is None:
        raise KeyboardInterrupt


def _end(number: signal.Signals) -> None:
    """End the process within the time that each means has."""
    deadline = time.monotonic() + (OWN_MEANS_S if number is signal.SIGHUP else ASKED_S)
    while time.monotonic() < deadline:
        app = _command.app
        if app is not None and app.is_running:
            app.call_later(app.exit)
        time.sleep(ASK_AGAIN_S)
    _by_signal(number)
    time.sleep(SIGNAL_S)
    os._exit(128 + number)


def _by_signal(number: signal.Signals) -> None:
    """End the process by the default action of a signal. Python sets actions in its main thread only."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    libc.signal(number, None)  # SIG_DFL is a null pointer
    os.kill(os.getpid(), number)
