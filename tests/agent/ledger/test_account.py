"""Each moment of a process belongs to one kind: times planted by hand against the sums."""

import random
from itertools import pairwise

import pytest

from jaxtop_agent.ledger.account import Account
from jaxtop_agent.ledger.pieces import (
    CLOSING,
    COMPILING,
    GARBAGE,
    IN_JAX,
    IN_SCRIPT,
    PHASE,
    LaunchAt,
    Sighting,
    Span,
)

STEP, APPLY, EVALUATE = 1, 2, 3


class Script:
    """A script whose parts are planted: it notes when it launches, and samples see what it does."""

    def __init__(self, seed=0, every=0.5):
        self.now = 100.0
        self.launches, self.parts, self.spans = [], [], []
        self.random, self.every = random.Random(seed), every

    def does(self, kind, seconds):
        self.parts.append((self.now, self.now + seconds, kind))
        self.now += seconds

    def spans_over(self, kind, seconds, source, seen=IN_JAX):
        self.spans.append(Span(self.now, self.now + seconds, kind, source))
        self.does(seen, seconds)

    def launch(self, function=STEP, *, evaluates=False):
        self.launches.append(LaunchAt(self.now, function, evaluates))

    def samples(self):
        at, found = 100.0, []
        while (at := at + self.random.uniform(0.5, 1.5) * self.every) < self.now:
            found += [Sighting(at, kind) for start, end, kind in self.parts if start <= at < end]
        return found

    def spent(self, steps_from=None, *, folds=10, **how):
        """Return the sums, added up a part at a time as the agent does."""
        account, samples = Account(100.0), self.samples()
        first = self.launches[0].at if steps_from is None and self.launches else steps_from
        if first is not None:
            account.steps_began(first)
        edges = [100.0 + (self.now - 100.0) * i / folds for i in range(folds + 1)]
        for start, end in pairwise(edges):
            account.note(
                [each for each in samples if start <= each.at < end],
                [each for each in self.spans if start <= each.end < end],
            )
            account.close([each for each in self.launches if start <= each.at < end], end)
            assert sum(account.spent(end).values()) == pytest.approx(end - 100.0)
        account.note((), [each for each in self.spans if each.end >= edges[-1]])
        account.close([each for each in self.launches if each.at >= edges[-1]], self.now)
        found = account.spent(self.now, **how)
        assert sum(found.values()) == pytest.approx(self.now - 100.0)
        return found


def trained(steps, *, wait=0.03, compute=0.07, script=None):
    script = script or Script()
    for _ in range(steps):
        script.does("input", wait)
        script.does(IN_JAX, compute)
        script.launch()
    return script


def test_a_wait_of_30_ms_in_each_step_is_measured_by_two_samples_a_second():
    errors = []
    for seed in range(20):
        found = trained(600, script=Script(seed)).spent()
        errors.append(abs(found["input"] - 18.0) / 60)
    assert max(errors) < 0.03
    assert sum(errors) / 20 < 0.012


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_wait_is_measured_also_where_steps_waver(order):
    errors = []
    for seed in range(20):
        script = Script(seed)
        for _ in range(300):
            step = script.random.uniform(0.04, 0.25)
            parts = [("input", 0.03), (IN_JAX, step)]
            for kind, seconds in parts if order == "first" else reversed(parts):
                script.does(kind, seconds)
            script.launch()
        errors.append(abs(script.spent()["input"] - 9.0) / (script.now - 100.0))
    assert max(errors) < 0.03
    assert sum(errors) / 20 < 0.012


def test_what_takes_a_share_of_each_step_is_measured_as_one():
    script = Script(1)
    for _ in range(300):
        step = script.random.uniform(0.05, 0.3)
        script.does("input", 0.3 * step)
        script.does(IN_JAX, 0.7 * step)
        script.launch()
    whole = script.now - 100.0
    assert script.spent()["input"] == pytest.approx(0.3 * whole, abs=0.03 * whole)


def test_of_many_short_gaps_some_stand_for_all():
    script = Script(2, every=0.2)
    for _ in range(9000):
        script.does("input", 0.002)
        script.does(IN_JAX, 0.004)
        script.launch()
    assert script.spent(folds=30)["input"] == pytest.approx(18.0, abs=1.6)


def test_what_a_compilation_and_a_collection_took_is_exact():
    script = Script()
    script.does(IN_SCRIPT, 2.0)
    script.spans_over("compiling", 5.0, COMPILING)
    script.launch()
    for i in range(200):
        script.does(IN_JAX, 0.1)
        if i % 50 == 49:
            script.spans_over("garbage", 0.2, GARBAGE, IN_SCRIPT)
        script.launch()
    found = script.spent()
    assert found["compiling"] == pytest.approx(5.0)
    assert found["garbage"] == pytest.approx(0.8)
    assert found["starting"] == pytest.approx(2.0)
    assert found["stepping"] == pytest.approx(20.0)


def test_a_save_of_two_seconds_each_hundred_steps_is_told_from_the_steps():
    script = Script()
    for _ in range(5):
        trained(100, script=script)
        script.does("saving", 2.0)
    trained(50, script=script)
    found = script.spent()
    assert found["saving"] == pytest.approx(10.0, abs=0.3)
    assert found["input"] == pytest.approx(550 * 0.03, abs=1.5)


