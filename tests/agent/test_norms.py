"""`agent.norms`: right in any sharding, harmless for any tree, cheap; and how its values reach findings."""

from __future__ import annotations

import json
import time

import pytest

from jaxtop.export.json import to_json
from jaxtop.model import reported_findings
from tests.support import PYTHON, Viewer, environment, processes, run, script, until_a_run_is_found, viewer

pytestmark = pytest.mark.jax

CHECKS = """
import math, sys
from functools import partial

from jaxtop import agent
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def numbers(norms):
    return {name: (float(a), float(b)) for name, a, b in zip(norms.names, norms.norm, norms.nonfinite)}

def near(found, expected):
    assert found.keys() == expected.keys(), (found, expected)
    for name in expected:
        assert np.allclose(found[name], expected[name], rtol=1e-5), (name, found[name], expected[name])

jitted = jax.jit(agent.norms)
r = np.random.default_rng(0)
embed, w = (r.normal(size=shape).astype("f") for shape in ((16, 8), (8, 8)))
tree = {"params": {"embed": embed, "out": {"w": w, "b": np.ones(8, "f")}}}
flat = {"embed": [tree["params"]["embed"]], "out": [tree["params"]["out"]["w"], tree["params"]["out"]["b"]]}
true = {name: (math.sqrt(sum((np.float64(a) ** 2).sum() for a in of)), 0) for name, of in flat.items()}
true[""] = (math.sqrt(sum(a * a for a, _ in true.values())), 0)

# The parts are those where the paths first differ, not the one key "params".
near(numbers(jitted(tree)), true)

# The same in any sharding, with and without an axis that is not used.
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
for spec in (P("data", "model"), P("model"), P(None, "data"), P(("data", "model")), P()):
    placed = jax.tree.map(
        lambda a: jax.device_put(a, NamedSharding(mesh, spec if a.ndim == 2 else P())), tree)
    near(numbers(jitted(placed)), true)
    assert jitted(placed).norm.sharding.is_fully_replicated

# Beside a shard_map, in the function that is jitted.
@jax.jit
def step(params):
    double = jax.shard_map(lambda b: b * 2, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    doubled = jax.tree.map(double, params)
    return doubled, agent.norms(doubled)
near(numbers(step(tree)[1]), {name: (2 * a, b) for name, (a, b) in true.items()})

# What is not finite is counted by part, and the norm is that of the rest.
bad = jax.tree.map(np.array, tree)
bad["params"]["embed"][3, :4] = [np.nan, np.inf, -np.inf, np.nan]
found = numbers(jitted(bad))
assert found["embed"][1] == found[""][1] == 4 and found["out"] == numbers(jitted(tree))["out"]
assert math.isfinite(found["embed"][0])

# Small dtypes do not overflow, and complex numbers, scalars, lists and tuples are read.
assert numbers(jitted({"a": jnp.full(1000, 3e4, jnp.float16), "b": jnp.ones(4, jnp.bfloat16)}))["a"][0] > 9e5
near(numbers(jitted([jnp.array([3 + 4j]), (jnp.float32(12.0),)])), {"": (13, 0), "0": (5, 0), "1": (12, 0)})

# Counters, keys, settings, strings and nothing are no parameters.
odd = {"count": jnp.int32(7), "key": jax.random.key(0), "none": None, "w": jnp.array([3.0, 4.0])}
near(numbers(jitted(odd)), {"": (5, 0)})
for nothing in ({}, None, {"a": jnp.arange(3)}, ()):
    assert numbers(jitted(nothing)).keys() == {""}
assert agent.norms(object()).names == ("",) and agent.norms({"a": "text"}).names == ("",)

class Raises:
    dtype = property(lambda self: 1 / 0)
assert agent.norms({"a": Raises()}).names == ()  # and no exception

# Many parts stay few.
names = agent.norms({f"layer_{i}": jnp.ones(2) for i in range(200)}).names
assert len(names) == 65 and names[-1] == "others"

# In a scan, under vmap, grad and remat.
_, of_scan = jax.jit(lambda p: jax.lax.scan(lambda c, _: (c, agent.norms(c)), p, None, length=3))(tree)
assert of_scan.norm.shape == (3, 3)
jax.vmap(agent.norms)(jax.tree.map(lambda a: np.stack([a, a]), tree))
jax.jit(jax.grad(jax.checkpoint(lambda p: agent.norms(p).norm[0])))(tree)
jax.eval_shape(agent.norms, tree)

# No callback, no transfer; results of a few bytes, one pass over the tree.
compiled = jax.jit(agent.norms).lower(tree).compile()
text = compiled.as_text()
assert "callback" not in text and "outfeed" not in text and "infeed" not in text
memory = compiled.memory_analysis()
assert memory.output_size_in_bytes < 100, memory

# Flax and Optax.
try:
    import flax.linen as nn, optax
    from flax.training.train_state import TrainState
    model = nn.Sequential([nn.Dense(4), nn.Dense(2)])
    params = model.init(jax.random.key(0), jnp.ones((1, 3)))
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3))
    assert set(jitted(state.params).names) == {"", "layers_0", "layers_1"}
    assert set(jax.jit(lambda s: agent.norms(s))(state).names) == {"", "params", "opt_state"}
    assert float(jitted(state.opt_state).norm[0]) == 0.0
    from flax import nnx
    linear = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    assert set(nnx.jit(lambda m: agent.norms(nnx.state(m)))(linear).names) == {"", "kernel", "bias"}
except ImportError:
    pass

# Tracers are not kept by the agent, nor values with another shape.
agent.start(name="norms")
held = []
@jax.jit
def inner(x):
    norms = agent.norms({"w": x})
    agent.step(1, w=norms)
    return norms
inner(jnp.ones(3))
agent.step(2, w=jax.vmap(agent.norms)({"w": jnp.ones((2, 3))}))
import jaxtop_agent
assert not jaxtop_agent._agent.progress._reports._calls or all(
    not call.values for call in jaxtop_agent._agent.progress._reports._calls)
print("all right")
"""


