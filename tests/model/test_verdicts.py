"""Who is late is named, and nobody else: over many made-up runs of noisy processes that share cores."""

from __future__ import annotations

import random
from array import array
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pytest

from jaxtop.model.collectives import verdict
from jaxtop.model.collectives.verdict import (
    ENOUGH_LAUNCHES,
    ENOUGH_WINDOWS,
    LATE_MS_ON_CPU,
    is_enough,
    last_of,
    spread,
    wait_for_last,
)
from jaxtop.model.windows import MISSING, CollectiveGroups, Team, TeamUnit, Timing
from tests.support import SOAK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model.windows import Straggler

RUNS = 1_000 if SOAK else 300
LAUNCH_US = 80_000
UNITS = [TeamUnit(f"r1-{process}", None) for process in range(4)]
GROUPED = [
    CollectiveGroups((), (), (Team(tuple(UNITS[:count]), ()),), crosses_hosts=True, axes=None)
    for count in range(5)
]
NO_TIMES = array("I")


def straggler_in(
    launches: list[Timing],
    team: int,
    current: TeamUnit | None = None,
    at_least_us: float = LATE_MS_ON_CPU.default * 1000,
) -> Straggler | None:
    """Return the verdict with the default threshold of CPUs."""
    return verdict.straggler_in(launches, team, current, at_least_us=at_least_us)


def launch(window: int, waits: Sequence[int]) -> Timing:
    """A launch with the wait of each unit of the only team."""
    waited = (array("I", waits),)
    return Timing(window, LAUNCH_US, 1, NO_TIMES, NO_TIMES, NO_TIMES, None, waited, GROUPED[len(waits)])


def waits_of(launches: Sequence[Timing]) -> list[Sequence[int]]:
    return [each.arrivals[0] for each in launches]


class Noise(NamedTuple):
    """How uneven a run is: who comes when without any sleep, in microseconds."""

    processes: int
    per_window: int
    usual: float
    burst: float
    slow: float


def noises(seed: int) -> Iterator[tuple[random.Random, Noise]]:
    dice = random.Random(seed)
    for _ in range(RUNS):
        yield (
            dice,
            Noise(
                processes=dice.choice((3, 4)),
                per_window=dice.choice((2, 3, 5, 8)),
                usual=dice.choice((1_000, 3_000, 5_000)),
                burst=dice.choice((5_000, 15_000, 25_000)),
                slow=dice.choice((0, 2_000, 5_000)),
            ),
        )


def made(
    dice: random.Random, noise: Noise, windows: range, sleep: float = 0.0, late: int | None = None
) -> list[Timing]:
    """Launches on shared cores: now and then a process is held up for most of a window, or for a launch."""
    somewhat_slower = dice.randrange(noise.processes)
    found = []
    for window in windows:
        burst = [dice.random() < 0.2 and dice.uniform(0.3, 1) * noise.burst for _ in range(noise.processes)]
        for _ in range(noise.per_window):
            ready = [dice.lognormvariate(0, 0.7) * noise.usual for _ in range(noise.processes)]
            for process in range(noise.processes):
                if burst[process] and dice.random() < 0.8:
                    ready[process] += burst[process] * dice.uniform(0.5, 1.2)
            if dice.random() < 0.03:
                ready[dice.randrange(noise.processes)] += dice.uniform(20_000, 80_000)
            ready[somewhat_slower] += noise.slow
            if late is not None:
                ready[late] += sleep
            found.append(launch(window, [round(max(ready) - each) for each in ready]))
    return found


def followed(launches: list[Timing]) -> list[Straggler | None]:
    """The verdict after each window, each one knowing whom the one before named."""
    found: list[Straggler | None] = []
    for window in sorted({each.window_number for each in launches}):
        so_far = [each for each in launches if each.window_number <= window][-64:]
        before = found[-1].unit if found and found[-1] else None
        found.append(straggler_in(so_far, 0, before))
    return found


def sleep_for(dice: random.Random, noise: Noise) -> float:
    """Five times the spread of the same program without a sleep, and at least 50 ms."""
    return max(50_000.0, 5 * spread(waits_of(made(dice, noise, range(14)))))


@pytest.mark.long
def test_without_a_sleep_nobody_is_ever_named():
    named = [n for dice, n in noises(1) if any(followed(made(dice, n, range(14))))]
    assert named == []


