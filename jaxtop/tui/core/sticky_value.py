"""A value on screen that stays for a while, although its figures change all the time."""

from __future__ import annotations


class StickyValue:
    """Decides whether a shown value stays. In a replay time may go backwards, and some rows have none."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._shown: object = None
        self._since = float("-inf")

    def lasts(self, value: object, at: float | None) -> bool:
        """Return whether this value was shown for less than that time; if not, show it from now on."""
        if at is not None and value == self._shown and 0.0 <= at - self._since < self._seconds:
            return True
        self._shown, self._since = value, float("-inf") if at is None else at
        return False
