"""The command that leads to the relay end: its pipes, and the text that it writes for the user."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from jaxtop.features.relay import stream
from jaxtop.features.relay.conversation import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ERRORS, LAST_WORDS_S = 4096, 1.0
# `srun` and `kubectl` add such a line, before or after what the far side wrote.
_ONLY_STATUS = re.compile(r"Exited with exit code \d+$|^command terminated with exit code \d+$")


class RelayProcess:
    """The running command. Nothing here blocks, except `status` and `end`, for a few seconds at most."""

    def __init__(self, command: Sequence[str], *, may_ask: bool) -> None:
        """Start the command. If it may not ask, `ssh` must not prompt in the middle of the app."""
        pipe = subprocess.PIPE
        # Without a session of its own `ssh` prompts on the terminal, with one in a window.
        self._popen = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            start_new_session=not may_ask,
            env=None if may_ask else {**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
        )
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr  # noqa: PT018 - for mypy
        self._out, self._errors = self._popen.stdout.fileno(), self._popen.stderr.fileno()
        self._in = self._popen.stdin.fileno()
        for each in (self._out, self._errors, self._in):
            os.set_blocking(each, False)
        self.reader = stream.Reader()
        self._unsent = bytearray(stream.FIRST_LINE)
        self._complaints = self._unshown = ""

    def send(self, message: stream.Message) -> None:
        self._unsent += stream.pack(message)
        self._flush()

    def wait(self, timeout: float) -> None:
        """Wait for bytes of the relay end; meanwhile send what is left to send."""
        with selectors.DefaultSelector() as selector:  # select() fails beyond 1,023 descriptors
            selector.register(self._out, selectors.EVENT_READ)
            if self._unsent:
                selector.register(self._in, selectors.EVENT_WRITE)
            selector.select(timeout)
        self._flush()

    def read(self) -> bytes | None:
        """Return what has come; nothing if nothing has, None at the end."""
        self._listen()
        return _read(self._out)

    def lines(self) -> list[str]:
        """Return the whole lines that the command has written for the user since the last call."""
        self._listen()
        *lines, self._unshown = self._unshown.split("\n")
        return [shown(line) for line in lines if line.strip()]

    @property
    def last_line(self) -> str:
        """The last line that the command has written for the user, whole or not.

        A line that only repeats the exit status counts where there is no other.
        """
        lines = [line for line in self._complaints.splitlines() if line.strip()]
        lines.sort(key=lambda line: _ONLY_STATUS.search(line) is None)
        return shown(lines[-1]) if lines else ""

    def status(self) -> int | None:
        """Return the exit status of a command whose output has ended, if it ends soon."""
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(LAST_WORDS_S)
        self._listen()
        return self._popen.poll()

    def end(self) -> None:
        for each in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if each is not None:
                each.close()
        for seconds, stop in ((0.5, self._popen.terminate), (2.0, self._popen.kill), (2.0, None)):
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(seconds)
                return
            if stop is not None:
                with suppress(PermissionError):  # `sudo` runs as root, and ends by itself
                    stop()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._in, self._unsent[: 1 << 16])]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unsent.clear()  # `read` returns why

    def _listen(self) -> None:
        text = (_read(self._errors) or b"").decode("utf-8", "replace")
        self._complaints = (self._complaints + text)[-MAX_ERRORS:]
        self._unshown = (self._unshown + text)[-MAX_ERRORS:]


def _read(descriptor: int) -> bytes | None:
    """Return what can be read now; None at the end."""
    try:
        return os.read(descriptor, 1 << 18) or None
    except BlockingIOError:
        return b""