def test_norms_are_right_in_any_sharding_and_for_any_tree(tmp_path):
    done = run(PYTHON, script(tmp_path, CHECKS), env=environment(4))
    assert (done.returncode, done.stdout) == (0, "all right\n"), done.stderr


@pytest.mark.newest
def test_the_package_knows_norms_before_jax_is_imported(tmp_path):
    text = """
    import sys
    from jaxtop import agent
    assert "jax" not in sys.modules and "numpy" not in sys.modules
    agent.step(1, loss=1.0)
    import jax
    print(agent.norms([jax.numpy.array([3.0, 4.0])]).norm.tolist())
    """
    done = run(PYTHON, script(tmp_path, text), env=environment(1), imports_jax=True)
    assert (done.returncode, done.stdout) == (0, "[5.0]\n"), done.stderr


TRAINS = """
import time
from jaxtop import agent
agent.start(name="norms")
import jax, jax.numpy as jnp

def loss_of(params, x):
    found = jnp.tanh(x @ params["first"]) @ params["second"]
    return jnp.mean((found - 1) ** 2) + 0 * params["frozen"].sum()

@jax.jit
def step(params, x, poison):
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    grads["second"] = grads["second"] + poison
    params = jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)
    return params, loss, agent.norms(params), agent.norms(grads)

params = {"first": jnp.ones((4, 4)), "second": jnp.ones((4, 2)), "frozen": jnp.ones(3)}
# No parameters suit all of these, so those that are trained change for ever.
inputs = [jnp.full((8, 4), each) for each in (-0.3, 0.1, 0.5)]
for i in range(100_000):
    x = inputs[i % len(inputs)]
    params, loss, of_params, of_grads = step(params, x, float("nan") if i == POISONED else 0.0)
    agent.step(i, loss=loss, params=of_params, grads=of_grads)
    time.sleep(0.005)
"""


@pytest.mark.newest
def test_the_part_that_was_not_finite_first_is_named_and_with_its_step(tmp_path):
    """The gradients of one part are NaN at step 60: the loss follows one step later."""
    with processes([PYTHON, script(tmp_path, f"POISONED = 60\n{TRAINS}")], env=environment(1)):
        until_a_run_is_found()
        time.sleep(3)  # nobody watches meanwhile
        with viewer("norms") as attached:
            attached.until(
                lambda: any("step 61" in each.text for each in reported_findings(attached.cluster))
            )
            found = {each.rule: each for each in reported_findings(attached.cluster)}
            shown = json.loads(to_json(attached.cluster, time.time()))["hosts"][0]
    text = found["bad_loss"].text
    assert text.startswith("loss is NaN since step 61; it was ") and " at step 60" in text
    assert text.endswith("; grads/second since step 60")
    scalars = {each["name"]: each for each in shown["scalars"]}
    assert scalars["grads/second"]["bad_step"] == 60 and scalars["grads/second"]["value"] is None
    assert scalars["params/frozen"]["nonfinite"] == 0 and scalars["params/first"]["bad_step"] == 61
    assert shown["step"]["metrics"]["params"] is None


@pytest.mark.newest
def test_a_part_of_the_parameters_that_does_not_change_is_found(tmp_path):
    with processes([PYTHON, script(tmp_path, f"POISONED = -1\n{TRAINS}")], env=environment(1)):
        until_a_run_is_found()
        with viewer("norms") as attached:
            attached.until(lambda: any("params" in each for each in said_unchanged(attached)))
            said = said_unchanged(attached)
    assert any(each.startswith("the norm of params/frozen has been exactly 1.73205 for ") for each in said)
    assert not any("first" in each or "second" in each or "more" in each for each in said)


def said_unchanged(attached: Viewer) -> list[str]:
    """Return the findings about parameters, and about gradients, that do not change."""
    return [each.text for each in reported_findings(attached.cluster) if each.rule == "unchanged"]
