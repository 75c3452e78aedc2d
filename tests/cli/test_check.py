"""`jaxtop check`: findings as text, JSON and Markdown, and the exit status."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from subprocess import PIPE

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from jaxtop import cli, wire
from jaxtop.cli import check as command
from jaxtop.cli import replay, targets
from jaxtop.cli.errors import UserError
from jaxtop.cli.text import formats
from jaxtop.export import check, to_document, to_openmetrics
from jaxtop.export.check import Checkup
from jaxtop.export.series import SERIES
from jaxtop.model import RULES, Cluster
from jaxtop.model.finding import Finding, Ongoing, Severity
from jaxtop.model.findings.coverage import MAX_REASONS, coverage_without
from jaxtop.model.findings.reducer import MUTED, NO_FIGURES, ONLY_ITS_END
from tests import builders
from tests.builders import NOW, folded, two_processes, well
from tests.made.sessions import Made
from tests.played.recordings import a_run, record, recorded
from tests.staged.findings import LATE
from tests.support import PYTHON, ROOT, free_port, is_one_line, jaxtop_here, processes


def staged(*findings: Finding, unchecked=()) -> Checkup:
    at = NOW + 100
    runs, checked = Checkup.of(folded(well()), NOW).runs, coverage_without(dict(unchecked))
    return Checkup(at, runs, findings, dict(unchecked), coverage=checked)


def test_a_healthy_run_is_one_line_that_says_what_was_checked():
    checkup = Checkup.of(folded(two_processes()), NOW + 30)
    text = check.to_text(checkup)
    first, empty, head, *lines = text.splitlines()
    assert (first, empty) == (f"train: {checkup.verdict}", "")
    count = len(RULES) - len(checkup.checked)
    assert head == f"{count} rules could not be checked (--rules names them):"
    reasons = Counter(checkup.unchecked.values())
    shown = reasons.most_common(MAX_REASONS)
    assert [line.strip() for line in lines[:-1]] == [f"{rules}: {why}" for why, rules in shown]
    rest = len(reasons) - len(shown)
    assert lines[-1].strip() == f"{count - sum(rules for _, rules in shown)} for {rest} other reasons"
    assert checkup.verdict == f"nothing wrong in {len(checkup.checked)} of {len(RULES)} rules checked"
    assert checkup.status == 0


def test_the_rules_that_could_not_be_checked_are_named_if_one_asks():
    checkup = Checkup.of(folded(two_processes()), NOW + 30)
    text = check.to_text(checkup, names_rules=True)
    _, _, head, *lines = text.splitlines()
    count = len(RULES) - len(checkup.checked)
    assert head == f"{count} rules could not be checked:" and all(len(each) <= 100 for each in lines)
    reasons = set(checkup.unchecked.values())
    assert all(f"{reason}: " in " ".join(text.split()) for reason in reasons)
    assert sum(line[:5].strip() != "" for line in lines) == len(reasons)
    markdown = check.to_markdown(checkup, names_rules=True)
    assert markdown.count("\n  - ") == len(reasons)


def test_a_run_that_may_be_stalled_is_never_called_healthy():
    why = "nothing was launched for 86 s, and the cause is not known yet"
    checkup = staged(unchecked={("r1", "stalled"): why})
    assert checkup.verdict == f"{why}; {len(RULES) - 1} of {len(RULES)} rules checked"
    muted = staged(unchecked={("r1", "stalled"): MUTED})
    assert muted.verdict.startswith("healthy; ")


def test_a_run_whose_warning_is_not_old_enough_to_be_reported_is_never_called_healthy():
    """As in a short look at a run that is critical: a viewer of four seconds has seen it for three."""
    cluster = folded(two_processes())
    warning = Finding(Severity.WARNING, 0.9, "the others wait", rule="straggler", run="r1", since=NOW)
    cluster.findings.ongoing[warning.key] = Ongoing(warning, NOW + 3, False, NOW + 3)
    checkup = Checkup.of(cluster, NOW + 4)
    count = f"{len(checkup.checked)} of {len(RULES)} rules checked"
    assert checkup.verdict == f"too early to say: Straggler for 3 s; {count}" and checkup.status == 0
    byes = [
        builders.frame(builders.agent_id(i), wire.Bye(0, "ended"), at=NOW + 30, sequence=50) for i in (0, 1)
    ]
    ended = folded([*two_processes(), *byes])
    ended.findings.ongoing[warning.key] = Ongoing(warning, NOW + 3, False, NOW + 3)
    assert Checkup.of(ended, NOW + 31).verdict.startswith("ended too early to say: Straggler for 3 s; ")
    cluster.findings.ongoing[warning.key] = Ongoing(replace(warning, severity=Severity.INFO), NOW, False, NOW)
    assert Checkup.of(cluster, NOW + 4).verdict == f"nothing wrong in {count}"


def test_of_a_run_that_nobody_recorded_only_the_end_is_known():
    """Its script wrote a loss that was not a number: nobody says that it reports none."""
    ended = [
        builders.frame("a1", builders.hello(0, 1, agent="a1", run="r1")),
        builders.frame("a1", wire.Bye(1, "ended")),
    ]
    checkup = Checkup.of(folded(ended), NOW + 30)
    assert checkup.verdict.startswith(
        "how it ended is all that is known by its name; of a recorded run: jaxtop che"
    )
    assert (checkup.checked, checkup.status) == (["host_lost", "crashed", "ended_early"], 0)
    text = check.to_text(checkup)
    assert "reports no loss" not in text
    assert text.count(ONLY_ITS_END) == 2 and f"    {len(RULES) - 3}: {ONLY_ITS_END}" in text


@pytest.mark.parametrize("count", [1, 2])
def test_processes_that_are_known_and_stopped_are_an_answer(count):
    frames = []
    for i in range(count):
        peers = tuple(
            wire.Peer(*(getattr(builders.hello(k, count), name) for name in wire.Peer.__struct_fields__))
            for k in range(count)
        )
        frames.append(builders.frame("", wire.Roster(builders.agent_id(i), peers, "r1", "train", count)))
    frames += [
        builders.frame(builders.agent_id(i), wire.Link(wire.LinkState.STOPPED, "10.0.0.1:7411"))
        for i in range(count)
    ]
    cluster = folded(frames)
    cluster.check(NOW + 1)
    checkup = Checkup.of(cluster, NOW + 1)
    text = check.to_text(checkup)
    assert (
        checkup.status == 2
        and "Host lost: " in text
        and ("is stopped" if count == 1 else "are stopped") in text
    )
    assert f"{len(RULES) - 3}: {NO_FIGURES}" in text and checkup.checked == [
        "host_lost",
        "crashed",
        "ended_early",
    ]


def test_rules_that_could_not_be_checked_are_named_by_reason():
    few = "too few windows"
    checkup = staged(unchecked={("r1", "straggler"): few, ("r1", "uneven_work"): few})
    head, line = checkup.coverage.why_not(names_rules=True)
    assert head == "2 rules could not be checked:" and line == "too few windows: Straggler, Uneven work"
    assert len(checkup.checked) == len(RULES) - 2
    assert checkup.verdict == f"healthy; {len(RULES) - 2} of {len(RULES)} rules checked"
    unmeasured = staged(unchecked={("r1", rule.name): "no pulse yet" for rule in RULES})
    every = len(RULES)
    assert check.to_text(unmeasured).startswith(f"train: no pulse yet; 0 of {every} rules checked\n")
    without = {("r1", rule.name): MUTED for rule in RULES}
    assert check.to_text(staged(unchecked=without)).startswith(f"train: not checked; 0 of {every} rules ch")


def test_before_the_first_check_and_without_a_run_nothing_is_checked():
    never, nobody = Cluster(), Cluster()
    never.hosts.update(folded(well()).hosts)
    nobody.check(NOW)
    for cluster in (never, nobody):
        checkup = Checkup.of(cluster, NOW)
        assert (checkup.checked, checkup.coverage.in_short) == ([], f"0 of {len(RULES)} rules checked")
        assert checkup.verdict.startswith("not checked")


@pytest.mark.parametrize(("share", "word"), [(1.0, "healthy"), (0.6, "healthy"), (0.4, "nothing wrong in")])
def test_a_run_is_called_healthy_only_if_most_rules_were_checked(share, word):
    """Also beside notes, which are no warnings; how much was checked is always said."""
    names = [rule.name for rule in RULES]
    count = round(share * len(names))
    unchecked = {("r1", name): "no figure" for name in names[count:]}
    counted = "all" if count == len(names) else f"{count} of"
    note = Finding(Severity.INFO, 1.0, "x", rule="stalled", run="r1", since=NOW)
    for found in ((), (note,)):
        checkup = staged(*found, unchecked=unchecked)
        assert checkup.verdict.startswith(word) and f"{counted} {len(names)} rules checked" in checkup.verdict
        assert ("1 info" in checkup.verdict) == bool(found) and checkup.status == 0


def test_a_finding_is_a_block_with_its_cost_and_the_next_step():
    text = check.to_text(staged(LATE))
    first, _, head, *facts = text.splitlines()
    assert first == f"train: 1 warning; all {len(RULES)} rules checked"
    assert head == "△ warning  Straggler: host 1 is late: the others wait 84 ms for all_reduce_*"
    cost = "84 ms per step on average (50% of the time), 3.0 GiB on each device, memory is full in 12 min"
    assert facts[0] == f"    cost      {cost}"
    assert facts[1].startswith("    since     ") and facts[1].endswith(", 1 min ago")
    assert facts[2].startswith("    next step Look at that host")
    assert "\x1b" not in text and "\x1b[33m△ warning\x1b[0m" in check.to_text(staged(LATE), coloured=True)


def test_text_of_others_steers_neither_the_terminal_nor_markdown():
    hostile = Finding(
        Severity.INFO, 1.0, "a*b_[x](http://y)\x1b[31m\n# <b>", rule="straggler", run="r1", since=NOW
    )
    assert "\x1b" not in check.to_text(staged(hostile))
    markdown = check.to_markdown(staged(hostile))
    assert "a\\*b\\_\\[x\\](http://y)\\\\x1b\\[31m\\\\n\\# \\<b\\>" in markdown


def test_the_status_is_that_of_the_most_severe_finding():
    def of(*severities):
        return staged(*(Finding(each, 1.0, "x", rule="stalled", run="r1", since=NOW) for each in severities))

    assert of().status == of(Severity.INFO).status == 0
    assert of(Severity.INFO, Severity.WARNING).status == 1
    assert of(Severity.WARNING, Severity.CRITICAL).status == 2
    assert of(Severity.INFO).verdict.startswith("healthy, 1 info; ")
    several = of(Severity.CRITICAL, Severity.WARNING, Severity.WARNING)
    assert several.verdict.startswith("1 critical, 2 warnings; ")


def test_json_has_the_findings_of_the_snapshot():
    cluster = folded(two_processes(died_at=10))
    document = json.loads(check.to_json(Checkup.of(cluster, NOW + 30)))
    shown = json.loads(json.dumps(to_document(cluster, NOW + 30)))
    same = ("verdict", "findings", "checked", "unchecked")
    assert {name: document[name] for name in same} == {name: shown[name] for name in same}
    assert document["schema"] == 1 and document["status"] == 2
    ends = {"family": None, "role": None, "ended_at": None, "exit_statuses": None}
    assert document["runs"] == [{"id": "r1", "name": "train", "process_count": 2, **ends}]
    names = {rule.name for rule in RULES}
    missing = {each["rule"] for each in document["unchecked"]}
    assert "host_lost" in document["checked"] and set(document["checked"]) == names - missing
    assert all(each["reason"] for each in document["unchecked"])


def test_metrics_count_the_findings_of_each_rule():
    cluster = folded(two_processes(died_at=10))
    parsed = text_string_to_metric_families(to_openmetrics(cluster, NOW + 30))
    samples = {each.name: each.samples for each in parsed}
    (count,), (since,) = samples["jaxtop_findings"], samples["jaxtop_findings_since_seconds"]
    labels = {"run": "r1", "rule": "host_lost", "severity": "critical"}
    assert (count.labels, count.value) == (labels, 1) and (since.labels, since.value) == (labels, NOW + 10)
    (unchecked,) = samples["jaxtop_rules_unchecked"]
    assert unchecked.value == len(cluster.findings.unchecked)
    over_time = "".join(SERIES["openmetrics"]([(NOW + 30, cluster)]))
    assert 'jaxtop_findings{run="r1",rule="host_lost",severity="critical"} 1 18000000' in over_time
    healthy = to_openmetrics(folded(two_processes()), NOW + 30)
    assert "jaxtop_findings{" not in healthy and "jaxtop_rules_unchecked" in healthy


# Recordings


def test_a_recording_is_checked_at_its_end_or_at_a_time(tmp_path):
    path = recorded(tmp_path / "a.mcap", two_processes(died_at=20))
    done = jaxtop_here("check", path)
    assert (done.returncode, done.stderr) == (2, "")
    assert "Host lost: host 1 has died" in done.stdout and "\x1b" not in done.stdout
    earlier = jaxtop_here("check", path, "--at", "+10s")
    assert earlier.returncode == 0 and earlier.stdout.startswith("train: nothing wrong in ")
    assert json.loads(jaxtop_here("check", tmp_path, "--json").stdout)["findings"][0]["rule"] == "host_lost"
    assert jaxtop_here("check", path, "--markdown").stdout.startswith("**train: 1 critical; ")


@pytest.mark.parametrize("form", command.FORMATS)
def test_formats_are_chosen_alike_in_every_command(tmp_path, form):
    path = recorded(tmp_path / "a.mcap", two_processes())
    named, short = (
        jaxtop_here("check", path, *words).stdout for words in (["--format", form], [f"--{form}"])
    )
    assert named == short and named


@pytest.mark.parametrize("form", formats.FORMATS)
def test_a_format_alone_prints_the_last_moment_of_a_recording(tmp_path, form):
    path = recorded(tmp_path / "a.mcap", two_processes(10))
    last = jaxtop_here("replay", path, "--at", "0s ago", "--format", form)
    assert last.returncode == 0 and jaxtop_here("replay", path, f"--{form}").stdout == last.stdout
    both = jaxtop_here("replay", path, f"--{form}", "--export", "csv")
    assert both.returncode == 2 and is_one_line(both.stderr) and "give only one" in both.stderr


def test_snapshot_takes_the_names_of_formats_as_flags():
    parser = cli.parser_of_all()[1]["snapshot"]
    assert [parser.parse_args(words).format for words in ([], ["--json"], ["--csv"])] == [
        "json",
        "json",
        "csv",
    ]


def test_help_of_a_command_is_found_as_in_other_programs(capsys):
    for words in (["help", "check"], ["help"], ["-V"]):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 0
        assert capsys.readouterr().out.startswith(("usage: jaxtop check", "usage: jaxtop", "jaxtop "))


def test_a_recording_of_a_session_with_keyframes_says_what_the_live_view_said(tmp_path):
    made = Made(hosts=3, devices=2, seconds=200)
    record(tmp_path / "a.mcap", made)
    done = jaxtop_here("check", tmp_path / "a.mcap", "--json")
    assert {each["rule"] for each in json.loads(done.stdout)["findings"]} >= {"host_lost"}


def test_a_moment_of_a_recording_has_the_verdict_of_its_check(tmp_path):
    recording = a_run(tmp_path / "run.mcap")
    moment = json.loads(jaxtop_here("replay", recording, "--json").stdout)
    assert moment["verdict"] in jaxtop_here("check", recording).stdout.splitlines()[0]
    found = json.loads(jaxtop_here("check", recording, "--json").stdout)
    assert [each["rule"] for each in moment["findings"]] == [each["rule"] for each in found["findings"]]
    assert moment["verdict"].endswith(f"{len(found['checked'])} of {len(RULES)} rules checked")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "+1s"], "needs a recording"),
        (["a.mcap", "train"], "either recordings or a live run"),
        (["a.mcap"], "a.mcap"),
        (["--wait", "never"], "is not between"),
        (["--json", "--markdown"], "not allowed with"),
        (["--bogus"], "unrecognized"),
        (["no-such-run"], "neither a live run"),
    ],
)
def test_an_error_has_a_status_of_its_own(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = jaxtop_here("check", *words)
    assert done.returncode == 3 and not done.stdout
    assert is_one_line(done.stderr) and said in done.stderr


def test_a_crash_is_not_taken_for_a_warning(monkeypatch):
    monkeypatch.setattr(replay, "is_recording", lambda _: 1 / 0)
    done = jaxtop_here("check", "x")
    assert done.returncode == 3 and "ZeroDivisionError" in done.stderr


def test_a_folder_with_the_name_of_a_run_is_no_recording(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").mkdir()
    assert "neither a live run" in jaxtop_here("check", "train").stderr


# Live runs


def test_it_ends_early_once_something_critical_was_found_or_nothing_is_left_to_check(monkeypatch):
    clock = [NOW + 30.0]
    monkeypatch.setattr(command, "steady", lambda: clock[0])
    critical, healthy = folded(two_processes(died_at=10)), folded(two_processes())
    assert command._is_enough(critical, NOW + 30)
    healthy.findings.unchecked.clear()
    assert not command._is_enough(healthy, NOW + 29)
    assert command._is_enough(healthy, NOW + 20)
    healthy.findings.unchecked["r1", "straggler"] = "no window yet"
    assert not command._is_enough(healthy, NOW + 20)


def test_nobody_there_is_another_status_than_any_finding():
    done = jaxtop_here("check", f"127.0.0.1:{free_port()}", "--wait", "1")
    assert done.returncode == 3 and not done.stdout and is_one_line(done.stderr)


def test_a_live_run_is_measured_and_checked():
    with processes([PYTHON, "-m", "tests.real.load", 2, 2, 30, 8], stdout=PIPE, cwd=ROOT) as (agents,):
        address = agents.stdout.readline().strip()
        done = jaxtop_here("check", address, "--wait", "4", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == document["status"] and document["checked"]
    assert "measuring for up to" in done.stderr


@pytest.mark.parametrize("words", [["check"], ["snapshot"]])
def test_a_run_that_just_starts_is_waited_for(words, monkeypatch):
    """With --wait until its name appears; without, the message says how to wait."""
    done = jaxtop_here(*words, "early")
    assert "a run that is just starting: --wait S waits for it" in done.stderr and is_one_line(done.stderr)
    looks = []

    def open_source(*_, **__):
        looks.append(None)
        if len(looks) < 3:
            raise targets.TargetNotFound("'early' is no live run", has_ended=False)
        raise UserError("opened")

    monkeypatch.setattr(targets, "open_source", open_source)
    monkeypatch.setattr(targets, "LOOKS_EVERY_S", 0.01)
    done = jaxtop_here(*words, "early", "--wait", "60")
    assert len(looks) == 3 and done.stderr.splitlines() == [
        "jaxtop: waiting for the run to start",
        "jaxtop: opened",
    ]
