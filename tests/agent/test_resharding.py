"""The line of each collective, and why the partitioner added it: programs with planted sharding mistakes."""

from __future__ import annotations

import json

import pytest

from jaxtop_agent.programs import hlo, resharding
from jaxtop_agent.programs.lines import Instruction
from tests.made.hlo_texts import only, text
from tests.support import PYTHON, run, script

# Each function has one mistake, on the line that ends with "# here".
PROGRAMS = """
    import json, os
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from jaxtop import wire
    from jaxtop_agent import jaxprivate
    from jaxtop_agent.core.board import SamplerPrograms
    from jaxtop_agent.programs.inventories import Inventories

    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    constrain = jax.lax.with_sharding_constraint

    def on(*spec): return NamedSharding(mesh, P(*spec))
    def put(shape, *spec, dtype=jnp.float32): return jax.device_put(jnp.zeros(shape, dtype), on(*spec))

    def contracted(x, w):  # the weight is cut along the dimension that is contracted
        y = jnp.tanh(x)
        return jnp.tanh(y @ w)  # here

    def gathered(params, x):  # the state is whole, though its consumer is cut
        scale = params["scale"] * 2
        return x + scale  # here

    def transposed(x):  # cut along rows, wanted along columns
        y = jnp.sin(x)
        return constrain(jnp.exp(y), on(None, "x")) + y  # here

    def reshaped(x):  # a reshape that mixes a cut dimension with another one
        y = jnp.sin(x)
        y = y.reshape(-1)  # here
        return constrain(y, on("x")) + 1

    def rolled(x):
        y = x * 2
        return jnp.roll(y, 1, axis=0)  # here

    def table(rows, ids):  # the table of an embedding is cut along its rows
        ids = ids + 1
        return rows[ids] * 2  # here

    def sorted_rows(x):
        y = x + 1
        return jnp.sort(y, axis=0)  # here

    def normed(x):  # a mean over a cut dimension
        y = x * 3
        return y - y.mean(axis=1, keepdims=True)  # here

    def moments(w, mu, g):  # the optimizer's state is not cut like its parameter
        mu = 0.9 * mu + 0.1 * g
        return w - mu, mu  # here

    def layers(stacked, x):  # the stacked weights of a scan are cut along the contracted dimension
        def layer(x, w):
            return jnp.tanh(x @ w), None  # here
        return jax.lax.scan(layer, x, stacked)[0]

    def running(x):  # each device gathers the whole for its part
        return constrain(jnp.cumsum(x, axis=0), on("x")) * 2  # here

    def explicit(x):
        def body(x):
            return jax.lax.psum(x, "x")  # here
        return jax.shard_map(body, mesh=mesh, in_specs=P("x", None), out_specs=P())(x)

    rows, columns, both = on("x", None), on(None, "x"), on("x", "y")
    square = (64, 64)
    cases = [
        (contracted, (put(square, "x", None), put(square, "x", None)), dict(out_shardings=rows)),
        (gathered, ({"scale": put(square, "x", None)}, put(square)), dict(out_shardings=on())),
        (transposed, (put(square, "x", None),), {}),
        (reshaped, (put(square, None, "x"),), {}),
        (rolled, (put(square, "x", None),), dict(out_shardings=rows)),
        (table, (put(square, "x", None), put((16,), "y", dtype=jnp.int32)),
         dict(out_shardings=on("y", None))),
        (sorted_rows, (put(square, "x", None),), {}),
        (normed, (put(square, None, "y"),), {}),
        (moments, (put(square, None, "x"), put(square, "x", None), put(square, "x", None)),
         dict(out_shardings=(columns, rows))),
        (layers, (put((3, 64, 64), None, "x", None), put(square, "x", None)), dict(out_shardings=rows)),
        (running, (put(square, "x"),), {}),
        (explicit, (put(square, "x", None),), {}),
    ]

    class Board:
        def __init__(self): self.sent, self.programs = [], SamplerPrograms()
        def send(self, message): self.sent.append(message)

    found = {}
    for function, arguments, options in cases:
        board = Board()
        executable = jax.jit(function, **options).lower(*arguments).compile().runtime_executable()
        program = wire.Program(function.__name__, "f", 8, 8)
        for _ in Inventories().read(board, (1, 1), executable, program, alone=True):
            pass
        (inventory,) = board.sent
        assert not inventory.unread and not inventory.why_not, inventory
        found[function.__name__] = [
            (c.kind, c.line, c.name_stack, c.added, c.operand, c.has, c.wants) for c in inventory.collectives
        ]
    print(json.dumps(found))
"""
RESHARDING, REDUCTION, REMATERIALIZATION = "resharding", "reduction", "rematerialization"
# The kind of one of its collectives, why it was added, the operand (None: any), how that is cut. Versions
# of the compiler reshape in different ways.
EXPECTED = {
    "contracted": ("all-gather", RESHARDING, "w", "cut along dimension 0 in 4"),
    "gathered": ("all-gather", RESHARDING, None, None),
    "transposed": (None, RESHARDING, None, None),
    "reshaped": (None, (RESHARDING, REMATERIALIZATION), None, None),
    "rolled": ("collective-permute", RESHARDING, None, None),
    "table": ("all-reduce", REDUCTION, None, None),
    "sorted_rows": ("all-to-all", RESHARDING, None, None),
    "normed": ("all-reduce", REDUCTION, None, None),
    "moments": ("all-to-all", RESHARDING, None, None),
    "layers": ("all-gather", RESHARDING, "stacked", "cut along dimension 1 in 4"),
    "running": ("all-gather", REMATERIALIZATION, "x", "cut along dimension 0 in 4"),
    "explicit": ("all-reduce", "", "", ""),
}


