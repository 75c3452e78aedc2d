"""The operations of real programs: loops count their rounds, and what is not known in full is a bound."""

from __future__ import annotations

import pytest

from jaxtop.features.operations.model import DeviceRates, program_time
from jaxtop.model import program_views, step_of
from jaxtop.store import runfiles
from tests.support import PYTHON, ROOT, environment, eventually, processes, viewer

pytestmark = pytest.mark.jax

SCRIPT = ROOT / "tests" / "programs" / "operations.py"
ONE = 2 * 32 * 64 * 64  # a product
# Where what is done beside the products is more than 2 % of them.
BESIDE = {"large_216": 0.08, "cholesky_1": 0.35, "while_1": 0.02, "callback_1": 0.02}
BOUNDS = {"cond_1", "while_1", "cholesky_1"}
UNROLLED = {"scan_12": "unrolled_12", "fori_12": "unrolled_fori_12", "grad_36": "unrolled_grad_36"}


LINE = next(i for i, line in enumerate(SCRIPT.read_text().splitlines(), 1) if "return x @ x" in line)


def time_of(attached, function):
    """Where the time of this program goes; None before a window has shown it."""
    view = next(each for each in program_views(attached.cluster, 0) if each.function == function)
    return program_time(attached.cluster, view, lambda _: DeviceRates())


def numbered(attached):
    """The programs whose names end in how many products they do."""
    loaded = {each.function: each.program for each in program_views(attached.cluster, 0)}
    return {name: each for name, each in loaded.items() if name[-1].isdigit()}


def test_operations_are_those_counted_by_hand_and_those_of_the_same_program_unrolled(home):
    with processes([PYTHON, SCRIPT], env=environment(4, STEER=str(home))) as (running,):
        eventually(runfiles.find)
        with viewer() as attached:
            attached.until(
                lambda: (
                    len(found := numbered(attached)) == 15
                    and all(program.flops is not None for program in found.values())
                    and (step := step_of(attached.host(0)))
                    and step.flops
                )
            )
            found, step = numbered(attached), step_of(attached.host(0))
            # A window may have come before the programs were read.
            attached.until(
                lambda: (
                    (seen := time_of(attached, "on_one")) is not None and seen.operations[0].kind != "unknown"
                )
            )
            in_step = time_of(attached, "on_one")
        (home / "stop").touch()
        assert running.wait() == 0
    for name, program in found.items():
        products = int(name.rpartition("_")[2])
        assert program.flops == pytest.approx(products * ONE, rel=BESIDE.get(name, 0.02)), name
        assert program.flops_at_least == (name in BOUNDS), name
        assert program.accessed_bytes > products * 64 * 64 * 4, name
    for looped, unrolled in UNROLLED.items():
        assert found[looped].flops == pytest.approx(found[unrolled].flops, rel=0.02)
    shares = [each.time_share for each in in_step.operations]
    assert sum(shares) == pytest.approx(1) and len(in_step.agents) == 1
    product = in_step.operations[0]
    assert (product.kind, product.source, product.runs) == ("matmul", f"operations.py:{LINE}", 1)
    assert product.flops == 2 * 256**3
    assert product.bytes in {2 * 256**2 * 4, 3 * 256**2 * 4}  # a fusion reads its operand once
    # On one of four devices; the step's are those of all devices together.
    assert step.functions == ("on_one",)
    assert (step.flops, step.flops_at_least) == (2 * 256**3, False)
