"""Findings: when a rule is reported, when it ends, what it explains, and how a finding is written down."""

from __future__ import annotations

import msgspec
import pytest

from jaxtop import wire
from jaxtop.export.json import to_document
from jaxtop.model import RULES, Cluster, keyframe, reported_findings
from jaxtop.model.finding import Finding, FindingCost, Findings, Proof, Severity, Subject
from jaxtop.model.findings import reducer
from jaxtop.model.findings.reducer import CHECK_EVERY
from jaxtop.model.findings.rule import Rule, Unmeasured
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, folded, frame, pulse, well
from tests.staged import collectives as staged_collectives
from tests.staged import devices as staged_devices
from tests.staged import hardware as staged_hardware
from tests.staged.parts import rhythm


def rule(check, name: str = "test", **more) -> Rule:
    texts = dict.fromkeys(("title", "threshold", "rationale", "source", "advice"), "Test")
    return Rule(name=name, check=check, **{**texts, **more})


def found(share: float | None = None, **more) -> Finding:
    severity = more.pop("severity", Severity.WARNING)
    return Finding(severity, 1.0, "it is so", cost=FindingCost(share_of_step=share), **more)


def seen_while(is_seen: list[bool]):
    """Return the check of a rule that finds something; False in the list: it cannot be checked."""

    def check(_facts):
        if not is_seen[0]:
            raise Unmeasured("no window yet")
        yield found(share=0.4)

    return check


@pytest.fixture
def only(monkeypatch):
    """Replace the table of rules."""

    def use(*rules: Rule) -> None:
        monkeypatch.setattr(reducer, "RULES", rules)
        monkeypatch.setattr(reducer, "RULES_BY_NAME", {each.name: each for each in rules})

    return use


def live(cluster: Cluster, seconds: float, start: float = NOW, **more) -> None:
    """Feed a pulse of each process that is there each second."""
    for i in range(int(seconds)):
        for index in (index for index in range(2) if cluster.hosts[agent_id(index)].link.state == "up"):
            seen = pulse(index, start + i, launches=30 + i, **more)
            cluster.feed(frame(agent_id(index), seen, start + i, 10 + i))


def run() -> Cluster:
    cluster = folded(well())
    cluster.findings = Findings()
    cluster.events.clear()
    return cluster


def test_a_rule_is_reported_once_it_has_held_and_ends_once_it_has_not(only):
    holds = [True]
    only(rule(lambda _facts: [found()] if holds[0] else [], holds_for=4, stays_for=6))
    cluster = run()
    live(cluster, 3)
    assert reported_findings(cluster) == []
    live(cluster, 4, NOW + 3)
    (shown,) = reported_findings(cluster)
    assert shown.since <= NOW + CHECK_EVERY
    holds[0] = False
    live(cluster, 3, NOW + 7)
    assert reported_findings(cluster)
    live(cluster, 6, NOW + 10)
    assert reported_findings(cluster) == []
    began, ended = [each for each in cluster.events if each.kind == "finding"]
    assert (began.severity, began.text) == ("warning", "Test: it is so")
    assert ended.severity == "info" and ended.text.startswith("Test ended after")


def test_a_figure_that_wavers_makes_one_finding(only):
    times = iter(range(1000))
    only(rule(lambda _facts: [found()] if next(times) % 2 == 0 else [], holds_for=4, stays_for=10))
    cluster = run()
    live(cluster, 60)
    assert len(reported_findings(cluster)) == 1
    assert len([each for each in cluster.events if each.kind == "finding"]) == 1


def test_a_severity_that_wavers_stays_at_the_higher_one_and_falls_in_the_end(only):
    times = iter(range(1000))

    def check(_facts):
        i = next(times)
        yield found(severity=Severity.WARNING if i < 10 and i % 2 == 0 else Severity.INFO)

    only(rule(check, holds_for=0, stays_for=10))
    cluster = run()
    live(cluster, 18)
    assert [each.severity for each in reported_findings(cluster)] == [Severity.WARNING]
    live(cluster, 20, NOW + 18)
    assert [each.severity for each in reported_findings(cluster)] == [Severity.INFO]
    assert len([each for each in cluster.events if each.kind == "finding"]) == 1


