"""Runs that ask to be ended if they are stuck: those that are end with evidence, and no other does."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from subprocess import PIPE

import pytest

from jaxtop.cli import replay
from jaxtop.model import newest_hosts
from jaxtop.wire import STUCK, STUCK_STATUS
from tests.support import PYTHON, ROOT, SOAK, environment, eventually, free_port, jaxtop_here, processes

pytestmark = [pytest.mark.jax, pytest.mark.newest, pytest.mark.quiet, pytest.mark.timeout(240)]

PROGRAM = ROOT / "tests" / "programs" / "stuck.py"
LIMIT, SECONDS = 5, 20
# Longer than the limit, the notice and the evidence take together: a run that was ended would not get on.
assert SECONDS > LIMIT + 8 + 5
FOREVER = ("sleep", "mismatch", "lock", "threads", "native", "poll", "silent", "child")
MOVING = (
    "trace", "unroll", "compute", "save_checkpoint", "phase", "write", "read", "receive", "subprocesses",
    "load", "steps", "small",
)  # fmt: skip
# In the gate one of each is run, and `make soak` counts: 20 that are stuck, 40 that are not.
STUCK_CASES = [(what, 2) for what in FOREVER * 2] + [
    (what, 1) for what in ("sleep", "lock", "native", "poll")
]
MOVING_CASES = [(what, count) for count in (2, 1, 2) for what in MOVING]
STOPPED_CASES = [0, 1, 0, 1]


def run_of(home, what, count=2, stop=None, **more):
    """Run it to its end; return the statuses and what each process wrote to standard error."""
    coordinator = f"127.0.0.1:{free_port()}" if count > 1 else "-"
    commands = [[PYTHON, PROGRAM, what, coordinator, count, i] for i in range(count)]
    env = environment(1, STEER=str(home), SECONDS=str(SECONDS), **{"JAXTOP_END_IF_STUCK": str(LIMIT), **more})
    with processes(*commands, env=env, stdout=PIPE, stderr=PIPE) as running:
        if stop is not None:
            eventually((home / "stop-me").exists)
            time.sleep(0.3)
            running[stop].send_signal(signal.SIGSTOP)
            time.sleep(SECONDS)
            running[stop].send_signal(signal.SIGCONT)
        said = [each.communicate() for each in running]
        return [each.returncode for each in running], said


def ends(home, what, count=2):
    statuses, said = run_of(home, what, count)
    assert statuses == [STUCK_STATUS] * count, said
    boxes = []
    for _, err in said:
        (line,) = [each for each in err.splitlines() if each.startswith("jaxtop:")]
        whole = "the run" if count == 1 else f"all {count} processes of the run"
        assert line.startswith(f"jaxtop: ended this process (exit status {STUCK_STATUS}): {whole} stood")
        boxes.append(line.rpartition(" what it did is in ")[2])
    return said, boxes


def goes_on(home, what, count=2, stop=None, **more):
    statuses, said = run_of(home, what, count, stop, **more)
    assert statuses == [0] * count, said
    assert all(f"done {count * 30.0}" in out and "jaxtop:" not in err for out, err in said), said


def test_a_stuck_run_ends_with_the_stacks_of_all_its_processes_in_their_black_boxes(home):
    """Of which one sleeps for ever in Python, and the other waits for it in a collective."""
    said, boxes = ends(home, "sleep")
    assert "stuck.py:" in said[0][1] and " sleep waits for a time to pass (sleep); what it did" in said[1][1]
    assert " in gloo::" in said[0][1]
    done = jaxtop_here("postmortem", *boxes)
    assert " and waited in gloo::" in done.stdout and "no process failed" not in done.stdout
    assert done.stdout.count("; it was at stuck.py:") == 2
    assert " sleep and waited for a time to pass (sleep)" in done.stdout
    whole = jaxtop_here("postmortem", "--process", "0", *boxes)
    assert "the main thread waited in gloo::" in whole.stdout
    assert done.stdout.count("was ended by its agent: all processes of the run were stuck") == 2
    for box, function in zip(boxes, ("<module>", "sleep"), strict=True):
        with replay.opened([Path(box)]) as (session, (_, end)):
            (host,) = newest_hosts(session.at(end))
        main = next(each for each in host.stacks.threads if each.is_main)
        assert function in [each.function for each in main.frames]
        assert main.native.frames[0].library == "python" and not main.native.why_incomplete
        assert (host.bye.reason, host.bye.status) == (STUCK, STUCK_STATUS)
        assert host.devices and host.ledger.at_ms


def test_a_run_of_which_one_process_compiles_for_long_goes_on(home):
    goes_on(home, "trace")


def test_without_the_setting_nothing_is_ended(home):
    goes_on(home, "pause", JAXTOP_END_IF_STUCK="")


def test_where_one_process_does_not_ask_for_it_nothing_is_ended(home):
    goes_on(home, "pause", NOT_ASKED="1")


def named(cases):
    return [f"{what}-{count}" for what, count in cases]


in_soak = pytest.mark.skipif(not SOAK, reason="a part of make soak")


@in_soak
@pytest.mark.parametrize("case", range(len(STUCK_CASES)), ids=named(STUCK_CASES))
def test_each_stuck_run_ends(home, case):
    ends(home, *STUCK_CASES[case])


@in_soak
@pytest.mark.parametrize("case", range(len(MOVING_CASES)), ids=named(MOVING_CASES))
def test_no_run_that_moves_ends(home, case):
    goes_on(home, *MOVING_CASES[case])


@in_soak
@pytest.mark.parametrize("case", range(len(STOPPED_CASES)))
def test_no_run_of_which_a_process_was_stopped_ends(home, case):
    goes_on(home, "stopped", stop=STOPPED_CASES[case])
