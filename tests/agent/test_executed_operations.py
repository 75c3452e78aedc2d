"""Operations that a device runs one by one: kinds, lines and the cost of one run, from a module's text."""

from __future__ import annotations

import pytest

from jaxtop_agent.programs import executed_operations, hlo, operations
from jaxtop_agent.programs.executed_operations import ExecutedOperation
from tests.made.hlo_texts import executed_of, work_of

HEADER = """HloModule jit_step, is_scheduled=true

FileNames
1 "/home/me/train.py"

FunctionNames
1 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=2 end_column=2}
2 {file_name_id=1 function_name_id=1 line=20 end_line=20 column=2 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}

"""
FUSED = """%fused (x: f32[8,16], y: f32[16,4]) -> f32[8,4] {
  %x = f32[8,16] parameter(0)
  %y = f32[16,4] parameter(1)
  %d = f32[8,4] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %n = f32[8,4] negate(%d)
}

%wrapped (z: f32[8,4]) -> f32[8,4] {
  %z = f32[8,4] parameter(0)
  ROOT %t = f32[8,4] tanh(%z)
}

"""
BODY = """%body (b: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %b = (s32[], f32[8,4]) parameter(0)
  %g = f32[8,4] get-tuple-element(%b), index=1
  %two = f32[8,4] add(%g, %g), metadata={op_name="jit(step)/while/body/add" stack_frame_id=2}
  ROOT %again = (s32[], f32[8,4]) tuple(%g, %two)
}

%more (b.1: (s32[], f32[8,4])) -> pred[] {
  %b.1 = (s32[], f32[8,4]) parameter(0)
  ROOT %less = pred[] constant(true)
}

"""
ENTRY = """ENTRY %main (p: f32[8,16], q: f32[16,4]) -> f32[8,4] {
  %p = f32[8,16] parameter(0)
  %q = f32[16,4] parameter(1)
  %f = f32[8,4] fusion(%p, %q), kind=kOutput, calls=%fused, metadata={op_name="dot" stack_frame_id=1}
  %w = f32[8,4] fusion(%f), kind=kLoop, calls=%wrapped
  %s = (s32[], f32[8,4]) while(%w), condition=%more, body=%bodyTRIPS
  %r = f32[8,4] all-reduce(%w), replica_groups={}, to_apply=%add
  %c = f32[8,4] copy(%r)
  ROOT %l = f32[8,4] custom-call(%c), custom_call_target="lapack_sgetrf_ffi"
}
"""
TRIPS = ', backend_config={"known_trip_count":{"n":"5"}}'


def read(entry: str = ENTRY, trips: str = TRIPS, **more: int) -> dict[str, ExecutedOperation]:
    return executed_of(HEADER + FUSED + BODY + entry.replace("TRIPS", trips), **more)


def test_each_operation_has_its_kind_line_and_cost():
    array = 4 * 8 * 4
    assert read() == {
        "f": ExecutedOperation(
            "matmul", "train.py:12", 2 * 8 * 4 * 16 + 32, 4 * (8 * 16 + 16 * 4 + 8 * 4), 1
        ),
        "w": ExecutedOperation("elementwise", "", 0, 2 * array, 1),
        "two": ExecutedOperation("elementwise", "train.py:20", 32, 3 * array, 5),
        "r": ExecutedOperation("collective", "", 32, 2 * array, 1),
        "c": ExecutedOperation("copy", "", 0, 2 * array, 1),
        "l": ExecutedOperation("library call", "", None, 2 * array, 1),
    }


def test_their_sum_is_the_work_of_a_launch():
    printed = HEADER + FUSED + BODY + ENTRY.replace("TRIPS", TRIPS)
    whole = work_of(printed)
    found = executed_of(printed).values()
    assert whole.operations == sum((each.operations or 0) * each.times for each in found)
    assert whole.bytes == sum(each.bytes * each.times for each in found)


