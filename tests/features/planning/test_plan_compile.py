"""`jaxtop plan --compile`: lowered programs on other meshes, and the process that compiles them."""

from __future__ import annotations

import json
import os
import re
from math import prod

import psutil
import pytest

from jaxtop import wire
from jaxtop.cli.errors import UserError
from jaxtop.features.planning import compile as plan_compile
from jaxtop.features.planning import compiler as plan_compiler
from jaxtop.features.planning.messages import CompilationEnded, CompileRequest, NamedArray, WantedCandidate
from jaxtop.features.planning.model import compilations
from jaxtop.features.planning.model.plan import Candidate, Exchange, PlacedArray, Tensor, Today
from jaxtop_agent.planning.matching import Side, match
from tests.support import PYTHON, environment, jaxtop_here, run

MESH = (("data", 4), ("model", 2))


@pytest.mark.jax
def test_a_rewritten_text_gives_what_jax_gives_on_that_mesh(tmp_path):
    """Bytes and collectives are equal to those of the same script on the other mesh."""
    folder = tmp_path / "programs"
    done = run(PYTHON, "-m", "tests.programs.meshes", folder, env=environment(8))
    assert done.returncode == 0, done.stderr
    said = {}
    for line in done.stdout.splitlines():
        name, mesh, truth, made, said[name] = json.loads(line)
        if truth is not None:
            assert made == truth, (name, mesh)
            assert prod(mesh.values()) == 8
            assert truth[0][2], name
            assert not said[name]
    assert set(said) >= {"layers", "flax", "moments", "dumped", "exported", "narrow"}
    assert said["lost"] == ["model"]
    assert said["uneven"] == ["batch['x'] cannot be divided evenly: replicated over that dimension"]
    assert said["manual"][0].startswith("it uses shard_map, whose local shapes belong to one mesh")
    assert said["another mesh"] == ["the program's mesh is data=4,model=2, the run's is x=8"]
    assert "cannot read it as a lowered program" in said["no text"][0]


# Which argument is which array

DATA, FSDP = (("data",),), (("fsdp",),)


def array(name, then, today=DATA):
    return NamedArray(name, (8, 8), "f32", today, then)


@pytest.mark.parametrize(
    ("side", "arrays", "expected"),
    [
        ("state.w", [array("params['w']", FSDP)], (FSDP, ())),  # there is nothing else that it can be
        ("", [array("params['w']", FSDP), array("other", FSDP)], (FSDP, ())),
        ("state.params['w']", [array("a.params['w']", DATA), array("a.mu['w']", FSDP)], (DATA, ())),
        ("state.mu['w'].value", [array("a.params['w']", DATA), array("a.mu['w']", FSDP)], (FSDP, ())),
        ("s[7].w", [array("layers[*].w", FSDP), array("layers[*].v", DATA)], (FSDP, ())),
        ("x", [array("params['w']", DATA), array("mu['w']", FSDP)], (None, ("x",))),
        ("state.w", [array("w", FSDP, today=FSDP)], (None, ())),  # sharded otherwise today
    ],
)
def test_an_argument_is_an_array_of_its_shape_and_sharding_and_then_of_its_name(side, arrays, expected):
    found = match([Side(side, (8, 8), "f32", (("data",), ()))], arrays)
    assert (found.parts[0], found.doubtful) == expected


def test_axes_of_size_1_do_not_keep_an_argument_from_its_array():
    """The run has lost them since its first step, and the text of that step has them."""
    (then,) = match(
        [Side("w", (8, 8), "f32", (("data",), ("model",)))], [array("w", FSDP)], unused={"model"}
    ).parts
    assert then == FSDP
    (then,) = match(
        [Side("w", (8, 8), "f32", DATA)], [array("w", FSDP, today=(("data",), ("model",)))], unused={"model"}
    ).parts
    assert then == FSDP


def test_a_result_is_an_array_only_by_its_name():
    results = [Side("result[0].params['w']", (8, 8), "f32", DATA), Side("result[1]", (8, 8), "f32", DATA)]
    assert match(results, [array("state.params['w']", FSDP)], least_common=1).parts == (FSDP, None)


# What is asked of a compilation, and what its answer means


def placed(name, parts, then, shape=(8, 8)):
    return PlacedArray(Tensor(name, None, shape, "float32", parts, 256, 64), then, 64)


def candidate(*listed, axes=MESH):
    return Candidate(axes, False, None, 0, None, None, {}, (), (), placed=listed)


