"""The CPU costs of the agents on this machine, as they report them."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zmq

from jaxtop import wire
from jaxtop.base import keys, processes
from jaxtop.cli.text.words import legible
from jaxtop.sources.descriptors import Descriptors
from jaxtop.sources.requests import RequestPool
from jaxtop.store import runfiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.sources.requests import ReplyCallback

# An agent answers within milliseconds, unless its process is stopped or a thread in it holds the GIL.
PATIENCE = 2.0
NO_ANSWER = f"did not answer within {PATIENCE:.0f} s: stopped or blocked"
# Costs below this many percent of a core are reported as one sum.
MIN_LISTED = 0.005


@dataclass
class CostReport:
    """The costs that a live agent reported, or `why_not` if it did not."""

    hello: wire.Hello
    costs: wire.Costs | None = None
    why_not: str = NO_ANSWER

    @property
    def percent(self) -> float | None:
        """The percentage of one core that all threads of the agent used since it started."""
        return None if self.costs is None else sum(self._shares(self.costs.threads_us).values())

    def words(self) -> str:
        """Return the costs of the threads, highest first, and of the sampler's collectors in brackets."""
        if self.costs is None:
            return self.why_not
        within = _listed(self._shares(self.costs.collectors_us))
        parts = _listed(self._shares(self.costs.threads_us), {"sampler": f" ({within})" if within else ""})
        return f"costs {self.percent:.2f} % of a core over {self.costs.for_ms / 1000:.0f} s: {parts}"

    def as_json(self) -> dict[str, Any]:
        """Return the costs as percentages of one core; null for an agent that did not answer."""
        report = self.costs
        return {
            "agent": self.hello.agent,
            "pid": self.hello.pid,
            "run": self.hello.run,
            "name": self.hello.name,
            "for_s": None if report is None else report.for_ms / 1000,
            "cpu_percent": self.percent,
            "collectors": None if report is None else self._shares(report.collectors_us),
            "threads": None if report is None else self._shares(report.threads_us),
            "why_not": self.why_not if report is None else None,
        }

    def _shares(self, taken_us: Mapping[str, int]) -> dict[str, float]:
        elapsed_us = max(1, self.costs.for_ms if self.costs else 0) * 1000
        return {name: 100 * taken / elapsed_us for name, taken in taken_us.items()}


def ask() -> list[CostReport]:
    """Ask all live agents of this machine at once; wait at most `PATIENCE` seconds."""
    here = processes.here().boot
    found = [each.hello for each in runfiles.find() if not each.is_stale and each.hello.boot == here]
    reports = [CostReport(hello) for hello in found]
    if not reports:
        return []
    try:
        own = keys.load()
    except keys.NoKey as error:
        return [CostReport(hello, why_not=str(error)) for hello in found]
    with zmq.Context() as context:
        requests = RequestPool(context, own, own.public, Counter(), Descriptors())
        until = time.monotonic() + PATIENCE
        waiting = list(reports)
        for report in reports:
            take = _taker(report, waiting)
            requests.send(report.hello.requests, wire.Request("cost"), time.monotonic(), take)
        while waiting and (left := until - time.monotonic()) > 0:
            poller = zmq.Poller()
            requests.wait_with(poller)
            poller.poll(int(left * 1000) + 1)
            requests.take(time.monotonic())
        requests.close()
    return reports


def _taker(report: CostReport, waiting: list[CostReport]) -> ReplyCallback:
    def take(reply: wire.Reply | None, frames: list[wire.Frame]) -> None:
        waiting.remove(report)
        if reply is not None and reply.error:
            report.why_not = reply.error
        for frame in frames:
            try:
                report.costs = wire.decode_as(wire.Costs, frame.raw)
            except wire.Unreadable as error:
                report.why_not = f"unreadable answer: {error}"

    return take


def _listed(shares: Mapping[str, float], remarks: Mapping[str, str] | None = None) -> str:
    report = sorted((name for name in shares if shares[name] >= MIN_LISTED), key=lambda name: -shares[name])
    return ", ".join(f"{legible(name)} {shares[name]:.2f}{(remarks or {}).get(name, '')}" for name in report)