def test_a_loop_of_unknown_length_hides_how_often_its_operations_run():
    found = read(trips="")
    assert (found["two"].times, found["f"].times) == (None, 1)


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("convolution(%p, %q)", "convolution"),
        ('custom-call(%p), custom_call_target="__cublas$gemm"', "matmul"),
        ('custom-call(%p), custom_call_target="__cudnn$convForward"', "convolution"),
        ('custom-call(%p), custom_call_target="xla_ffi_python_cpu_callback"', "callback"),
        ("all-gather-start(%p)", "collective"),
        ("collective-permute-done(%p)", "collective"),
        ("reduce(%p, %q), to_apply=%add", "reduce"),
        ("dynamic-update-slice(%p, %q)", "copy"),
        ("gather(%p, %q)", "gather or scatter"),
        ("sort(%p)", "sort"),
        ("exponential(%p)", "elementwise"),
        ("infeed(%p)", "transfer"),
        ("all-reduce-start(%p), to_apply=%add", "collective"),
        ("ragged-all-to-all-done(%p)", "collective"),
        ("copy-start(%p)", "copy"),
        ("slice-start(%p)", "copy"),
        ("dynamic-update-slice-done(%p)", "copy"),
        ("send-done(%p)", "transfer"),
        ("of-a-later-version(%p)", "other"),
    ],
)
def test_kinds(instruction, kind):
    parameter = "  %p = f32[8] parameter(0)"
    entry = f"ENTRY %main (p: f32[8]) -> f32[8] {{\n{parameter}\n  ROOT %o = f32[8] {instruction}\n}}\n"
    assert read(entry)["o"].kind == kind


def test_a_fusion_without_a_product_is_a_fusion():
    inside = (
        "%several (x: f32[8]) -> f32[8] {\n  %x = f32[8] parameter(0)\n  %e = f32[8] negate(%x)\n"
        "  ROOT %m = f32[8] tanh(%e)\n}\n\n"
    )
    entry = (
        "ENTRY %main (p: f32[8]) -> f32[8] {\n  %p = f32[8] parameter(0)\n"
        "  ROOT %o = f32[8] fusion(%p), kind=kLoop, calls=%several\n}\n"
    )
    assert read(inside + entry)["o"] == ExecutedOperation("fusion", "", 8, 64, 1)


def test_a_fusion_without_a_line_has_that_of_its_last_operation():
    inside = FUSED.replace("negate(%d)", "negate(%d), metadata={stack_frame_id=2}")
    entry = ENTRY.replace(', metadata={op_name="dot" stack_frame_id=1}', "").replace("TRIPS", TRIPS)
    assert executed_of(HEADER + inside + BODY + entry)["f"].line == "train.py:20"


def test_of_many_operations_those_that_cost_most_are_read(monkeypatch):
    assert set(read(most=2)) == {"f", "two"}  # in five rounds
    assert read(most=0) == {}
    lines = "\n".join(f"  %n{i} = f32[{i + 1}] negate(%p)" for i in range(40))
    entry = f"ENTRY %main (p: f32[1]) -> f32[1] {{\n  %p = f32[1] parameter(0)\n{lines}\n}}\n"
    monkeypatch.setattr(executed_operations, "MOST_NOTED", 16)
    assert {"n39", "n38", "n37", "n36"} <= set(read(entry)) and len(read(entry)) <= 16


def test_the_notes_of_all_computations_have_one_bound(monkeypatch):
    """40 computations with calls between them, and as many that their fusions run, in both orders."""
    monkeypatch.setattr(executed_operations, "MOST_NOTED", 16)
    texts = []
    for i in range(40):
        fused = f"%in{i} (x: f32[8]) -> f32[8] {{\n  %x{i} = f32[8] parameter(0)\n" + "".join(
            f"  %t{i}_{j} = f32[8] tanh(%x{i})\n" for j in range(8)
        )
        outer = f"%out{i} (y: f32[8]) -> f32[8] {{\n  %y{i} = f32[8] parameter(0)\n"
        outer += f"  ROOT %f{i} = f32[8] fusion(%y{i}), kind=kLoop, calls=%in{i}\n"
        texts += [fused + "}\n\n", outer + "}\n\n"][:: 1 if i % 2 else -1]
    found = operations.OperationSums()
    for name, _, listed in hlo.parsed("".join(texts), lambda: None):
        for _ in found.add(name, listed):
            pass
        assert len(noted := [each for one in found._notes._listed.values() for each in one]) <= 16
    assert {each.instruction.opcode for each in noted} == {"fusion"}


def test_texts_that_cannot_be_read_have_no_operations(monkeypatch):
    assert executed_of("") == {}
    monkeypatch.setattr(operations, "MOST_INSTRUCTIONS", 2)
    assert read() == {}
