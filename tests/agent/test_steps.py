"""The step of a run is found in its launches, and its time is that of the steps alone."""

from __future__ import annotations

import random

import pytest

from jaxtop_agent.steps.figures import FunctionFacts
from jaxtop_agent.steps.finder import StepCall, StepFinder
from jaxtop_agent.steps.pattern import FunctionLaunch

MS = 1_000_000
TRAIN, EVALUATE, UPDATE, ADD, LOG = range(5)
STATE, SCALAR = 4_000_000, 4
TAKEN = {TRAIN: STATE + 1000, EVALUATE: STATE + 1000}
RETURNED = {TRAIN: STATE, EVALUATE: SCALAR}


class Script:
    """A training script as its launches show it; times in milliseconds."""

    def __init__(self, **facts) -> None:
        self.facts = FunctionFacts(**facts)
        self.steps = StepFinder()
        self.now = 1000 * MS
        self.launches: list[FunctionLaunch] = []
        self.calls: list[StepCall] = []

    def launch(self, function: int, ms: float = 0) -> None:
        self.now += round(ms * MS)
        self.launches.append(FunctionLaunch(self.now, function))

    def wait(self, ms: float) -> None:
        self.now += round(ms * MS)

    def call(self, step: int | None = None) -> None:
        self.calls.append(StepCall(self.now, step))

    def look(self):
        new, self.calls = self.calls[-1024:], []
        return self.steps.look(self.launches[-2048:], new, self.facts, self.now)


def near(value: float) -> object:
    return pytest.approx(value, rel=0.02)


def test_one_function_again_and_again_is_the_step():
    script = Script(flops={TRAIN: 100})
    for i in range(60):
        script.launch(TRAIN, 10 + i % 3)
    told = script.look()
    assert (told.functions, told.launches, told.flops) == ((TRAIN,), 1, 100)
    assert (told.mean_ns, told.p50_ns, told.per_second) == (near(11 * MS), near(11 * MS), near(1000 / 11))
    assert script.steps.steps == 59


@pytest.mark.parametrize("times", [1, 3])
def test_steps_are_counted_while_nobody_watches_and_launches_are_dropped(times):
    """Of each absence only the last 100 launches are remembered; the counters of functions have them all."""
    script = Script(results={TRAIN: STATE, UPDATE: STATE})
    counts = {TRAIN: 1, UPDATE: 1}  # the first calls are counted, but not remembered
    steps = 0

    def go_on(number: int):
        nonlocal steps
        steps += number
        for _ in range(number):
            for function in (UPDATE, *[TRAIN] * times) if times > 1 else (TRAIN,):
                script.launch(function, 10)
                counts[function] += 1
        return script.steps.look(script.launches[-100:], [], script.facts, script.now, counts)

    go_on(20)
    assert steps - script.steps.steps in (1, 2)
    missing = steps - script.steps.steps
    for number in (500, 3, 777, 40):
        told = go_on(number)
        assert steps - script.steps.steps == missing
        assert told.p99_ns < 100 * MS  # an absence is no step
    late = StepFinder()
    late.look(script.launches[-100:], [], script.facts, script.now, counts)
    assert late.steps in (steps, steps + 1)


@pytest.mark.parametrize(("times", "first"), [(8, 3), (4, 0), (6, 5)])
def test_a_step_of_micro_steps_is_no_micro_step_though_the_first_launches_show_only_these(times, first):
    """Gradients are computed and added up several times, then the parameters are updated once."""
    script = Script()

    def micro_steps(each):
        for i in range(times):
            script.launch(TRAIN, 1)
            if i:
                script.launch(ADD, 0.1)
            if each == 0 and i == first:
                script.look()

    for each in range(60):
        micro_steps(each)
        script.launch(UPDATE, 1)
        script.wait(30)
        told = script.look()
    assert (told.functions[-1], len(told.functions), told.launches) == (UPDATE, 2 * times, 2 * times)
    assert told.mean_ns == near((times + 31 + 0.1 * (times - 1)) * MS)


def test_launches_that_only_come_together_are_one_step():
    """Gradients four times, then an update of the state: five launches, one step."""
    script = Script(results={TRAIN: STATE, UPDATE: STATE}, flops={TRAIN: 100, UPDATE: 7})
    for _ in range(40):
        for _ in range(4):
            script.launch(TRAIN, 10)
        script.launch(UPDATE, 2)
    told = script.look()
    assert told.functions == (TRAIN, TRAIN, TRAIN, TRAIN, UPDATE)
    assert (told.mean_ns, told.launches, told.flops) == (near(42 * MS), 5, near(407))
    assert script.steps.steps == 39


