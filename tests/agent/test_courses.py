"""How scalars develop: the exact step of what is not finite, rises, the norm that led; noise is no rise."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace

import pytest

from jaxtop import wire
from jaxtop_agent.core.board import LedgerState, SamplerState
from jaxtop_agent.logged.course import FEWEST_VALUES, MOST_SAMPLES, Course
from jaxtop_agent.logged.courses import MOST_COURSES, SEND_EVERY_S, Courses
from jaxtop_agent.steps.progress import Progress
from jaxtop_agent.steps.reports import MOST_CALLS, MOST_HELD, MOST_READS, Reports
from tests.support import SOAK


class ReportingScript:
    """A script that reports to the agent, and the messages that follow from it."""

    def __init__(self) -> None:
        self.sent: list[wire.Scalars] = []
        self.progress = Progress()
        board = SimpleNamespace(send=self._send, sampler=SamplerState(), ledger=LedgerState())
        self.courses = Courses(board, self.progress)

    def _send(self, message: wire.Message, **_: object) -> None:
        if isinstance(message, wire.Scalars):
            self.sent.append(message)

    def step(self, index: object, **values: object) -> None:
        self.progress.step(index, values)

    def look(self) -> dict[str, wire.Scalar]:
        self.progress.gather()
        self.courses.look()
        return {each.name: each for each in self.sent[-1].scalars} if self.sent else {}


def course_of(values) -> Course:
    course = Course("loss", is_judged=True)
    for step, value in enumerate(values):
        course.note(step, value)
    return course


def noisy(seed: int, count: int, noise: float = 0.1):
    dice = random.Random(seed)
    return [(2 + 3 * math.exp(-i / 300)) * (1 + dice.gauss(0, noise)) for i in range(count)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_first_value_that_is_not_finite_has_its_step_and_the_last_finite_one(value):
    script = ReportingScript()
    for i in range(60):
        script.step(i, loss=2.5 if i < 37 else value, lr=0.1)
    found = script.look()
    assert found.keys() == {"loss"}
    loss = found["loss"]
    assert (loss.bad_step, loss.finite_step, loss.finite, loss.bad) == (37, 36, 2.5, 23)
    assert loss.is_exact and str(loss.value) == str(value)


def test_what_is_finite_again_is_no_longer_reported():
    script = ReportingScript()
    script.step(1, loss=math.nan)
    assert script.look()["loss"].finite is None
    script.step(2, loss=1.0)
    assert script.look() == {} and len(script.sent) == 2


def test_while_nothing_is_notable_nothing_is_sent():
    script = ReportingScript()
    for i, loss in enumerate(noisy(1, 500)):
        script.step(i, loss=loss, accuracy=i / 1000)
        if not i % 50:
            script.look()
    assert script.sent == []


def test_a_number_that_is_not_kept_has_its_exact_step_all_the_same():
    """A loop of very short steps reports more calls than are kept."""
    script = ReportingScript()
    for i in range(MOST_CALLS * 10):
        script.step(i, loss=math.nan if i >= 401 else 1.0)
    loss = script.look()["loss"]
    assert (loss.bad_step, loss.is_exact) == (401, True)


def test_what_is_usual_stays_bounded_and_covers_all_values():
    course = course_of(noisy(2, 20_000))
    history = course._history
    assert MOST_SAMPLES / 2 <= len(history._samples) <= MOST_SAMPLES
    low, high, middle = history.usual
    assert 1.5 < low < middle < high < 2.6 and course.rise is None


def test_a_rise_has_its_step_its_highest_value_and_what_was_usual():
    values = noisy(3, 1000)
    course = course_of([*values, 8.0, 9.5, 9.0])
    rise = course.rise
    assert rise is not None
    assert (rise.step, rise.value, rise.value_step) == (1000, 9.5, 1001)
    assert 1.4 < rise.low < rise.median < rise.high < 2.9
    for step in range(1003, 1010):
        course.note(step, 2.0)
    assert course.rise is None


def test_a_rise_that_lasts_becomes_what_is_usual():
    course = course_of([*noisy(4, 400), *[9 + each for each in noisy(5, 260)]])
    assert course.rise is None
    for step in range(660, 900):
        course.note(step, 11.0 + 0.3 * (step % 7))
    assert course.rise is None


def test_a_loss_that_rises_slowly_does_not_set_its_own_limit():
    values = noisy(6, 2000, 0.03)
    assert course_of([*values, *[2 * (1 + i / 50) for i in range(200)]]).rise is not None


HEALTHY = {
    "language model": lambda i, dice: (2.5 + 8 * math.exp(-i / 80) + 1.5 * (i + 1) ** -0.3)
    * dice.gauss(1, 0.03),
    "very noisy": lambda i, dice: (2 + 3 * math.exp(-i / 600)) * dice.gauss(1, 0.3),
    "heavy tails": lambda _, dice: math.exp(dice.gauss(0, 1)),
    "heavier tails": lambda _, dice: math.exp(dice.gauss(0, 1.5)),
    "warm-up of a gradient norm": lambda i, dice: min(i / 500, 1) * 2 * math.exp(dice.gauss(0, 0.3)),
    "around zero": lambda _, dice: dice.gauss(0, 1),
    "periodic": lambda i, dice: 2 + math.sin(i / 50) + dice.gauss(0, 0.05),
    "periodic and slow": lambda i, dice: 2 + math.sin(i / 700) + dice.gauss(0, 0.02),
    "epochs": lambda i, dice: 1 + (1 - (i % 390) / 390) * 0.6 + dice.gauss(0, 0.05),
    "one high value in a hundred": lambda i, dice: (8 if i % 100 == 7 else 2) + dice.gauss(0, 0.1),
    "grows steadily": lambda i, dice: 0.1 + (i / 1000) ** 2 + dice.gauss(0, 0.01),
    "another mixture of data": lambda i, dice: 1 + 0.35 * (i > 1500) + dice.gauss(0, 0.03),
    "falls to nothing": lambda i, dice: math.exp(-i / 300) * math.exp(dice.gauss(0, 0.7)),
    "few digits": lambda i, dice: round((2 + math.exp(-i / 300) + dice.gauss(0, 0.02)) * 64) / 64,
    "restarts of the learning rate": lambda i, dice: 2
    + 0.5 * max(0, 1 - (i % 1000) / 150)
    + dice.gauss(0, 0.05),
    "switched on": lambda i, dice: 1 + dice.gauss(0, 0.1) if i > 1000 else 0.0,
}  # fmt: skip


@pytest.mark.parametrize("shape", HEALTHY)
@pytest.mark.long
def test_ordinary_losses_and_norms_never_rise(shape):
    for seed in range(8 if SOAK else 3):
        dice = random.Random(seed)
        course = Course("loss", is_judged=True)
        for i in range(3000):
            course.note(i, HEALTHY[shape](i, dice))
            assert course.rise is None, (seed, i, course.rise)


def test_one_high_value_is_no_rise_and_too_few_values_say_nothing():
    assert course_of([*noisy(7, 300), 50.0, *noisy(8, 20), 60.0, 70.0, 2.0]).rise is None
    assert course_of([2.0, 2.1] * (FEWEST_VALUES // 4) + [50.0] * 10).rise is None


@pytest.mark.parametrize("lead", [2, 12, 90])
def test_a_norm_that_rose_before_the_loss_has_led_by_so_many_steps(lead):
    script, dice = ReportingScript(), random.Random(9)
    for i in range(700):
        script.step(
            i,
            loss=dice.gauss(2, 0.05) * (4 if i >= 600 else 1),
            grad_norm=math.exp(dice.gauss(0, 0.3)) * (20 if i >= 600 - lead else 1),
            update_norm=dice.gauss(1, 0.1),
        )
        if not i % 20:
            script.look()
    rise = script.look()["loss"].rise
    assert (rise.step, rise.led_by, rise.led_steps) == (600, "grad_norm", lead)


def test_a_norm_that_rose_long_before_or_after_has_not_led():
    script, dice = ReportingScript(), random.Random(10)
    for i in range(700):
        is_high = 300 <= i < 320 or i >= 605
        script.step(
            i,
            loss=dice.gauss(2, 0.05) * (4 if i >= 600 else 1),
            grad_norm=math.exp(dice.gauss(0, 0.3)) * (20 if is_high else 1),
        )
        if not i % 20:
            script.look()
    rise = script.look()["loss"].rise
    assert (rise.step, rise.led_by) == (600, "")


def test_what_may_rise_on_purpose_is_not_judged():
    script = ReportingScript()
    for i in range(300):
        script.step(i, accuracy=0.9 if i > 200 else 0.1 + i % 3 / 100, loss_scale=2.0 ** (i // 50))
        if not i % 20:
            script.look()
    assert script.look() == {}


def test_news_are_sent_at_once_and_values_seldom(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("jaxtop_agent.logged.courses.time", SimpleNamespace(monotonic=lambda: now[0]))
    script = ReportingScript()
    for i in range(6):
        script.step(i, loss=math.nan)
        script.look()
        now[0] += 2.0
    assert [each.scalars[0].bad for each in script.sent] == [1, 2]
    now[0] += SEND_EVERY_S
    script.step(7, loss=math.nan)
    assert script.look()["loss"].step == 7 and len(script.sent) == 3


def test_a_script_with_ever_new_names_is_followed_within_bounds():
    script = ReportingScript()
    for i in range(1000):
        script.step(i, **{f"loss{i}": math.nan})
        script.look()
    assert len(script.courses._courses) == MOST_COURSES
    assert len(script.look()) == MOST_COURSES


# Arrays, which are read later


class Later:
    """A scalar array on a device that has not computed it yet."""

    size = 1

    def __init__(self, number: float, is_done=lambda: True) -> None:
        self.number, self.is_done, self.reads = number, is_done, 0

    def is_deleted(self) -> bool:
        return False

    def is_ready(self) -> bool:
        return self.is_done()

    def item(self) -> float:
        assert self.is_done(), "this read would block"
        self.reads += 1
        return self.number


def kept(values):
    reports = Reports()
    for i, value in enumerate(values):
        reports.keep(i, [("loss", value)])
    return reports


def test_an_array_that_is_not_ready_is_not_read_and_all_are_in_the_end():
    done = [False]
    script = ReportingScript()
    for i in range(40):
        script.step(i, loss=Later(math.nan if i >= 30 else 1.0, lambda: done[0]))
    assert script.look() == {}
    done[0] = True
    loss = script.look()["loss"]
    assert (loss.bad_step, loss.finite_step, loss.is_exact) == (30, 29, True)


def test_few_arrays_of_many_are_read_unless_one_is_not_finite():
    arrays = [Later(1.0) for _ in range(MOST_CALLS)]
    reports = kept(arrays)
    reports.gather()
    assert sum(each.reads for each in arrays) <= MOST_READS and arrays[-1].reads == 1
    reports = kept([Later(math.nan if i >= 41 else 1.0) for i in range(MOST_CALLS)])
    reports.gather()
    found = reports.taken()
    first = next(each for each in found if not math.isfinite(each.value))
    assert (first.step, first.has_gap) == (41, False)


def test_while_arrays_are_dropped_the_step_is_about_right_and_says_so():
    done, script = [False], ReportingScript()
    for i in range(1000):
        script.step(i, loss=Later(math.nan if i >= 500 else 1.0, lambda: done[0]))
    done[0] = True
    script.look()
    script.step(1000, loss=Later(math.nan))
    script.look()
    script.step(1001, loss=Later(math.nan))
    loss = script.look()["loss"]
    assert not loss.is_exact and loss.finite_step < 500 <= loss.bad_step


def test_calls_and_arrays_are_held_within_bounds_and_let_go():
    reports = Reports()
    for i in range(10_000):
        reports.keep(i, [(f"m{k}", Later(1.0, lambda: False)) for k in range(8)])
    assert len(reports._calls) * 8 <= MOST_HELD + 8
    reports.clear()
    assert not reports._calls
    progress = Progress()
    progress.step(1, {"loss": Later(1.0)})
    progress.close()
    progress.step(2, {"loss": Later(1.0)})
    assert not progress._reports._calls


@pytest.mark.parametrize("index", [math.nan, 10**400, Later(math.nan), 1 << 63])
def test_an_index_that_is_no_step_is_no_harm(index):
    script = ReportingScript()
    script.step(index, loss=math.nan)
    script.step(5, loss=math.nan)
    assert script.look()["loss"].bad_step == 5


def test_an_index_that_is_an_array_is_read_as_well():
    script = ReportingScript()
    for i in range(5):
        script.step(Later(i), loss=Later(math.nan if i > 2 else 1.0))
    assert script.look()["loss"].bad_step == 3


def test_an_array_that_was_deleted_is_passed_over():
    class Deleted(Later):
        def item(self):
            raise RuntimeError("Array has been deleted")

    script = ReportingScript()
    script.step(1, loss=Deleted(1.0))
    script.step(2, loss=math.nan)
    assert script.look()["loss"].bad_step == 2
