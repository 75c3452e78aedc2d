"""`jaxtop compare` says which of two runs is slower beyond the noise of both, where, and what differs."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
from bisect import bisect_right
from pathlib import Path

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.base import keys
from jaxtop.base.clock import now_ms
from jaxtop.cli.text.output import ProgressLine
from jaxtop.features.ledger.compare import ComparedRun, Comparison, MeasuredSteps
from jaxtop.features.ledger.compare_text import verdict
from jaxtop.store import ledgers
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.made.agents import Agent, closing
from tests.played.recordings import written
from tests.staged import parts as staged_parts
from tests.support import JAXTOP, PYTHON, SOAK, jaxtop_here, processes

STEP = wire.Program("jit_train_step", "f1", 8, 4, 1_000_000, None, 4096, 1024, 0, 2048)


class Run:
    """A made-up run of two processes: what its steps take, and what it consists of."""

    def __init__(self, step_ms=100.0, *, seconds=60, waver=0.02, seed=0, **hello):
        self.seconds, self.hello = seconds, hello
        self.random = random.Random(seed)
        self.took, self.waver = step_ms if callable(step_ms) else lambda _: step_ms, waver
        self.programs, self.census = (STEP,), builders.census()
        self.messages, self.also_launches, self.is_reported = (), {}, False
        self.per_step, self.counts_anew_at, self.begins, self.agents = 1, None, 0, 0

    def ends(self):
        """When each step ends, in seconds; what a step takes wavers, and drifts slowly."""
        at, found, drift = 0.0, [], 0.0
        while at < self.seconds:
            drift = 0.97 * drift + self.random.gauss(0, self.waver / 4)
            at += max(1e-3, self.took(at) / 1000 * (1 + drift + self.random.gauss(0, self.waver)))
            found.append(at)
        return found

    def frames(self):
        ends, begins = self.ends(), NOW + self.begins
        for index in (0, 1):
            agent = agent_id(index + self.agents)
            yield frame(agent, wire.Link(LinkState.UP, f"10.0.0.{index}:7411"), begins, 0)
            for message in (
                builders.hello(index, **{"agent": agent, **self.hello}),
                wire.Programs(1, self.programs, seen_ms=(5,) * len(self.programs)),
                replace(self.census, at_ms=int(begins * 1000)),
            ):
                yield frame(agent, message, begins)
            for second in range(1, self.seconds):
                done = bisect_right(ends, second)
                yield frame(agent, self.pulse(second, done), begins + second, second)
            for second, message in self.messages:
                yield frame(agent, message, begins + second, 0)

    def pulse(self, second, steps):
        us, at_ms = int(self.took(second) * 1000), int((NOW + self.begins + second) * 1000)
        functions = () if self.is_reported else ("train_step",)
        serial, counted = 1, steps
        if self.counts_anew_at is not None and second >= self.counts_anew_at:
            serial, counted = 2, steps - 200
        times = us, 10**9 // us, 50, us, us, us
        rhythm = wire.Rhythm(serial, functions, counted, 100 * self.per_step, *times)
        more = {name: int(each * steps) for name, each in self.also_launches.items()}
        launches = {"train_step": self.per_step * steps, **more}
        step = wire.Step(steps, steps) if self.is_reported else None
        return wire.Pulse(at_ms, at_ms, launches=launches, rhythm=rhythm, step=step)

    def record(self, path):
        written(path, sorted(self.frames(), key=lambda each: each.at)).finish()
        return path


@pytest.fixture
def compare(tmp_path):
    """Record two runs and compare them; paths are compared as they are."""

    def done(a, b, *words):
        paths = [
            each.record(tmp_path / name) if isinstance(each, Run) else each
            for name, each in (("a.mcap", a), ("b.mcap", b))
        ]
        return jaxtop_here("compare", *paths, *words)

    return done


def lines(done):
    assert done.stderr == ""
    return done.stdout.splitlines()


# Which is slower


def test_the_slower_one_is_named_with_the_noise_of_both(compare):
    done = compare(Run(105, waver=0.005), Run(124, waver=0.005, seed=1))
    assert done.returncode == 1
    words = r"B is 1[789] % slower: 12[345] ms a step instead of 10[456] ms \((each|A) wavers by .*\)"
    assert re.fullmatch(words, lines(done)[0])


def test_it_may_be_the_first_one(compare):
    done = compare(Run(124, waver=0.005, seed=1), Run(105, waver=0.005))
    assert re.match(r"A is 1[789] % slower: 12[345] ms a step instead of 10[456] ms ", lines(done)[0])


@pytest.mark.parametrize("seed", range(10))
def test_two_equal_runs_never_differ_beyond_the_noise(compare, seed):
    done = compare(
        Run(80, seconds=30, waver=0.1, seed=2 * seed), Run(80, seconds=30, waver=0.1, seed=2 * seed + 1)
    )
    assert done.returncode == 0
    assert lines(done)[0].startswith("no difference beyond the noise: ")
    assert lines(done)[-1] == "nothing else that is known differs"


def test_a_small_difference_of_steady_runs_is_not_judged(compare):
    done = compare(Run(100, waver=0.0005), Run(102, waver=0.0005, seed=1))
    assert done.returncode == 0
    assert lines(done)[0].endswith(", and a difference below 3 % is not judged")


@pytest.mark.parametrize(("wavers", "is_real"), [(0.01, True), (0.1, False)])
def test_what_is_noise_depends_on_how_much_both_waver(wavers, is_real):
    spread = [0.1 * (1 + wavers * part / 5) for part in range(-5, 6)]
    a, b = (MeasuredSteps(tuple(each * times for each in spread), 100, 60.0) for times in (1, 1.1))
    assert Comparison(ComparedRun("a", a), ComparedRun("b", b)).is_real is is_real


def test_one_slow_sample_is_no_slower_run():
    a = MeasuredSteps((0.1,) * 20, 100, 60.0)
    b = MeasuredSteps((*(0.1,) * 19, 0.4), 100, 60.0)
    assert not Comparison(ComparedRun("a", a), ComparedRun("b", b)).is_real


def test_too_few_samples_are_no_verdict():
    a, b = MeasuredSteps((0.1,), 100, 10.0), MeasuredSteps((0.2,), 50, 10.0)
    found = Comparison(ComparedRun("a", a), ComparedRun("b", b))
    assert (found.is_real, found.noise) == (False, None)
    assert verdict(found) == (
        "A took 100 ms a step and B 200 ms; A and B show too little to say whether that is noise"
    )


def test_steps_of_many_seconds_are_timed_too(compare):
    done = compare(Run(4_000, seconds=180), Run(6_000, seconds=180, seed=1))
    assert done.returncode == 1
    assert lines(done)[0].startswith(("B is 5", "B is 4"))


def test_steps_that_the_script_reports_count(compare):
    a, b = Run(100), Run(150, seed=1)
    a.is_reported = b.is_reported = True
    assert json.loads(compare(a, b, "--json").stdout)["difference_share"] == pytest.approx(0.5, rel=0.1)


def test_a_moment_can_be_chosen_in_each(compare, tmp_path):
    """A run that became slower halfway through, against itself."""
    run = Run(lambda at: 100 if at < 60 else 150, seconds=120).record(tmp_path / "run.mcap")
    assert compare(run, run).returncode == 0
    done = compare(run, run, "--at-a", "+55s", "--json")
    document = json.loads(done.stdout)
    assert document["a"]["step_ms"] == pytest.approx(100, rel=0.05)
    assert document["b"]["step_ms"] > 105


def test_what_follows_the_last_step_does_not_count(compare):
    """The run hung for longer than it trained."""
    hung = Run(lambda at: 100 if at < 30 else 1e9, seconds=120)
    done = compare(hung, Run(100, seed=1), "--json")
    assert done.returncode == 0
    assert 280 < json.loads(done.stdout)["a"]["steps"] <= 300


def test_a_step_may_launch_its_last_function_several_times(compare):
    """Also where the agent begins to count steps anew, as it does when it finds another pattern."""
    a, b = Run(100), Run(100, seed=1)
    b.per_step, b.counts_anew_at = 4, 40
    document = json.loads(compare(a, b, "--json").stdout)
    assert document["b"]["step_ms"] == pytest.approx(100, rel=0.03)


def test_a_stop_in_between_is_one_slow_sample(compare):
    """It was stopped for a minute, as by a debugger."""
    stopped = Run(lambda at: 60_000 if 30 <= at < 31 else 100, seconds=150)
    document = json.loads(compare(Run(100), stopped, "--json").stdout)
    assert document["b"]["step_ms"] == pytest.approx(100, rel=0.05)
    assert len(document["b"]["samples_ms"]) > 20


def test_of_two_attempts_in_a_folder_the_later_one_counts(compare, tmp_path):
    (tmp_path / "boxes").mkdir()
    Run(100).record(tmp_path / "boxes" / "first.mcap")
    later = Run(150, run="r2", started_ms=int((NOW + 100) * 1000))
    later.begins, later.agents = 100, 2
    later.record(tmp_path / "boxes" / "second.mcap")
    document = json.loads(compare(tmp_path / "boxes", Run(150, seed=1), "--json").stdout)
    assert document["a"]["step_ms"] == pytest.approx(150, rel=0.03)


# What differs


def of_kind(document, kind):
    return [each for each in document["differences"] if each["kind"] == kind]


def test_each_difference_is_named_and_nothing_that_is_equal(compare):
    flags = {"jax_enable_x64": "False", "--xla_cpu_enable_fast_math": "false"}
    a = Run(flags=flags, jaxlib="0.10.2")
    b = Run(seed=1, flags={**flags, "--xla_cpu_enable_fast_math": "true", "--xla_more": "1"}, jaxlib="0.10.3")
    b.programs = (STEP, wire.Program("jit_helper", "h", 8, 4))
    b.programs = (replace(STEP, fingerprint="f2", flops=1_500_000, temp_bytes=4096), b.programs[1])
    a.also_launches, b.also_launches = {"helper": 1}, {"helper": 2}
    a.programs = (STEP, b.programs[1])
    b.census = replace(
        b.census, meshes=(wire.Mesh((("data", 4), ("model", 2)), wire.pack_ids(tuple(range(8)))),)
    )
    document = json.loads(compare(a, b, "--json").stdout)
    assert (document["schema"], document["slower"], document["is_beyond_noise"]) == (1, None, False)
    assert [(each["name"], each["a"], each["b"]) for each in of_kind(document, "flag")] == [
        ("--xla_cpu_enable_fast_math", "false", "true"),
        ("--xla_more", None, "1"),
    ]
    assert [(each["name"], each["a"], each["b"]) for each in of_kind(document, "version")] == [
        ("jaxlib", "0.10.2", "0.10.3")
    ]
    assert {each["name"] for each in of_kind(document, "mesh")} == {"data 2 × model 4", "data 4 × model 2"}
    found = {(each["name"], each["figure"]): (each["a"], each["b"]) for each in of_kind(document, "program")}
    assert found.pop(("helper", "launches a step")) == pytest.approx((1, 2), rel=0.01)
    assert found == {
        ("train_step", "fingerprint"): ("f1", "f2"),
        ("train_step", "flops"): (1_000_000, 1_500_000),
        ("train_step", "temporary bytes"): (2048, 4096),
    }
    assert not of_kind(document, "devices")


def test_a_program_that_only_one_has_is_named(compare):
    b = Run(seed=1)
    b.programs = (STEP, wire.Program("jit_extra", "x", 8, 4))
    assert "only in B: extra" in lines(compare(Run(), b))


def test_other_shardings_of_the_largest_arrays_are_named(compare):
    b = Run(seed=1)
    shardings = (replace(b.census.shardings[0], spec="P('data', None)"), *b.census.shardings[1:])
    b.census = replace(b.census, shardings=shardings)
    [head, *rows] = [each for each in lines(compare(Run(), b)) if "LARGEST" in each or "kernel" in each]
    assert head.split() == ["LARGEST", "ARRAYS", "A", "B"]
    assert rows[0].split("  ") == [
        "state.opt_state[0].mu['Dense_0']['kernel']", "sharding", "P('data', 'model')", "P('data', None)"
    ]  # fmt: skip


def test_fewer_devices_are_named(compare):
    done = compare(Run(), Run(seed=1, devices=2))
    assert ["devices", "8", "4"] in [each.split() for each in lines(done)]


def test_the_part_of_a_step_that_takes_longer_is_named(compare):
    """Steps of 100 ms with 80 ms of launches, and of 150 ms with 80 ms."""
    runs = []
    for step_ms in (100, 150):
        run = Run(step_ms, seed=step_ms)
        launches = ((step_ms * i, 80) for i in range(8))
        window = staged_parts.window(*launches)
        seen = staged_parts.activity(script=20 if step_ms > 100 else 8, wait=20)
        run.programs = (replace(STEP, fingerprint="f"),)
        run.messages = [
            (second, replace(each, at_ms=int((NOW + second) * 1000)))
            for second in range(5, 60, 10)
            for each in (window, seen)
        ]
        runs.append(run)
    done = compare(*runs)
    assert lines(done)[1].startswith("most of it is host gap (")
    assert any(each.startswith("host gap ") for each in lines(done))


# Ledgers


def ledger(folder, index, step_s, seconds=300, input_s=0.0):
    """Write the ledger of a process that trains after a minute of compiling."""
    who = ledgers.LedgerProcess(1, "job", agent_id(index), int(NOW * 1000), "train", f"node0{index}",
                                run="r1", process_index=index, devices=4)  # fmt: skip
    text = ledgers.line_of(who)
    rest = random.Random(index)
    for at in range(60, seconds + 60, 15):
        trained = at - 60
        steps = int(trained / (step_s * (1 + rest.uniform(-0.01, 0.01))))
        waited = steps * input_s
        spent = {"compiling": 60.0, "stepping": trained - waited, "input": waited}
        text += ledgers.line_of(ledgers.Sums(int((NOW + at) * 1000), spent, steps))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{index}.jsonl").write_bytes(text)
    return folder


def test_ledgers_are_compared_by_their_sums(compare, tmp_path):
    for index in (0, 1):
        a, b = ledger(tmp_path / "a", index, 0.1), ledger(tmp_path / "b", index, 0.13, input_s=0.03)
    done = compare(a, b)
    assert done.returncode == 1
    assert lines(done)[0].startswith("B is 3")
    assert lines(done)[1].startswith("most of it is waiting for input (30 ms in B, 0 ms in A)")


def test_the_lineage_of_a_job_is_its_last_attempt(compare, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ledger(ledgers.folder(), 0, 0.1)
    done = compare("job", ledger(tmp_path / "b", 0, 0.13))
    assert done.returncode == 1
    assert lines(done)[0].startswith("B is 3")


def test_an_attempt_that_never_made_steps_does_not_count(compare, tmp_path):
    folder = ledger(tmp_path / "a", 0, 0.1)
    who = ledgers.LedgerProcess(1, "job", agent_id(1), int((NOW + 500) * 1000), "train", run="r2")
    sums = ledgers.Sums(int((NOW + 600) * 1000), {"starting": 100.0}, 0)
    (folder / "later.jsonl").write_bytes(ledgers.line_of(who) + ledgers.line_of(sums))
    done = compare(folder, ledger(tmp_path / "b", 0, 0.13))
    assert done.returncode == 1
    assert lines(done)[0].startswith("B is 3")


# Live runs


class Stepping(Agent):
    """An agent whose run makes ten steps a second."""

    def _pulse(self, count, launches):  # noqa: ARG002 - that of an agent
        now = now_ms()
        rhythm = wire.Rhythm(1, ("train_step",), now // 100, 100, 100_000, 10_000, 50, *(100_000,) * 3)
        return wire.Pulse(now, now, launches={"train_step": now // 100}, rhythm=rhythm)


@pytest.mark.parametrize("way", ["target", "hostfile", "map", "via"])
def test_a_live_run_is_reached_in_every_way(tmp_path, way):
    with closing(Stepping(keys.load(), 5)) as (agent,):
        port = agent.requests.rpartition(":")[2]
        (tmp_path / "hosts").write_text(f"{agent.requests}\n")
        via = shlex.join(["env", f"PATH={Path(PYTHON).parent}:{os.environ['PATH']}"])
        words = {
            "target": [agent.requests],
            "hostfile": ["--hostfile", tmp_path / "hosts"],
            "map": [f"node01:{port}", "--map", f"node01:{port}={agent.requests}"],
            "via": [agent.requests, "--via", via],
        }[way]
        done = jaxtop_here("compare", Run().record(tmp_path / "a.mcap"), *words, "--wait", 4, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["b"]["step_ms"] == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["b.mcap", "--via", "env"], "jaxtop: --via is for a live run, and neither A nor B is one"),
        (["b.mcap", "--hostfile", "hosts"], "jaxtop: --hostfile names the hosts of B: leave B out"),
        (["--at-b", "10:32"], "jaxtop: --at-b needs a recording, and the live run is none"),
        (["--via", "false"], "jaxtop: B (the live run): "),
        (["ssh://a b"], "jaxtop: B (ssh://a b): ssh://a b is not ssh://[USER@]HOST[:PORT][/TARGET]"),
        ([], "jaxtop: B (the live run): no live run of yours on this machine"),
    ],
)
def test_what_leads_to_no_live_run_is_said_in_one_line(tmp_path, monkeypatch, words, why):
    monkeypatch.chdir(tmp_path)
    for name in ("a.mcap", "b.mcap"):
        Run().record(tmp_path / name)
    done = jaxtop_here("compare", "a.mcap", *words, "--wait", 1)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-1].startswith(why)


# What cannot be compared


def test_a_file_that_is_no_recording_is_named_in_one_line(compare, tmp_path):
    bad = tmp_path / "bad.mcap"
    bad.write_text("nothing")
    done = compare(Run(), bad)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"jaxtop: B ({bad}): ")
    assert done.stderr.count("\n") == 1


def test_a_ledger_that_is_none_is_named_in_one_line(compare, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text("nothing")
    done = compare(bad, Run())
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"jaxtop: A ({bad}): {bad} is no ledger: no line names a process\n"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.mcap", "missing.mcap cannot be read: No such file or directory"),
        ("missing.jsonl", "missing.jsonl cannot be read: No such file or directory"),
        ("folder", "there is neither a recording nor a ledger in this folder"),
        ("missing.invalid", "'missing.invalid' is neither a live run (`jaxtop ls`) nor a host whose "),
    ],
)
def test_what_is_not_there_is_said_in_one_line(compare, tmp_path, monkeypatch, name, why):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    done = compare(Run(), name)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"jaxtop: B ({name}): {why}") and done.stderr.count("\n") == 1


def test_a_file_that_is_cut_off_is_compared_up_to_there_or_named(compare, tmp_path):
    whole = Run().record(tmp_path / "whole.mcap").read_bytes()
    cut = tmp_path / "cut.mcap"
    for size in (0, 8, 500, *range(1000, len(whole), len(whole) // 8)):
        cut.write_bytes(whole[:size])
        done = compare(cut, tmp_path / "whole.mcap")
        assert (done.returncode, "no difference" in done.stdout) in ((0, True), (0, False), (3, False))
        if done.returncode == 3:
            assert done.stderr.startswith(f"jaxtop: A ({cut}): ") and done.stderr.count("\n") == 1


def test_how_far_it_is_is_shown_and_taken_away(compare, monkeypatch):
    shown = []
    monkeypatch.setattr(ProgressLine, "show", lambda _, text: shown.append(text))
    compare(Run(), Run(seed=1))
    assert shown[-1] == "" and len(shown) == len(dict.fromkeys(shown)) + 1
    for which in "AB":
        parts = [each for each in shown if each.startswith(f"{which}: ")]
        assert {each.split(": ")[2] for each in parts} == {"counting steps", "looking for findings"}
        assert int(parts[-1].rpartition(" ")[2][:-1]) > 90


def test_a_time_outside_of_the_recording_is_named(compare):
    done = compare(Run(), Run(seed=1), "--at-b", "2001-01-01 10:00")
    assert (done.returncode, done.stdout) == (3, "")
    assert ": '2001-01-01 10:00' is outside of " in done.stderr


def test_a_recording_without_steps_is_named(compare, tmp_path):
    done = compare(Run(seconds=2), Run())
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"jaxtop: A ({tmp_path / 'a.mcap'}): it has no steps\n"


def test_a_run_that_is_not_there_is_named(compare):
    done = compare(Run(), "nowhere.invalid:1")
    assert done.returncode == 3
    assert "B (nowhere.invalid:1): " in done.stderr


def test_a_moment_needs_a_recording(compare, tmp_path):
    done = compare(ledger(tmp_path / "a", 0, 0.1), Run(), "--at-a", "10:32")
    assert done.returncode == 3
    assert done.stderr.startswith("jaxtop: --at-a needs a recording, and ")


# Real runs


@pytest.mark.jax
@pytest.mark.newest
@pytest.mark.timeout(300)
@pytest.mark.skipif(not SOAK, reason="two real runs that only a quiet machine keeps alike: `make soak`")
def test_a_host_that_sleeps_before_each_step_is_named(tmp_path):
    """Both runs take place at the same time, so that what else this machine does slows both down."""
    runs = [tmp_path / "healthy", tmp_path / "late"]
    demo = [*JAXTOP, "demo", "--headless", "--devices", 1, "--duration", 40]
    faults = [[], ["--fault", "straggler", "--fault-after", 0]]
    with processes(
        *([*demo, "--record", run, *more] for run, more in zip(runs, faults, strict=True))
    ) as started:
        assert [each.wait() for each in started] == [0, 0]
    document = json.loads(jaxtop_here("compare", *runs, "--json").stdout)
    assert document["slower"] == "b"
    assert document["difference_ms"] == pytest.approx(400, rel=0.3)
    late = {each["name"]: each for each in of_kind(document, "late")}
    assert late["Straggler: process 1"]["a"] is None
    assert "before_launch" in late["Straggler: process 1"]["b"]
    assert {each["name"]: each["b_ms"] - each["a_ms"] > 50 for each in document["parts"]}["waiting"]
    assert not {each["kind"] for each in document["differences"]} - {"late", "finding"}