def test_only_arrays_that_change_are_sent_and_those_that_look_like_them():
    listed = (
        placed("params", (("data",), ()), (("data",),)),
        placed("moments", (("data",),), (("data",), ("model",))),
        placed("batch", (("data",),), (("data",),), shape=(32, 8)),
        placed("host", None, None),
    )
    assert compilations.wanted(candidate(*listed)) == WantedCandidate(
        MESH,
        (
            NamedArray("params", (8, 8), "float32", DATA, DATA),
            NamedArray("moments", (8, 8), "float32", DATA, (("data",), ("model",))),
        ),
    )


def test_the_groups_of_compiled_collectives_become_axes_of_the_candidates_mesh():
    groups = (
        wire.ReplicaGroups((2,), wire.pack_runs(tuple(range(8)))),
        wire.ReplicaGroups((8,), wire.pack_runs(tuple(range(8)))),
    )
    inventory = wire.Inventory(
        0,
        "jit_step",
        None,
        devices=8,
        groups=groups,
        collectives=(
            wire.Collective("all-gather.1", "all-gather", "f32[8]", 32, 0, 4, line="train.py:3"),
            wire.Collective("all-reduce.2", "all-reduce", "f32[]", 4, 1),
            wire.Collective("all-reduce.3", "all-reduce", "?", None, None),
        ),
        rest=2,
    )
    made = compilations.compiled(CompilationEnded(0, 1, 2, 3, 4, 5, inventory, ("so",)), MESH, "doubtful")
    assert made.exchanges == (
        Exchange("all-gather.1", "all-gather", "f32[8]", 32, ("model",), 4, "train.py:3"),
        Exchange("all-reduce.2", "all-reduce", "f32[]", 4, ("data", "model"), 1),
    )
    assert (made.argument_bytes, made.output_bytes, made.temp_bytes, made.alias_bytes, made.flops) == (
        *range(1, 6),
    )
    assert made.note == "doubtful; so; 3 collectives could not be read"


# The command

TEXT = """
module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @main(%arg0: tensor<SIZEx8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
      loc("x")) -> (tensor<f32> {jax.result_info = "result"}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%arg0 init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<SIZEx8xf32>, tensor<f32>) -> tensor<f32>
    return %sum : tensor<f32>
  }
}
"""


def today(name="jit_step", argument_bytes=None):
    program = name and wire.Program(name, "f", 8, 8, argument_bytes=argument_bytes)
    return Today("run", MESH, tuple(range(8)), 8, "cpu", "cpu", (), program)


def dump(folder, name, number=0, size=16, at=1000):
    folder.mkdir(exist_ok=True)
    file = folder / f"jax_ir{number:04}_{name}_compile.mlir"
    file.write_text(TEXT.replace("SIZE", str(size)))
    os.utime(file, (at, at))
    return file


def fails(given, folder):
    with pytest.raises(UserError) as raised:
        plan_compile.compile_all(given, [candidate()], folder, 60)
    return str(raised.value)


def test_what_is_no_program_of_the_run_is_one_line(tmp_path):
    dump(tmp_path, "jit_init")
    assert f"no program jit_step in {tmp_path}, it has jit_init;" in fails(today(), tmp_path)
    assert "name its file, not the folder" in fails(today(name=None), tmp_path)


def test_what_cannot_be_compiled_at_all_is_said_before_a_run_is_looked_for(monkeypatch, tmp_path):
    (tmp_path / "empty").touch()
    for path, why in (
        (tmp_path / "a", f"no file or folder {tmp_path}/a"),
        (tmp_path / "empty", f"{tmp_path}/empty is empty"),
        (tmp_path, f"no program in {tmp_path}"),
        ("/dev/null", "/dev/null is neither a file nor a folder"),
    ):
        done = jaxtop_here("plan", "--compile", path)
        assert (done.returncode, done.stdout) == (2, "")
        hint = "start the run with JAX_DUMP_IR_TO=FOLDER, and name that folder"
        assert done.stderr == f"jaxtop: --compile: {why}; {hint}\n"
    monkeypatch.setattr(plan_compile, "find_spec", lambda _: None)
    done = jaxtop_here("plan", "--compile", tmp_path)
    assert done.stderr == "jaxtop: --compile needs JAX: pip install 'jaxtop[jax]'\n"


