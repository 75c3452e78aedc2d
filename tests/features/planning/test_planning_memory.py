"""Plans: where arrays lie on other meshes, and how many bytes a device then holds and needs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from jaxtop import wire
from jaxtop.features.planning.model import buffers
from jaxtop.features.planning.model.array_kinds import RunArrays
from jaxtop.features.planning.model.candidates import meshes
from jaxtop.features.planning.model.memory import memory_of, uses_of
from jaxtop.features.planning.model.plan import (
    CannotPlan,
    CompiledCandidate,
    PlanRequest,
    ShardingRule,
    Tensor,
    Today,
)
from jaxtop.features.planning.model.planner import plan
from jaxtop.features.planning.model.sharding import place, state_bytes
from jaxtop.features.planning.model.today import today
from jaxtop.model import Cluster
from tests import builders


def mesh(**sizes: int):
    return tuple(sizes.items())


def tensor(name, shape, *parts, held_on=8, dtype="float32", width=4, role=None, over=None) -> Tensor:
    """Return an array on the mesh `over`, whose dimensions are divided by these axes."""
    sizes = over or {"data": 4, "model": 2}
    cut = tuple((part,) if isinstance(part, str) else tuple(part or ()) for part in parts)
    pieces = math.prod(sizes[axis] for part in cut for axis in part)
    size = math.prod(shape) * width
    return Tensor(name, role, shape, dtype, cut, size, size // pieces, device_ids=tuple(range(held_on)))


def run(*tensors: Tensor, program: wire.Program | None = None, **sizes: int) -> Today:
    axes = mesh(**(sizes or {"data": 4, "model": 2}))
    devices = tuple(range(math.prod(size for _, size in axes)))
    return Today("r1", axes, devices, len(devices), "cpu", "cpu", tensors, program)


def held(of: Today, *rules: ShardingRule, **sizes: int) -> int:
    axes = mesh(**sizes)
    return state_bytes(of, axes, place(of, axes, rules))


class TestPlacing:
    def test_axes_are_matched_by_name(self):
        kernel = run(tensor("kernel", (64, 32), "data", "model"))
        assert held(kernel, data=2, model=4) == 64 * 32 * 4 // 8
        assert held(kernel, model=4, data=4) == 64 * 32 * 4 // 16
        assert held(kernel, data=8) == 64 * 32 * 4 // 8
        assert held(kernel, model=2) == 64 * 32 * 4 // 2

    def test_several_axes_may_divide_one_dimension(self):
        rows = run(tensor("rows", (48, 3), ("data", "model")))
        assert held(rows, data=8, model=2) == 48 * 3 * 4 // 16
        assert held(rows, data=8, model=4) == 48 * 3 * 4  # 48 is not divisible by 32

    def test_a_dimension_that_its_axes_do_not_divide_is_replicated_and_that_is_said(self):
        of = run(tensor("kernel", (20, 32), "data", "model"))
        (placed,) = place(of, mesh(data=8, model=4), ())
        assert placed.parts == ((), ("model",))
        assert placed.bytes_per_device == 20 * 32 * 4 // 4
        assert placed.note == "dimension 0 of 20 is not divisible by data=8: it is replicated"

    def test_a_new_axis_divides_nothing_without_a_rule(self):
        of = run(tensor("kernel", (64, 32), "data"))
        assert held(of, data=4, expert=2) == 64 * 32 * 4 // 4
        assert held(of, ShardingRule("kernel", "expert"), data=4, expert=2) == 64 * 32 * 4 // 8

    def test_arrays_on_one_device_stay_there(self):
        key = Tensor("key", None, (), "key<fry>", None, 8, 8, device_ids=(5,))
        of = run(tensor("kernel", (64, 32), "data"), key)
        assert held(of, data=4, model=2) == 64 * 32 * 4 // 4 + 8
        assert held(of, data=4) == 64 * 32 * 4 // 4  # device 5 has nothing else
        assert held(of, ShardingRule("key", parts=()), data=4) == 64 * 32 * 4 // 4 + 8

    def test_arrays_that_are_alike_count_each_for_itself(self):
        layers = [tensor(f"state.w[{i}]", (64, 32), "data", role="parameters") for i in range(3)]
        of = run(*layers, tensor("state.b", (32,)))
        rule = ShardingRule("state.w[1]", parts=())
        first, *rest = plan(of, PlanRequest((mesh(data=2, model=4),), rules=(rule,))).candidates
        asked = rest[-1]
        assert first.state_bytes_per_device == 3 * 64 * 32 * 4 // 4 + 128
        assert asked.state_bytes_per_device == (64 + 2 * 32) * 32 * 4 + 128
        assert [each.tensor for each in asked.placed] == list(of.tensors)
        assert [each.parts for each in asked.placed] == [(("data",),), (), (("data",),), ()]

    def test_arrays_in_the_memory_of_hosts_do_not_count(self):
        offloaded = replace(tensor("opt", (64, 32), "data"), is_on_host=True)
        assert held(run(tensor("w", (8,)), offloaded), data=8) == 32

    @pytest.mark.parametrize(
        ("dtype", "elements", "size", "expected"),
        [
            ("int4", 64, 32, 8),
            ("int4", 64, 64, 16),  # a byte each
            ("float8_e4m3fn", 64, 64, 16),
            ("bool", 64, 64, 16),
            ("key<fry>", 64, 512, 128),
            ("complex64", 64, 512, 128),
            ("float32", 0, 0, 0),
        ],
    )
    def test_sizes_follow_from_what_an_element_takes(self, dtype, elements, size, expected):
        whole = Tensor("x", None, (elements,), dtype, ((),), size, size, device_ids=tuple(range(8)))
        assert held(run(whole), ShardingRule("x", parts=(("data",),)), data=4, model=2) == expected

    def test_four_bits_that_end_within_a_byte(self):
        odd = Tensor("x", None, (6, 5), "int4", (("model",),), 15, 8, device_ids=tuple(range(8)))
        assert held(run(odd), data=4, model=2) == 8
        assert held(run(odd), data=1, model=1) == 15
        assert held(run(odd), model=6) == 3

    def test_padded_arrays_are_scaled_and_that_is_said(self):
        padded = Tensor("x", None, (8, 100), "float32", ((),), 4096, 4096, device_ids=tuple(range(8)))
        (placed,) = place(run(padded), mesh(data=4, model=2), (ShardingRule("x", "model"),))
        assert (placed.parts, placed.bytes_per_device) == (((), ("model",)), 2048)
        assert "pads" in placed.note


class TestHiddenAxes:
    """Axes of size 1 today, of which nothing shows which arrays they divide."""

    PROGRAM = wire.Program(
        "jit_step", "f", 8, 8, argument_bytes=16384, output_bytes=16384, alias_bytes=16384, temp_bytes=8000
    )
    KERNEL = replace(tensor("kernel", (64, 64), over={"data": 8}), hidden=("model",))

    def plan(self, *rules: ShardingRule, **sizes: int):
        of = run(self.KERNEL, program=self.PROGRAM, data=8, model=1)
        listed = plan(of, PlanRequest((mesh(**sizes),), rules=rules)).candidates
        return next(each for each in listed if (each.axes, each.rules) == (mesh(**sizes), rules))

    def test_the_memory_reaches_from_divided_to_replicated(self):
        found = self.plan(data=4, model=2)
        assert found.state_bytes == (16384 // 2, 16384)
        # Of the temporaries at least half, as the axis has 2 devices, and 10 % less than that.
        assert found.memory_bytes.low == 16384 // 2 + 4000 * 0.9
        assert found.memory_bytes.high >= 16384 + 8000
        assert any("model has size 1 today" in each for each in found.changes)

    def test_today_and_meshes_that_do_not_use_them_are_exact(self):
        assert self.plan(data=8, model=1).memory_bytes == (16384 + 8000, 16384 + 8000)
        assert self.plan(data=4, model=1).state_bytes == (16384, 16384)

    def test_a_whole_sharding_that_was_asked_for_says_all(self):
        found = self.plan(ShardingRule("kernel", parts=((), ("model",))), data=4, model=2)
        assert found.state_bytes == (16384 // 2, 16384 // 2)
        assert self.plan(ShardingRule("kernel", "model"), data=4, model=2).state_bytes == (
            16384 // 2,
            16384 // 2,
        )

    def test_a_compilation_decides_if_its_text_names_them(self):
        of = run(self.KERNEL, program=self.PROGRAM, data=8, model=1)
        axes = mesh(data=4, model=2)
        made = CompiledCandidate(8192, 8192, 3000, 8192, ())
        found = plan(of, PlanRequest((axes,)), {(axes, ()): made}).candidates[-1]
        assert found.memory_bytes == (8192 + 3000, 8192 + 3000)
        made = CompiledCandidate(16384, 16384, 9000, 16384, (), unnamed=("model",))
        found = plan(of, PlanRequest((axes,)), {(axes, ()): made}).candidates[-1]
        assert found.memory_bytes.low == 8192 + 3600 and found.memory_bytes.high >= 16384 + 9000

    def test_a_limit_within_the_bounds_offers_what_decides(self):
        of = run(self.KERNEL, program=self.PROGRAM, data=8, model=1)
        asked = PlanRequest((mesh(data=4, model=2),), limit_bytes=12000)
        assert "the limit lies within the memory of 1 candidate: --compile" in plan(of, asked).notes[-1]
        assert not plan(of, asked, {}).notes
        assert not plan(of, replace(asked, limit_bytes=1 << 20)).notes

    def test_what_the_least_state_exceeds_does_not_fit(self):
        of = run(self.KERNEL, program=self.PROGRAM, data=8, model=1)
        fits = {
            limit: plan(of, PlanRequest((mesh(data=4, model=2),), limit_bytes=limit)).candidates[-1].fits
            for limit in (8000, 12000, 1 << 20)
        }
        assert fits == {8000: False, 12000: None, 1 << 20: True}


class TestRules:
    of = run(
        tensor("state.params['Dense_0']['kernel']", (64, 48), None, "model", role="parameters"),
        tensor("state.params['Dense_0']['bias']", (48,), role="parameters"),
        tensor("state.opt_state[0].mu['Dense_0']['kernel']", (64, 48), role="optimizer"),
        tensor("state.step", (), role=None),
    )

    def divided(self, pattern: str, axis: str = "data") -> list[str]:
        """Return the names of the arrays that a rule divides."""
        placed = place(self.of, self.of.axes, (ShardingRule(pattern, axis),))
        return [each.tensor.name for each in placed if each.parts != each.tensor.parts]

    def test_patterns_are_whole_steps_of_names_and_globs(self):
        kernel, bias, moment, _ = (each.name for each in self.of.tensors)
        assert self.divided("state.params") == [kernel, bias]
        assert self.divided("kernel") == [kernel, moment]
        assert self.divided("opt_state[0].mu") == [moment]
        assert self.divided("state.*.kernel") == [kernel, moment]
        assert self.divided("role=optimizer") == [moment]
        assert self.divided("STATE.PARAMS['Dense_?']['bias']") == [bias]

    @pytest.mark.parametrize("pattern", ["params['w[0]']", "params.w[0]", "params.w.0", 'params."w[0]"'])
    def test_brackets_and_quotes_within_a_key_can_be_left_out(self, pattern):
        of = run(tensor("params['w[0]']", (64, 64), "model"), tensor("params['v']", (64, 64), "model"))
        placed = place(of, of.axes, (ShardingRule(pattern, "data"),))
        assert [each.parts for each in placed] == [(("model",), ("data",)), (("model",),)]

    def test_a_name_that_is_proposed_is_one_that_matches(self):
        of = run(tensor("params['it\\'s \"q[0]\"']", (64, 64), "model"))
        with pytest.raises(CannotPlan) as raised:
            place(of, of.axes, (ShardingRule("params.itsq", "data"),))
        (placed,) = place(of, of.axes, (ShardingRule(str(raised.value).rpartition("try ")[2], "data"),))
        assert placed.parts == (("model",), ("data",))

    def test_an_axis_takes_the_largest_dimension_that_it_divides(self):
        placed = place(self.of, self.of.axes, (ShardingRule("state", "data"), ShardingRule("state", "model")))
        assert [each.parts for each in placed] == [
            (("data",), ("model",)),
            (("data", "model"),),
            (("data", "model"), ()),
            (),
        ]

    def test_of_equal_dimensions_it_takes_the_first_that_is_not_divided(self):
        square = run(tensor("square", (64, 64), "model"))
        (placed,) = place(square, square.axes, (ShardingRule("square", "data"),))
        assert placed.parts == (("model",), ("data",))

    def test_what_nothing_matches_is_an_error(self):
        with pytest.raises(CannotPlan, match=r"^no named array matches state.parms; try state.params"):
            place(self.of, self.of.axes, (ShardingRule("state.parms", "data"),))
        with pytest.raises(
            CannotPlan, match="cannot be divided by expert: the mesh has the axes data, model"
        ):
            place(self.of, self.of.axes, (ShardingRule("state", "expert"),))


class TestMemory:
    weights = tensor("state.w", (256, 64), None, "model", role="parameters")
    batch = tensor("batch", (64, 256), "data", role="batch")
    program = wire.Program(
        "jit_step", "f", 8, 8, argument_bytes=32768 + 16384, output_bytes=32768 + 12, alias_bytes=32768,
        temp_bytes=100_000,
    )  # fmt: skip

    def of(self, *more: Tensor) -> Today:
        return run(self.weights, self.batch, *more, program=self.program)

    def needed(self, of: Today, *rules: ShardingRule, **sizes: int):
        axes = mesh(**sizes)
        return memory_of(of, axes, place(of, axes, rules), uses_of(of))

    def test_today_is_the_sum_of_the_compilers_figures(self):
        found = self.needed(self.of(), data=4, model=2)
        assert found.interval == (32768 + 16384 + 12 + 100_000,) * 2

    def test_the_order_of_the_axes_changes_nothing(self):
        assert self.needed(self.of(), model=2, data=4).interval == (32768 + 16384 + 12 + 100_000,) * 2

    def test_named_arrays_that_are_no_arguments_are_added(self):
        extra = tensor("ema", (1000,))
        found = self.needed(self.of(extra), data=4, model=2)
        assert found.interval == (32768 + 16384 + 12 + 100_000 + 4000,) * 2

    def test_of_arrays_that_are_alike_the_program_takes_those_of_some_variables(self):
        copy = tensor("ema", (256, 64), None, "model")
        today, _ = plan(self.of(copy), PlanRequest((mesh(data=2, model=4),))).candidates
        found = {each.figure: (each.value, each.source) for each in today.basis}
        assert found["arguments"] == ("48.0 KiB", "the arrays of batch, state")
        assert found["other arrays"][0] == "32.0 KiB"

    def test_arguments_rescale_exactly_and_temporaries_within_bounds(self):
        low, high = self.needed(self.of(), data=2, model=4).interval
        arguments = 16384 + 32768
        assert low <= arguments + 12 + 50_000
        assert arguments + 12 + 200_000 <= high <= arguments + 24 + 221_000

    def test_a_rule_divides_temporaries_on_the_same_mesh_too(self):
        low, high = self.needed(self.of(), ShardingRule("state.w", "data"), data=4, model=2).interval
        # Gathered, the array takes 32768, and so does its gradient. While that was reduced, it was there
        # before and after, and may be divided now.
        assert low == pytest.approx(8192 + 16384 + 12 + 0.9 * (100_000 - 2 * 32768) / 4, abs=1)
        assert high == pytest.approx(8192 + 16384 + 12 + 110_000 + 1.1 * 2 * 32768, abs=1)

    def test_arrays_that_lose_their_axis_may_make_temporaries_larger(self):
        odd = tensor("state.w", (6, 64), "model", role="parameters")
        of = run(odd, self.batch, program=replace_struct(self.program, argument_bytes=768 + 16384))
        _, high = self.needed(of, data=2, model=4).interval
        assert high >= 1536 + 32768 + 400_000

    def test_without_a_program_nothing_is_said(self):
        found = self.needed(replace(self.of(), program=None), data=8)
        assert found.interval is None
        assert "not known" in found.assumptions[0]


class TestBuffers:
    """The temporaries at the peak, by their shapes: on data=4, model=2, rows of a device are 16."""

    weights = tensor("state.w", (256, 64), None, "model", role="parameters")
    sharded = tensor("state.v", (512, 96), "data", role="parameters")
    batch = tensor("batch", (64, 1000), "data", role="batch")

    def rescaled(self, shape: str, **sizes: int) -> tuple[float, float]:
        """Return by what a buffer of this shape is multiplied."""
        buffer = wire.Buffer("temporary", 1000, shape=shape)
        peak = wire.Peak(1, "jit_step", "f", temporary_bytes=1000, buffers=(buffer,))
        of = replace(run(self.weights, self.sharded, self.batch), peak=peak)
        axes = mesh(**sizes)
        found = buffers.rescaled(of, axes, place(of, axes))
        assert found is not None
        return found.low / 1000, found.high / 1000

    @pytest.mark.parametrize(
        ("shape", "sizes", "expected"),
        [
            ("f32[256,32]", {"data": 2, "model": 4}, (0.5, 0.5)),  # a gradient of state.w
            ("f32[32,256]", {"data": 8, "model": 1}, (2, 2)),  # transposed
            ("f32[128,96]", {"data": 8}, (0.5, 0.5)),  # a shard of state.v
            ("f32[512,96]", {"data": 8}, (1, 1)),  # state.v, gathered
            ("f32[16,1000]", {"data": 2}, (2, 2)),  # rows
            ("f32[16,32]", {"data": 8, "model": 1}, (1, 1)),  # rows of what state.w makes
            ("f32[48,1000]", {"data": 8}, (0.5, 0.5)),  # rows and something else in one dimension
            ("f32[]", {"data": 8}, (1, 1)),
            ("f32[16,512]", {"data": 2, "model": 4}, (2, 2)),
        ],
    )
    def test_shapes_show_what_divides_a_buffer(self, shape, sizes, expected):
        assert self.rescaled(shape, **sizes) == expected

    def test_what_no_shape_explains_is_left_to_the_bounds_over_all_axes(self):
        assert self.rescaled("f32[7,11]", data=8) == (0, 0)
        assert self.rescaled("(f32[256,32], f32[2])", data=8) == (0, 0)

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_rows_of_two_batches_that_are_as_long_are_read_both_ways(self, order):
        batches = [tensor("x", (64, 10), "data", role="batch"), tensor("y", (32, 10), "model", role="batch")]
        peak = wire.Peak(1, "jit_step", "f", buffers=(wire.Buffer("temporary", 1000, shape="f32[16,77]"),))
        of = replace(run(*(batches[i] for i in order)), peak=peak)
        axes = mesh(data=8, model=1)
        assert buffers.rescaled(of, axes, place(of, axes)) == (500, 2000, 1000)

    def test_figures_that_the_compiler_lacks_are_those_of_the_buffers(self):
        program = wire.Program("jit_step", "f", 8, 8, argument_bytes=32768 + 16_000 * 4)
        of = run(self.weights, self.batch, program=program)
        assert memory_of(of, of.axes, place(of, of.axes), uses_of(of)).interval is None
        peak = wire.Peak(1, "jit_step", "f", temporary_bytes=1000, result_bytes=24)
        known = replace(of, peak=peak)
        found = memory_of(known, of.axes, place(of, of.axes), uses_of(known))
        assert found.interval == (32768 + 64_000 + 1024,) * 2


@pytest.fixture
def now() -> Today:
    """A training run on data=2, model=4."""
    cluster = builders.folded(builders.training())
    return today(cluster, builders.NOW)


class TestPlans:
    def test_arrays_of_pmap_cannot_be_planned(self):
        mapped = wire.Sharding("named", "P('batch',)", 0, (), "device", (("batch",),))
        mesh = wire.Mesh((("batch", 8),), wire.pack_ids(tuple(range(8))))
        cluster = Cluster()
        whole = wire.Sharding("named", "P()", 0, (), "device", ())
        old = wire.Sharding("other", "PmapSharding(…)", None, wire.pack_ids(tuple(range(8))), "device")
        cases = (((8, 64), 0, "jax.pmap"), ((8, 64), 2, "jax.pmap"), ((16, 64), 0, None), ((8, 64), 1, None))
        for shape, sharding, why in cases:
            size = 4 * math.prod(shape)
            group = wire.ArrayGroup(shape, "float32", sharding, size, size, "params", "train")
            census = wire.Arrays(
                int(builders.NOW * 1000), 1, 1, (mesh,), (mapped, whole, old), (group,), (1,)
            )
            frames = [each for each in builders.well() if each.kind != "arrays"]
            frames += [builders.frame(builders.agent_id(i), census) for i in range(2)]
            for frame in frames:
                cluster.feed(frame)
            if why:
                with pytest.raises(CannotPlan, match=why):
                    today(cluster, builders.NOW)
            else:
                assert today(cluster, builders.NOW).axes == (("batch", 8),)

    def test_the_state_of_today_is_what_the_arrays_hold(self, now):
        expected = sum(
            math.prod(shape) * builders.WIDTHS[dtype] // (8, 1, 2)[sharding]
            for shape, dtype, sharding, _ in builders.STATE.values()
        )
        assert state_bytes(now, now.axes, place(now, now.axes)) == expected

    def test_today_comes_first_and_once(self, now):
        for asked in (
            PlanRequest(),
            PlanRequest(devices=4),
            PlanRequest(every=True),
            PlanRequest(rules=(ShardingRule("state", "data"),)),
        ):
            found = plan(now, asked).candidates
            assert [each.is_today for each in found] == [True, *(False,) * (len(found) - 1)]
            assert len({(each.axes, each.rules) for each in found}) == len(found)

    @pytest.mark.parametrize("asked", [PlanRequest(devices=32), PlanRequest(every=True)])
    def test_meshes_that_use_the_axes_of_today_come_first(self, asked):
        sizes = {"data": 8, **{f"unused{i}": 1 for i in range(6)}, "model": 8}
        of = run(tensor("w", (512, 512), ("data", *list(sizes)[1:-1]), "model", over=sizes), **sizes)
        uses = [any(size > 1 for _, size in axes[1:-1]) for axes, _ in meshes(RunArrays(of), asked)]
        assert uses == sorted(uses) and uses.count(False) >= 6

    def test_devices_are_shared_out_over_the_axes_of_today(self, now):
        found = plan(now, PlanRequest(devices=4)).candidates
        assert {each.axes for each in found[1:]} == {
            mesh(data=4, model=1), mesh(data=2, model=2), mesh(data=1, model=4)
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("asked", "why"),
        [
            (PlanRequest(devices=7), "7 devices cannot be used"),
            (PlanRequest(meshes=(mesh(data=3, model=2),)), "data=3 divides no array: dimension 0 of"),
            (PlanRequest(rules=(ShardingRule("stat", "data"),)), "no named array matches stat"),
            (
                PlanRequest(meshes=(mesh(model=8),), rules=(ShardingRule("state", "data"),)),
                "model=8 lacks that axis",
            ),
        ],
    )
    def test_what_cannot_be_planned_is_one_line(self, now, asked, why):
        with pytest.raises(CannotPlan, match=f"^[^\n]*{why}[^\n]*$"):
            plan(now, asked)

    def test_a_limit_is_kept_or_broken_for_certain_or_not_known(self, now):
        state = plan(now, PlanRequest()).candidates[0].state_bytes_per_device
        assert plan(now, PlanRequest(limit_bytes=state - 1)).candidates[0].fits is False
        assert (
            plan(now, PlanRequest(limit_bytes=state)).candidates[0].fits is None
        )  # nothing is known of a launch
        assert plan(now, PlanRequest()).candidates[0].fits is None
