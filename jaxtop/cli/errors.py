"""Errors that a person can mend."""

from __future__ import annotations


class UserError(Exception):
    """One line that says what is wrong and what to do; never a traceback."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status
