"""What processes are called: hosts where each has a machine of its own, processes otherwise."""

from __future__ import annotations

import pytest

from jaxtop import wire
from jaxtop.model import Cluster, keyframe, newest_hosts
from jaxtop.model.naming import nouns
from jaxtop.model.naming.sentences import acting, counted, host_names, noun_of, ranges, several
from tests.builders import NOW, agent_id, frame, hello


def met(*hostnames: str, **more: object) -> Cluster:
    """Return a run of one process for each hostname."""
    cluster = Cluster()
    for index, hostname in enumerate(hostnames):
        of = hello(index, len(hostnames), hostname=hostname, **more)
        cluster.feed(frame(of.agent, of))
    return cluster


def labels(cluster: Cluster) -> list[str]:
    return [host.label for host in newest_hosts(cluster)]


@pytest.mark.parametrize(
    ("hostnames", "noun"),
    [
        (["vm"], "process"),
        (["vm", "vm"], "process"),
        (["a", "b"], "host"),
        (["a", "a", "b", "b"], "process"),
        (["a", "b", "a"], "process"),
    ],
)
def test_one_word_is_used_for_all_of_a_run(hostnames, noun):
    cluster = met(*hostnames)
    assert {host.noun for host in newest_hosts(cluster)} == {noun}
    last = len(hostnames) - 1
    at = f"host {last} ({hostnames[-1]})" if noun == "host" else f"process {last} on {hostnames[-1]}"
    assert labels(cluster)[-1] == at


def test_numbers_follow_the_word():
    apart, together = newest_hosts(met("a", "b", "c")), newest_hosts(met("a", "a", "a"))
    assert (host_names(apart), host_names(together)) == ("hosts 0–2", "processes 0–2")
    assert (host_names(apart[:1]), host_names(together[:1])) == ("host 0", "process 0")
    assert acting(together, "is", "are") == "processes 0–2 are"
    assert (counted(1, apart), counted(2_000, apart)) == ("1 host", "2,000 hosts")
    assert (counted(1, together), counted(2, together)) == ("1 process", "2 processes")
    assert (several(apart), several([*apart, *together]), noun_of([])) == ("hosts", "processes", "process")


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0,), "0"),
        ((0, 1, 3), "0–1, 3"),
        ((7, 5, 6, 0), "0, 5–7"),
        (range(0, 20, 2), "0, 2, 4, 6, 8, 10 and 4 more"),
    ],
)
def test_numbers_are_ranges_and_of_many_ranges_the_first_are_named(numbers, words):
    assert ranges(numbers) == words


def test_the_roster_names_processes_before_they_connect():
    cluster = met("a", "b")
    peer = wire.Peer(agent_id(2), 2, "b", 5, 1, "b", "pid:[1]", "10.0.0.9:1", "10.0.0.9:2")
    cluster.feed(frame(agent_id(0), wire.Roster(agent_id(0), (peer,), "r1", "train", 3)))
    assert labels(cluster) == ["process 0 on a", "process 1 on b", "process 2 on b"]


def test_a_process_counts_where_it_was_started_last():
    cluster = met("a", "a")
    moved = hello(1, hostname="b", agent=agent_id(7), started_ms=int(NOW * 1000) + 1)
    cluster.feed(frame(moved.agent, moved))
    assert labels(cluster) == ["host 0 (a)", "host 1 (b)"]


def test_a_process_that_has_no_number_yet_counts_once():
    cluster = met("a", "b", process_index=None)
    assert labels(cluster) == ["a", "b"]
    for index, hostname in enumerate("ab"):
        cluster.feed(frame(agent_id(index), hello(index, hostname=hostname)))
    assert labels(cluster) == ["host 0 (a)", "host 1 (b)"]
    assert cluster.machines == {"r1": {0: "a", 1: "b"}}


@pytest.mark.parametrize("hostnames", [["a", "b", "c"], ["a", "a", "b"]])
def test_a_recording_opens_with_the_same_word(hostnames):
    cluster, again = met(*hostnames), Cluster()
    for each in keyframe.frames(cluster, NOW):
        again.feed(each)
    assert labels(again) == labels(cluster) and again.machines == cluster.machines


def test_dropped_processes_count_no_more():
    cluster = met("a", "b", "b")
    del cluster.hosts[agent_id(2)]
    cluster.changes += 1
    nouns.forget(cluster)
    assert labels(cluster) == ["host 0 (a)", "host 1 (b)"]
    cluster.hosts.clear()
    nouns.forget(cluster)
    assert not cluster.machines
