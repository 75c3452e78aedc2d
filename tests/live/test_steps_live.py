"""The step is found without a word from the script, and takes as long as by the script's own clock."""

from __future__ import annotations

import json
from itertools import pairwise
from statistics import mean, median
from subprocess import Popen

import pytest

from jaxtop.model import newest_hosts, step_of
from jaxtop.store import runfiles
from tests.model.test_names import FUNCTIONS
from tests.support import (
    JAXTOP,
    PYTHON,
    ROOT,
    SOAK,
    environment,
    eventually,
    free_port,
    processes,
    script,
    viewer,
)

pytestmark = [pytest.mark.jax, pytest.mark.timeout(300)]

PROGRAMS = ROOT / "tests" / "programs"
# The others launch their steps as these two do; `test_names` looks for their functions.
FRAMEWORKS = FUNCTIONS if SOAK else ("plain", "nnx")
STEPS = 250


def found(started, *written):
    """The steps of all processes, and their rhythms, once they have written their times, and so rest."""
    eventually(lambda: all(path.exists() for path in written) or any(map(Popen.poll, started)))
    assert not any(map(Popen.poll, started))
    with viewer() as attached:
        attached.until(
            lambda: (
                len(newest_hosts(attached.cluster)) == len(written)
                and all((step := step_of(host)) and step.flops for host in newest_hosts(attached.cluster))
            ),
        )
        return [(step_of(host), host.pulse.rhythm) for host in newest_hosts(attached.cluster)]


def is_lately(mean_s, ended_and_took):
    """Is this the mean of the last ten seconds, by the script's clock? A step held up by others is a pause.

    Where other processes use the cores, the step times change within these seconds: it may be the mean of a
    little more or less.
    """
    longest = max(10 * median(took for _, took in ended_and_took), 0.25)
    means = [
        mean(took for ended, took in ended_and_took if ended > ended_and_took[-1][0] - s and took < longest)
        for s in (9, 9.5, 10, 10.5, 11)
    ]
    return 0.98 * min(means) < mean_s < 1.02 * max(means)


def between(path, samples):
    """When each of the last so many steps ended, and how long it took.

    The last step is left out: no launch came after it, by which the agent would know how long it took.
    """
    ends = json.loads(path.read_text())[:-1][-samples - 1 :]
    return [(later, later - sooner) for sooner, later in pairwise(ends)]


# First, since it takes longest.
@pytest.mark.newest
@pytest.mark.quiet
def test_the_step_of_the_demo_is_found_though_it_does_not_tell(tmp_path):
    coordinator = f"127.0.0.1:{free_port()}"
    written = [tmp_path / "times-0", tmp_path / "times-1"]
    together = ["--processes", 2, "--coordinator", coordinator, "--devices", 1]
    commands = [
        [PYTHON, PROGRAMS / "clocked.py", 150, path, "jaxtop_agent.demo.train", "--process", i, *together]
        for i, path in enumerate(written)
    ]
    with processes(*commands) as started:
        steps = found(started, *written)
    for path, (step, rhythm) in zip(written, steps, strict=True):
        assert (step.functions, step.is_reported_by_script) == (("train_step",), False)
        assert is_lately(step.mean_s, between(path, rhythm.samples))


@pytest.mark.newest
@pytest.mark.quiet
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_step_of_each_framework_takes_what_its_own_clock_says(framework, tmp_path):
    written = tmp_path / "times"
    script = PROGRAMS / "training" / f"train_{framework}.py"
    with processes([*JAXTOP, "run", PROGRAMS / "clocked.py", STEPS, written, script]) as started:
        [(step, rhythm)] = found(started, written)
    assert FUNCTIONS[framework] in step.functions
    assert not step.is_reported_by_script
    assert is_lately(step.mean_s, between(written, rhythm.samples))
    # Of those that were launched before somebody looked, the last are known.
    assert 0 < step.steps <= STEPS


@pytest.mark.newest
@pytest.mark.quiet
@pytest.mark.parametrize("stride", [1, 20])
def test_evaluations_and_checkpoints_do_not_fool_it(stride, tmp_path):
    """Also where steps are launched ahead of the device, and only every twentieth is waited for."""
    written = tmp_path / "times"
    with processes([PYTHON, PROGRAMS / "stepping.py", stride, written]) as started:
        [(step, rhythm)] = found(started, written)
    assert step.functions == ("train_step",)
    # No launch came after the last ones, by which the agent would know that they are over.
    over = json.loads(written.read_text())[:-stride][-rhythm.samples :]
    latest = [took for ended, took in over if ended > over[-1][0] - 10]
    # Other processes may hold a step up for about as long as a pause lasts: it counts as one, or not.
    least = mean(took for took in latest if took < max(8 * median(latest), 0.2))
    # What is launched ahead is known by stretches of twenty, and they differ where others use the machine.
    within = 0.02 if stride == 1 else 0.05
    assert least * (1 - within) <= step.mean_s <= mean(latest) * (1 + within)
    # The run is slower than its steps. It rests, so the step of a viewer may have no rate any more.
    assert rhythm.milli_per_s / 1000 * step.mean_s < 0.9


PEAK, SIDE, PACE = 2e12, 256, 50
MATMULS = f"""
    import time
    from jaxtop import agent
    agent.start()
    import jax, jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.sharding.Mesh(jax.devices(), ("data",))
    rows = NamedSharding(mesh, P("data"))

    @jax.jit
    def product(x, y):
        return jax.lax.with_sharding_constraint(x @ y, rows)

    x = jax.device_put(jnp.ones(({4 * SIDE}, {SIDE})), rows)
    y = jax.device_put(jnp.eye({SIDE}), NamedSharding(mesh, P()))
    began, i = time.perf_counter(), 0
    while True:
        x = product(x, y)
        x.block_until_ready()
        i += 1
        time.sleep(max(0, began + i / {PACE} - time.perf_counter()))
"""


@pytest.mark.newest
def test_operations_and_utilisation_of_known_matmuls_are_those_computed_by_hand(tmp_path):
    """A matrix of so many rows on each of four devices, at a pace that the script keeps."""
    path, by_hand = script(tmp_path, MATMULS), 4 * 2 * SIDE**3
    a_second = pytest.approx(by_hand * PACE, rel=0.02)
    with processes([PYTHON, path], env=environment(JAXTOP_PEAK_FLOPS=str(PEAK))):
        eventually(runfiles.find)
        with viewer() as attached:
            # A script that had no core for a while makes up for it, faster than its pace.
            attached.until(lambda: (step := step_of(attached.host(0))) and step.flops_per_second == a_second)
            step = step_of(attached.host(0))
    assert step.functions == ("product",)
    assert step.flops == pytest.approx(by_hand, rel=0.02)
    assert step.utilization == pytest.approx(by_hand * PACE / (4 * PEAK), rel=0.02)
    assert step.peak_source == "JAXTOP_PEAK_FLOPS"
