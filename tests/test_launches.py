"""Launches are counted, also in programs whose functions take JAX's own hooks away."""

from __future__ import annotations

import json

import pytest

from tests.support import PYTHON, run, script

PROGRAM = """
    import json, sys
    from jaxtop import agent
    agent.start()
    import jax, jax.numpy as jnp
    import jaxtop_agent

    @jax.jit
    def step(x):
        return x + jax.nn.logsumexp(x) + jnp.var(x)

    @jax.jit
    def plain(x):
        return x * 2

    x = jnp.ones((8,))
    for _ in range(11):
        x = step(x)
        jax.nn.logsumexp(x)  # outside of jit, too, and before each launch
        plain(x)
    {more}
    counted = jaxtop_agent._agent._hooks.launches()
    agent.stop()
    print(json.dumps({{"step": counted.get("step"), "plain": counted.get("plain")}}))
"""


@pytest.mark.jax
class TestLaunches:
    def test_every_launch_after_the_first_is_counted_though_logsumexp_and_var_empty_the_threads_slot(
        self, tmp_path
    ):
        done = run(PYTHON, script(tmp_path, PROGRAM.format(more="")))
        assert done.stderr == ""
        assert json.loads(done.stdout) == {"step": 10, "plain": 10}

    def test_a_nan_check_that_the_user_switches_on_still_reaches_the_user(self, tmp_path):
        more = "check_nans(jax, jnp)"
        check = """
    def check_nans(jax, jnp):
        with jax.debug_nans(True):
            try:
                jax.jit(lambda y: y / 0.0 * 0.0)(jnp.zeros(3))
                print("not seen")
            except FloatingPointError:
                pass
"""
        done = run(PYTHON, script(tmp_path, check + PROGRAM.format(more=more)))
        assert "not seen" not in done.stdout
        assert json.loads(done.stdout.splitlines()[-1]) == {"step": 10, "plain": 10}

    def test_after_stop_jax_is_as_it_was(self, tmp_path):
        text = """
            from jaxtop import agent
            import jax, jax.numpy as jnp
            from jax._src import api, config

            def slots():
                return (api._post_hook_state.get_global(), api._post_hook_state.get_local(),
                        config.debug_nans._update_thread_local_hook)

            jax.nn.logsumexp(jnp.ones(3))
            before = slots()
            agent.start()
            jax.nn.logsumexp(jnp.ones(3))
            assert slots() != before
            agent.stop()
            assert slots() == before
            print("as it was")
        """
        done = run(PYTHON, script(tmp_path, text))
        assert done.stdout == "as it was\n", done.stderr
