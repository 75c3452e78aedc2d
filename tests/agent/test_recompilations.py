"""Why JAX compiled a function again: real cases with known causes, in both versions of JAX."""

from __future__ import annotations

import json

import pytest

from tests.support import PYTHON, run, script

# Each case compiles a function anew and then once more, for one reason.
CASES = """
    import dataclasses, json, os
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from jaxtop_agent.hooks.compiles import Compiles
    from jaxtop.wire import Compilation

    compiles = Compiles()
    compiles.install()
    found = []
    mesh = Mesh(np.array(jax.devices()), ("data",))
    one, other = jax.devices()[:2]
    x = jnp.ones((4, 4))

    def case(function, first, second, **options):
        jitted = jax.jit(function, **options)
        jitted(*first)
        before = len(compiles.history.latest())
        jitted(*second)  # the line
        found.append((function.__name__, compiles.history.latest()[before:]))

    @dataclasses.dataclass(frozen=True)
    class Config:
        layers: int
        rate: float = 0.1

    rows, columns = (NamedSharding(mesh, spec) for spec in (P("data", None), P(None, "data")))
    batch = {"tokens": jnp.zeros((8, 16), jnp.int32), "mask": jnp.ones((8, 16))}

    def shape(params, batch): return batch["tokens"].sum()
    case(shape, (x, batch), (x, {**batch, "tokens": jnp.zeros((7, 16), jnp.int32)}))

    def dtype(params, batch): return params["w"] * 2
    case(dtype, ({"w": x}, batch), ({"w": np.asarray(x, np.float16)}, batch))

    def weak(x, rate): return x * rate
    case(weak, (x, 0.1), (x, np.float32(0.1)))

    def placed(state): return state[0] + state[1]
    case(placed, ((jax.device_put(x, rows),) * 2,), ((jax.device_put(x, rows), jax.device_put(x, columns)),))

    def alike(x): return x * 9
    jitted = jax.jit(alike)
    jitted(jax.device_put(x, rows))
    jitted(jax.device_put(x[:2], columns))
    before = len(compiles.history.latest())
    jitted(jax.device_put(x, columns))  # as near to the second, which has another shape
    found.append(("alike", compiles.history.latest()[before:]))

    def moved(x): return x * 3
    case(moved, (jax.device_put(x, one),), (jax.device_put(x, other),))

    def static(x, axis): return x.sum(axis)
    case(static, (x, 0), (x, 1), static_argnums=1)

    def config(x, config): return x * config.layers
    case(config, (x, Config(2)), (x, Config(2, 0.0)), static_argnames="config")

    def structure(batch): return batch["tokens"] + 1
    case(structure, ({"tokens": x},), ({"tokens": x, "extra": x},))

    def rank(x): return x + 4
    case(rank, (x,), (x[0],))

    def make():
        def function(x): return x + 5
        return function

    jax.jit(make())(x)
    before = len(compiles.history.latest())
    jax.jit(make())(x)
    found.append(("function", compiles.history.latest()[before:]))

    def loop():
        return jax.jit(lambda x: x * 6)(x)
    loop()
    before = len(compiles.history.latest())
    loop()
    found.append(("loop", compiles.history.latest()[before:]))

    def precision(x): return x @ x
    jitted = jax.jit(precision)
    jitted(x)
    before = len(compiles.history.latest())
    with jax.default_matmul_precision("float32"):
        jitted(x)
    found.append(("precision", compiles.history.latest()[before:]))

    def first(x): return x + 7
    before = len(compiles.history.latest())
    jax.jit(first)(x)
    found.append(("first", compiles.history.latest()[before:]))

    def cleared(x): return x + 8
    jax.jit(cleared)(x)
    jax.clear_caches()
    before = len(compiles.history.latest())
    jax.jit(cleared)(x)
    found.append(("cleared", compiles.history.latest()[before:]))

    before = len(compiles.history.latest())
    y = jnp.arange(8)
    y[:3], y[:4]  # operations outside of jit
    found.append(("eager", compiles.history.latest()[before:]))
    print(json.dumps([(name, [Compilation(*each).why for each in listed], [
        (each.function, each.cause, each.argument, each.source, each.duration_ms > 0) for each in listed
    ]) for name, listed in found]))
"""
# The function (the case's name if empty), cause, argument and words of each recompilation.
EXPECTED = {
    "shape": ("", "shape", "batch['tokens']", "int32[8,16] → int32[7,16]"),
    "dtype": ("", "dtype", "params['w']", "float32[4,4] → float16[4,4]"),
    "weak": ("", "weak_type", "rate", "weak float32[] → strong float32[]"),
    "placed": (
        "", "sharding", "state[1]",
        "P('data', None) over data=2 on devices 0 to 1 → P(None, 'data') over data=2 on devices 0 to 1",
    ),
    "alike": (
        "", "sharding", "x",
        "P('data', None) over data=2 on devices 0 to 1 → P(None, 'data') over data=2 on devices 0 to 1",
    ),
    "moved": ("", "sharding", "x", "on device 0 → on device 1"),
    "static": ("", "static", "axis", "0 → 1"),
    "config": ("", "static", "config.rate", "0.1 → 0.0"),
    "structure": ("", "structure", "batch['extra']", "is new"),
    "rank": ("", "shape", "x", "float32[4,4] → float32[4]"),
    "function": ("", "function", "", "a new function object, though its code is the same"),
    "loop": ("<lambda>", "function", "", "a new function object, though its code is the same"),
    "precision": ("", "setting", None, "None → float32"),
    "first": ("", "first", "", "not compiled before"),
    "cleared": ("", "", "", "nothing that is compared has changed"),
}  # fmt: skip