@pytest.mark.parametrize(("every", "batches"), [(100, 20), (10, 10), (5, 5), (7, 40)])
def test_an_evaluation_loop_is_no_step_and_not_in_its_time(every, batches):
    """However often it comes, and however many batches it has: it takes the state, and returns little."""
    script = Script(arguments=TAKEN, results=RETURNED, flops={TRAIN: 300, EVALUATE: 100})
    for i in range(1, 301):
        script.launch(TRAIN, 10)
        if i % every == 0:
            for _ in range(batches):
                script.launch(EVALUATE, 4)
    told = script.look()
    assert (told.functions, told.flops) == ((TRAIN,), near(300))
    assert (told.mean_ns, told.p50_ns, told.p99_ns) == (near(10 * MS), near(10 * MS), near(10 * MS))
    assert told.per_second == pytest.approx(1000 / (10 + 4 * batches / every), rel=0.1)


def test_steps_that_share_a_wait_have_a_mean_and_no_spread():
    """Launched ahead, with a wait after each 20th: that each took a 20th of the time is not known."""
    script = Script()
    for i in range(400):
        script.launch(TRAIN, 0.2 if i % 20 else 200)
    told = script.look()
    assert told.mean_ns == near((19 * 0.2 + 200) / 20 * MS)
    assert (told.p90_ns, told.p99_ns) == (None, None)


def test_an_evaluation_that_takes_most_of_the_time_is_still_none():
    script = Script(arguments=TAKEN, results=RETURNED)
    for i in range(1, 301):
        script.launch(TRAIN, 10)
        if i % 50 == 0:
            for _ in range(200):
                script.launch(EVALUATE, 10)
    told = script.look()
    assert (told.functions, told.mean_ns) == ((TRAIN,), near(10 * MS))


def test_a_step_that_returns_far_less_than_others_is_no_evaluation():
    """A small state, trained on batches that another function makes."""
    script = Script(
        arguments={UPDATE: 1000, TRAIN: STATE * 100},
        results={UPDATE: STATE * 100, TRAIN: STATE},
        flops={UPDATE: 1, TRAIN: 9},
    )
    for _ in range(60):
        script.launch(UPDATE, 2)
        script.launch(TRAIN, 8)
    told = script.look()
    assert (told.mean_ns, told.flops) == (near(10 * MS), near(10))


def test_a_pause_for_a_checkpoint_is_no_step():
    script = Script()
    for i in range(1, 201):
        script.launch(TRAIN, 10)
        if i % 20 == 0:
            script.wait(900)
    told = script.look()
    assert (told.mean_ns, told.p99_ns) == (near(10 * MS), near(10 * MS))
    assert told.per_second == pytest.approx(20 / 1.1, rel=0.15)  # but the run is slower for it


def test_a_slow_step_is_a_step():
    """One of twenty takes four times as long, for want of data: that is what the percentiles are for."""
    script = Script()
    for i in range(1, 201):
        script.launch(TRAIN, 40 if i % 20 == 0 else 10)
    told = script.look()
    assert (told.p50_ns, told.p99_ns) == (near(10 * MS), near(40 * MS))
    assert told.mean_ns == near(11.5 * MS)


def test_operations_of_jax_between_steps_do_not_count():
    """A script that adds up its losses, each tenth step in another way."""
    script = Script(own=frozenset({ADD, LOG}), flops={TRAIN: 100, ADD: 1})
    for i in range(1, 101):
        script.launch(TRAIN, 10)
        script.launch(ADD, 0.1)
        if i % 10 == 0:
            for _ in range(5):
                script.launch(LOG, 0.1)
    told = script.look()
    assert (told.functions, told.flops) == ((TRAIN,), near(100))
    assert told.p50_ns == near(10.1 * MS)


def test_a_run_of_nothing_but_operations_of_jax_has_a_step_all_the_same():
    """Without `jit` each operation is a launch."""
    script = Script(own=frozenset(range(10)))
    told = None
    for i in range(1200):
        for operation in (3, 5, 3, 7, 1):
            script.launch(operation, 2)
        if i % 100 == 99:
            told = script.look()
            assert (told is None) == (i < 1000)  # only what lasts is more than an initialization
    assert len(told.functions) == 5
    assert sorted(told.functions) == [1, 3, 3, 5, 7]
    assert told.mean_ns == near(10 * MS)


