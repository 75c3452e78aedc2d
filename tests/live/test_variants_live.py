"""A function that was compiled several times: its launches are those of the program that runs."""

from __future__ import annotations

import pytest

from jaxtop.model import program_views
from jaxtop.model.collectives import axis_traffic, collective_views
from jaxtop.store import runfiles
from tests.support import PYTHON, environment, eventually, processes, script, viewer

pytestmark = pytest.mark.jax

VARIANTS = """
    import time
    from jaxtop import agent
    agent.start()
    import jax, jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.sharding.Mesh(jax.devices(), ("data",))
    rows = NamedSharding(mesh, P("data"))

    @jax.jit
    def step(x):
        for _ in range(3):
            x = x * 0.5 + x.mean()
        return x

    for size in (4, 8, 4096):
        x = jax.device_put(jnp.ones((size, 256)), rows)
        step(x).block_until_ready()
    while True:
        x = step(x)
        x.block_until_ready()
        time.sleep(0.02)
"""


def test_of_a_function_compiled_for_three_shapes_the_one_that_runs_has_the_launches(tmp_path):
    """And what was measured stands beside what its program contains."""
    path = script(tmp_path, VARIANTS)
    with processes([PYTHON, path], env=environment(4)):
        eventually(runfiles.find)
        with viewer() as attached:

            def steps():
                found = [each for each in program_views(attached.cluster, 0) if each.function == "step"]
                return sorted(found, key=lambda each: each.program.argument_bytes or 0)

            def views():
                return [each for each in collective_views(attached.cluster, 0) if each.program == "jit_step"]

            def is_told_apart():
                found = steps()
                return (
                    len(found) == 3
                    and found[-1].function_per_second
                    and [each.launches_per_second for each in found] == [0, 0, found[-1].function_per_second]
                    and {each.fingerprint for each in views() if each.samples}
                    == {found[-1].program.fingerprint}
                    and all(
                        each.samples for each in views() if each.fingerprint == found[-1].program.fingerprint
                    )
                    and {each.axes for each in views()} == {("data",)}
                )

            attached.until(is_told_apart)
            running = steps()[-1]
            (along,) = axis_traffic(views())
            expected = sum(each.bytes for each in views() if each.samples) * running.function_per_second
            assert along.bytes_per_second == pytest.approx(expected) and not along.at_least
