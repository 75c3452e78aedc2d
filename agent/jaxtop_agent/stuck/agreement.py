"""Whether all processes of a run are stuck: each stuck one reports it to the agent of process 0.

Process 0 decides: it is stuck itself, and each other process has reported the same within the last seconds.
A process that moves does not report, and one that is stopped, dead or cut off cannot: then nobody ends.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxtop.wire import Still

# Seconds between two reports, and seconds for which a report counts.
REPORT_EVERY_S, VALID_S = 1.5, 5.0
# Seconds from the agreement to the end, so that all learn of it and end together. This is longer than a
# report counts, so that a process that moves again or is stopped meanwhile calls it off.
NOTICE_S = 8.0
# From then on each process writes its evidence. All exit at one moment after this time, because what waits
# for a process that has exited fails. Process 0 exits last, because JAX aborts the others when it is gone.
EVIDENCE_S, FIRST_S = 5.0, 1.0
# Each report is a connection, and an agent accepts a limited number a second. So larger runs take more time.
REPORTS_A_SECOND = 32


def pace(count: int) -> float:
    """Return how many times these seconds a run of `count` processes takes."""
    return max(1.0, count / (REPORTS_A_SECOND * REPORT_EVERY_S))


class _Heard(NamedTuple):
    at: float
    run: str


class StillReports:
    """The reports at process 0. The publisher notes them; the thread that decides reads them."""

    def __init__(self) -> None:
        self._reports: dict[int, _Heard] = {}
        self.ends_at: float | None = None  # set while all are stuck

    def note(self, still: Still, now: float) -> int | None:
        """Note a report; return in how many milliseconds all end, None while they do not."""
        self._reports[still.process_index] = _Heard(now, still.run)
        return None if self.ends_at is None else max(0, round((self.ends_at - now) * 1000))

    def missing(self, count: int, run: str, now: float) -> list[int]:
        """Return the indices of the other processes without a valid report."""
        valid = {
            index
            for index, report in self._reports.copy().items()
            if report.run == run and now - report.at <= VALID_S * pace(count)
        }
        return [index for index in range(1, count) if index not in valid]

    def decide(self, *, is_stuck: bool, missing: list[int], count: int, now: float) -> bool:
        """Return whether it is time to end; called at each look of process 0."""
        if not is_stuck or missing:
            self.ends_at = None
        elif self.ends_at is None:
            self.ends_at = now + (NOTICE_S * pace(count) if count > 1 else 0.0)
        return self.ends_at is not None and now >= self.ends_at

    @property
    def exits_at(self) -> float:
        return (self.ends_at or 0.0) + EVIDENCE_S + FIRST_S


class Notice:
    """What a process other than 0 has learned from the answers to its reports."""

    def __init__(self) -> None:
        self._ends_at: float | None = None
        self._heard_at = 0.0

    @property
    def exits_at(self) -> float:
        return (self._ends_at or 0.0) + EVIDENCE_S

    def hear(self, ends_in_ms: int | None, now: float) -> None:
        self._heard_at = now
        if ends_in_ms is None:
            self._ends_at = None
        else:  # the answer that came the soonest says it best
            self._ends_at = min(now + ends_in_ms / 1000, self._ends_at or math.inf)

    def decide(self, *, is_stuck: bool, now: float, count: int = 2) -> bool:
        """Return whether it is time to end; an answer counts for as long as a report."""
        if not is_stuck or now - self._heard_at > VALID_S * pace(count):
            self._ends_at = None
        return self._ends_at is not None and now >= self._ends_at
