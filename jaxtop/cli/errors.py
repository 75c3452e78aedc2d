"""Errors that the user can fix."""

from __future__ import annotations


class Terminated(KeyboardInterrupt):
    """SIGTERM: it ends a command as Ctrl-C does, with a status of its own."""


class UserError(Exception):
    """An error whose message says in one line what is wrong and what to do; it never shows a traceback."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status
