"""Checkpoints that do not come any more are found, and saves that one process holds up."""

from __future__ import annotations

from jaxtop import wire
from jaxtop.model.finding import Severity
from tests.builders import NOW, pulse
from tests.staged.findings import Staged
from tests.staged.memory import RHYTHM


def steps(index, at, step):
    return pulse(index, at, launches=step, rhythm=RHYTHM)


def saves(*begun, blocked_ms=1000, committed=True):
    """Checkpoints that began so many seconds after the start of the run."""
    times = [round((NOW + each) * 1000) for each in begun]
    return tuple(
        wire.Save(at, blocked_ms, at + blocked_ms if committed else None, 100, "orbax") for at in times
    )


def reported(run, *by_process):
    for index, its in enumerate(by_process):
        at_ms = round(run.at * 1000)
        run.tell(index, wire.Ledger(at_ms, round(NOW * 1000), (0, 0, 0, 0, 1000), saves=its))


def trained(*by_process, seconds=30, then=0):
    run = Staged()
    run.train(seconds, steps)
    reported(run, *by_process)
    run.train(max(6, then), steps, every=1.0)
    return run


def test_a_checkpoint_that_does_not_come_is_a_warning_with_what_is_at_risk():
    run = trained(saves(0, 10, 20), then=55)
    assert run.found("no_checkpoint") == []
    run.train(60, steps)
    found = run.the("no_checkpoint")
    assert found.severity is Severity.WARNING
    assert found.text.startswith("no checkpoint is complete since 2 min, usually one comes every 10 s")
    reported(run, saves(0, 10, 20, 135))
    run.train(15, steps)
    assert run.found("no_checkpoint") == []


def test_a_checkpoint_that_is_not_complete_does_not_count():
    run = trained((*saves(0, 10, 20), *saves(90, committed=False)), then=110)
    assert run.found("no_checkpoint")


def test_a_run_that_rarely_saves_is_given_its_time():
    assert trained(saves(0, 30), then=120).found("no_checkpoint") == []


def test_a_process_that_the_last_checkpoint_held_up_longer_than_the_others_is_named():
    run = trained(saves(10, blocked_ms=500), saves(10, blocked_ms=4000))
    found = run.the("uneven_checkpoint")
    assert found.subject.process_index == 1
    assert found.text == "the last checkpoint held up host 1 for 4 s, the others for 500 ms"


def test_checkpoints_that_hold_up_all_alike_are_none():
    run = trained(saves(10, blocked_ms=3000), saves(10, blocked_ms=3500))
    assert run.found("uneven_checkpoint") == []
    run = trained(saves(10, blocked_ms=4000), saves(80, blocked_ms=500))
    assert run.found("uneven_checkpoint") == []


def restores(run, *seconds, done=()):
    """Let processes say for how long they have restored; those that are done start since."""
    at_ms = round(run.at * 1000)
    for index, its in enumerate(seconds):
        spent = (0, 0, 0, round(its * 1000))
        if index in done:
            spent = (round((run.at - NOW - its) * 1000), 0, 0, round(its * 1000))
        run.tell(index, wire.Ledger(at_ms, round(NOW * 1000), spent))


def test_a_process_that_still_restores_when_the_others_are_done_is_named():
    run = Staged(4)
    for _ in range(12):
        run.train(10, lambda index, at, _: pulse(index, at, launches=0))
        now = run.at - NOW
        restores(run, min(now, 20), min(now, 22), now, min(now, 21), done=(0, 1, 3) if now > 25 else ())
        if now <= 40:
            assert run.found("restore_held_up") == []
    found = run.the("restore_held_up")
    assert found.severity is Severity.CRITICAL and found.subject.process_index == 2
    assert found.text.startswith("host 2 is still restoring after")


def test_all_that_restore_slowly_hold_up_nobody():
    run = Staged(4)
    for _ in range(12):
        run.train(10, lambda index, at, _: pulse(index, at, launches=0))
        restores(run, *[run.at - NOW] * 4)
    assert run.found("restore_held_up") == []
