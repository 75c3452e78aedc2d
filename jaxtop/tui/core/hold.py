"""Keeps what is shown for a while, although its figures change all the time."""

from __future__ import annotations


class Hold:
    """Decides whether what is shown stays. In a replay time may go backwards, and some rows have none."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._shown: object = None
        self._since = float("-inf")

    def lasts(self, shown: object, at: float | None) -> bool:
        """Return whether this has been shown for less than that time; if not, it is shown from now on."""
        if at is not None and shown == self._shown and 0.0 <= at - self._since < self._seconds:
            return True
        self._shown, self._since = shown, float("-inf") if at is None else at
        return False