def test_a_short_save_that_no_sample_met_counts_as_those_that_were_met():
    script = Script(every=2.0)
    for _ in range(40):
        trained(20, wait=0, compute=0.05, script=script)
        script.does("saving", 0.5)
    trained(1, wait=0, compute=0.05, script=script)
    assert script.spent()["saving"] == pytest.approx(20.0, abs=2.0)


def test_a_phase_that_the_script_names_goes_before_what_is_found():
    script = Script()
    script.spans_over("restoring", 3.0, PHASE, "input")
    script.launch()
    trained(50, script=script)
    assert script.spent()["restoring"] == pytest.approx(3.0)


def test_of_phases_within_each_other_the_inner_one_counts():
    account = Account(0.0)
    account.note((), [Span(1.0, 2.0, "saving", PHASE), Span(0.0, 4.0, "evaluating", PHASE)])
    account.close([LaunchAt(5.0, STEP)], 5.0)
    found = account.spent(5.0)
    assert (found["saving"], found["evaluating"], found["starting"]) == (1.0, 3.0, 1.0)


def test_gaps_before_launches_that_evaluate_are_evaluation():
    script = trained(50)
    for _ in range(30):
        script.does(IN_JAX, 0.1)
        script.launch(EVALUATE, evaluates=True)
    trained(50, script=script)
    assert script.spent()["evaluating"] == pytest.approx(3.0)


def test_a_long_time_in_jax_without_launches_is_a_stall_and_in_unknown_code_it_is_other():
    script = trained(50, wait=0)
    script.does(IN_JAX, 20.0)
    trained(50, wait=0, script=script)
    script.does(IN_SCRIPT, 10.0)
    trained(50, wait=0, script=script)
    found = script.spent()
    assert found["stalled"] == pytest.approx(20.0, abs=0.2)
    assert found["other"] == pytest.approx(10.0, abs=0.2)


def test_what_follows_the_last_launch_is_the_end_of_a_script_that_has_ended():
    script = trained(50)
    script.does(IN_SCRIPT, 4.0)
    assert script.spent(is_over=True)["ending"] == pytest.approx(4.0)
    assert script.spent(is_stuck=True)["stalled"] == pytest.approx(4.0)


def test_a_loader_that_ends_its_workers_between_steps_is_waited_for_and_after_them_is_the_end():
    script = trained(50, wait=0)
    script.does(CLOSING, 3.0)
    trained(50, wait=0, script=script)
    script.does(CLOSING, 4.0)
    found = script.spent(is_over=True)
    assert found["input"] == pytest.approx(3.0, abs=0.3)
    assert found["ending"] == pytest.approx(4.0)
    assert CLOSING not in found


def test_launches_that_were_forgotten_count_as_steps():
    account = Account(0.0)
    account.steps_began(0.1)
    account.close([LaunchAt(0.1 * (i + 1), STEP) for i in range(20)], 2.0)
    account.close([LaunchAt(30.0, STEP)], 30.0, is_whole=False)
    assert account.spent(30.0)["stepping"] == pytest.approx(29.9)


def test_a_process_without_launches_only_starts():
    script = Script()
    script.does("restoring", 10.0)
    script.does(IN_SCRIPT, 90.0)
    found = script.spent()
    assert found == {"restoring": pytest.approx(10.0, abs=0.4), "starting": pytest.approx(90.0, abs=0.4)}


@pytest.mark.parametrize("seconds", [20.0, 300.0])
def test_a_program_that_has_all_steps_in_one_launch_does_not_start_for_ever(seconds):
    script = Script()
    script.does(IN_SCRIPT, 10.0)
    script.does(IN_JAX, 10.0)  # the backend
    script.launch()
    script.does(IN_JAX, seconds)
    account, samples = Account(100.0), script.samples()
    at = 100.0
    while at < script.now:
        at += 2.0
        account.note([each for each in samples if at - 2.0 <= each.at < at])
        account.close([each for each in script.launches if at - 2.0 <= each.at < at], at)
    found = account.spent(at)
    assert found == {"starting": pytest.approx(20.0, abs=0.5), "stepping": pytest.approx(seconds, abs=0.5)}


def test_before_steps_a_time_in_jax_after_its_own_launches_is_the_start():
    account = Account(0.0)
    account.note([Sighting(each / 2, IN_JAX) for each in range(200)])
    account.close([LaunchAt(10.0, APPLY, is_jaxs=True)], 20.0)
    account.close([LaunchAt(90.0, APPLY, is_jaxs=True)], 100.0)
    assert account.spent(100.0) == {"starting": pytest.approx(100.0)}


def test_the_function_before_which_most_time_passes_is_the_step():
    account = Account(0.0)
    account.steps_began(0.0)
    at, launches = 0.0, []
    for _ in range(20):
        for function, seconds in ((STEP, 0.2), (APPLY, 0.01)):
            at += seconds
            launches.append(LaunchAt(at, function))
    account.close(launches, at)
    assert account.main_function == STEP


def test_a_hang_of_an_hour_is_a_stall_from_the_first_minutes_on():
    script = trained(50, wait=0)
    script.does(IN_JAX, 3600.0)
    account = Account(100.0)
    account.steps_began(script.launches[0].at)
    samples = script.samples()
    account.close(script.launches, script.launches[-1].at)
    at = script.launches[-1].at
    while at < script.now:
        account.note([each for each in samples if at <= each.at < at + 60])
        at += 60
        account.close([], at, is_stuck=True)
    found = account.spent(at, is_stuck=True)
    assert found["stalled"] == pytest.approx(3600.0, abs=61)
    assert sum(found.values()) == pytest.approx(at - 100.0)
