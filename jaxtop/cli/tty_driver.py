"""Textual's driver of a terminal, for terminals that go away, and for apps that are stopped at any moment."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from textual.drivers.linux_driver import LinuxDriver


class TTYDriver(LinuxDriver):
    """A driver that writes to standard output, drops what cannot be written, and can be stopped at any time.

    Textual writes to standard error, which is a file where somebody collects errors. The thread that writes
    would die of an error, and the app then stop at its full queue.
    """

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self._file: Any = LenientFile(sys.__stdout__)
        # Whether the terminal is the app's, and whether that is so again once the process goes on.
        self._is_on = self._is_suspended = False
        # Textual handles these signals wherever the main thread is, also within its own queue of output.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        loop.add_signal_handler(signal.SIGCONT, self._go_on)

    def start_application_mode(self) -> None:
        self._is_on = True
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def stop_application_mode(self) -> None:
        self._is_on = False
        super().stop_application_mode()

    def _stop(self) -> None:
        self._suspend()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _go_on(self) -> None:
        self._suspend()  # where SIGSTOP has stopped it, the shell had the terminal meanwhile
        if self._is_suspended:
            self._is_suspended = False
            self.resume_application_mode()

    def _suspend(self) -> None:
        if self._auto_restart and self._is_on:
            self.suspend_application_mode()
            self._is_suspended = self._must_signal_resume = True


class LenientFile:
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