@pytest.mark.long
def test_a_sleep_names_the_process_that_slept():
    right, errors = 0, []
    for dice, noise in noises(2):
        sleep, late = sleep_for(dice, noise), dice.randrange(noise.processes)
        found = followed(made(dice, noise, range(8), sleep, late))[-1]
        if found is not None and found.unit == UNITS[late] and found.share >= 0.9:
            right += 1
            errors.append(abs(found.late_us - sleep) / sleep)
    assert right >= 0.99 * RUNS
    assert sorted(errors)[round(0.99 * len(errors)) - 1] < 0.25


@pytest.mark.long
def test_the_verdict_follows_within_three_windows():
    right = 0
    for dice, noise in noises(3):
        sleep = sleep_for(dice, noise)
        first, then = dice.sample(range(noise.processes), 2)
        launches = made(dice, noise, range(10), sleep, first) + made(dice, noise, range(10, 13), sleep, then)
        found = followed(launches)[-1]
        right += found is not None and found.unit == UNITS[then]
    assert right >= 0.97 * RUNS


def steady(waits: tuple[int, ...], windows: int = 5, each: int = 2) -> list[Timing]:
    return [launch(window, waits) for window in range(windows) for _ in range(each)]


def test_a_wait_is_counted_from_the_one_that_came_last():
    assert (last_of([50, 0, 70]), wait_for_last([50, 0, 70])) == (1, 60)
    found = straggler_in(steady((50_000, 0, 70_000)), 0)
    assert found is not None
    assert found == (0, UNITS[1], 1.0, 60_000, None, "process")


@pytest.mark.parametrize(
    ("windows", "each", "enough"),
    [
        (ENOUGH_WINDOWS, 2, True),
        (1, 50, False),
        (ENOUGH_WINDOWS - 1, 50, False),
        (ENOUGH_LAUNCHES - 1, 1, False),
    ],
)
def test_few_launches_and_a_single_burst_are_not_enough(windows, each, enough):
    launches = steady((50_000, 0, 70_000), windows, each)
    assert is_enough(launches) is enough
    assert (straggler_in(launches, 0) is not None) is enough


def test_small_differences_name_nobody_however_steady():
    assert straggler_in(steady((20_000, 0, 20_000)), 0) is None
    assert straggler_in(steady((4_000, 0, 4_000)), 0, at_least_us=5_000) is None
    assert straggler_in(steady((6_000, 0, 6_000)), 0, at_least_us=5_000) is not None


def test_lateness_that_is_little_of_a_long_launch_names_nobody():
    long = [each._replace(launch_us=3_000_000) for each in steady((50_000, 0, 60_000))]
    assert straggler_in(long, 0) is None


def test_two_that_are_late_together_are_not_one_that_is():
    assert straggler_in(steady((60_000, 0, 0, 60_000)), 0) is None


def test_who_is_late_in_turns_is_not_named():
    """Each window another one: that is how bursts on shared cores look."""
    turns = [
        launch(window, [0 if unit == window % 3 else 40_000 for unit in range(3)])
        for window in range(12)
        for _ in range(3)
    ]
    assert followed(turns) == [None] * 12


def test_who_is_late_all_the_time_stays_named_however_little_is_remembered_of_before():
    first, then = (0, 50_000, 50_000), (50_000, 0, 50_000)
    launches = [launch(window, first if window < 10 else then) for window in range(30) for _ in range(8)]
    named = [found.unit if found else None for found in followed(launches)]
    assert named[:3] == [None] * 3
    assert set(named[3:10]) == {UNITS[0]}
    assert set(named[12:]) == {UNITS[1]}


def test_of_two_processes_the_late_one_is_named():
    found = straggler_in(steady((0, 55_000)), 0)
    assert found is not None
    assert (found.unit, found.late_us) == (UNITS[0], 55_000)


def test_who_was_not_heard_is_neither_late_nor_waits():
    found = straggler_in(steady((50_000, MISSING, 0, 70_000)), 0)
    assert found is not None
    assert (found.unit, found.late_us) == (UNITS[2], 60_000)


def test_the_spread_is_that_of_those_who_are_not_suspected():
    launches = [[10_000 + 1_000 * (i % 3), 10_000, 10_000 - 1_000 * (i % 3), 0] for i in range(30)]
    assert 500 < spread(launches, 3) < 3_000
    assert median([spread(launches), 0, 100_000]) == spread(launches)  # and it is a number without a suspect
