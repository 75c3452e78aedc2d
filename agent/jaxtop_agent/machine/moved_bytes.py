"""How many bytes the process has moved, and how fast it moves them now."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.wire import IoTotals

if TYPE_CHECKING:
    from jaxtop_agent.machine.disks import OwnTraffic

# Rates cover at least this time: reads come in bursts.
SPAN = 10.0


class _Totals(NamedTuple):
    at: float
    read: int | None
    written: int | None
    received: int | None


class Movement:
    """Follows the counters of one process; used by one thread, time is an argument."""

    def __init__(self) -> None:
        # Rates are measured from the older of the two.
        self._past: tuple[_Totals, ...] = ()
        self._received_before: int | None = None

    def look(self, now: float, own: OwnTraffic, received: int | None) -> IoTotals:
        """Return totals and rates; `received` counts since the machine started."""
        if self._received_before is None:
            self._received_before = received
        counters = _Totals(
            now, own.read_in_all, own.written_in_all, _less(received, self._received_before, 1.0)
        )
        if not self._past or now - self._past[-1].at >= SPAN:
            self._past = (*self._past[-1:], counters)
        _, *totals = counters
        first_at, *before = self._past[0]
        return IoTotals(*totals, *(_less(*pair, now - first_at) for pair in zip(totals, before, strict=True)))


def _less(now: int | None, before: int | None, seconds: float) -> int | None:
    """Return the increase of a counter per second; None where it is unknown or was reset."""
    if now is None or before is None or now < before or seconds <= 0:
        return None
    return round((now - before) / seconds)
