"""The wall time that the messages carry."""

from __future__ import annotations

from time import monotonic_ns, time_ns

# The machine's clock may be set while we run. Viewers subtract our times from each other, so our clock must
# not step: it starts at the wall time at which the agent was loaded, and then follows the monotonic clock.
_DAY_NS = time_ns() - monotonic_ns()


def now_ms() -> int:
    return (_DAY_NS + monotonic_ns()) // 1_000_000
