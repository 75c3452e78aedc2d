"""What is known of a process after its script failed: from staged messages, and from real processes."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest
from msgspec import structs
from msgspec.structs import replace as replace_struct

from jaxtop import wire
from jaxtop.features.postmortem import document as export
from jaxtop.features.postmortem import kernel_log
from jaxtop.features.postmortem.command import endings
from jaxtop.model import exited_runs, reported_findings
from jaxtop.model.findings.postmortem import (
    COMPILED,
    RAISED,
    RAN_LATELY,
    SAME_LINE,
    postmortem_of,
    postmortems,
)
from jaxtop.model.findings.postmortem_words import facts, headline
from jaxtop.model.findings.shortage import Size, shortage_of
from jaxtop.model.liveness import State
from jaxtop.store import runfiles
from jaxtop.wire import LinkState
from tests import builders
from tests.stage import line, shown_after
from tests.staged.findings import Staged
from tests.staged.memory import WHOLE, array, census
from tests.support import PYTHON, environment, eventually, jax_run, jaxtop_here, processes, script, viewer

GIB, MIB = 1 << 30, 1 << 20
ASKED = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5368709120 bytes."
PLACE = wire.Place("train.py", 51, "main")


# What exceptions say about memory. The numbers beside them were computed by hand.


OF_JAX, OF_XLA = "JaxRuntimeError", "XlaRuntimeError"
SAYS = [
    (OF_JAX, ASKED, Size(5 * GIB), None),
    (OF_JAX, "RESOURCE_EXHAUSTED: Out of memory allocating 1024 bytes.", Size(1024), None),
    (OF_JAX, "INTERNAL: Error preparing computation: Out of memory allocating 70 bytes.", Size(70), None),
    (
        OF_XLA,
        "RESOURCE_EXHAUSTED: Failed to allocate request for 2.99GiB (3206250496B) on device ordinal 0",
        Size(3206250496),
        None,
    ),
    (
        OF_XLA,
        "RESOURCE_EXHAUSTED: Attempting to allocate 1.50G. There are 512.00M free.; (0x0)",
        Size(1610612736, is_exact=False),
        Size(536870912, is_exact=False),
    ),
    (
        OF_XLA,
        "RESOURCE_EXHAUSTED: Attempting to reserve 4.00G at the bottom. There are 1.00G free, 0B",
        Size(4 * GIB, is_exact=False),
        Size(GIB, is_exact=False),
    ),
    (
        OF_XLA,
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 24.00G of 15.50G hbm.",
        Size(24 * GIB, is_exact=False),
        Size(16642998272, is_exact=False),
    ),
    ("_ArrayMemoryError", "Unable to allocate 2.00 MiB for an array", Size(2 * MIB, is_exact=False), None),
    ("_ArrayMemoryError", "Unable to allocate 745. GiB for an array", Size(745 * GIB, is_exact=False), None),
    ("MemoryError", "", None, None),
    (OF_JAX, "RESOURCE_EXHAUSTED: failed to allocate 4 buffers", None, None),
    (OF_JAX, f"RESOURCE_EXHAUSTED: Out of memory allocating {'9' * 400} bytes.", None, None),
    (OF_JAX, f"RESOURCE_EXHAUSTED: allocating 1.5GiB ({'9' * 400}B)", Size(3 << 29, is_exact=False), None),
]


@pytest.mark.parametrize(("kind", "message", "asked", "free"), SAYS)
def test_what_an_exception_says_about_memory(kind, message, asked, free):
    found = shortage_of(kind, message)
    assert found is not None and (found.asked, found.free) == (asked, free)


@pytest.mark.parametrize(
    "message", ["", "INVALID_ARGUMENT: a shape", "allocated 12 workers", "there are 3 free"]
)
def test_an_exception_about_something_else_says_nothing_about_memory(message):
    assert shortage_of("ValueError", message) is None


# The model, on staged messages

STEP = wire.Program(
    "jit_step", "f1", 1, 1, created="train.py:51 main",
    argument_bytes=6 * GIB, output_bytes=6 * GIB, alias_bytes=5 * GIB, temp_bytes=2 * GIB,
)  # fmt: skip
EVALUATE = wire.Program("jit_evaluate", "f2", 1, 1, 4, 4, GIB, MIB, 0, 0, created="train.py:90 evaluate")


def trains(used=14 * GIB):
    """The pulses of processes with a fuller and an emptier device of 16 GiB."""

    def pulse(_index, at, step):
        now_ms = int(at * 1000)
        return wire.Pulse(
            now_ms,
            sampled_ms=now_ms - 400,
            memory_source="allocator",
            devices=wire.DeviceSample((used, GIB), (used, GIB), (16 * GIB, 16 * GIB)),
            launches={"step": step},
            counted_ms=now_ms - 900,
        )

    return pulse


def only_the_first(index, at, step):
    return trains()(index, at, step) if index == 0 else None


def failed(error, *, programs=(STEP, EVALUATE), pulse=None, seconds=20.0):
    staged = Staged(2)
    staged.tell(1, wire.Programs(int(staged.at * 1000), programs=programs, seen_ms=(0,) * len(programs)))
    groups = [array(f"kept[{i}]", (256, 1024), WHOLE, created="train.py:70 main") for i in range(3)]
    groups += [array("params['w']", (1024, 1024), WHOLE, created="train.py:12 init")]
    staged.tell(1, census(staged.at, *groups))
    staged.train(seconds, pulse or trains())
    staged.tell(
        1, wire.Event(int(staged.at * 1000), "warning", "exception", "went on after JaxRuntimeError: x")
    )
    staged.tell(1, wire.Bye(int(staged.at * 1000), "ended", error, 1))
    return staged


def the_postmortem(staged):
    (found,) = postmortems(staged.cluster, staged.at)
    return found


def test_a_process_that_ran_out_of_memory_is_described_with_what_it_asked_for_and_held():
    staged = failed(wire.Uncaught("JaxRuntimeError", ASKED, PLACE))
    found = the_postmortem(staged)
    # By hand: 5 GiB asked, 16 GiB less 14 free on the fuller of the two devices, so 3 GiB too much.
    assert (found.free, found.free_source) == (Size(2 * GIB), "allocator")
    assert found.missing == Size(3 * GIB)
    # Results and temporaries, without the 5 GiB of arguments that the results take the place of.
    assert found.program is not None and found.program.adds_bytes == 3 * GIB
    assert (round(found.memory_age, 3), round(found.census_age, 3)) == (0.4, 0.9)
    # Three arrays of 256 × 1024 × 4 bytes, and one of 1024 × 1024 × 4.
    assert [(each.name, each.count, each.bytes_per_device) for each in found.arrays] == [
        ("params['w']", 1, 4 * MIB),
        ("kept[*]", 3, 3 * MIB),
    ]
    assert found.array_count == 4
    assert [event.text.partition(": ")[2] for event in found.events] == ["went on after JaxRuntimeError: x"]
    words = dict(facts(found))
    assert words["asked"] == ("5.0 GiB; 2.0 GiB was free by the allocator", "3.0 GiB more than was free")
    assert words["arrays"][1] == "4.0 MiB  params['w'] float32[1024,1024]  train.py:12 init"


def test_the_finding_has_the_figures_of_the_postmortem():
    staged = failed(wire.Uncaught("JaxRuntimeError", ASKED, PLACE))
    staged.train(2, only_the_first)
    found = staged.the("crashed")
    values = {each.name: each.value for each in found.evidence}
    assert (values["asked for"], values["free"], values["more than was free"]) == (5 * GIB, 2 * GIB, 3 * GIB)
    assert values["program"] == f"jit_step: {SAME_LINE}" and "postmortem" in found.advice


@pytest.mark.parametrize(
    ("error", "programs", "name", "basis"),
    [
        (
            wire.Uncaught("JaxRuntimeError", ASKED, PLACE, "evaluate"),
            (STEP, EVALUATE),
            "jit_evaluate",
            RAISED,
        ),
        (wire.Uncaught("JaxRuntimeError", ASKED, PLACE, "gone"), (STEP, EVALUATE), "jit_step", SAME_LINE),
        (
            wire.Uncaught("ValueError", "bad", wire.Place("train.py", 7, "f")),
            (EVALUATE, STEP),
            "jit_step",
            RAN_LATELY,
        ),
        (wire.Uncaught("ValueError", "bad"), (EVALUATE,), None, None),
    ],
)
def test_the_program_at_the_end_says_how_it_is_known(error, programs, name, basis):
    found = the_postmortem(failed(error, programs=programs)).program
    assert (
        (name, basis) == (None, None) if found is None else (found.program.name, found.basis) == (name, basis)
    )


@pytest.mark.parametrize("error", [wire.Uncaught("JaxRuntimeError", ASKED), None])
def test_a_program_compiled_just_before_the_end_comes_before_those_that_ran(error):
    """Its first launch asked for the memory, and no list of programs has it any more."""
    staged = Staged(2)
    staged.tell(1, wire.Programs(int(staged.at * 1000), programs=(STEP,), seen_ms=(0,)))
    staged.train(20.0, trains())
    staged.tell(1, wire.Compile(int(staged.at * 1000) - 20, "huge", 400))
    if error is not None:
        staged.tell(1, wire.Bye(int(staged.at * 1000), "ended", error, 1))
        found = the_postmortem(staged).program
    else:
        host = staged.cluster.hosts[builders.agent_id(1)]
        found = postmortem_of(staged.cluster, host, State.DIED).program
    assert (found.program.name, found.basis, found.adds_bytes) == ("jit_huge", COMPILED, None)


def test_a_program_compiled_long_before_the_end_is_one_among_others():
    staged = Staged(2)
    staged.tell(1, wire.Programs(int(staged.at * 1000), programs=(STEP,), seen_ms=(0,)))
    staged.tell(1, wire.Compile(int(staged.at * 1000), "huge", 400))
    staged.train(20.0, trains())
    staged.tell(1, wire.Bye(int(staged.at * 1000), "ended", wire.Uncaught("JaxRuntimeError", ASKED), 1))
    assert the_postmortem(staged).program.basis == RAN_LATELY


def test_launches_are_newer_than_the_last_measured_steps():
    """Steps are measured while somebody watches only."""

    def pulse(index, at, step):
        rhythm = wire.Rhythm(1, ("step",), 333)
        return replace_struct(trains()(index, at, step), rhythm=rhythm)

    staged = failed(wire.Uncaught("JaxRuntimeError", ASKED, PLACE), pulse=pulse)
    found = the_postmortem(staged)
    launches = found.host.launches["step"]
    assert dict(facts(found))["step"] == (
        "333 steps when they were last measured",
        f"step launched {launches:,} times, {found.pulse_age:.1f} s before the end",
    )


def test_a_process_that_was_ended_in_a_hang_says_since_when_and_why_it_hung():
    """The age of the last launch is not that of the last report."""
    staged = Staged(2)
    staged.train(20.0, trains())
    began = staged.at

    def hangs(index, at, _step):
        rhythm = wire.Rhythm(1, ("step",), 190)
        still = wire.Stall("step", int(began * 1000), 1000)
        told = trains()(index, at, 200 - index)
        return replace_struct(told, rhythm=rhythm, stall=still, step=wire.Step(190, 190))

    staged.train(780.0, hangs)
    for index in (1, 0):
        staged.tell(index, wire.Link(LinkState.CLOSED, "10.0.0.1:7411"))
    found = next(each for each in postmortems(staged.cluster, staged.at) if each.host.process_index == 1)
    words = dict(facts(found))
    assert words["step"] == (
        "last step 190, 13 min before the end",
        "step launched 199 times, none in the last 13 min",
    )
    assert words["stalled"][0] == "nothing was launched in the last 13 min (usually at least once a second)"
    (reported,) = [each.text for each in reported_findings(staged.cluster) if each.rule == "stalled"]
    assert words["stalled"][1] == reported and "died" not in reported
    value = export.as_value(found)
    assert (value["step_age_s"], value["without_launch_s"], value["stalled"]) == (780.0, 780.0, reported)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "6,1,100500000,-;Out of memory: Killed process 77 (python) total-vm:1kB",
            "SIGKILL, as memory ran out on",
        ),
        ("3,2,100500000,-;Memory cgroup out of memory: Killed process 77 (python)", "in its control group"),
        ("6,3,99000000,-;python3[77]: segfault at 0 ip 00 sp 00 error 4 in libc", "SIGSEGV"),
        ("6,3,99000000,-;traps: python3[77] trap invalid opcode ip:0 sp:0", "SIGILL"),
        ("6,3,99000000,-;python3[770]: segfault at 0", ""),
        ("6,3,9000000,-;python3[77]: segfault at 0", ""),  # another process had this pid
        ("not a record", ""),
    ],
)
def test_what_the_kernel_has_logged_about_a_death(text, said):
    found = kernel_log.cause(["6,0,1,-;booted", text], 77, 100.0)
    assert said in found and bool(said) == bool(found)


def test_a_death_without_a_signal_says_who_knows_it():
    staged = Staged(2)
    staged.train(5.0, trains())
    host = staged.cluster.hosts[builders.agent_id(1)]
    found = postmortem_of(staged.cluster, host, State.DIED)
    assert dict(facts(found))["signal"][0].startswith("not known here")
    assert dict(facts(replace(found, kernel="SIGSEGV")))["signal"] == ("SIGSEGV",)


def test_a_request_that_would_fit_was_in_pieces_or_came_too_late():
    found = the_postmortem(failed(wire.Uncaught("JaxRuntimeError", ASKED, PLACE), pulse=trains(4 * GIB)))
    assert found.missing == Size(-7 * GIB)
    assert "less than was free" in dict(facts(found))["asked"][1]


def test_what_was_never_reported_is_unknown_and_not_zero():
    staged = Staged(1)
    staged.tell(0, wire.Bye(int(staged.at * 1000), "ended", wire.Uncaught("JaxRuntimeError", ASKED)))
    found = the_postmortem(staged)
    value = export.as_value(found)
    for name in (
        "free_bytes",
        "missing_bytes",
        "program",
        "memory_age_s",
        "census_age_s",
        "step",
        "exit_status",
    ):
        assert value[name] is None, name
    assert value["asked_bytes"] == 5 * GIB and value["out_of_memory"]
    assert dict(facts(found))["asked"] == ("5.0 GiB; how much was free is unknown",)


def test_a_process_that_died_has_a_postmortem_and_one_that_ended_has_none():
    staged = Staged(2)
    staged.train(5, trains())
    staged.tell(1, wire.Link(LinkState.CLOSED, "10.0.0.1:7411"))
    staged.tell(0, wire.Bye(int(staged.at * 1000), "ended"))
    found = the_postmortem(staged)
    assert headline(found).endswith("died without a goodbye") and found.shortage is None


LOCKED = wire.NativeStack((), waits_for="a lock or condition")


def ended_when_stuck(processes, native=LOCKED, reason=wire.STUCK, status=wire.STUCK_STATUS):
    """Each process stands at one line when its agent ends it; the state then, and the first host."""
    frames = builders.well(processes=processes)
    for index in range(processes):
        main = wire.Thread("main", True, (PLACE, wire.Place("python3.11/queue.py", 9, "get")), native=native)
        stacks, bye = wire.Stacks(0, (main,)), wire.Bye(int(builders.NOW * 1000), reason, None, status)
        frames += [builders.frame(builders.agent_id(index), each, sequence=9) for each in (stacks, bye)]
    state = builders.folded(frames)
    return state, state.hosts[builders.agent_id(0)]


def test_a_run_that_was_ended_when_stuck_shows_where_each_process_was():
    state, host = ended_when_stuck(2)
    lines = endings(state, builders.NOW)
    how = "all processes of the run were stuck, exit status 138"
    where = "it was at train.py:51 main and waited for a lock or condition"
    assert [each.partition("ended by its agent: ")[2] for each in lines] == [f"{how}; {where}"] * 2
    found = dict(facts(postmortem_of(state, host, State.ENDED)))
    assert found["line"] == ("train.py:51 main",)
    assert found["native"][0] == "the main thread waited for a lock or condition:"


def test_a_run_of_one_process_that_was_ended_when_stuck_has_no_other_processes():
    state, host = ended_when_stuck(1)
    (only,) = endings(state, builders.NOW)
    assert "was ended by its agent: it was stuck, exit status 138; it was at train.py:51 main" in only
    assert headline(postmortem_of(state, host, State.ENDED)).endswith("its agent: it was stuck")
    assert endings(ended_when_stuck(1, native=None)[0], builders.NOW)[0].endswith("train.py:51 main")


def test_a_run_that_ended_by_itself_says_that_nothing_failed():
    state, host = ended_when_stuck(1, reason="ended", status=0)
    first, only = endings(state, builders.NOW)
    assert first == "no process failed" and only.endswith("ended, exit status 0")
    assert "line" not in dict(facts(postmortem_of(state, host, State.ENDED)))


def test_what_grew_before_the_end_is_named():
    staged = Staged(1)
    for number in range(1, 12):
        grown = array("losses[0]", (256, 1024), WHOLE, created="train.py:88 main")
        staged.tell(0, census(staged.at, grown, counts=(number,), number=number))
        staged.train(9, trains())
    staged.tell(0, wire.Bye(int(staged.at * 1000), "ended", wire.Uncaught("ValueError", "bad")))
    (grower,) = the_postmortem(staged).growers
    # One MiB each nine seconds.
    assert grower.name == "losses[*]" and grower.bytes_per_minute == pytest.approx(MIB * 60 / 9, rel=0.01)


def test_the_details_of_the_first_that_failed_stay_while_the_run_goes_on():
    staged = failed(wire.Uncaught("JaxRuntimeError", ASKED, PLACE))
    staged.train(
        exited_runs.DETAILS_KEPT + 120,
        only_the_first,
        every=10,
    )
    assert the_postmortem(staged).missing == Size(3 * GIB)


# The commands, on real processes

FAILS = """
    import resource, sys, time
    import jax, jax.numpy as jnp
    from jaxtop import agent
    agent.start(record=sys.argv[1], name="fails")
    weights = jnp.ones((512, 1024))
    @jax.jit
    def step(w):
        return w * 0.99
    @jax.jit
    def widen(w):
        return jnp.broadcast_to(w[0], (1 << 32, 1024)) * 2
    def attempt():
        return widen(weights).block_until_ready()
    def main():
        global weights
        kept = []
        limit = 1 << 41  # address space, as `ulimit -v` sets it: less than what is asked for
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for i in range(220):
            weights = step(weights).block_until_ready()
            if i < 8:
                kept.append(jnp.ones((256, 1024)) + i)
            if i == 30:
                try:
                    attempt()
                except jax.errors.JaxRuntimeError:
                    print("went on", flush=True)
            agent.step(i)
            time.sleep(0.02)
        {end}
    main()
