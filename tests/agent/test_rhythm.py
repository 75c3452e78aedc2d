"""When a run stands still, told from its own rhythm; looks are a second apart, as the agent's are."""

from __future__ import annotations

import pytest

from jaxtop_agent.stalls.launch_gaps import LaunchGaps

START = 1000.0


class Run:
    """A run that is looked at every second: seconds in which a step ends, and seconds in which none does."""

    def __init__(self, *functions: str) -> None:
        self.rhythm = LaunchGaps()
        self.functions = functions or ("step",)
        self.now = START
        self.counts: dict[str, int] = {}

    def look(self, **more):
        self.now += 1
        return self.rhythm.update(self.now, dict(self.counts), **more)

    def steps(self, number: int, every: int = 1) -> bool:
        """Whether it was told to stand still meanwhile."""
        told = False
        for _ in range(number):
            for _ in range(every - 1):
                told |= self.look() is not None
            self.counts = {name: self.counts.get(name, 0) + 1 for name in self.functions}
            told |= self.look() is not None
        return told

    def told_after(self, within: int = 200, **more) -> int | None:
        return next((i for i in range(1, within) if self.look(**more) is not None), None)


@pytest.mark.parametrize(("every", "within"), [(1, 8), (2, 13), (5, 31), (20, 50)])
def test_a_run_that_stalls_is_reported_after_a_few_of_its_own_steps(every, within):
    """Well before the 100 seconds after which JAX gives up."""
    run = Run()
    assert not run.steps(20, every)
    since = run.now
    assert run.told_after() <= within
    standstill = run.look()
    assert (standstill.since, standstill.usual) == (since, every)
    run.counts["step"] += 1
    assert run.look() is None  # and it is over as soon as anything moves


def test_before_there_is_a_rhythm_nothing_is_missed():
    for number in range(8):
        run = Run()
        run.steps(number)
        assert run.told_after(60) is None


def test_a_pause_that_happened_before_is_not_told_again():
    """An evaluation, a checkpoint: at most the first one."""
    run = Run()
    run.steps(20)
    told = 0
    for _ in range(10):
        pause = [run.look() for _ in range(8)]
        told += any(pause)
        assert not run.steps(30)
    assert told <= 1
    assert run.told_after() is not None  # but what lasts longer is


def test_a_compilation_is_neither_a_stall_nor_a_pause():
    run = Run()
    run.steps(20)
    assert run.told_after(100, compiling=True) is None
    compiled_at = run.now
    run.counts["step"] += 1
    run.look(compiled_at=compiled_at)
    for _ in range(20):
        run.counts["step"] += 1
        run.look(compiled_at=compiled_at)
    assert run.told_after(60, compiled_at=compiled_at) <= 8


def test_what_was_compiled_since_the_last_launch_may_be_running_unseen():
    """Its first call is not counted, and may take as long as it likes."""
    run = Run()
    run.steps(20)
    assert run.told_after(200, compiled_at=run.now + 0.5) is None


def test_what_was_compiled_in_the_same_second_as_the_last_launch_may_be_running_too():
    run = Run()
    run.steps(20)
    assert run.told_after(200, compiled_at=run.now - 0.5) is None


def test_a_process_that_was_stopped_is_not_reported_as_stalled():
    """Stopped for ten minutes, or without the GIL: nobody looked meanwhile."""
    run = Run()
    run.steps(20)
    run.now += 600
    assert run.look() is None
    assert not run.steps(5)
    assert run.told_after() <= 8


def test_the_function_that_carries_the_rhythm_is_named():
    run = Run("split", "step", "add")
    run.counts["evaluate"] = 1
    run.steps(20)
    assert run.rhythm.carrier({"step": 900, "split": 40, "add": 20, "evaluate": 2000}) == "step"
    assert run.rhythm.carrier({}) in run.functions
    assert Run().rhythm.carrier({}) == ""


def test_uneven_steps_are_a_rhythm_too():
    run = Run()
    assert not any(run.steps(1, every) for every in (1, 2, 1, 3, 1, 1, 2, 4) * 5)
    assert run.told_after() is not None
