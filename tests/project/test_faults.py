"""The fault bench: which findings count as right, its table, and one fault from end to end."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import pytest

from jaxtop.model import RULES_BY_NAME
from jaxtop.model.finding import Finding, FindingCost, Severity, Subject
from jaxtop_agent.demo.faults import FAULTS, FAULTS_BY_NAME, VARIANTS, network, schedule
from jaxtop_agent.demo.faults.fault import Fault
from jaxtop_agent.demo.faults.planting import Planting
from tests.builders import NOW
from tests.faults import follow, table
from tests.faults.follower import Follower
from tests.faults.outcome import Outcome, compare_with_panel, findings_about, is_about, is_found, judge
from tests.staged.parts import of_rule, two_hosts
from tests.support import UNOPTIMIZED


def finding(rule, **subject):
    return Finding(Severity.WARNING, 1.0, "text", Subject(**subject), rule=rule, run="run")


def outcome(fault, program="demo", **figures):
    return Outcome(fault, program, **figures).as_json()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_has_a_text_a_rule_and_a_form_that_exists(fault):
    assert fault.text and fault.rules and fault.variant in ("", *VARIANTS)
    assert set(fault.rules) <= RULES_BY_NAME.keys()
    assert set(fault.subject) <= set(Subject._fields)


@pytest.mark.parametrize(
    ("fault", "found", "is_right"),
    [
        ("straggler", finding("straggler", process_index=1, source="slow.py:27"), True),
        ("straggler", finding("straggler", process_index=0, source="slow.py:27"), False),
        ("straggler", finding("straggler", process_index=1), False),
        ("straggler", finding("straggler"), False),
        ("straggler", finding("gc_pauses", process_index=1), False),
        ("slow_input_all", finding("input_bound", source="slow.py:38"), True),
        ("straggler_heals", finding("straggler", process_index=1, source="slow.py:27"), True),
        ("evenly_slow", finding("straggler", source="slow.py:27"), True),
        ("array_leak", finding("array_growth", array="kept['history'][*]"), True),
        ("array_leak", finding("array_growth", array="params['embed']"), False),
        ("mismatched_program", finding("program_mismatch", process_index=0), True),
        ("two_at_once", finding("straggler", process_index=1, source="slow.py:27"), True),
        ("two_at_once", finding("straggler", process_index=0, source="slow.py:27"), False),
        ("two_at_once", finding("array_growth", process_index=1, array="kept['history'][*]"), True),
    ],
)
def test_a_finding_is_right_if_it_names_the_fault_and_its_subject(fault, found, is_right):
    assert is_about(FAULTS_BY_NAME[fault], found) is is_right


def test_two_faults_are_found_once_each_of_them_is():
    late = 3.0, finding("straggler", process_index=1, source="slow.py:27")
    leak = 9.0, finding("array_growth", process_index=1, array="kept['history'][*]")
    fault = FAULTS_BY_NAME["two_at_once"]
    assert not is_found(fault, [late]) and not is_found(fault, [leak])
    assert is_found(fault, [late, leak])
    assert is_found(FAULTS_BY_NAME["straggler"], [late])


def test_the_latest_runs_of_each_kind_are_kept_and_every_healthy_one(tmp_path):
    results = tmp_path / "results.json"
    for i in range(table.KEPT + 2):
        table.add(outcome("straggler", seconds=float(i)), results)
        table.add(outcome("healthy", seconds=float(i)), results)
    kept = [(each["fault"], each["seconds"]) for each in table.load(results)]
    assert kept == [("healthy", float(i)) for i in range(7)] + [("straggler", float(i)) for i in range(2, 7)]


def test_the_table_has_a_row_per_fault_and_says_what_was_missed(tmp_path):
    results = tmp_path / "results.json"
    found = {"rule": "straggler", "after_begin": 9.0, "after_cost": 8.0}
    for each in (
        outcome("straggler", **found, estimated=380.0, true=400.0, unit="ms"),
        outcome("straggler", "plain"),
        outcome("undonated", wrong=["replicated (warning): text"]),
        outcome("healthy", seconds=1800.0, wrong=["stalled (critical): text"]),
    ):
        table.add(each, results)
    text = table.results(results)
    assert "- Found with the right subject: 1 of 3 planted faults (33%)." in text
    assert "- Cost within 20 % of the true one: in 1 of the 1 runs with both." in text
    assert "- Healthy runs, 30 minutes: 1 critical findings, 0 warnings." in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split("|")[3:9] for row in rows] == [
        [" `straggler` ", " 1 of 1 ", " 0 of 1 ", " 8.0 ", " 0.95 ", "  "],
        [" not found (`undonated`) ", " 0 of 1 ", "  ", "  ", "  ", " `replicated` "],
    ]


def test_kept_results_name_rules_of_today_and_quote_no_sentences():
    """`make faults` prints the sentences; kept ones would be those of before they were reworded."""
    seen = Outcome(
        "straggler", "demo", text="process 1 is late", wrong=["stalled (critical): process 0: waits"]
    )
    for each in (seen.as_json(), *table.load()):
        assert "text" not in each
        assert {each["rule"]} - {None} <= RULES_BY_NAME.keys()
        for wrong in each["wrong"]:
            rule, severity = re.fullmatch(r"(\w+) \((\w+)\)", wrong).groups()
            assert rule in RULES_BY_NAME and Severity(severity)


def test_a_slow_network_paces_what_is_sent_and_a_cut_link_loses_what_arrives(monkeypatch):
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as viewer,
        listening.accept()[0] as served,
    ):
        monkeypatch.setattr(network, "_ports_of_agent", lambda: {listening.getsockname()[1]})
        slow, cut = network.SlowNetwork(0, 1, None), network.CutLink(0, 1, None)
        slow.begin(None)
        rate = served.getsockopt(socket.SOL_SOCKET, network.SO_MAX_PACING_RATE)
        viewer.sendall(b"before")
        assert (rate, served.recv(6)) == (slow.BYTES_PER_S, b"before")
        cut.begin(None)
        viewer.sendall(b"after")
        served.settimeout(0.3)
        with pytest.raises(TimeoutError):
            served.recv(5)


def test_what_was_so_before_the_fault_is_not_about_it_however_late_it_is_reported(monkeypatch):
    follower = Follower([])
    follower._source = SimpleNamespace(poll=lambda _: [])
    began, shown = 1000.0, []
    monkeypatch.setattr("tests.faults.follower.reported_findings", lambda _: shown)
    monkeypatch.setattr("tests.faults.follower.time.time", lambda: began + 0.5)
    output, fault = SimpleNamespace(began=began), FAULTS_BY_NAME["slow_network"]

    def tell(since, ms):
        shown[:] = [replace(finding("communication_bound"), since=since, cost=FindingCost(ms))]
        follower.look(0)
        return list(findings_about(fault, follower, output))

    follower.begin(began)
    assert tell(began - 3, 100.0) == []  # it held for a while before it was reported
    assert follower.before(shown[0]).cost.ms_per_step == 100.0
    ((at, found),) = tell(began - 3, 300.0)
    assert (at, found.cost.ms_per_step) == (began + 0.5, 300.0)


@pytest.mark.jax
@pytest.mark.newest
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_killed_host_is_found_in_a_real_run(monkeypatch):
    monkeypatch.setattr(follow, "SETTLES_IN", 1.0)  # the loss of a host has no cost to wait for
    monkeypatch.setenv("XLA_FLAGS", UNOPTIMIZED)
    outcome = follow.run(FAULTS_BY_NAME["killed"], "plain", after=2, limit=60)
    assert (outcome.rule, outcome.wrong) == ("host_lost", [])
    assert outcome.after_begin >= 0
    json.dumps(outcome.as_json())


def test_the_panel_agrees_with_a_finding_up_to_a_tenth_of_it():
    assert table.agrees(outcome("straggler", of_panel=0.55, of_finding=0.6))
    assert not table.agrees(outcome("straggler", of_panel=0.52, of_finding=0.6))


def test_a_finding_is_compared_with_the_part_of_the_step_that_it_names(tmp_path):
    """Host 1 is late for 60 % of each step: the panel has that as the others' wait."""
    cluster, results = two_hosts(took=(400, 200)), tmp_path / "results.json"
    (late,) = of_rule("straggler", cluster)
    seen = Outcome("straggler", "demo", rule="straggler", after_cost=1.0)
    compare_with_panel(cluster, NOW, late, seen)
    assert (seen.part, seen.of_panel, seen.of_finding) == ("waiting", 0.6, 0.6)
    table.add(seen.as_json(), results)
    assert "differs from its cost by at most a tenth: in 1 of 1 runs." in table.results(results)