"""
IN_WIDEN = 16 << 40  # 2³² × 1024 numbers of 4 bytes


def line_with(path, text):
    return 1 + next(i for i, line in enumerate(path.read_text().splitlines()) if text in line)


@pytest.mark.jax
def test_a_script_that_runs_out_of_memory_is_explained_by_its_black_box_and_by_name(tmp_path):
    """Its bytes are counted by hand: 2 MiB of weights, eight arrays of 1 MiB, 16 TiB asked for."""
    path = script(tmp_path, FAILS.format(end="attempt()"))
    box = tmp_path / "box"
    with processes(
        [PYTHON, path, box],
        imports_jax=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(1),
    ) as (process,):
        out, err = process.communicate()
    assert process.returncode == 1 and out == "went on\n", err
    done = jaxtop_here("postmortem", box, "--format", "json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["processes"]
    line = f"script.py:{line_with(path, 'widen(weights)')}"
    # The launch itself fails, or the wait for its result: JAX launches asynchronously where it takes long.
    function, message = (found["exception"].pop(name) for name in ("function", "message"))
    assert message.endswith(f"Out of memory allocating {IN_WIDEN} bytes.")
    assert found["exception"] == {
        "type": "JaxRuntimeError",
        "source": line,
        "in": "attempt",
    }
    assert (found["exit_status"], found["state"], found["step"]) == (1, "ended", 219)
    assert found["asked_bytes"] == IN_WIDEN and found["missing_bytes"] == IN_WIDEN - found["free_bytes"] > 0
    assert found["free_source"] == "machine"
    program = found["program"]
    assert (program["name"], program["basis"]) == ("jit_widen", RAISED if function else SAME_LINE)
    assert (program["argument_bytes"], program["output_bytes"]) == (2 * MIB, IN_WIDEN)
    held = {each["name"]: (each["count"], each["bytes_per_device"]) for each in found["arrays"]}
    assert held["kept[*]"] == (8, 8 * MIB)
    assert held["weights"] in ((1, 2 * MIB), (2, 4 * MIB))  # two of them while a step runs
    assert found["arrays"][0]["created"] == f"script.py:{line_with(path, 'kept.append')} main"
    # JAX 0.8 makes the exception only where it is caught.
    places = [f"{line} attempt", f"script.py:{line_with(path, '    attempt()')} main"]
    (told,) = (event["text"] for event in found["events"])
    assert any(f"went on after JaxRuntimeError at {place}: " in told for place in places)
    text = jaxtop_here("postmortem", box).stdout
    assert "more than was free" in text and "kept[*] float32[256,1024] ×8" in text
    # Its run file is gone, but what it left says how it ended.
    checked = jaxtop_here("check", "fails")
    assert checked.returncode == 2 and "memory" in checked.stdout.partition("Crashed")[2], checked.stdout
    assert "exit status 1" in checked.stdout
    assert "`jaxtop check fails` says how" in jaxtop_here("snapshot", "fails").stderr


@pytest.mark.jax
@pytest.mark.newest
@pytest.mark.thorough
def test_a_script_that_ends_with_sys_exit_has_no_known_status(tmp_path):
    path = script(tmp_path, FAILS.replace("range(220)", "range(40)").format(end="sys.exit(3)"))
    box = tmp_path / "box"
    with processes([PYTHON, path, box], imports_jax=True, stdout=subprocess.PIPE) as (process,):
        assert process.wait() == 3
    assert "exit status n/a" in jaxtop_here("check", box).stdout
    done = jaxtop_here("postmortem", box)
    assert done.returncode == 0 and "no process failed" in done.stdout and "exit status n/a" in done.stdout


LINGERS = """
    import sys, time
    coordinator, count, index = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    import jax
    from jaxtop import agent
    agent.start(name="lingers")
    jax.distributed.initialize(coordinator, count, index)
    step = jax.jit(lambda x: x + 1)
    for i in range(100000):
        step(i).block_until_ready()
        time.sleep(0.02)
        if index == 1 and i == 150:
            raise ValueError("batch 7 is empty")
