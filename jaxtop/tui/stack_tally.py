"""Samples of all main threads, and how often each line was seen: one stack may be a coincidence."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.model.stalls.stacks import groups_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model import Host

# The number of times that the stacks are sampled, one reply after another.
SAMPLES = 20
# The most processes that are sampled repeatedly. Larger runs are sampled once: their stacks are megabytes.
MAX_PROCESSES = 32
# The lines that are listed.
MAX_LINES = 4


class StackTally:
    """Counts the lines of the main threads while the user samples them."""

    def __init__(self) -> None:
        self._left = -1
        self._lines: Counter[str] = Counter()
        # The time of the last counted stacks, by agent.
        self._seen: dict[str, int] = {}

    def start(self, hosts: Iterable[Host]) -> None:
        """Start counting. Stacks that these hosts sent earlier do not count."""
        members = list(hosts)
        self._left = SAMPLES - 1 if len(members) <= MAX_PROCESSES else 0
        self._lines.clear()
        self._seen = {host.agent: host.stacks.at_ms for host in members}

    def stop(self) -> None:
        self._left = 0

    @property
    def is_on(self) -> bool:
        """Whether stacks are still asked for, or those of the last request may still come."""
        return self._left >= 0

    def take(self) -> bool:
        """Return whether to ask once more, and count that."""
        self._left = max(-1, self._left - 1)
        return self._left >= 0

    def see(self, hosts: Iterable[Host]) -> None:
        """Count the stacks that have arrived since the last call."""
        for host in hosts:
            if host.agent in self._seen and host.stacks.at_ms != self._seen[host.agent]:
                self._seen[host.agent] = host.stacks.at_ms
                for group in groups_of([host]):
                    self._lines[f"{group.text}{' (waits)' if group.is_waiting else ''}"] += 1

    @property
    def summary(self) -> str:
        """The lines that were seen most often, with their shares; empty after a single sample."""
        total = self._lines.total()
        if total < 2 * len(self._seen) or not total:
            return ""
        shares = (
            f"{units.share(count / total)} {line}" for line, count in self._lines.most_common(MAX_LINES)
        )
        return f"{total} samples: {', '.join(shares)}"
