"""Percentiles of how long launches take, against those of all durations; and what keyframes keep of them."""

import random
from statistics import quantiles

import pytest

from jaxtop import wire
from jaxtop.export.json import to_document
from jaxtop.model import program_views
from jaxtop.model.programs.launch_durations import MAX_COUNTED, percentile_us, together, with_launches
from tests.stories import cluster_of, running

SERVE = wire.Program("jit_serve", "f1", devices=1, local_devices=1)


def window(at_ms: int, *durations_us: int) -> wire.Window:
    launches = tuple(wire.Launch(0, None, 10 * i, each) for i, each in enumerate(durations_us))
    return wire.Window(at_ms, 300_000, programs=(("jit_serve", "f1"),), launches=launches)


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_those_of_all_durations_to_a_twentieth(seed):
    chance = random.Random(seed)
    durations = [round(chance.lognormvariate(8, 1)) for _ in range(2000)]
    lasted = {}
    for start in range(0, 2000, 50):
        lasted = with_launches(lasted, durations[start : start + 50])
    exact = quantiles(durations, n=100)
    assert percentile_us(lasted, 0.5) == pytest.approx(exact[49], rel=0.05)
    assert percentile_us(lasted, 0.99) == pytest.approx(exact[98], rel=0.1)
    assert len(lasted) < 200


def test_too_few_launches_tell_none():
    assert percentile_us({}, 0.5) is None
    assert percentile_us(with_launches({}, [100] * 7), 0.5) is None
    few = with_launches({}, [100] * 99)
    assert percentile_us(few, 0.5) == pytest.approx(100, rel=0.03) and percentile_us(few, 0.99) is None
    assert percentile_us(together([few, {3: 1}]), 0.99) == pytest.approx(100, rel=0.03)


def test_what_came_long_ago_fades():
    lasted = with_launches({}, [1_000] * MAX_COUNTED)
    for _ in range(4):
        lasted = with_launches(lasted, [10] * (MAX_COUNTED // 2))
    assert percentile_us(lasted, 0.5) == pytest.approx(10, rel=0.03)
    assert sum(lasted.values()) <= MAX_COUNTED


def told():
    return cluster_of(
        *running(0, 1),
        *(
            (11, agent, wire.Programs(1000, (SERVE,), seen_ms=(1000,), compile_ms=(5,)))
            for agent in ("r1-0", "r1-1")
        ),
        *((12 + i, "r1-0", window(12_000 + i, *[2_000] * 60)) for i in range(2)),
        (14, "r1-1", window(14_000, *[2_000] * 10, 90_000)),
    )


def test_the_launches_of_all_processes_are_one_distribution():
    (view,) = program_views(told(), 15)
    assert view.p50_us == view.p99_us == pytest.approx(2_000, rel=0.03)
    (program,) = to_document(told(), 15)["programs"]
    assert program["launches_in_windows"] == 131
    assert program["launch_p50_us"] == pytest.approx(2_000, rel=0.03)