"""


@pytest.mark.jax
@pytest.mark.newest
def test_who_comes_after_a_crash_learns_the_exception(tmp_path):
    """The process waits for the others in JAX's exit barrier: it lives, but its agent has said goodbye."""
    with jax_run(script(tmp_path, LINGERS), 2, 1, stderr=subprocess.DEVNULL) as started:
        eventually(runfiles.endings)
        assert started[1].poll() is None
        with viewer("lingers") as attached:
            attached.until(lambda: "crashed" in {each.rule for each in reported_findings(attached.cluster)})
            (found,) = (each for each in reported_findings(attached.cluster) if each.rule == "crashed")
            assert found.text.startswith("process 1 ended with ValueError at script.py:")
            assert found.text.endswith("batch 7 is empty")
            (ending,) = runfiles.endings()
            assert found.since == pytest.approx(ending.bye.at_ms / 1000, abs=12)
            assert attached.state(0) == "live"


# What is left


def test_endings_are_removed_after_a_day_and_bounded(monkeypatch):
    monkeypatch.setattr(runfiles, "MOST_ENDINGS", 10)
    hello = builders.hello(0, 1)
    for i in range(12):
        runfiles.leave(structs.replace(hello, agent=f"a{i}"), wire.Bye(i, "ended"))
    assert 5 <= len(runfiles.endings()) <= 10
    assert runfiles.ending("a11").bye == wire.Bye(11, "ended")
    assert runfiles.ending("../a11") is None
    monkeypatch.setattr(runfiles, "ENDINGS_KEPT_S", -1.0)
    assert runfiles.endings() == [] and runfiles.ending("a11") is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"hello": {}, "bye": {}}', b"\xff"])
