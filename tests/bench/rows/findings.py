"""The cost of checking all rules of findings in a very large run."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jaxtop.model import RULES, Cluster
from jaxtop.model.findings import reducer
from tests.bench.frame import Figure, whole
from tests.made import sessions as made_sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.frame import Setting

BUDGET_MS = 100.0
# The first checks derive everything for the first time.
WARMS_UP = 5
MOST_RULES = 3


def measure(setting: Setting) -> Iterator[Figure]:
    hosts, devices, seconds = setting.pick((1024, 8, 90), (128, 8, 40))
    for has_trouble in (False, True)[: setting.pick(2, 1)]:
        made = made_sessions.Made(hosts, devices, seconds, has_trouble=has_trouble)
        yield from _checks(made, f"{hosts:,} × {devices}{', in trouble' if has_trouble else ''}")


def _checks(made: made_sessions.Made, label: str) -> Iterator[Figure]:
    cluster, idle, at = Cluster(), [], 0.0
    with _timed("check") as checks, _timed("_checked") as rules:
        for batch in made_sessions.batches(made):
            for frame in batch:
                cluster.feed(frame)
            at = batch[-1].at
        of_frames, by_rule = [took for took, _ in checks][WARMS_UP:], _by_rule(rules)
        for _ in range(10):
            reducer.check(cluster, at)
            idle.append(checks[-1][0])
    budget = BUDGET_MS * made.hosts / 1024
    yield Figure(
        f"{label}: a check of {len(RULES)} rules, CPU",
        whole(of_frames),
        "ms",
        control=whole(idle),
        budget=budget,
    )
    share = [took / 10 / reducer.CHECK_EVERY for took in of_frames]
    yield Figure(f"{label}: of a core, at a check in 2 s", whole(share), "%", budget=5.0)
    for name, took in sorted(by_rule.items(), key=lambda each: -max(each[1]))[:MOST_RULES]:
        yield Figure(f"{label}: of it, {name}", whole(took), "ms")


def _by_rule(calls: list[tuple[float, tuple[Any, ...]]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for took, (rule, *_) in calls[WARMS_UP * len(RULES) :]:
        found[rule.name].append(took)
    return found


@contextmanager
def _timed(name: str) -> Iterator[list[tuple[float, tuple[Any, ...]]]]:
    """Note the CPU time in ms, and the words, of each call of a function of the reducer."""
    real, calls = getattr(reducer, name), list[tuple[float, tuple[Any, ...]]]()

    def timed(*words: Any) -> Any:
        began = time.thread_time()
        try:
            return real(*words)
        finally:
            calls.append((1000 * (time.thread_time() - began), words))

    setattr(reducer, name, timed)
    try:
        yield calls
    finally:
        setattr(reducer, name, real)