@pytest.mark.parametrize(("operations", "ms"), [((ADD,), 50), ((ADD, LOG, ADD), 5), ((ADD, LOG, UPDATE), 5)])
def test_what_is_launched_before_training_is_no_step(operations, ms):
    """Parameters that are made, converted or copied one by one with JAX's own operations."""
    script = Script(own=frozenset({ADD, LOG, UPDATE}))
    for _ in range(200):
        for operation in operations:
            script.launch(operation, ms)
    assert script.look() is None


def test_where_the_scripts_functions_are_out_of_sight_operations_of_jax_are_no_step():
    """Thousands of them between two launches of the step."""
    script = Script(own=frozenset({ADD, LOG}), has_functions=True)
    for _ in range(1000):
        script.launch(ADD, 10)
        script.launch(LOG, 10)
    assert script.look() is None


@pytest.mark.parametrize("has_pause", [False, True])
def test_launching_ahead_unevenly_does_not_make_steps_shorter(has_pause):
    """Launches take microseconds, some of them a hundred times as long, and each twentieth is waited for."""
    script = Script()
    dice = random.Random(1)
    for i in range(1, 401):
        script.launch(TRAIN, 0.01 if dice.random() < 0.7 else dice.uniform(0.05, 2))
        if i % 20 == 0:
            script.wait(8_000)
        if i == 250:
            script.wait(900_000 if has_pause else 0)
    told = script.look()
    assert told.p50_ns == pytest.approx(400 * MS, rel=0.05)
    assert told.mean_ns == pytest.approx(400 * MS, rel=0.05)


def test_what_pauses_cost_is_taken_from_the_latest():
    """For half a minute a script saves for 0.3 s every 20 steps, then it stops for 2 s instead."""
    script = Script()
    for i in range(1, 421):
        script.launch(TRAIN, 100)
        if i % 20 == 0:
            script.wait(300 if i < 300 else 2_000)
    paused = script.look().paused
    assert paused.number == 6 and paused.lost_ns == near(2_000 * MS / 20)


def test_the_pace_of_fast_steps_covers_seconds():
    """Of steps of 2 ms only the last quarter of a second is remembered, and that had a pause."""
    script = Script()
    for _ in range(5):
        for i in range(1500):
            script.launch(TRAIN, 2)
            script.wait(1_400 if i == 1450 else 0)
        told = script.look()
    assert told.per_second == pytest.approx(1500 / 4.4, rel=0.05)
    assert told.mean_ns <= 1e9 / told.per_second


@pytest.mark.parametrize("read_every", [10, 20, 100])
@pytest.mark.parametrize("is_profiled", [False, True])
def test_launches_that_run_ahead_of_the_device_do_not_make_steps_shorter(read_every, is_profiled):
    """A script that reads its loss now and then: it launches 32 steps at once, then waits for the device."""
    script = Script(device_ns={TRAIN: 10 * MS} if is_profiled else {})
    ends: list[float] = []
    free_at = script.now / MS
    for i in range(1, 401):
        now = script.now / MS + 0.4
        if len(ends) >= 32:
            now = max(now, ends[-32])  # no more are launched ahead
        script.now = round(now * MS)
        script.launch(TRAIN)
        free_at = max(free_at, now) + 10
        ends.append(free_at)
        if i % read_every == 0:
            script.now = round(free_at * MS)
    told = script.look()
    assert told.mean_ns == pytest.approx(10 * MS, rel=0.1)
    assert told.p50_ns == pytest.approx(10 * MS, rel=0.05)
    assert told.per_second == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("read_every", [10, 20])
@pytest.mark.parametrize("launched_since", [0, 7, -1], ids=["after a wait", "between", "before a wait"])
def test_the_pace_of_launches_ahead_does_not_depend_on_when_it_is_looked_at(read_every, launched_since):
    """More steps are launched than are remembered: the first wait is for some that are forgotten."""
    script = Script()
    for i in range(1, 400 + launched_since % read_every + 1):
        script.launch(TRAIN, 0.5)
        if i % read_every == 0:
            script.wait(9.5 * read_every)
    told = script.look()
    assert told.per_second == near(100)
    assert told.mean_ns == near(10 * MS)


def test_two_pauses_in_a_row_are_not_taken_for_the_pace():
    script = Script()
    for i in range(30):
        script.launch(TRAIN, 5_000 if i in (20, 21) else 500)
    told = script.look()
    assert told.per_second == near(20 / (18 * 0.5 + 2 * 5))