def test_a_damaged_ending_is_none(content):
    runfiles.leave(builders.hello(0, 1), wire.Bye(1, "ended"))
    (path,) = (path for folder in runfiles.folders() for path in folder.glob(f"*{runfiles.ENDED}"))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(content)
    assert runfiles.endings() == []


# Bad input


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the following arguments are required: BOX"),
        (("nowhere.mcap",), "nowhere.mcap"),
        ((".", "--process", "x"), "--process"),
        (("BOX", "--json", "--open"), "not allowed with"),
        (("BOX", "--format", "json", "--open"), "not allowed with"),
        (("BOX", "--open"), "leave out --open"),
    ],
)
def test_wrong_words_are_one_line(tmp_path, words, said):
    (tmp_path / "notes.mcap").write_text("no recording")
    done = jaxtop_here(
        "postmortem", *[str(tmp_path / "notes.mcap") if word == "BOX" else word for word in words]
    )
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


# On screen


def shown_on_hosts(staged, size):
    """The Hosts screen with the cursor on the process that failed."""
    return shown_after(*staged.frames, keys=["3", "down"], size=size)


@pytest.mark.parametrize("width", [64, 120, 200])
def test_hosts_shows_what_a_failed_process_was_like(width):
    shown = shown_on_hosts(failed(wire.Uncaught("JaxRuntimeError", ASKED, PLACE)), (width, 40))
    assert "asked 5.0 GiB; 2.0 GiB was free" in shown and "3.0 GiB more than was free" in shown
    if width > 64:
        assert "arrays 4 live" in shown and "4.0 MiB  params['w']" in shown


def test_hosts_of_the_smallest_terminal_shows_that_a_process_ended():
    """Its details have no room; the row and the headline do."""
    shown = shown_on_hosts(failed(wire.Uncaught("JaxRuntimeError", ASKED, PLACE)), (60, 16))
    assert line("node01", shown).startswith("- host 1 (node01) ended")
    assert "- ended           1  node01" in shown
    assert "needs at least" in shown_on_hosts(failed(None), (40, 12))
