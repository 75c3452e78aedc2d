"""Threads that are invisible to the training script."""

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

# A fault raises its signal in the thread that caused it. If the signal were blocked there, the process would
# end without a message.
OWN_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


class Worker:
    """One thread of the agent.

    It is not a `threading.Thread`: some scripts join every thread in `threading.enumerate()`, and would wait
    for ours forever. It blocks signals, so that the script's signals reach the script. It has no trace or
    profile function, so that a debugger does not stop here and a coverage tool does not count these lines.
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
        except BaseException:  # the thread did not start: `join` must not wait for it
            self._done.release()
            raise

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end; return False if it did not end in time."""
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
        except BaseException as error:  # an exception that leaves a raw thread is printed to stderr
            with suppress(Exception):
                self._failed(error)
        finally:
            self._done.release()


def cpu_clock(native_id: int) -> float:
    """Return the CPU time that a thread of this process has used; raise OSError once it has ended."""
    # The clock id that pthread_getcpuclockid computes. ZeroMQ's threads have no handle but the native id.
    return time.clock_gettime(~native_id << 3 | 6)


def cpu_seconds(native_ids: Iterable[int]) -> float:
    """Return the CPU time that these threads of this process have used together."""
    total = 0.0
    for native_id in native_ids:
        with suppress(OSError):
            total += cpu_clock(native_id)
    return total


def listed() -> dict[int, Any]:
    """Return the threads that `threading` knows, by ident, without taking its lock."""
    active: dict[int, Any] = getattr(sys.modules.get("threading"), "_active", {})
    return active.copy()


def fact(thread: Any, name: str, otherwise: Any) -> Any:
    """Return an attribute of a thread without running code that the script may have put into its class."""
    try:
        found = object.__getattribute__(thread, "__dict__").get(name, otherwise)
    except AttributeError:
        return otherwise
    return found[:LONGEST_NAME] if type(found) is str else (found if type(found) is int else otherwise)


def main_ident() -> int | None:
    """Return the ident of the main thread."""
    found: int | None = fact(getattr(sys.modules.get("threading"), "_main_thread", None), "_ident", None)
    return found


class WakeEvent:
    """A signal from one thread to another: an eventfd, which ZeroMQ can also poll."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        with suppress(OSError, ValueError):
            os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        with suppress(OSError, ValueError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        fd, self.fd = self.fd, -1  # the script's next file may get this descriptor
        with suppress(OSError):
            os.close(fd)