def test_the_most_severe_comes_first_then_what_costs_most(only):
    only(
        rule(lambda _facts: [found(share=0.1)], "small", holds_for=0),
        rule(lambda _facts: [found(share=0.4)], "large", holds_for=0),
        rule(lambda _facts: [found(severity=Severity.CRITICAL)], "grave", holds_for=0),
    )
    cluster = run()
    live(cluster, 3)
    assert [each.rule for each in reported_findings(cluster)] == ["grave", "large", "small"]


def test_a_cause_takes_its_consequences_with_it_in_its_own_run_only(only):
    only(
        rule(
            lambda facts: [found()] if facts.run.id == "r1" else [],
            "cause",
            holds_for=0,
            explains=("effect",),
        ),
        rule(lambda _facts: [found()], "effect", holds_for=0, title="Effect"),
    )
    cluster = run()
    cluster.feed(frame("b" * 16, replace_run(well()[1], "r2"), NOW + 1))
    live(cluster, 4, NOW + 1)
    shown = {(each.rule, each.run): each.consequences for each in reported_findings(cluster)}
    assert shown == {("cause", "r1"): ("Effect",), ("effect", "r2"): ()}


def replace_run(hello: wire.Frame, run_id: str) -> wire.Hello:
    message = wire.decode("hello", hello.raw)
    assert isinstance(message, wire.Hello)
    return wire.Hello(
        **{
            **{name: getattr(message, name) for name in message.__struct_fields__},
            "run": run_id,
            "agent": "b" * 16,
        }
    )


def test_a_rule_that_cannot_be_checked_says_why_and_one_that_fails_hides_no_other(only):
    def unmeasured(_facts):
        raise Unmeasured("no window yet")

    only(
        rule(unmeasured, "blind"),
        rule(lambda _facts: [1 / 0], "broken"),
        rule(lambda _facts: [found()], "fine", holds_for=0),
    )
    cluster = run()
    live(cluster, 3)
    assert [each.rule for each in reported_findings(cluster)] == ["fine"]
    assert cluster.findings.unchecked["r1", "blind"] == "no window yet"
    assert cluster.findings.unchecked["r1", "broken"]


@pytest.mark.parametrize("after", [2, 20])
def test_what_costs_time_does_not_outlast_the_steps_in_which_it_was_found(only, after):
    """However many seconds an agent needs to notice that the steps have changed: it dates that back."""
    is_seen = [True]
    only(rule(seen_while(is_seen), holds_for=0, stays_for=10))
    cluster = run()
    live(cluster, 10 + after, rhythm=rhythm())
    is_seen[0] = False
    changed = msgspec.structs.replace(rhythm(p50_ms=80), since_ms=int((NOW + 10) * 1000), before_us=200_000)
    live(cluster, 6, NOW + 10 + after, rhythm=changed)
    assert len(reported_findings(cluster)) == 1
    live(cluster, 10, NOW + 16 + after, rhythm=changed)
    assert reported_findings(cluster) == []


def test_while_steps_are_the_same_what_cannot_be_checked_for_a_while_stays(only):
    is_seen = [True]
    only(rule(seen_while(is_seen), holds_for=0, stays_for=10))
    cluster = run()
    live(cluster, 10, rhythm=rhythm())
    is_seen[0] = False
    live(cluster, 60, NOW + 10, rhythm=rhythm())
    assert len(reported_findings(cluster)) == 1


def test_a_rule_whose_inputs_are_the_same_is_not_checked_again(only):
    calls = []
    only(
        rule(
            lambda facts: calls.append(facts.run.id) or [found()],
            inputs=lambda facts: [facts.cluster.meshes],
            holds_for=4,
        )
    )
    cluster = run()
    live(cluster, 20)
    assert calls.count("r1") == 1 and len(reported_findings(cluster)) == 1


