"""Collectives of real processes over gloo: who is late is named, and nobody is who is not."""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import groupby
from statistics import median

import pytest

from jaxtop.base import keys
from jaxtop.cli.live.broadcast import request_to
from jaxtop.model import newest_hosts
from jaxtop.model.collectives import collective_views
from jaxtop.model.collectives.verdict import reported_by, wait_for_last
from tests import patience
from tests.support import PYTHON, ROOT, SOAK, Viewer, environment, eventually, free_port, processes, snapshot

pytestmark = pytest.mark.jax

SCRIPT = ROOT / "tests" / "programs" / "collectives.py"
REPEATS = range(10 if SOAK else 1)
# Windows without anybody late, from which what is usual is known.
BASELINE = 7
SPREADS, LEAST_SLEEP_S = 5, 0.05


class Watched(Viewer):
    """A viewer of a run that asks for windows, one after the other."""

    def __init__(self, home, count):
        super().__init__()
        self.home, self.count = home, count
        self.seen: set[int] = set()
        self.until(lambda: all(self.state(i) == "live" for i in range(count)))

    def views(self):
        return collective_views(self.cluster, 0)

    def all_know_the_step(self):
        """Whether each process has told what its step contains: windows taken before cannot be joined."""
        told = [{program for program, _ in host.inventories} for host in newest_hosts(self.cluster)]
        return len(told) == self.count and all("jit_step" in programs for programs in told)

    def across(self):
        """The collective that waits for whoever comes late: the first that crosses processes."""
        return next((view for view in self.views() if view.axes == ("data",)), None)

    def captured(self):
        """Take one more window on all hosts at the same moment."""
        before = [self.host(i).window for i in range(self.count)]
        agents = [host.agent for host in newest_hosts(self.cluster)]
        request = request_to("window", agents, time.time())
        for agent in agents:
            self.source.request(agent, request, lambda _: None)
        self.until(lambda: all(self.host(i).window is not w for i, w in enumerate(before)))

    def joined(self, count):
        """Take so many windows more in which all processes saw the same launch; some hold no whole one."""
        wanted, end = self.newest() + count, patience.deadline()
        while self.newest() < wanted:
            assert end.left() > 0, f"{self.newest()} of {wanted} windows within {end}"
            self.captured()

    def newest(self):
        """The number of windows in which the collective of `across` was timed."""
        view = self.across()
        windows = self.cluster.windows.programs.get(view.key[:3])
        self.seen |= {each.window_number for each in windows.timings.get(view.op, ())} if windows else set()
        return len(self.seen)

    def late(self, index, seconds):
        """Let this process sleep so long before each step; the step in which it begins is over then."""
        for i in range(self.count):
            (self.home / f"late-{i}").write_text(str(seconds if i == index else 0))
        self.joined(1)

    def spread_s(self):
        """How far apart launches are without anybody being late: slow ones, usual ones, a bad window."""
        view = self.across()
        assert view.samples, [
            (host.label, host.window, list(host.inventories)) for host in newest_hosts(self.cluster)
        ]
        return max(view.wait_us, view.p99_us - view.p50_us, self.worst_window_us(view)) / 1e6

    def worst_window_us(self, view):
        """A moment of other work makes whoever it hits late in all launches of a window."""
        timings = self.cluster.windows.programs[view.key[:3]].timings[view.op]
        by_window = groupby(reported_by(timings, 0), key=lambda each: each.window_number)
        return max(median(wait_for_last(each.arrivals[0]) for each in launches) for _, launches in by_window)


@contextmanager
def reducing(home, count=3, devices=2):
    """The script on so many processes, and somebody who watches them."""
    keys.load()
    coordinator = f"127.0.0.1:{free_port()}"
    commands = [[PYTHON, SCRIPT, coordinator, count, i] for i in range(count)]
    with processes(*commands, env=environment(devices, STEER=str(home))) as running:
        eventually(lambda: len(list((home / ".local/state/jaxtop/runs").glob("*.json"))) == count)
        watched = Watched(home, count)
        try:
            watched.until(lambda: watched.across() is not None and watched.all_know_the_step())
            yield watched
            (home / "stop").touch()
            assert [process.wait() for process in running] == [0] * count
        finally:
            watched.source.close()


def stragglers(watched):
    return {view.op: view.straggler.process_index for view in watched.views() if view.straggler}


@pytest.mark.newest  # on JAX 0.8.0 this script can hang in its second step, with no agent, too
def test_without_anybody_asking_timings_come_within_two_windows(home):
    """And a later `jaxtop snapshot` has them, too, on the right axes."""
    with reducing(home, count=2) as watched:
        watched.until(lambda: watched.across().samples > 0, within=40)
        assert {view.axes for view in watched.views()} == {("data",), ("model",), ("data", "model")}
        for view in watched.views():
            assert view.crosses_hosts == ("data" in view.axes)
            assert view.group_size == {("data",): 2, ("model",): 2, ("data", "model"): 4}[view.axes]
            assert view.kind == "all-reduce"
            assert view.p50_us > 0 and view.transfer_us >= 0
        (shown,) = [each for each in snapshot()[1]["collectives"] if each["axes"] == ["data"]]
        assert shown["samples"] > 0 and shown["p50_us"] > 0
        assert shown["bytes"] == 256 * 4  # one row of the half that each device has
        assert shown["program"] == "jit_step"


@pytest.mark.newest
@pytest.mark.quiet
@pytest.mark.parametrize("_", REPEATS)
def test_where_nobody_is_late_nobody_is_named_and_who_comes_late_is_and_so_is_the_next_one(home, _):
    """Within three windows of them; and what it costs the others is what it sleeps longer than they."""
    with reducing(home) as watched:
        for _ in range(BASELINE):
            watched.joined(1)
            assert stragglers(watched) == {}
        assert watched.across().is_enough
        sleep = max(SPREADS * watched.spread_s(), LEAST_SLEEP_S)
        for culprit in (1, 2):
            watched.late(culprit, sleep)
            watched.joined(3)
            assert stragglers(watched).get(watched.across().op) == culprit
        watched.joined(1)
        named = watched.across()
        assert named.straggler.process_index == 2 and named.straggler.share >= 0.9
        assert named.straggler.late_us / 1e6 == pytest.approx(sleep, rel=0.25)
        told = [event.text for event in watched.cluster.events if event.kind == "straggler"]
        assert any("process 1" in text for text in told) and any("process 2" in text for text in told)