def test_what_is_reported_after_a_fault_has_ended_is_wrong(monkeypatch):
    found = finding("straggler", process_index=1, source="slow.py:27")
    follower = SimpleNamespace(
        first={found.key: (10.0, found)}, last={found.key: found}, of_healthy=set(), grew={}, cluster=None
    )
    follower.before = lambda _: None
    output = SimpleNamespace(began=5.0, costs=5.0, bytes_per_device=None, step_ms=lambda **_: 100.0)
    for reported in ([], [found]):
        monkeypatch.setattr("tests.faults.outcome.reported_findings", lambda _, reported=reported: reported)
        seen = Outcome("straggler_heals", "demo")
        judge(FAULTS_BY_NAME["straggler_heals"], [(10.0, found)], follower, output, seen)
        assert seen.rule == "straggler" and len(seen.wrong) == len(reported)


def test_a_fault_begins_when_it_is_asked_to_unless_it_begins_before_the_first_step():
    slow, never_started = FAULTS_BY_NAME["straggler"], FAULTS_BY_NAME["hang_first_step"]
    assert list(schedule.of_fault(slow, None)) == [(20.0, slow)]
    assert list(schedule.of_fault(slow, 3.0)) == [(3.0, slow)]
    assert list(schedule.of_fault(never_started, 3.0)) == [(0.0, never_started)]
    assert list(schedule.of_fault(None, 3.0)) == []


def test_the_tour_goes_round_and_heals_between_its_faults():
    count = len(schedule.TURNS)
    turns = list(islice(schedule.of_tour(5.0), 2 * count))
    assert turns[0].after == 5.0 and turns[count].after == 5.0 + schedule.PERIOD
    assert [turn.after for turn in turns] == sorted(turn.after for turn in turns)
    assert [turn.fault is Fault for turn in turns] == [False, True] * count
    assert schedule.TURNS[-1].after <= schedule.PERIOD


def test_a_fault_that_heals_releases_what_it_kept_and_says_when():
    class Keeps(Fault):
        name, text = "keeps", "it keeps something"

        def end(self, kept):
            kept.clear()

    said, kept = [], {"history": [1]}
    planting = Planting((0, 1, None), lambda variant, state: (variant, state), said.append)
    assert planting.begin(Keeps, 7, "state", kept) == "state"
    assert planting.begin(Fault, 9, "state", kept) == "state"
    assert [line.split(" at ")[0] for line in said] == ["fault keeps begins", "fault keeps ends"]
    assert kept == {}