def test_steps_of_the_script_take_precedence_over_launches():
    """Also in strides of ten steps, and after a rhythm was found without it."""
    script = Script(flops={TRAIN: 100})
    for _ in range(20):
        script.launch(TRAIN, 10)
    assert script.look().functions == (TRAIN,)
    serial = script.steps.serial
    for i in range(0, 300, 10):
        for _ in range(10):
            script.launch(TRAIN, 10)
        script.call(i)
    told = script.look()
    assert (told.functions, script.steps.steps) == ((), 290)
    assert script.steps.serial > serial
    assert (told.mean_ns, told.launches, told.flops) == (near(10 * MS), 1, near(100))


def test_an_index_that_is_no_number_or_goes_back_counts_as_it_can():
    script = Script()
    for step in [None] * 10 + [5, 6, 7, 0, 1, 2]:
        script.wait(10)
        script.call(step)
    script.look()
    assert script.steps.steps == 10 + 2 + 2  # the way back to 0 is none


def test_a_new_phase_of_the_run_has_its_own_rhythm():
    script = Script(results={TRAIN: STATE, UPDATE: STATE})
    for _ in range(400):
        script.launch(TRAIN, 10)
    assert script.look().functions == (TRAIN,)
    serial = script.steps.serial
    for _ in range(600):
        script.launch(UPDATE, 30)
    told = script.look()
    assert (told.functions, told.mean_ns) == ((UPDATE,), near(30 * MS))
    assert script.steps.serial == serial + 1


def test_steps_are_counted_once_though_they_are_looked_at_again():
    script = Script()
    for _ in range(10):
        for _ in range(100):
            script.launch(TRAIN, 3)
        script.look()
    assert script.steps.steps == 999


def test_what_was_forgotten_between_two_looks_is_no_long_step():
    script = Script()
    for _ in range(50):
        script.launch(TRAIN, 1)
    script.look()
    for _ in range(5000):
        script.launch(TRAIN, 1)
    told = script.look()
    assert told.p99_ns == near(1 * MS)


def test_threads_that_launch_side_by_side_leave_the_function_that_weighs_most():
    script = Script(flops={TRAIN: 1000, LOG: 1})
    dice = random.Random(1)
    for _ in range(200):
        for _ in range(dice.randrange(5)):
            script.launch(LOG, 1)
        script.launch(TRAIN, 5)
    assert script.look().functions == (TRAIN,)


def test_what_is_only_launched_ahead_at_first_is_no_step_of_microseconds():
    """The first steps of a run that nothing has waited for yet."""
    script = Script()
    for step in range(30):
        script.wait(0.3)
        script.call(step)
    assert script.look() is None
    for step in range(30, 60):
        script.wait(20)
        script.call(step)
    assert script.look().mean_ns > 9 * MS


@pytest.mark.parametrize(
    ("gaps", "step"),
    [
        ((2000, 2100), 2050),
        ((2000,), None),
        ((2000, 4000), None),
        ((2000, 4000, 3000), 3000),  # a busy machine: with more intervals, they may differ more
        ((2000, 5000, 3000), None),
        ((300, 300), None),
    ],
)
def test_a_slow_step_is_found_after_a_few_launches_at_steady_intervals(gaps, step):
    script = Script()
    script.launch(TRAIN)
    for each in gaps:
        script.launch(TRAIN, each)
    told = script.look()
    assert (told and told.mean_ns) == (None if step is None else near(step * MS))
    script.launch(LOG, 2000)  # two functions: one launch of the other does not make it the step
    told = script.look()
    assert (told and told.functions) == (None if step is None else (TRAIN,))


@pytest.mark.parametrize("launches", [0, 1, 4])
def test_too_few_launches_tell_nothing(launches):
    script = Script()
    for _ in range(launches):
        script.launch(TRAIN, 10)
    assert script.look() is None


def test_a_run_that_stands_still_gets_slower():
    script = Script()
    for _ in range(30):
        script.launch(TRAIN, 10)
    script.wait(29_000)
    assert script.look().per_second < 1.1


def paced(*steps, every=8):
    """A script with steps of these milliseconds, looked at now and then; the last look is the result."""
    script = Script()
    for i, ms in enumerate(steps):
        script.launch(TRAIN, ms)
        if i % every == 0:
            script.look()
    return script, script.look()


