"""A viewer without a screen."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from jaxtop.base import keys
from jaxtop.model import Cluster
from jaxtop.model.findings.reducer import reported_findings
from jaxtop.sources import LiveSource, Seed
from jaxtop.store import runfiles

if TYPE_CHECKING:
    from jaxtop.model.finding import Finding

# The factor by which a finding of before must have grown to be about the fault.
GROWN = 1.3


class Follower:
    """A viewer without a screen that remembers when each finding was first reported."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._source: LiveSource | None = None
        self.cluster = Cluster()
        self.first: dict[tuple[str, str, str], tuple[float, Finding]] = {}
        self.last: dict[tuple[str, str, str], Finding] = {}
        # When a finding first cost far more than at first.
        self.grew: dict[tuple[str, str, str], float] = {}
        # What was so before the fault began, though it may have been reported later.
        self.of_healthy: set[tuple[str, str, str]] = set()
        self._began = -math.inf

    def look(self, seconds: float) -> None:
        """Follow the run for this long."""
        if self._source is None:
            found = [each for each in runfiles.find() if each.hello.pid in self._pids]
            if len(found) < len(self._pids):
                time.sleep(seconds)
                return
            self._source = LiveSource(
                [Seed(each.hello.agent, hello=each.hello) for each in found], keys.load()
            )
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for frame in self._source.poll(left):
                self.cluster.feed(frame)
        for each in reported_findings(self.cluster):
            if each.key not in self.first and each.since < self._began - 1:
                self.of_healthy.add(each.key)
            self.first.setdefault(each.key, (time.time(), each))
            self.last[each.key] = each
            before, now = self.first[each.key][1].cost, each.cost
            grown = (
                (before.bytes_per_device, now.bytes_per_device),
                (before.ms_per_step, now.ms_per_step),
            )
            if any(one and other and other > GROWN * one for one, other in grown):
                self.grew.setdefault(each.key, time.time())

    def begin(self, at: float) -> None:
        """Count the present findings as those of the healthy run: the fault began at this time."""
        self.first = {key: (first_at, self.last[key]) for key, (first_at, _) in self.first.items()}
        self.of_healthy = {
            key for key, (first_at, each) in self.first.items() if min(first_at, each.since) < at - 1
        }
        self._began = at
        self.grew.clear()

    def before(self, finding: Finding) -> Finding | None:
        """Return what was reported of the same subject when the fault began; None if nothing was."""
        return self.first[finding.key][1] if finding.key in self.of_healthy else None

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
