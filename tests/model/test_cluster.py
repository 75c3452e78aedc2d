"""The model: the same messages always tell the same story, and nonsense among them changes nothing."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.export import FORMATS
from jaxtop.model import EMPTY_HOST, Cluster, State, array_views, launch_rate, mesh_views, newest_hosts, runs
from jaxtop.model import state_of as state
from tests.made.every_message import ARRAYS, MESSAGES, mutated, parts
from tests.stories import MESH, ROSTER, census, cluster_of, hello, link, peer, pulse, running, tell

MUTATIONS = 3000


CLOSED = [(20, "r1-1", link("closed"))]


# States


@pytest.mark.parametrize(
    ("story", "now", "expected"),
    [
        (running(0), 11, State.LIVE),
        (running(0), 12.4, State.LIVE),
        (running(0), 13, State.QUIET),
        (running(0), 15.5, State.BLOCKED),
        (running(0), 1000, State.BLOCKED),
        ([*running(0), (12, "r1-0", link("deaf"))], 13, State.BLOCKED),
        ([*running(0), (12, "r1-0", link("silent"))], 13, State.STOPPED),
        ([*running(0), (12, "r1-0", link("unreachable"))], 13, State.UNREACHABLE),
        ([(10, "r1-0", ROSTER), (10, "r1-0", link("refused"))], 13, State.REFUSED),
        ([*running(0), (12, "r1-0", wire.Bye(0, "ended"))], 13, State.ENDED),
        ([*running(0), (12, "r1-0", wire.Bye(0, "ended")), (13, "r1-0", link("closed"))], 14, State.ENDED),
        ([*running(0), (12, "r1-0", link("closed"))], 12.1, State.DIED),
        ([(10, "r1-0", ROSTER), (10, "r1-0", link("dead"))], 13, State.DIED),
        ([(10, "r1-0", ROSTER), (10, "r1-0", link("closed"))], 13, State.GONE),
        ([(10, "r1-0", ROSTER), (10, "r1-0", link("connecting"))], 1000, State.CONNECTING),
        ([(10, "r1-0", ROSTER)], 13, State.CONNECTING),
        ([(10, "r1-0", link("up")), (10, "r1-0", hello(0))], 11, State.CONNECTING),
        ([(10, "r1-0", link("up")), (10, "r1-0", hello(0))], 16, State.BLOCKED),
    ],
)
def test_the_state_of_a_host_follows_from_its_messages_and_its_connection(story, now, expected):
    cluster = cluster_of(*story)
    assert state(cluster.hosts["r1-0"], now) == expected
    assert "r1-0" in [host.agent for host in newest_hosts(cluster)]  # and whatever it does, it stays visible


@pytest.mark.parametrize(
    ("after", "expected"), [(24, State.LIVE), (26, State.QUIET), (49, State.QUIET), (51, State.BLOCKED)]
)
def test_a_host_that_speaks_seldom_is_given_time(after, expected):
    story = [(10, "r1-0", link("up")), (10, "r1-0", hello(0, interval_ms=10_000)), (10, "r1-0", pulse())]
    assert state(cluster_of(*story).hosts["r1-0"], 10 + after) == expected


def test_a_host_that_is_back_is_not_blamed_for_the_time_it_was_away():
    away = cluster_of(*running(0), (12, "r1-0", link("unreachable")))
    tell(away, (100, "r1-0", link("up")))
    assert state(away.hosts["r1-0"], 101) == State.LIVE
    tell(away, (101, "r1-0", pulse()))
    assert state(away.hosts["r1-0"], 102) == State.LIVE


def test_a_host_that_is_deaf_or_stopped_speaks_again_by_itself():
    for trouble in ("deaf", "silent"):
        cluster = cluster_of(*running(0), (12, "r1-0", link(trouble)), (60, "r1-0", link("up")))
        tell(cluster, (61, "r1-0", pulse()))
        assert state(cluster.hosts["r1-0"], 61.5) == State.LIVE


# Runs and hosts


def test_runs_stand_side_by_side():
    """Of one name, with the same indices and the same mesh: nothing is mixed up."""
    cluster = cluster_of(*running(0, 1, run="r2"), *running(0, run="r1"))
    for agent in cluster.hosts:
        tell(cluster, (10, agent, replace(ARRAYS, meshes=(MESH,))))
    assert [(run.id, run.name, len(run.hosts)) for run in runs(cluster, 30)] == [
        ("r1", "train", 1),
        ("r2", "train", 2),
    ]
    assert [host.agent for host in newest_hosts(cluster)] == ["r1-0", "r2-0", "r2-1"]
    assert (
        [mesh.run for mesh in mesh_views(cluster)]
        == sorted({view.run for view in array_views(cluster)})
        == ["r1", "r2"]
    )


def test_hosts_stand_in_the_order_of_their_index():
    cluster = cluster_of(*running(11, 2, 0, 10, 1))
    assert [host.process_index for host in newest_hosts(cluster)] == [0, 1, 2, 10, 11]


def test_a_run_without_an_id_yet_is_a_run_of_its_own():
    """Before process 0 has fixed the id, two processes that run alone are not taken for one run."""
    cluster = cluster_of(
        (10, "a", hello(None, None, agent="a", process_count=1)),
        (10, "b", hello(None, None, agent="b", process_count=1)),
    )
    assert [(run.id, run.process_count) for run in runs(cluster, 30)] == [("a", 1), ("b", 1)]
    tell(cluster, (11, "a", hello(0, agent="a")), (11, "b", hello(1, agent="b")))
    assert [(run.id, [view.host.agent for view in run.hosts]) for run in runs(cluster, 30)] == [
        ("r1", ["a", "b"])
    ]


@pytest.mark.parametrize("late", [False, True], ids=["in order", "the old one's hello comes last"])
def test_a_process_that_was_started_again_is_its_second_incarnation(late):
    old = [(10, "old", hello(1, agent="old", started_ms=1000)), (11, "old", link("closed"))]
    new = [(20, "new", hello(1, agent="new", started_ms=2000)), (20, "new", pulse())]
    cluster = cluster_of(*running(0), *(new + old if late else old + new))
    (run,) = runs(cluster, 30)
    assert [(view.host.agent, view.incarnation) for view in run.hosts] == [("r1-0", 1), ("new", 2)]
    assert state(run.hosts[1].host, 20) == State.LIVE


def test_a_host_that_comes_late_is_listed_from_the_moment_the_roster_names_it():
    cluster = cluster_of(*running(0))
    assert [run.process_count for run in runs(cluster, 30)] == [2]  # one is known to be missing
    tell(cluster, (20, "r1-0", ROSTER))
    (late,) = [host for host in newest_hosts(cluster) if host.process_index == 1]
    assert (late.hostname, late.pid, late.run_name) == ("node1", 77, "train")
    assert (late.hello, state(late, 20)) == (None, State.CONNECTING)
    tell(cluster, *running(1, at=25))
    assert [str(state(host, 25)) for host in newest_hosts(cluster)][1] == "live"


def coming(agent: str, **more) -> list[tuple[float, str, wire.Message]]:
    """A host that does not know its run yet."""
    said = hello(None, None, agent=agent, **{"process_count": None, **more})
    return [(10, agent, link("up")), (10, agent, said), (10, agent, pulse())]


def test_hosts_that_do_not_know_their_run_yet_are_one_run_if_they_have_one_name():
    cluster = cluster_of(*coming("a"), *coming("b"), *coming("c", name="other"))
    assert [(run.name, len(run.hosts)) for run in runs(cluster, 30)] == [("other", 1), ("train", 2)]


def test_a_host_that_does_not_know_its_run_yet_counts_with_the_run_that_lacks_it():
    cluster = cluster_of(*running(0), *coming("b"))
    assert [(run.id, len(run.hosts)) for run in runs(cluster, 30)] == [("r1", 2)]
    tell(cluster, (11, "b", hello(1, agent="b")))
    assert [(run.id, len(run.hosts)) for run in runs(cluster, 30)] == [("r1", 2)]
    tell(cluster, *coming("c"))  # nobody is missing there: it belongs elsewhere
    assert [len(run.hosts) for run in runs(cluster, 30)] == [1, 2]


def test_two_hosts_with_one_index_are_two_runs_also_before_they_know_them():
    cluster = cluster_of(*coming("a"), *coming("b"))
    for agent in "ab":
        tell(cluster, (11, agent, hello(0, None, agent=agent)))
    assert [len(run.hosts) for run in runs(cluster, 30)] == [1, 1]


def test_what_a_host_says_of_itself_goes_before_what_the_roster_says():
    cluster = cluster_of(*running(0), (20, "r1-0", replace(ROSTER, name=None, process_count=None)))
    host = cluster.hosts["r1-0"]
    assert (host.hostname, host.run_name, host.process_count) == ("node0", "train", 2)


def test_an_address_is_listed_until_it_is_known_who_is_there():
    cluster = cluster_of((10, "", link("connecting")), (11, "", link("closed")))
    assert [(unmet.endpoint, unmet.link.state) for unmet in cluster.unmet.values()] == [
        ("10.0.0.1:7411", "closed")
    ]
    assert newest_hosts(cluster) == []
    tell(cluster, (12, "", link("merged", "r1-0")))
    assert cluster.unmet == {}


# Figures


def test_counters_that_did_not_move_keep_their_value():
    """A pulse lists only the counters that moved."""
    cluster = cluster_of(*running(0), (11, "r1-0", pulse(launches={"step": 5, "eval": 1})))
    tell(cluster, (12, "r1-0", pulse(launches={"step": 9})), (13, "r1-0", pulse()))
    assert dict(cluster.hosts["r1-0"].launches) == {"step": 9, "eval": 1}
    assert launch_rate(cluster, cluster.hosts["r1-0"]) == 2  # 4 launches between the pulses at 11 and at 13
    assert launch_rate(cluster, EMPTY_HOST) is None


def test_what_was_launched_before_a_viewer_came_makes_no_burst_of_launches():
    """The first pulse may list few of the counters, and the next one all of them, hours old."""
    cluster = cluster_of(*running(0), (11, "r1-0", pulse()), (12, "r1-0", pulse(launches={"step": 90_000})))
    assert launch_rate(cluster, cluster.hosts["r1-0"]) is None  # not 0: nobody counted yet
    tell(cluster, (13, "r1-0", pulse(launches={"step": 90_003})))
    assert launch_rate(cluster, cluster.hosts["r1-0"]) == 3


@pytest.mark.parametrize(("interval", "rate"), [(0.1, 4.9 / 0.99), (1, 10), (30, 10)])
def test_launches_a_second_cover_the_last_seconds_at_any_interval_of_pulses(interval, rate):
    cluster = cluster_of(*running(0))
    for i in range(100):  # nothing at first, then ten a second
        count = 0 if i < 50 else round((i - 50) * 10 * interval)
        tell(cluster, (20 + i * interval, "r1-0", pulse(launches={"step": count})))
    assert launch_rate(cluster, cluster.hosts["r1-0"]) == pytest.approx(rate)


def test_steps_per_second_are_those_of_the_last_seconds():
    cluster = cluster_of(*running(0))
    for second in range(60):  # one step a second, then ten
        calls = second if second < 30 else 30 + 10 * (second - 30)
        tell(cluster, (second, "r1-0", pulse(at_ms=second * 1000, step=wire.Step(calls, calls))))
        if second == 29:
            assert cluster.hosts["r1-0"].steps.per_second == 1
    assert cluster.hosts["r1-0"].steps.per_second == 10
    tell(cluster, (61, "r1-0", pulse(at_ms=61_000, step=wire.Step(0, 0))))  # counting began anew
    assert cluster.hosts["r1-0"].steps.per_second is None


# What is said


def said(cluster: Cluster) -> list[tuple[str, str]]:
    return [(event.severity, event.kind) for event in cluster.events]


@pytest.mark.parametrize(
    ("what", "kind"),
    [("closed", "died"), ("dead", "died"), ("silent", "stopped"), ("deaf", "blocked"), ("unreachable",) * 2],
)
def test_a_trouble_is_said_once_and_so_is_its_end(what, kind):
    cluster = cluster_of(*running(1), *[(20 + i, "r1-1", link(what)) for i in range(5)])
    assert said(cluster) == [("critical", kind)]
    assert "process 1 on node1" in cluster.events[0].text
    tell(cluster, (30, "r1-1", link("up")), (31, "r1-1", link("up")))
    assert said(cluster) == [("critical", kind), ("info", "back")]


def test_a_death_that_two_witnesses_tell_of_is_said_once():
    cluster = cluster_of(*running(1), *CLOSED, (21, "r1-1", link("dead")))
    assert said(cluster) == [("critical", "died")]
    assert state(cluster.hosts["r1-1"], 22) == State.DIED


def test_an_end_in_order_is_no_alarm():
    cluster = cluster_of(*running(1), (19, "r1-1", wire.Bye(0, "ended")), *CLOSED)
    assert said(cluster) == [("info", "ended")]


def test_a_host_that_was_gone_before_anybody_came_is_no_alarm():
    assert said(cluster_of((10, "r1-0", ROSTER), *CLOSED)) == []


def test_events_and_compiles_name_their_host():
    cluster = cluster_of(*running(1), (20, "r1-1", wire.Compile(0, "step", 1530)))
    tell(cluster, (21, "r1-1", wire.Event(0, "warning", "source", "arrays is off")))
    assert [event.text for event in cluster.events] == [
        "process 1 on node1 compiled step in 1.53 s",
        "process 1 on node1: arrays is off",
    ]


def test_events_do_not_grow_without_end():
    cluster = cluster_of(*running(0))
    tell(cluster, *((20 + i, "r1-0", wire.Event(0, "info", "log", str(i))) for i in range(3000)))
    assert len(cluster.events) == 1000 and cluster.events[-1].text.endswith("2999")


# Nonsense


@pytest.mark.parametrize(
    ("kind", "raw", "words"),
    [
        ("weather", b"", "unknown message 'weather'"),
        ("w" * 100_000, b"", "unknown message 'www"),
        ("pulse", b"\xc1", "unreadable pulse"),
        ("hello", wire.encode(pulse()), "unreadable hello"),
        ("arrays", wire.encode(replace(ARRAYS, meshes=())), "a mesh that is not there"),
        ("arrays", wire.encode(replace(ARRAYS, shardings=())), "a sharding that is not there"),
        (
            "arrays",
            wire.encode(census(wire.ArrayGroup((1,), "f", -1, 1, 1))),
            "a sharding that is not there",
        ),
        ("arrays", wire.encode(census(mesh=wire.Mesh((("x", 1),), ((0, 1 << 60),)))), "more devices"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_be_understood_is_counted_and_changes_nothing(kind, raw, words):
    cluster = cluster_of(*running(0), (11, "r1-0", census()))
    before = cluster.frozen()
    for _ in range(2):
        cluster.feed(wire.Frame(12, "r1-0", kind, 2, raw))
        cluster.feed(wire.Frame(12, "stranger", kind, 2, raw))
    (reason, count), *others = cluster.rejected.items()
    assert words in reason and len(reason) <= 200 and (count, others) == (4, [])
    assert (cluster.hosts, cluster.events) == (before.hosts, before.events)
    tell(cluster, (13, "r1-0", pulse(launches={"step": 1})))
    assert dict(cluster.hosts["r1-0"].launches) == {"step": 1}


def test_whatever_arrives_everything_can_still_be_shown():
    """Mutated messages that happen to be readable are believed; views and exports stand them all."""
    dice = random.Random(20260102)
    cluster = cluster_of(*running(0, 1), (10, "r1-0", ROSTER), (10, "r1-0", census()))
    for i in range(MUTATIONS):
        kind, _, raw = parts(dice.choice(MESSAGES))
        agent = dice.choice(("r1-0", "r1-1", "a1", ""))
        cluster.feed(wire.Frame(10 + i / 100, agent, kind.decode(), i, mutated(raw, dice)))
        if i % 100 == 0:
            for write in FORMATS.values():
                assert write(cluster, 10 + i / 100)
    assert sum(cluster.rejected.values()) < MUTATIONS


def odd_numbers() -> list[wire.Message]:
    """Well-formed messages with figures that no honest host would send."""
    odd = (-(1 << 62), -1, 0, 1 << 62)
    groups = [wire.ArrayGroup((n,), "", 0, n, m, groups=n) for n in odd for m in odd]
    hollow = wire.Mesh((("", 0), ("", -1)), ())
    twice = wire.Mesh((("x", -2), ("x", -2)), ((7, 2), (7, 2)))
    columns = wire.DeviceSample(*[odd] * 6)
    same = (wire.Device(0, "", ""), wire.Device(0, "", "", coords=()), wire.Device(-1, "", ""))
    return [
        census(*groups, mesh=hollow),
        census(*groups, mesh=twice),
        hello(-1, interval_ms=-1, started_ms=-1, process_count=-1, devices=same),
        hello(0, "", name="", devices=same, hostname=""),
        *(
            pulse(
                at_ms=n, sampled_ms=-n, devices=columns, launches={"": n}, compiling=(wire.Compiling("", n),)
            )
            for n in odd
        ),
        *(pulse(step=wire.Step(n, n, {"": x})) for n in odd for x in (float("nan"), float("inf"), -1e308)),
        pulse(host=wire.HostSample(*[-1] * 9), cost=wire.AgentCost(-1, -1, -1)),
        wire.Event(0, "", "", ""),
        wire.Compile(0, "", -1),
        wire.Roster("", (replace(peer(0), agent=""),), run="", name="", process_count=0),
    ]


def test_figures_that_cannot_be_harm_no_view():
    """Most of them are refused where they are decoded; the views stand them all."""
    cluster = cluster_of(*running(0))
    for i, message in enumerate(odd_numbers()):
        for agent in ("r1-0", "odd"):
            cluster.apply(agent, message, 11 + i)
        for write in FORMATS.values():
            assert write(cluster, 11 + i)


# The fold as such


STORY = [
    *running(0, 1),
    (10, "r1-0", ROSTER),
    (11, "r1-0", census(wire.ArrayGroup((8,), "float32", 0, 32, 16, "a", "f"))),
    (12, "r1-0", pulse(at_ms=12_000, launches={"step": 5}, step=wire.Step(5, 5, {"loss": 2.5}))),
    (13, "r1-1", wire.Compile(0, "step", 100)),
    *CLOSED,
    (21, "", link("unreachable")),
    (22, "r1-0", wire.Bye(0, "ended")),
]


def test_the_same_frames_give_the_same_model():
    """Live, replayed or read in a test: there is one way from frames to what is shown."""
    once, again = cluster_of(*STORY), cluster_of(*STORY)
    assert once == again
    assert FORMATS["json"](once, 25) == FORMATS["json"](again, 25)
    assert once != cluster_of(*STORY[:-1])


def test_what_was_kept_of_an_earlier_moment_does_not_change():
    cluster = Cluster()
    seen = []
    for moment in STORY:
        tell(cluster, moment)
        kept = cluster.frozen()
        seen.append((kept, FORMATS["json"](kept, 25), dict(kept.hosts)))
    assert [(FORMATS["json"](kept, 25), dict(kept.hosts)) for kept, _, _ in seen] == [
        each[1:] for each in seen
    ]
    assert seen[-1][1] == FORMATS["json"](cluster, 25)