def test_figures_mix_no_two_rhythms():
    _, found = paced(*[100] * 60, *[300] * 6)
    assert (found.mean_ns, found.p50_ns, found.per_second) == (near(300 * MS), near(300 * MS), near(1 / 0.3))
    assert found.before_ns == near(100 * MS) and found.samples == 6
    script, found = paced(*[100] * 60, *[300] * 20, *[100] * 12)
    assert (found.mean_ns, found.before_ns) == (near(100 * MS), near(300 * MS))
    assert script.now - found.since == near(1200 * MS)
    assert script.steps.steps == 91


def test_a_rhythm_that_changed_before_anybody_looked_is_the_only_one_shown():
    script = Script()
    for ms in [*[160] * 60, *[60] * 25]:
        script.launch(TRAIN, ms)
    found = script.look()
    assert (found.samples, found.mean_ns, found.before_ns) == (25, near(60 * MS), near(160 * MS))


@pytest.mark.parametrize("every", [1, 7, 20, 60, 100])
@pytest.mark.parametrize("later", [60, 150])
def test_a_change_is_noticed_however_many_steps_pass_between_two_looks(every, later):
    script, found = paced(*[100] * 120, *[later] * 60, every=every)
    assert (found.mean_ns, found.before_ns) == (near(later * MS), near(100 * MS))
    assert script.now - found.since == near(60 * later * MS)


@pytest.mark.parametrize("every", [1, 20, 180])
@pytest.mark.parametrize("before", [[17, 2, 25, 33, 12, 8, 21], [15, 1, 40]], ids=["few short", "a third"])
def test_single_launches_ahead_hide_no_change(before, every):
    """A script with two steps in flight waits for some longer, and then launches the next at once."""
    script, found = paced(*before * 60, *[205] * 15, every=every)
    assert (found.p50_ns, script.now - found.since) == (near(205 * MS), near(15 * 205 * MS))
    assert found.before_ns is not None and found.paused is None
    script, found = paced(*before * 60, *[205] * 80, *before * 60, every=every)
    assert found.before_ns == near(205 * MS) and found.paused is None
    assert found.p50_ns < 30 * MS


def test_launches_ahead_after_a_pause_are_no_other_rhythm():
    """The device has run dry, so the next launches wait for nothing."""
    for every in (1, 8, 30, 90):
        _, found = paced(*([60] * 70 + [400] + [1] * 6) * 3, *[60] * 40, every=every)
        assert found.before_ns is None, every


@pytest.mark.parametrize(
    "later",
    [[300] * 4, [100] * 19 + [2000], [118] * 20],
    ids=["few", "one", "a little"],
)
def test_a_few_slow_steps_are_no_other_rhythm(later):
    _, found = paced(*[100] * 60, *later)
    assert found.before_ns is None and found.samples > 60


@pytest.mark.parametrize("every", [1, 40])
def test_short_steps_that_other_work_delays_for_a_moment_are_no_other_rhythm(every):
    """Up to 0.8 s at once, again and again; a change that lasts is noticed all the same."""
    dice = random.Random(5)
    steps = []
    for slow in (8, 12, 20, 10, 16):
        steps += [dice.uniform(15, 22) for _ in range(40)] + [dice.uniform(31, 40) for _ in range(slow)]
    _, found = paced(*steps, every=every)
    assert found.before_ns is None and found.samples == 128
    later = [dice.uniform(55, 70) for _ in range(25)]
    _, found = paced(*steps, *[20] * 30, *later, every=every)
    assert (found.samples, found.p50_ns) == (25, near(sorted(later)[12] * MS))


def test_pauses_cost_what_steps_take_longer_from_one_to_the_next():
    _, found = paced(*([100] * 19 + [2100]) * 3, *[100] * 5)
    assert (found.paused.number, found.paused.lost_ns) == (3, near(100 * MS))
    assert found.paused.span_ns == near(2 * 4000 * MS)
    assert found.paused.every == 20
    uneven = [*[100] * 9, 2100, *[100] * 29, 2100, *[100] * 14, 2100, *[100] * 5]
    assert paced(*uneven)[1].paused.every == 0
    assert paced(*[100] * 50, 340, *[100] * 9)[1].paused is None


def test_a_single_pause_is_forgotten_when_the_last_seconds_no_longer_have_it():
    assert paced(*[100] * 60, 2100, *[100] * 100)[1].paused.number == 1
    assert paced(*[100] * 60, 2100, *[100] * 170)[1].paused is None
    assert paced(*[100] * 60, 2100, *[100] * 100, 2100, *[100] * 170)[1].paused.number == 2


def test_launches_that_run_ahead_make_no_pauses():
    _, found = paced(*([0.1] * 31 + [640]) * 6)
    assert found.paused is None and found.before_ns is None