@pytest.mark.jax
@pytest.mark.newest
@pytest.mark.timeout(1000)
def test_of_several_texts_the_one_of_the_running_program_is_compiled(tmp_path, capfd):
    """The newest has arguments of another size. A candidate that cannot be compiled has the reason."""
    dump(tmp_path, "jit_step", 7, size=64, at=3000)
    file = dump(tmp_path, "jit_step", 9, at=2000)
    dump(tmp_path, "jit_step", 8, size=32, at=2000)
    candidates = [candidate(axes=axes) for axes in (MESH, (("data", 2), ("model", 1)), (("data", 4096),))]
    found = plan_compile.compile_all(today(argument_bytes=4 * 8 * 4), candidates, tmp_path, 900)
    first, second, third = (found[each.axes, each.rules] for each in candidates)
    assert [each.why_not for each in (first, second, third)] == ["", "", "it has more than 2048 devices"]
    assert (first.argument_bytes, second.argument_bytes) == (4 * 8 * 4, 8 * 8 * 4)
    assert [(each.kind, each.axes, each.bytes) for each in first.exchanges] == [("all-reduce", ("data",), 4)]
    assert not first.note
    assert capfd.readouterr().err == f"jaxtop: compiling {file}\n"


# Stands in for the process: says what it is told to, and then does not end.
CHILD = """
import json, os, signal, sys, time
count = len(json.load(sys.stdin)["wanted"])
pipe = os.fdopen(int(sys.argv[-1]), "w", buffering=1)
for line in {lines}:
    print(json.dumps(line), file=pipe)
{end}
"""
BEGAN = {"type": "began", "number": 0}
ENDED = {"type": "ended", "number": 0, "argument_bytes": 3}


@pytest.fixture
def compile_with(monkeypatch, tmp_path):
    """Compile a few candidates by a process that says these lines."""

    def compile_all(*lines, end="time.sleep(60)", count=3, limit_s=0.3):
        file = tmp_path / "child.py"
        file.write_text(CHILD.format(lines=lines, end=end))
        monkeypatch.setattr(plan_compiler, "PROCESS", (str(file),))
        wanted = tuple(WantedCandidate((("data", number + 1),)) for number in range(count))
        return plan_compiler.Compiler(CompileRequest(("f",), MESH, None, wanted), limit_s).compile_all()

    return compile_all


def test_a_compilation_that_takes_too_long_is_ended_and_the_rest_goes_on(compile_with):
    found = compile_with(BEGAN, ENDED, {**BEGAN, "number": 1}, count=4)
    late = "it took longer than 0.3 s; raise --compile-limit"
    assert [each.argument_bytes for each in found] == [3, 0, 3, 0]
    assert [each.why_not for each in found] == ["", late, "", late]
    rest = "not tried: candidates before it ended the compiler"
    assert [each.why_not for each in compile_with(BEGAN)] == [late, late, rest]


def test_a_text_of_before_the_first_step_still_names_axes_of_size_1(tmp_path):
    """The text of the second compilation has the same bytes, is newer, and has lost them."""
    pytest.importorskip("jax")
    from jaxtop_agent.planning.__main__ import take

    first, second = dump(tmp_path, "jit_step", 3, at=1000), dump(tmp_path, "jit_step", 4, at=2000)
    for file, sharding in ((first, '{"data"}, {"model"}'), (second, '{"data"}, {}')):
        text = file.read_text().replace('"model"=2', '"model"=1').replace('{"data"}, {}', sharding)
        file.write_text(text)
    _, taken = take(CompileRequest((str(second), str(first)), MESH, 4 * 8 * 4, ()))
    assert (taken.file, taken.note) == (str(first), "")


def test_a_start_that_takes_too_long_leaves_every_candidate_as_it_was(compile_with, monkeypatch):
    monkeypatch.setattr(plan_compiler, "STARTING", 0.2)
    why = "starting JAX took longer than 0.3 s; raise --compile-limit"
    assert [each.why_not for each in compile_with(count=2)] == [why, why]


def test_a_compiler_that_crashes_or_needs_too_much_memory_says_so(compile_with, monkeypatch):
    (found,) = compile_with(BEGAN, end="os.kill(os.getpid(), signal.SIGSEGV)", count=1, limit_s=60)
    assert found.why_not == "the compiler was killed by SIGSEGV"
    with pytest.raises(UserError, match="--compile: no text"):
        compile_with(end="print('no text', file=sys.stderr); sys.exit(3)", limit_s=60)
    most = 200 << 20  # less than it takes once it has begun
    monkeypatch.setattr(plan_compiler, "MEMORY_SHARE", most / psutil.virtual_memory().available)
    (found,) = compile_with(BEGAN, end="taken = b'x' * (300 << 20); time.sleep(60)", count=1, limit_s=60)
    assert re.fullmatch("the compiler needed more than [12].. MiB, half of the free memory", found.why_not)
