"""Errors that the user can fix."""

from __future__ import annotations


class UserError(Exception):
    """An error whose message says in one line what is wrong and what to do; it never shows a traceback."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status
