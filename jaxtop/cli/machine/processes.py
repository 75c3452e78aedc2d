"""JAX processes that a command starts on this machine and that end with it."""

from __future__ import annotations

import argparse
import ctypes
import os
import selectors
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from jaxtop.cli.errors import Terminated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import IO

    import msgspec

T = TypeVar("T")
PR_SET_PDEATHSIG = 1
LOOK_EVERY = 0.1


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Block Ctrl-C and SIGTERM until all processes are started; they unblock the signals when ready."""
    signals = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def on_cpu(devices: int) -> dict[str, str]:
    """Return the environment of a process with this many CPU devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Have the kernel signal this child if the command is killed, so that it does not run on forever."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def end_with_sigterm() -> None:
    """Make SIGTERM end the command as Ctrl-C does, with its own status."""
    signal.signal(signal.SIGTERM, _as_interrupt)


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def messages(pipe: int, decoder: msgspec.json.Decoder[T]) -> Iterator[list[T]]:
    """Yield the messages of each short interval, often none, until the other process closes the pipe."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            lines: list[bytes] = []
            if selector.select(LOOK_EVERY):
                read = os.read(pipe, 1 << 16)
                if not read:
                    return
                *lines, rest = (rest + read).split(b"\n")
            yield [decoder.decode(line) for line in lines]


def how(status: int) -> str:
    """Return in words how a process ended."""
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def last_words(file: IO[str]) -> str:
    """Return the last line in a process' error file."""
    file.seek(0)
    lines = [line.strip() for line in file if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""


def count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 64")
    return int(text)
