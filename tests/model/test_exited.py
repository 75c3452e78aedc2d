"""What is kept of processes that exited: bounded, counted, and the same live and replayed."""

from __future__ import annotations

import json

import pytest

from jaxtop import wire
from jaxtop.export import to_json
from jaxtop.model import Cluster, device_views, exited_runs, keyframe, newest_hosts, runs, state_of
from jaxtop.model.state import DroppedProcesses
from jaxtop.wire import LinkState
from tests.builders import folded, frame, well
from tests.cases import thorough
from tests.stage import shown_after
from tests.stories import census, hello, link, pulse, tell

GROUP = wire.ArrayGroup((8,), "float32", 0, 32, 32, "w", "f")
MINUTE = 60.0


def life(agent: str, run: str, index: int, at: float, last: str | None = "closed", *, count: int = 2):
    """What is heard of a process that lives for half a minute."""
    said = hello(index, run, agent=agent, started_ms=int(at * 1000), process_count=count)
    messages = [link("up"), said, census(GROUP), pulse(at_ms=int(at * 1000), launches={"step": 1})]
    told = [(at, agent, each) for each in messages]
    return told if last is None else [*told, (at + 30, agent, link(last))]


def restarted(times: int, *, of_one_run: bool) -> Cluster:
    """A process that was started again every two minutes; the last one lives."""
    cluster = Cluster()
    tell(cluster, *life("other", "r", 1, 0, None))
    for i in range(times):
        last = None if i == times - 1 else "closed"
        run = "r" if of_one_run else f"run{i}"
        tell(cluster, *life(f"a{i}", run, 0, 2 * MINUTE * i, last, count=2 if of_one_run else 1))
        tell(cluster, (2 * MINUTE * i + 31, "other", pulse(at_ms=int(2 * MINUTE * i * 1000))))
    return cluster


def known_of(cluster: Cluster) -> list[int]:
    """How many agents each of the tables knows something of."""
    tables = cluster.hosts, cluster.past_pulses, cluster.past_figures, cluster.past_arrays
    return [len(each) for each in tables]


def test_a_process_that_was_started_three_hundred_times_is_kept_once_and_counted():
    cluster = restarted(300, of_one_run=True)
    assert max(known_of(cluster)) <= 3
    (run,) = runs(cluster, 0)
    assert [view.incarnation for view in run.hosts] == [300, 1]
    assert cluster.dropped.count in (298, 299)
    assert len(cluster.events) > 298  # what happened is told all the same


def test_of_a_hundred_runs_that_are_over_the_last_ones_are_kept():
    cluster = restarted(100, of_one_run=False)
    now = 2 * MINUTE * 100
    kept = {host.run for host in newest_hosts(cluster)}
    assert kept >= {"r", "run99", "run98", f"run{100 - exited_runs.MAX_RUNS}"}
    assert len(kept) <= exited_runs.MAX_RUNS + 3 and max(known_of(cluster)) <= exited_runs.MAX_RUNS + 3
    assert len(cluster.meshes) == 1 and len(cluster.dropped.starts) == 0
    document = json.loads(to_json(cluster, now))
    assert document["dropped_processes"] == cluster.dropped.count > 60
    assert {event["process_index"] for event in document["events"]} == {0}


def test_the_last_run_stays_however_long_ago_it_ended():
    cluster = Cluster()
    for run, at in (("first", 0.0), ("last", 300.0)):
        tell(cluster, *life(f"{run}-0", run, 0, at, count=1))
    tell(cluster, (3 * exited_runs.RUN_KEPT, "", wire.Link(LinkState.CLOSED, "10.0.0.9:7411")))
    assert [host.run for host in newest_hosts(cluster)] == ["last"]
    tell(cluster, *life("new-0", "new", 0, 4 * exited_runs.RUN_KEPT, None, count=1))
    tell(cluster, (4 * exited_runs.RUN_KEPT + 60, "new-0", pulse()))
    assert [host.run for host in newest_hosts(cluster)] == ["new"]


def test_hosts_that_died_stay_in_the_table_of_a_run_that_goes_on_and_lose_their_past():
    cluster = Cluster()
    for index in range(300):
        tell(cluster, *life(f"a{index}", "r", index, index / 10, "closed" if index else None, count=300))
    later = 100 + exited_runs.DETAILS_KEPT + MINUTE
    tell(cluster, (later, "a0", pulse(at_ms=int(later * 1000))))
    assert len(newest_hosts(cluster)) == 300 and cluster.dropped.count == 0
    assert known_of(cluster) == [300, 1, 1, 1]
    assert {str(state_of(host, later)) for host in newest_hosts(cluster)} == {"live", "died"}
    assert sum(bool(host.arrays.groups) for host in cluster.hosts.values()) == 1


def test_a_roster_does_not_bring_back_who_was_dropped_and_a_hello_does():
    cluster = restarted(20, of_one_run=True)
    at = 2 * MINUTE * 20
    listed = wire.Roster("other", (_peer("a3"),), run="r")
    tell(cluster, (at, "other", listed), (at, "a3", link("unreachable")), (at, "a3", pulse()))
    assert "a3" not in cluster.hosts and "a3" in cluster.dropped.agents
    tell(cluster, (at, "a3", hello(0, "r", agent="a3")))
    assert "a3" in cluster.hosts


def _peer(agent: str) -> wire.Peer:
    return wire.Peer(agent, 0, "node0", 77, 1, "boot", "ns", "10.0.0.1:7411", "10.0.0.1:7410")


@pytest.mark.parametrize("of_one_run", [True, thorough(False)])
def test_a_keyframe_keeps_what_was_dropped(of_one_run):
    cluster = restarted(60, of_one_run=of_one_run)
    now = 2 * MINUTE * 60
    again = folded(keyframe.frames(cluster, now))
    assert again.dropped == cluster.dropped
    assert again.hosts.keys() == cluster.hosts.keys()
    assert [(view.host.agent, view.incarnation) for run in runs(again, now) for view in run.hosts] == [
        (view.host.agent, view.incarnation) for run in runs(cluster, now) for view in run.hosts
    ]


def test_a_keyframe_of_an_older_recording_is_read_with_its_restarts():
    cluster = Cluster()
    tell(cluster, *life("a0", "r", 0, 0), *life("a1", "r", 0, 40, None))
    again = folded(keyframe.frames(cluster, 50))
    tell(again, (200, "a1", pulse(at_ms=200_000)))
    again.feed(frame("", keyframe.PastEvents(), 200))
    assert [view.incarnation for run in runs(again, 200) for view in run.hosts] == [2]


def test_the_app_says_how_many_were_dropped():
    shown = shown_after(
        *well(), frame("", keyframe.PastEvents(dropped=DroppedProcesses(12))), keys="", size=(160, 40)
    )
    assert "12 exited processes dropped" in shown


def test_what_views_derived_of_the_dropped_is_dropped_with_them():
    cluster = restarted(3, of_one_run=False)
    device_views(cluster, 300)
    assert cluster.derived.members("devices") == cluster.hosts.keys()
    cluster.hosts.pop("a0")
    cluster.changes += 1
    device_views(cluster, 300)
    assert cluster.derived.members("devices") == cluster.hosts.keys()
