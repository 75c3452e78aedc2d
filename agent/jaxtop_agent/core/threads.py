"""Threads that the training script cannot meet."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONGEST_NAME = 120

# What a thread does wrong itself comes to that thread; blocked, it would end the process without a word.
OWN_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


class Worker:
    """One thread of the agent.

    Not a `threading.Thread`: scripts join every thread that `threading.enumerate()` names, and would wait
    for ours for ever. It takes no signals, so that those of the script reach the script, and has no trace
    or profile function, so that a debugger or coverage of the script does not stop or count here.
    """

    def __init__(
        self, name: str, target: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        self.name = name
        self._target = target
        self._failed = failed
        self._done = threading.Lock()
        self.native_id: int | None = None
        self.ident: int | None = None

    def start(self) -> None:
        self._done.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except BaseException:  # no room for a thread: nobody shall wait for its end
            self._done.release()
            raise

    def join(self, timeout: float) -> bool:
        """Wait for the end; False if it did not come in time."""
        ended = self._done.acquire(timeout=max(0.0, timeout))
        if ended:
            self._done.release()
        return ended

    def _run(self) -> None:
        try:
            with suppress(Exception):
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - OWN_FAULTS)
            sys.settrace(None)
            sys.setprofile(None)
            self.native_id = threading.get_native_id()
            self.ident = threading.get_ident()
            self._target()
        except BaseException as error:  # anything: what escapes a raw thread is printed on the user's screen
            with suppress(Exception):
                self._failed(error)
        finally:
            self._done.release()


def cpu_clock(native_id: int) -> float:
    """The CPU time that this thread of this process has used; OSError once it has ended."""
    # What pthread_getcpuclockid makes of a thread; ZeroMQ's have no other handle than this id.
    return time.clock_gettime(~native_id << 3 | 6)


def cpu_seconds(native_ids: Iterable[int]) -> float:
    """The CPU time these threads of this process have used."""
    total = 0.0
    for native_id in native_ids:
        with suppress(OSError):
            total += cpu_clock(native_id)
    return total


def known() -> dict[int, Any]:
    """Python's threads as `threading` has them, by ident; its lock is not touched."""
    active: dict[int, Any] = getattr(sys.modules.get("threading"), "_active", {})
    return active.copy()


def fact(thread: Any, name: str, otherwise: Any) -> Any:
    """An attribute of one of Python's threads, whatever the script made of its class."""
    try:
        found = object.__getattribute__(thread, "__dict__").get(name, otherwise)
    except AttributeError:
        return otherwise
    return found[:LONGEST_NAME] if type(found) is str else (found if type(found) is int else otherwise)


class Wake:
    """A bell that one thread rings and another waits for: an eventfd, which ZeroMQ can poll, too."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ring(self) -> None:
        with suppress(OSError):
            os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        with suppress(OSError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.fd)
