"""Small training scripts of each framework, unmodified: the arrays have the names that a person gives."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

from jaxtop.model import array_views, step_of
from jaxtop.model.arrays.growth import growers
from jaxtop.store import runfiles
from tests.cases import thorough
from tests.support import JAXTOP, PYTHON, ROOT, SOAK, eventually, processes, viewer

pytestmark = pytest.mark.jax

TRAINING = ROOT / "tests" / "programs" / "training"
MLP = {"0": (64, 256), "1": (256, 256), "2": (256, 8)}
Expected = dict[str, tuple[tuple[int, ...], str | None]]


def layers(prefix: str, role: str, weight: str, bias: str, *, turned: bool = False) -> Expected:
    """The weights and biases of the three layers that all scripts have."""
    found: Expected = {}
    for number, shape in MLP.items():
        found[prefix + weight.format(number)] = (shape[::-1] if turned else shape, role)
        found[prefix + bias.format(number)] = (shape[1:], role)
    return found


def batch(image: str, label: str, role: str | None = None) -> Expected:
    return {image: ((32, 64), role), label: ((32, 8), role)}


PLAIN = "['layers'][{}]['w']", "['layers'][{}]['b']"
LINEN = "['Dense_{}']['kernel']", "['Dense_{}']['bias']"
HAIKU = "['mlp/~/linear_{}']['w']", "['mlp/~/linear_{}']['b']"
EQUINOX = "layers[{}].weight", "layers[{}].bias"
ADAM = ("mu", "nu")
LOOKS = 4 if SOAK else 2


@contextmanager
def running(command: list[object]):
    """A viewer of this script, once it has counted arrays and is in its loop."""
    with processes(command):
        eventually(runfiles.find)
        with viewer() as attached:
            host = attached.host
            attached.until(lambda: sum(host(0).launches.values()) > 50)
            # What was counted during a first step knows two states that were made by different lines.
            trains = host(0).pulse.at_ms
            attached.until(lambda: (host(0).pulse.counted_ms or 0) > trains)
            yield attached


def nnx() -> Expected:
    shapes = {"first": (64, 256), "second": (256, 256), "last": (256, 8)}
    found: Expected = {f"model.norm.{name}": ((256,), "other") for name in ("mean", "var")}
    for prefix, step, role in (
        ("model", ".{}", "parameters"),
        *((f"optimizer.opt_state[0].{moment}", "['{}']", "optimizer") for moment in ADAM),
    ):
        for name, shape in shapes.items():
            found[prefix + step.format(name) + step.format("kernel")] = (shape, role)
            found[prefix + step.format(name) + step.format("bias")] = (shape[1:], role)
        for name in ("scale", "bias"):
            found[prefix + step.format("norm") + step.format(name)] = ((256,), role)
    return found


SCRIPTS: dict[str, tuple[str, Expected]] = {
    "plain": (
        "train",
        {
            **layers("params", "parameters", *PLAIN),
            **layers("momentum", "optimizer", *PLAIN),
            **batch("x", "y"),
        },
    ),
    "linen": (
        "main",
        {
            **layers("state.params", "parameters", *LINEN),
            **layers("state.opt_state[0].mu", "optimizer", *LINEN),
            **layers("state.opt_state[0].nu", "optimizer", *LINEN),
            **batch("batch['image']", "batch['label']", "batch"),
        },
    ),
    "nnx": ("main", {**nnx(), **batch("x", "y")}),
    "equinox": (
        "Trainer.fit",
        {
            **layers("self.model.", "parameters", *EQUINOX, turned=True),
            **layers("self.opt_state[0].trace.", "optimizer", *EQUINOX, turned=True),
            **batch("x", "y"),
        },
    ),
    "haiku": (
        "<module>",
        {
            **layers("params", "parameters", *HAIKU),
            **layers("opt_state[0].mu", "optimizer", *HAIKU),
            **layers("opt_state[0].nu", "optimizer", *HAIKU),
            **batch("batch[0]", "batch[1]", "batch"),
        },
    ),
}


# The function that makes a step.
FUNCTIONS = {
    "plain": "step",
    "linen": "train_step",
    "nnx": "train_step",
    "equinox": "make_step",
    "haiku": "update",
}
# How a framework holds its state does not depend on the version of JAX.
MARKS = {"plain": [], "nnx": [pytest.mark.newest]}
OTHERS = [pytest.mark.newest, pytest.mark.thorough]


@pytest.mark.parametrize(
    "framework",
    [pytest.param(name, marks=MARKS.get(name, OTHERS)) for name in SCRIPTS],
)
def test_the_bytes_carry_the_names_that_the_script_gives_them(framework):
    """At least 95 % at each look, while the state is rebuilt or donated at each step."""
    function, expected = SCRIPTS[framework]
    state = {name for name, (_, role) in expected.items() if role in ("parameters", "optimizer")}
    path = TRAINING / f"train_{framework}.py"
    with running([*JAXTOP, "run", path]) as attached:
        attached.until(lambda: step_of(attached.host(0)))
        step = step_of(attached.host(0))
        assert FUNCTIONS[framework] in step.functions and not step.is_reported_by_script
        # Until it trains, the state is being made, and belongs to whoever makes it.
        attached.until(lambda: {view.name for view in array_views(attached.cluster)} >= state)
        for _ in range(LOOKS):
            attached.look(1.3)
            seen = []
            for view in array_views(attached.cluster):
                right = expected.get(view.name or "")
                is_right = right == (view.shape, view.role) and view.function == function
                seen.append((is_right, view.bytes_per_device * len(view.device_ids), view))
            total = sum(size for _, size, _ in seen)
            named = sum(size for is_right, size, _ in seen if is_right)
            assert named >= 0.95 * total, [
                (view.name, view.function, view.role, view.shape)
                for is_right, _, view in seen
                if not is_right
            ]
            # The whole state, at each look: a name that comes and goes would be a flicker.
            assert {view.name for _, _, view in seen} >= state
        assert attached.state(0) == "live"


HELD: dict[str, tuple[tuple[int, ...], str | None, str]] = {
    "weights": ((10, 64), "parameters", "holds_refs"),
    "state['m']": ((11, 64), None, "holds_refs"),
    "Counters.steps": ((16, 64), None, "<module>"),
    "matrix.data": ((12,), None, "holds_sparse"),
    "matrix.indices": ((12, 2), None, "holds_sparse"),
    "step.args[0]": ((13, 64), None, "holds_partial"),
    "step.keywords['other']": ((14, 64), None, "holds_partial"),
    "tree.args[0]": ((15, 64), None, "holds_partial"),
    "optimizer.model.w1": ((20, 64), "parameters", "shares_a_model"),
    "optimizer.momentum['w1']": ((21, 64), "optimizer", "shares_a_model"),
    "model.w1": ((22, 64), "parameters", "evaluates"),
    "parameters": ((23, 64), "parameters", "evaluates_itself"),
    "batches.images": ((30, 64), "batch", "loads"),
    "batches.(inner).labels": ((31, 64), "batch", "loads"),
    "again[0]": ((32, 64), None, "loads"),
    "listed[0]": ((33, 64), None, "loads"),
    "pool": ((35, 64), None, "reads"),
    "replicated_params": ((40, 64), "parameters", "has_roles"),
    "initial_params['w']": ((41, 64), "parameters", "has_roles"),
    "init_params": ((42, 64), "parameters", "has_roles"),
}


def test_arrays_have_names_wherever_scripts_hold_them():
    """In mutable references, sparse matrices, loaders, partial functions, and beside a call of `eval`."""
    with processes([*JAXTOP, "run", ROOT / "tests" / "programs" / "holding.py"]):
        eventually(runfiles.find)
        with viewer() as attached:

            def shown():
                return {
                    view.name: (view.shape, view.role, view.function)
                    for view in array_views(attached.cluster)
                }

            attached.until(lambda: len(shown()) >= len(HELD))
            attached.until(lambda: None not in shown() and len(shown()) >= len(HELD))
            assert shown() == HELD
            for _ in range(LOOKS):
                attached.look(1.3)
                assert shown() == HELD


@pytest.mark.newest
def test_in_a_notebook_arrays_have_the_names_of_the_cells_also_between_cells():
    """Not the ways by which the kernel reaches them."""
    with processes([PYTHON, ROOT / "tests" / "programs" / "notebook.py"]):
        eventually(runfiles.find)
        with viewer() as attached:

            def shown():
                return {(view.name, view.function, view.shape) for view in array_views(attached.cluster)}

            # A scalar that a cell needs for a moment has no name.
            attached.until(lambda: len(shown()) == 3 and all(name for name, _, _ in shown()))
            assert shown() == {
                ("x", "<module>", (10, 64)),
                ("params['w']", "<module>", (11, 64)),
                ("Out[4]", "<module>", (12, 64)),
            }


@pytest.mark.newest
def test_a_leak_is_the_top_grower_within_half_a_minute():
    """By its name, with the line that makes it, while params and batch stay what they are."""
    started = time.monotonic()
    with running([*JAXTOP, "run", TRAINING / "train_leaking.py"]) as attached:
        attached.until(lambda: growers(attached.cluster), within=60)
        print("seen after", time.monotonic() - started)
        top, *others = growers(attached.cluster)
        assert top.created.endswith(" train")
        assert (top.name, others) == ("history[*]", [])
        leaked = next(view for view in array_views(attached.cluster) if view.name == "history[*]")
        assert leaked.created.startswith("train_leaking.py:") and leaked.created.endswith(" train")
        assert leaked.count * 64 * 128 * 4 == leaked.bytes_per_device
        # Twenty a second, at most: what the loop takes besides, it does not make.
        assert 0 < top.bytes_per_minute <= 1.1 * 60 * 20 * 64 * 128 * 4


@pytest.mark.newest
@pytest.mark.parametrize("how", [thorough("callable"), "tree"])
def test_a_state_that_no_variable_leads_to_has_the_name_it_was_given(how):
    """And keeps it while its arrays are replaced; none of them is kept alive for that."""
    with running([PYTHON, TRAINING / "train_hidden.py", how]) as attached:
        given = {"weights['w']": (96, 64), "weights['b']": (64,), "again['c']": (32, 8)}

        def shown():
            return {view.name: view.shape for view in array_views(attached.cluster)}

        attached.until(lambda: shown() == given)
        for _ in range(LOOKS):
            attached.look(1.3)
            assert shown() == given
            assert all(
                view.count <= 2 for view in array_views(attached.cluster)
            )  # before a step, and after it
