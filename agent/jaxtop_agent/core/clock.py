"""The time of day, as the messages carry it."""

from __future__ import annotations

from time import monotonic_ns, time_ns

# The clock of the machine may be set while we run. Viewers take differences of our times, so ours does not
# step: it begins with the time of day when the agent was loaded, and runs on from there.
_DAY_NS = time_ns() - monotonic_ns()


def now_ms() -> int:
    return (_DAY_NS + monotonic_ns()) // 1_000_000