@pytest.mark.jax
def test_each_cause_is_named_with_its_argument(tmp_path):
    file = script(tmp_path, CASES, "cases.py")
    done = run(PYTHON, file)
    assert done.returncode == 0, done.stderr
    cases = {name: (words, listed) for name, words, listed in json.loads(done.stdout)}
    lines = file.read_text().split("\n")
    for name, (function, cause, argument, text) in EXPECTED.items():
        words, listed = cases[name]
        (at,) = [i for i, each in enumerate(listed) if each[0] == (function or name)]
        assert listed[at][1] == cause, (name, words)
        assert argument is None or listed[at][2] == argument, (name, words)
        assert words[at].endswith(text), (name, words)
        where, _, number = listed[at][3].partition(":")
        assert where == "cases.py" and "(" in lines[int(number) - 1], (name, listed)
        assert listed[at][4]
    assert lines[int(cases["shape"][1][-1][3].partition(":")[2]) - 1].endswith("# the line")
    words, listed = cases["eager"]
    assert listed[-1][:3] == ["dynamic_slice", "static", "slice_sizes[0]"]
    assert words[-1] == "static value of slice_sizes[0] changed: 3 → 4"


CACHE = """
    import sys
    import jax
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    from jaxtop_agent.hooks.compiles import Compiles
    compiles = Compiles()
    compiles.install()
    x = jax.device_put(1.0)

    @jax.jit
    def step(x): return x * 2 + 1

    step(x)
    (line,) = [each for each in compiles.history.lines(40) if each.function == "step"]
    print(line.times, line.hits, line.misses, [each.from_cache for each in compiles.history.latest()])
"""


@pytest.mark.jax
def test_hits_and_misses_of_the_persistent_cache(tmp_path):
    file, folder = script(tmp_path, CACHE), tmp_path / "cache"
    assert run(PYTHON, file, folder).stdout == "1 0 1 [False]\n"
    assert run(PYTHON, file, folder).stdout == "1 1 0 [True]\n"


TIMES = """
    import json, time
    import jax, jax.numpy as jnp
    from jaxtop_agent.hooks.compiles import Compiles
    compiles = Compiles()
    compiles.install()
    x = jnp.ones(4)

    @jax.jit
    def inner(x): return jnp.sin(x) * 2

    @jax.jit
    def step(x):
        time.sleep(0.5)  # tracing takes this long
        with jax.ensure_compile_time_eval():
            constant = jnp.sum(jnp.ones(5))  # compiled while another function is traced
        return inner(x) + constant

    began = time.monotonic()
    before = len(compiles.history.latest())
    step(x)
    whole = time.monotonic() - began
    listed = compiles.history.latest()[before:]
    print(json.dumps([whole, [(each.function, each.duration_ms) for each in listed]]))
"""


@pytest.mark.jax
def test_the_seconds_are_those_of_all_stages_and_count_once(tmp_path):
    """The sum over all compilations is no longer than the time that passed."""
    whole, listed = json.loads(run(PYTHON, script(tmp_path, TIMES)).stdout)
    took = dict(listed)
    assert took["step"] >= 500
    assert len(listed) > 1 and sum(took.values()) <= whole * 1000 + len(listed)


ALIVE = """
    import gc, sys, weakref
    import jax, jax.numpy as jnp
    from jaxtop_agent.hooks.compiles import Compiles
    compiles = Compiles()
    if "alone" not in sys.argv:
        compiles.install()

    class Config:
        pass

    config, big = Config(), jnp.ones((64, 64))
    gone = weakref.ref(config)
    owners = sys.getrefcount(big)

    def step(x, config): return x + 1

    def fails(x):
        raise ValueError("of the script")

    jitted = jax.jit(step, static_argnums=1)
    jitted(big, config)
    try:
        jax.jit(fails)(big)
    except ValueError:
        pass
    print(sys.getrefcount(big) == owners)
    del config
    jax.clear_caches()
    del jitted
    gc.collect()
    print(gone() is None, sum(each.facts is not None for each in compiles._threads.values()))
"""


@pytest.mark.jax
def test_nothing_of_the_script_is_kept_alive(tmp_path):
    """JAX itself keeps some of it, depending on its version."""
    file = script(tmp_path, ALIVE)
    assert run(PYTHON, file).stdout == run(PYTHON, file, "alone").stdout