def test_a_keyframe_holds_the_findings_and_goes_on_from_there():
    cluster = run()
    cluster.feed(frame(agent_id(1), wire.Link(LinkState.CLOSED, "x"), NOW + 1, 0))
    live(cluster, 5, NOW + 1)
    assert [each.rule for each in reported_findings(cluster)] == ["host_lost"]
    again = folded(keyframe.frames(cluster, NOW + 6))
    assert reported_findings(again) == reported_findings(cluster)
    assert again.findings.checked_at == cluster.findings.checked_at
    live(cluster, 9, NOW + 6)
    live(again, 9, NOW + 6)
    assert reported_findings(again) == reported_findings(cluster)


def test_a_finding_in_json_has_what_a_script_needs():
    cluster = run()
    cluster.feed(frame(agent_id(1), wire.Link(LinkState.CLOSED, "x"), NOW + 1, 0))
    live(cluster, 5, NOW + 1)
    (shown,) = to_document(cluster, NOW + 6)["findings"]
    assert (shown["rule"], shown["severity"], shown["subject"]["process_index"]) == (
        "host_lost",
        "critical",
        1,
    )
    assert shown["text"] == "host 1 has died" and shown["advice"] and shown["proof"]["screen"] == "hosts"
    assert shown["since"] == "2027-01-15T08:00:01.000Z"
    assert {
        "name": "last pulse",
        "value": NOW,
        "unit": "timestamp",
        "source": "agent",
        "age_s": 6.0,
    } in shown["evidence"]


def test_a_proof_without_a_row_names_none_and_one_of_a_collective_names_its_program():
    assert found(run="r1").row == ""
    assert found(run="r1", proof=Proof("hosts", row="a1")).row == "a1"
    all_reduce = Subject(program="jit_step", collective="all-reduce.1")
    proof = Proof("collectives", row="all-reduce.1")
    assert found(run="r1", subject=all_reduce, proof=proof).row == ("r1", "jit_step", "all-reduce.1")


@pytest.mark.parametrize("each", RULES, ids=lambda each: each.name)
def test_each_rule_is_documented_and_unique(each):
    assert all((each.title, each.threshold, each.rationale, each.source, each.advice))
    assert (
        each.threshold[0] == each.threshold[0].lower() and each.threshold[-1] != "."
    )  # of "Reported when …."
    assert len(each.title) <= 20 and sum(each.name == other.name for other in RULES) == 1
    assert set(each.explains) <= {other.name for other in RULES}


def test_a_healthy_run_has_no_findings():
    cluster = run()
    live(cluster, 60)
    assert reported_findings(cluster) == []


STAGED = {
    "well": builders.well(),
    "training": builders.training(),
    "late": staged_collectives.late(),
    "few": staged_collectives.few(),
    "unread": staged_collectives.unread(),
    "standing": staged_collectives.standing(),
    "held": staged_devices.held(),
    "counted": staged_devices.counted(),
    "at odds": staged_devices.at_odds(),
    "gpus": staged_hardware.working(30),
}


@pytest.mark.parametrize("name", STAGED)
def test_no_rule_fails_on_a_staged_run_whatever_state_its_processes_are_in(name):
    for state in ("up", "closed", "silent", "deaf", "unreachable", "refused"):
        cluster = folded(STAGED[name])
        cluster.feed(builders.trouble(1, state))
        reducer.check(cluster, NOW + 1)
        reducer.check(cluster, NOW + 30)
        assert reducer._FAILED not in cluster.findings.unchecked.values()


def test_with_very_many_hosts_the_rules_are_checked_more_rarely():
    cluster = run()
    assert reducer.check_every(cluster) == CHECK_EVERY
    cluster.hosts.update((f"{i:016x}", cluster.hosts[agent_id(0)]) for i in range(1024))
    assert reducer.check_every(cluster) == 4.0


def test_no_rule_is_checked_while_a_keyframe_is_fed(only):
    calls = []
    only(rule(lambda facts: calls.append(facts.run.id) or []))
    cluster = run()
    calls.clear()
    with cluster.restoring():
        live(cluster, 5)
    assert not calls
    live(cluster, 3, NOW + 5)
    assert calls
