"""Commands in terminals of their own."""

from __future__ import annotations

import os
import pty
import select
from contextlib import contextmanager

from tests import patience
from tests.support import JAXTOP, environment, started


@contextmanager
def in_a_terminal(*words: object, within=(), **variables: str):
    """A command in a terminal of its own: the process, and the file that is its screen and keyboard."""
    ours, theirs = pty.openpty()
    try:
        process = started(
            [*within, *JAXTOP, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(LINES="24", COLUMNS="80", **variables),
            start_new_session=True,
        )
        os.close(theirs)
        yield process, ours
        process.kill()
        process.wait()
    finally:
        os.close(ours)


def read_until(screen: int, words: str, seen_before: str = "") -> str:
    """What is written to the terminal, after what was seen before, up to these words or to its end."""
    seen, end = seen_before.encode(), patience.deadline()
    while words.encode() not in seen and end.left() > 0:
        if not select.select([screen], [], [], 1.0)[0]:
            continue
        try:
            more = os.read(screen, 65_536)
        except OSError:  # the other side has closed
            more = b""
        if not more:
            break
        seen += more
    return seen.decode(errors="replace")
