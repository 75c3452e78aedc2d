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
    state = jax.new_ref(jnp.zeros(8))

    @jax.jit
    def mutate(state, x):
        state[...] += x

    @jax.jit
    def report(x):
        jax.debug.callback(lambda x: None, x)
        return x + 1

    for _ in range(9):
        mutate(state, x)
        report(x)
    {more}
    counted = jaxtop_agent._agent._hooks.launches()
    agent.stop()
    print(json.dumps({{name: counted.get(name) for name in ("step", "plain", "mutate", "report")}}))
"""


ALL = {"step": 11, "plain": 11, "mutate": 9, "report": 9}


@pytest.mark.jax
class TestLaunches:
    def test_every_launch_is_counted_also_first_ones_and_those_of_refs_and_callbacks(self, tmp_path):
        """Though `logsumexp` and `var` empty the thread's slot."""
        done = run(PYTHON, script(tmp_path, PROGRAM.format(more="")))
        assert done.stderr == ""
        assert json.loads(done.stdout) == ALL

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
        assert json.loads(done.stdout.splitlines()[-1]) == ALL

    def test_a_function_of_the_script_is_the_step_though_jax_has_one_of_that_name(self, tmp_path):
        """Both are launched; the file that defines a function tells them apart."""
        text = """
            from jaxtop import agent
            agent.start()
            import functools, jax, jax.numpy as jnp, time
            import jaxtop_agent
            from types import SimpleNamespace
            from jaxtop_agent.collectors.steps import StepRhythm
            from jaxtop_agent.core.board import Board
            from jaxtop_agent.service.identity import identify

            def scaled(by, x):
                return x * by

            def multiply(x):
                return jnp.sum(jnp.tanh(x @ x))

            multiply = jax.jit(jax.value_and_grad(multiply))
            copy = jax.jit(functools.partial(scaled, 2.0))
            x = jnp.ones((8, 8))
            for _ in range(30):
                _, x = multiply(x)
                jnp.multiply(x, 2.0)
                copy(x)
                time.sleep(0.01)
            hooks = jaxtop_agent._agent._hooks
            rhythm = StepRhythm(hooks.launched, SimpleNamespace(calls_since=lambda at: []))
            board = Board(identify("run"))
            rhythm.collect(board, None)
            print(*board.sampler.rhythm.functions, hooks.launches()["multiply"])
        """
        done = run(PYTHON, script(tmp_path, text))
        assert (done.stdout, done.stderr) == ("multiply scaled 60\n", "")

    def test_all_functions_of_a_step_are_listed(self, tmp_path):
        """The operations of a step are the sum over them."""
        text = """
            from jaxtop import agent
            agent.start()
            import jax, jax.numpy as jnp, time
            import jaxtop_agent
            from types import SimpleNamespace
            from jaxtop_agent.collectors.steps import StepRhythm
            from jaxtop_agent.core.board import Board
            from jaxtop_agent.service.identity import identify

            def layer(number):
                def apply(x):
                    return jnp.tanh(x @ x) + number
                apply.__name__ = f"layer{number}"
                return jax.jit(apply)

            layers = [layer(number) for number in range(11)]
            x = jnp.ones((8, 8))
            for _ in range(30):
                for each in layers:
                    x = each(x)
                time.sleep(0.01)
            hooks = jaxtop_agent._agent._hooks
            rhythm = StepRhythm(hooks.launched, SimpleNamespace(calls_since=lambda at: []))
            board = Board(identify("run"))
            rhythm.collect(board, None)
            print(*board.sampler.rhythm.functions)
        """
        done = run(PYTHON, script(tmp_path, text))
        assert (done.stdout.split(), done.stderr) == ([f"layer{number}" for number in range(11)], "")

    def test_after_stop_jax_is_as_it_was(self, tmp_path):
        text = """
            from jaxtop import agent
            import jax, jax.numpy as jnp
            from jax._src import api, config
            from jax._src.interpreters import pxla

            def slots():
                return (api._post_hook_state.get_global(), api._post_hook_state.get_local(),
                        config.debug_nans._update_thread_local_hook,
                        vars(pxla.ExecuteReplicated)["__call__"])

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

    def test_what_goes_wrong_outside_the_fast_path_has_no_frame_of_ours_in_its_traceback(self, tmp_path):
        text = """
            import os, traceback
            os.environ["JAX_TRACEBACK_FILTERING"] = "off"
            from jaxtop import agent
            agent.start()
            import jax, jax.numpy as jnp

            @jax.jit
            def fails(x):
                return jax.pure_callback(lambda x: 1 / 0, x, x)

            try:
                fails(jnp.ones(3)).block_until_ready()
            except Exception:
                print("jaxtop" in traceback.format_exc())
        """
        done = run(PYTHON, script(tmp_path, text))
        assert done.stdout == "False\n", done.stderr

    def test_first_calls_are_counted_but_are_no_part_of_a_step(self, tmp_path):
        text = """
            from jaxtop import agent
            agent.start()
            import jax, numpy as np
            import jaxtop_agent
            hook = jaxtop_agent._agent._hooks.launched

            def seen(name):
                names = hook.names()
                return [names[each.function] for each in hook.launches_since(0)].count(name)

            @jax.jit
            def step(x):
                return x + 1

            x = step(np.ones(3))
            print(hook.last()[1], hook.totals()["step"], seen("step"))
            for _ in range(4):
                x = step(x)
            print(hook.totals()["step"], seen("step"))
        """
        done = run(PYTHON, script(tmp_path, text))
        assert done.stdout == "step 1 0\n5 4\n", done.stderr

    def test_a_source_that_sees_nothing_while_programs_run_says_so(self, tmp_path):
        text = """
            import time
            from jaxtop import agent, wire
            agent.start()
            import jax, jax.numpy as jnp
            import jaxtop_agent

            jax.devices()
            jaxtop_agent._agent._loader.join(3600)
            hooks, board = jaxtop_agent._agent._hooks, jaxtop_agent._agent._board
            seen = wire.Launch(0, 1, 0, 100)

            def state(*launches):
                board.windows.latest = (wire.Window(time.time_ns() // 1_000_000, 1000, launches=launches),)
                hooks.restore()
                return board.sources["launches"].partition(":")[0]

            print(state(), state(seen))  # by a runtime that goes round JAX's own ways to launch
            jax.jit(lambda x: x + 1)(1)
            print(state(seen))
        """
        done = run(PYTHON, script(tmp_path, text))
        assert done.stdout == "on off\non\n", done.stderr


LAMBDAS = """
    import json
    from jaxtop import agent
    agent.start()
    import jax, jax.numpy as jnp
    import jaxtop_agent

    double = jax.jit(lambda x: x * 2)
    negate = jax.jit(lambda x: -x)

    def made(times):
        return jax.jit(lambda x: x + times)

    x, alike = jnp.ones(4), [made(1), made(2)]
    for each in (double, negate, *alike):
        each(x)
    for _ in range(5):
        for each in (double, negate, *alike):
            each(x)
    launched = jaxtop_agent._agent._hooks.launched
    order = [each.function for each in launched.launches_since(0)][-20:]
    print(json.dumps([launched.totals()["<lambda>"], [order.index(each) for each in order]]))
"""


@pytest.mark.jax
def test_functions_of_one_name_from_different_lines_are_told_apart_and_counted_together(tmp_path):
    """Two from one line are one, however often it makes them."""
    done = run(PYTHON, script(tmp_path, LAMBDAS))
    assert done.stderr == ""
    count, order = json.loads(done.stdout)
    assert count == 24 and order == [0, 1, 2, 2] * 5
