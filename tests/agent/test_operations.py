"""Operations and bytes from the text of a module."""

from __future__ import annotations

import pytest

from jaxtop_agent.programs import operations
from jaxtop_agent.programs.operations import Work
from tests.made.hlo_texts import work_of

ADD = """%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
"""


def work(
    *entry: str, before: str = "", parameters: tuple[str, ...] = ("f32[8,16]", "f32[16,4]")
) -> Work | None:
    """What is worked; how many instructions run has a test of its own."""
    found = whole(*entry, before=before, parameters=parameters)
    return None if found is None else found._replace(executed=0)


def whole(
    *entry: str, before: str = "", parameters: tuple[str, ...] = ("f32[8,16]", "f32[16,4]")
) -> Work | None:
    listed = [f"  %p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters)]
    lines = "\n".join([*listed, *(f"  {each}" for each in entry)])
    return work_of(f"HloModule m\n\n{before}\nENTRY %main (p: f32[]) -> f32[] {{\n{lines}\n}}\n")


def loop(trips: str, body: str = "body") -> str:
    return f"%w = f32[8,16] while(%p0), condition=%no, body=%{body}{trips}"


def part(name: str, *inside: str) -> str:
    lines = "\n".join(f"  {each}" for each in ("%x = f32[8,16] parameter(0)", *inside))
    return f"%{name} (x: f32[8,16]) -> f32[8,16] {{\n{lines}\n}}\n"


TRIPS = ', backend_config={"known_trip_count":{"n":"5"}}'
DOT = "%d = f32[8,4]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
NEGATE = part("body", "ROOT %n = f32[8,16] negate(%x)") + part("no", "ROOT %t = pred[] constant(false)")


def test_a_product_and_what_it_reads_and_writes():
    assert work(DOT) == Work(2 * 8 * 4 * 16, 4 * (8 * 16 + 16 * 4 + 8 * 4))


def test_operands_with_and_without_their_shapes():
    """As older versions print them, and as brief texts do."""
    spelled = DOT.replace("%p0", "f32[8,16]{1,0:T(8,128)} %p0").replace("%p1", "f32[16,4]{1,0} %p1")
    assert (
        work(spelled)
        == work(DOT.replace("%", "").replace("dot(p0, p1", "dot(p0, /*index=1*/p1"))
        == work(DOT)
    )


def test_loops_count_their_rounds_and_one_where_nobody_knows():
    assert work(loop(TRIPS), before=NEGATE) == Work(5 * 128, 5 * 2 * 512)
    assert work(loop(""), before=NEGATE) == Work(128, 2 * 512, at_least=True)
    nested = part("outer", "ROOT %v = f32[8,16] while(%x), condition=%no, body=%body" + TRIPS)
    assert work(loop(TRIPS, "outer"), before=NEGATE + nested) == Work(25 * 128, 25 * 2 * 512)


@pytest.mark.parametrize(
    "branches", ["branch_computations={%body, %both}", "true_computation=%body, false_computation=%both"]
)
def test_of_a_conditional_the_cheapest_branch_counts_as_a_lower_bound(branches):
    """Which one runs, each launch decides; where all cost the same, the figure is exact."""
    both = part("both", "%m = f32[8,16] negate(%x)", "ROOT %k = f32[8,16] negate(%m)")
    found = work(f"%k = f32[8,16] conditional(%p0, %p0, %p0), {branches}", before=NEGATE + both)
    assert found == Work(128, 2 * 512, at_least=True)
    alike = part("both", "ROOT %k = f32[8,16] negate(%x)")
    found = work(f"%k = f32[8,16] conditional(%p0, %p0, %p0), {branches}", before=NEGATE + alike)
    assert found == Work(128, 2 * 512)


def test_a_fusion_reads_what_it_slices_and_writes_what_it_updates():
    inside = """%fused (x: f32[8,16], y: f32[1,16], i: s32[]) -> f32[8,16] {
  %x = f32[8,16] parameter(0)
  %y = f32[1,16] parameter(1)
  %i = s32[] parameter(2)
  %s = f32[1,16] add(%y, %y)
  %u = f32[8,16] dynamic-update-slice(%x, %s, %i, %i)
}
"""
    fusion = "%f = f32[8,16] fusion(%p0, %p1, %p2), kind=kLoop, calls=%fused"
    shapes = ("f32[8,16]", "f32[1,16]", "s32[]")
    assert work(fusion, before=inside, parameters=shapes) == Work(16, 64 + 64 + 4)


def test_a_reduction_applies_its_function_to_all_but_the_results():
    reduction = "%r = f32[8] reduce(%p0, %z), dimensions={1}, to_apply=%add"
    assert work("%z = f32[] constant(0)", reduction, before=ADD) == Work(8 * 15, 512 + 4 + 32)


def test_convolutions_count_no_padding():
    """Rows of 8 by a window of 3 with stride 1 and padding 1: 22 places; a stride of 2 has half."""
    labels = "dim_labels=b0f_0io->b0f"
    same = f"%c = f32[2,8,5] convolution(%p0, %p1), window={{size=3 pad=1_1}}, {labels}"
    assert work(same, parameters=("f32[2,8,7]", "f32[3,7,5]")).operations == 2 * 2 * 7 * 5 * 22
    strided = f"%c = f32[2,4,5] convolution(%p0, %p1), window={{size=3 stride=2 pad=0_1}}, {labels}"
    assert work(strided, parameters=("f32[2,8,7]", "f32[3,7,5]")).operations == 2 * 2 * 7 * 5 * 11
    dilated = f"%c = f32[2,8,5] convolution(%p0, %p1), window={{size=3 pad=1_2 lhs_dilate=2}}, {labels}"
    assert work(dilated, parameters=("f32[2,4,7]", "f32[3,7,5]")).operations == 2 * 2 * 7 * 5 * 11


def test_library_calls_count_where_they_tell_what_they_do():
    product = (
        '%g = (f32[8,4]{1,0}, s8[4096]{0}) custom-call(%p0, %p1), custom_call_target="__cublas$gemm", '
        'backend_config={"gemm_backend_config":{"dot_dimension_numbers":'
        '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}'
    )
    assert work(product) == work(DOT)
    convolution = (
        "%c = (f32[2,8,5]{2,1,0}, u8[0]{0}) custom-call(%p0, %p1), window={size=3 pad=1_1}, "
        'dim_labels=b0f_0io->b0f, custom_call_target="__cudnn$convForward"'
    )
    backward = convolution.replace("Forward", "BackwardInput").replace(
        "f32[2,8,5]{2,1,0}", "f32[2,8,7]{2,1,0}"
    )
    forward = work(convolution, parameters=("f32[2,8,7]", "f32[3,7,5]"))
    assert forward.operations == 2 * 2 * 7 * 5 * 22
    assert work(backward, parameters=("f32[2,8,5]", "f32[3,7,5]")).operations == forward.operations
    unknown = '%u = f32[8,4] custom-call(%p0, %p1), custom_call_target="lapack_sgetrf_ffi"'
    assert work(unknown) == Work(0, 4 * (128 + 64 + 32), at_least=True)
    python = '%u = f32[8,4] custom-call(%p0), custom_call_target="xla_ffi_python_cpu_callback"'
    assert work(python) == Work()


def test_how_many_instructions_a_launch_runs():
    """A fusion is one, a loop as many as in all of its rounds, a conditional the larger branch."""
    assert whole(DOT).executed == 1
    assert whole(DOT, loop(TRIPS), before=NEGATE).executed == 1 + 1 + 5
    assert whole(loop(""), before=NEGATE).executed is None
    nested = part("outer", "ROOT %v = f32[8,16] while(%x), condition=%no, body=%body" + TRIPS)
    assert whole(loop(TRIPS, "outer"), before=NEGATE + nested).executed == 1 + 5 * (1 + 5)
    inside = part("fused", "%n = f32[8,16] negate(%x)", "ROOT %m = f32[8,16] negate(%n)")
    fusion = "%f = f32[8,16] fusion(%p0), kind=kLoop, calls=%fused"
    assert whole(fusion, before=inside).executed == 1
    choice = "%c = f32[8,16] conditional(%p0, %p0, %p0), branch_computations={%fused, %body}"
    assert whole(choice, before=inside + NEGATE).executed == 1 + 2


def test_what_cannot_be_read_has_no_figure(monkeypatch):
    assert work_of("") is None
    assert work_of("HloModule m\n\nENTRY %main (p: f32[]) -> f32[] {\n  %broken") == Work()
    assert work(DOT.replace("lhs_contracting_dims={1}, ", "")).at_least
    monkeypatch.setattr(operations, "MOST_INSTRUCTIONS", 2)
    assert work(DOT) is None


@pytest.mark.parametrize(
    ("start", "touched"),
    [
        # The address of the operand is a part of the result, but no copy of it.
        ("(f32[8,16]{1,0:T(8,128)S(1)}, f32[8,16]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%p0)", 2 * 512),
        (
            "((f32[8,16]{1,0}), f32[2,16]{1,0:S(1)}, s32[]{:S(2)}) slice-start(%p0), slice={[0:2], [0:16]}",
            2 * 128,
        ),
        (
            "((f32[8,16]{:S(5)}, f32[2,16], s32[]), f32[8,16]) dynamic-update-slice-start(%p0, %p1, %i)",
            2 * 128,
        ),
        ("(f32[8,16]{1,0}, f32[64,16]{1,0}) all-gather-start(%p0), dimensions={0}", 512 + 8 * 512),
        ("((f32[8,16]{1,0}), f32[1,16]{1,0}) reduce-scatter-start(%p0), to_apply=%add", 512 + 64),
        ("(f32[8,16], f32[8,16], u32[], u32[]) collective-permute-start(%p0)", 2 * 512),
    ],
)
def test_what_only_starts_an_operation_touches_its_operands_and_results_once(start, touched):
    end = f"{start.split(') ', 1)[1].split('-start')[0]}-done"
    found = work(f"%s = {start}", f"%d = f32[8,16] {end}(%s)", parameters=("f32[8,16]", "f32[2,16]"))
    assert found == Work(0, touched)


def test_a_fusion_that_runs_beside_others_counts_like_one():
    inside = (
        "%f (x: f32[8,16]) -> f32[8,16] {\n  %x = f32[8,16] parameter(0)\n  %n = f32[8,16] negate(%x)\n}\n"
    )
    plain = work("%u = f32[8,16] fusion(%p0), kind=kLoop, calls=%f", before=inside)
    started = work(
        "%s = ((f32[8,16]), f32[8,16], u32[]) fusion-start(%p0), kind=kLoop, calls=%f",
        "%u = f32[8,16] fusion-done(%s)",
        before=inside,
    )
    assert plain == started == Work(8 * 16, 2 * 512)


@pytest.mark.parametrize(
    "target",
    ["ConcatBitcast", "AsyncCollectiveStart", "AsyncCollectiveDone", "PrepareAsyncCallStart", "HostExecute"],
)
def test_calls_that_only_name_values_for_the_compiler_are_known_to_do_nothing(target):
    assert work(f'%c = f32[8,16] custom-call(%p0), custom_call_target="{target}"') == Work()


def test_a_kernel_of_unknown_cost_makes_a_lower_bound():
    for target in ("tpu_custom_call", "__gpu$xla.gpu.triton", "mosaic_gpu_v2"):
        found = work(f'%c = f32[8,16] custom-call(%p0), custom_call_target="{target}"')
        assert found is not None and found.at_least and found.bytes == 2 * 512


@pytest.mark.parametrize(
    ("window", "kernel", "result"),
    [
        ("size=1000000000x3", "f32[1000000000,3,1,1]", "f32[1,8,8,1]"),
        ("size=3x3 lhs_dilate=0x1", "f32[3,3,1,1]", "f32[1,8,8,1]"),
        ("size=3x3 stride=0x1", "f32[3,3,1,1]", "f32[1,8,8,1]"),
        ("size=1x1 lhs_dilate=2x2", "f32[1,1,1,1]", "f32[1,2000000,8,1]"),
    ],
)
def test_a_window_that_cannot_be_counted_makes_a_lower_bound_at_once(window, kernel, result):
    found = work(
        f"%c = {result} convolution(%p0, %p1), window={{{window}}}, dim_labels=b01f_01io->b01f",
        parameters=("f32[1,8,8,1]", kernel),
    )
    assert found is not None and found.at_least and not found.operations


def test_a_product_in_groups_counts_each_row_once():
    """Each of 64 rows meets the matrix of its group, of four."""
    call = (
        "%c = (f16[64,128]{1,0}, s8[784]{0}) custom-call(%p0, %p1, %p2), "
        'custom_call_target="__cublas$lt$groupedMatmul", '
        'backend_config={"grouped_gemm_backend_config":{"gemm_backend_config":{"dot_dimension_numbers":'
        '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["1"]}}}}'
    )
    found = work(call, parameters=("f16[64,96]", "f16[4,96,128]", "s32[4]"))
    assert found is not None and (found.operations, found.at_least) == (2 * 64 * 96 * 128, False)
