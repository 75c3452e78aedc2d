"""Runs of one family: what each is for, which steps stand for all, and how they are called."""

from __future__ import annotations

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import Cluster, Severity, family_groups, main_run, names_of_runs, reported_findings, runs
from jaxtop.tui.core.moment import Moment
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, frame


def process(agent, run, **more):
    facts = {"agent": agent, "run": run, "process_index": 0, "process_count": 1, "family": "f1"}
    return builders.hello(0, 1, **{**facts, **more})


def worker(agent, run, role="actor", **more):
    facts = {"role": role, "is_role_guessed": True, "parent_pid": 1000, "started_ms": int(NOW * 1000) + 1}
    return process(agent, run, **{**facts, **more})


LEARNER = process("a0", "r0")


def cluster_of(*hellos, step_ms=None):
    cluster = Cluster()
    for hello in hellos:
        cluster.feed(frame(hello.agent, wire.Link(LinkState.UP, hello.telemetry)))
        cluster.feed(frame(hello.agent, hello))
        pulse = builders.pulse(0)
        if step_ms is not None:
            took = step_ms[hello.agent] * 1000
            rhythm = wire.Rhythm(1, ("step",), 100, mean_us=took, samples=50, p50_us=took)
            pulse = replace(pulse, rhythm=rhythm)
        cluster.feed(frame(hello.agent, pulse))
    return cluster


def roles(cluster):
    return [(str(group), [run.id for run in group.runs]) for group in family_groups(cluster, NOW)]


def test_a_process_and_those_that_it_has_started_are_groups_of_one_family():
    cluster = cluster_of(worker("a2", "r2"), LEARNER, worker("a1", "r1"))
    assert roles(cluster) == [("~main", ["r0"]), ("2 × ~actor", ["r1", "r2"])]
    assert names_of_runs(cluster, NOW) == {"r0": "train main", "r1": "train actor 0", "r2": "train actor 1"}


def test_actors_have_the_numbers_that_the_script_gave_them():
    """Not those of the order in which they used JAX, unless two have the same or one has none."""
    numbered = [worker(f"a{i}", f"r{i}", role_number=3 - i, started_ms=int(NOW * 1000) + i) for i in (1, 2)]
    names = names_of_runs(cluster_of(LEARNER, *numbered), NOW)
    assert names == {"r0": "train main", "r1": "train actor 2", "r2": "train actor 1"}
    for other in (2, None):
        told = cluster_of(LEARNER, numbered[0], replace(numbered[1], role_number=other))
        assert names_of_runs(told, NOW) == {"r0": "train main", "r1": "train actor 0", "r2": "train actor 1"}


def test_what_a_process_says_of_itself_is_no_guess():
    said = worker("a1", "r1", "evaluator", is_role_guessed=False)
    assert roles(cluster_of(LEARNER, said)) == [("~main", ["r0"]), ("evaluator", ["r1"])]
    assert roles(cluster_of(replace(LEARNER, role="learner"))) == [("learner", ["r0"])]


def test_a_process_alone_has_no_role_and_runs_without_a_family_are_apart():
    assert roles(cluster_of(LEARNER)) == []
    apart = [replace(each, family=None) for each in (LEARNER, process("a1", "r1"))]
    assert roles(cluster_of(*apart)) == []
    assert set(names_of_runs(cluster_of(*apart), NOW).values()) == {"train r0", "train r1"}


def test_families_that_share_a_run_are_one():
    """The processes of a learner were started on each host for itself."""
    there = process("a9", "r0", family="f2", process_index=1, process_count=2)
    learner = replace(LEARNER, process_count=2)
    found = family_groups(cluster_of(learner, there, worker("a1", "r1", family="f2")), NOW)
    assert {group.family for group in found} == {"f1"}
    assert [str(group) for group in found] == ["~main", "~actor"]


def test_workers_that_do_not_know_their_run_yet_are_runs_of_their_own():
    unplaced = {"run": None, "process_index": None, "process_count": None}
    starting = [replace(worker(agent, None), **unplaced) for agent in ("a1", "a2")]
    assert len(runs(cluster_of(LEARNER, *starting), NOW)) == 3


def test_the_steps_of_the_largest_run_stand_for_all_else_those_of_the_first_process():
    steps = {"a0": 100, "a1": 3, "a2": 5}
    cluster = cluster_of(worker("a1", "r1"), LEARNER, worker("a2", "r2"), step_ms=steps)
    found = main_run(cluster, NOW)
    assert found is not None and found.id == "r0"
    step = Moment(cluster, NOW).step
    assert step is not None and (step.p50_s, step.slowest_s) == (0.1, 0.1)
    wide = [worker("a1", "r1", process_count=2), worker("a2", "r1", process_index=1, process_count=2)]
    found = main_run(cluster_of(LEARNER, *wide), NOW)
    assert found is not None and found.id == "r1"


def test_a_worker_that_ends_without_notice_is_a_note_and_the_first_process_is_not():
    def found(of):
        cluster = cluster_of(LEARNER, worker("a1", "r1"))
        cluster.feed(frame(of, wire.Link(LinkState.DEAD, "10.0.0.0:7411"), NOW + 1))
        for second in range(2, 20):
            for agent in {"a0", "a1"} - {of}:
                cluster.feed(frame(agent, builders.pulse(0, NOW + second), NOW + second, second))
        return [each.severity for each in reported_findings(cluster) if each.rule == "host_lost"]

    assert found("a1") == [Severity.INFO]
    assert found("a0") == [Severity.CRITICAL]