def test_the_instructions_of_all_computations_have_one_bound(monkeypatch):
    monkeypatch.setattr(resharding, "MOST_INSIDE", 16)
    partitioner = resharding.Partitioner()
    for number in range(8):
        listed = [Instruction(f"g{i}.{number}", "all-gather", "f32[8]", "", "") for i in range(6)]
        partitioner.add(f"c{number}", listed)
    stored = [len(each) for each in partitioner._inside.values()]
    assert sum(stored) == 16 and stored[:2] == [6, 6]
    assert partitioner._cut == {f"c{number}" for number in range(2, 8)}


@pytest.mark.parametrize("version", ["0.10.2", "0.12.0.1"])
def test_a_gather_of_weights_bears_the_name_of_the_operation_that_uses_them(version):
    """Of an argument, and of the stacked layers of a scan; JAX 0.12 names both after what is gathered."""
    cuts = ((4, 1, 2), (1, 4, 1, 2), (4, 1, 2))
    found = hlo.read(text("moved", version), cuts=cuts).collectives
    assert {(each.source, each.line, each.operand, each.has, each.wants) for each in found} == {
        ("dot_general", "capture.py:59", "weights", "cut along dimension 0 in 4", "whole along dimension 0"),
        ("dot_general", "capture.py:57", "layers", "cut along dimension 1 in 4", "whole along dimension 0"),
    }


def test_a_marked_collective_that_has_the_name_of_its_use_keeps_it():
    """JAX 0.11.0 names the all-to-all of a reshape so; most marked ones have the name of their operand."""
    (found,) = hlo.read(text("reshaped", "0.11.0")).collectives
    assert (found.kind, found.source, found.line) == ("all-to-all", "reshape", "capture.py:90")
    assert (found.added, found.operand) == (RESHARDING, "the result of sin (capture.py:90)")


@pytest.mark.parametrize(
    ("path", "source", "added"),
    [
        ("jit(f)/shard_map/(a/psum:b/psum:psum)", "psum", ""),
        (
            "jit(f)/transpose(jvp())/(dot_general:reduce_sum:dot_general)",
            "dot_general, reduce_sum",
            REDUCTION,
        ),
        ("(jit(f)/psum:jit(f)/f(a:b)/psum)", "psum", ""),
        ("(psum:dot_general)", "psum, dot_general", REDUCTION),
        ("jit(f)/transpose(jvp(f/while/psum))", "psum", ""),
        ("jit(f)/transpose(a:b)", "transpose(a:b)", REDUCTION),
        (":)", ":", REDUCTION),
    ],
)
def test_a_collective_that_the_compiler_combined_has_the_names_of_its_parts(path, source, added):
    metadata = f'metadata={{op_name="{path}"}}'
    line = "%a = (f32[8]{0}, f32[8]{0}) all-reduce(%p, %q), replica_groups={{0,1}}, to_apply=%add"
    collective, _ = only(f"{line}, {metadata}", devices="num_partitions=2")
    assert (collective.source, collective.added) == (source, added)


@pytest.mark.jax
def test_the_line_of_each_planted_mistake_is_named(tmp_path):
    file = script(tmp_path, PROGRAMS, "planted.py")
    done = run(PYTHON, file)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    lines = file.read_text().split("\n")
    for name, (kind, added, operand, has) in EXPECTED.items():
        start = next(i for i, line in enumerate(lines) if line.startswith(f"def {name}("))
        here = 1 + next(i for i in range(start, len(lines)) if lines[i].endswith("# here"))
        at_line = [each for each in found[name] if each[1] == f"planted.py:{here}"]
        assert at_line, (name, here, found[name])
        ways = (added,) if isinstance(added, str) else added
        matching = [each for each in at_line if each[3] in ways and (kind is None or each[0] == kind)]
        assert matching, (name, at_line)
        assert not matching[0][2] or name in matching[0][2], matching
        assert operand is None or any(each[4] == operand for each in matching), (name, matching)
        assert has is None or any(each[5] == has for each in matching), (name, matching)
        assert bool(added) == bool(matching[0][6])
