"""The collectives of a step on another mesh, against those that XLA compiled for the same programs."""

from __future__ import annotations

from collections import Counter
from math import prod

import pytest

from jaxtop import wire
from jaxtop.features.planning.model.plan import Exchange, PlacedArray, Tensor, Today
from jaxtop.features.planning.model.roles import layers_of
from jaxtop.features.planning.model.times.communication import traffic
from jaxtop.features.planning.model.times.work import work_ratio

WIDTH = 768
KB = 1024


def tensor(name, role, shape, *parts):
    return Tensor(name, role, shape, "float32", parts, 4 * prod(shape), 4 * prod(shape))


def run(axes, tensors, exchanges=(), **more):
    devices = prod(size for _, size in axes)
    return Today(
        "r1", axes, tuple(range(devices)), devices, "cpu", "cpu", tensors, exchanges=exchanges, **more
    )


def moved(today, axes):
    """Return the bytes of a step by kind and axes, and what was assumed."""
    sizes = dict(axes)
    placed = [
        PlacedArray(
            each, each.parts, each.bytes_global // prod(sizes[name] for of in each.parts for name in of)
        )
        for each in today.tensors
    ]
    found = traffic(today, axes, placed)
    total: Counter[tuple[str, str]] = Counter()
    for each in found.moved:
        total[each.kind, "+".join(each.axes)] += each.bytes * each.times
    return total, found.assumptions


def mesh(**sizes):
    return tuple(sizes.items())


SHARDED = (
    *(tensor(f"params.{i}", "parameters", (WIDTH, WIDTH), ("fsdp",), ()) for i in range(4)),
    *(tensor(f"mu.{i}", "optimizer", (WIDTH, WIDTH), ("fsdp",), ()) for i in range(4)),
    tensor("batch['x']", "batch", (64, WIDTH), ("data", "fsdp"), ()),
)
WHOLE = 4 * WIDTH * WIDTH * 4
REDUCED = Exchange("all-reduce.1", "all-reduce", "(f32[768,768], 3 more)", WHOLE, ("data",), 1)


def test_what_arrays_of_unknown_use_move_is_said_to_be_left_out():
    weights = tensor("w", None, (6, WIDTH, WIDTH), (), ("fsdp",), ("tensor",))
    today = run(mesh(data=2, fsdp=1, tensor=2), (weights, SHARDED[-1]))
    found, assumptions = moved(today, mesh(data=2, fsdp=2, tensor=2))
    assert not found
    assert assumptions == ["what fsdp moves is left out: no array is known to be a parameter"]
    assert not moved(today, today.axes)[1]


class TestFullySharded:
    """A perceptron of four layers: the compiled programs of each mesh contain these bytes."""

    def test_newly_divided_parameters_are_gathered(self):
        found, assumptions = moved(run(mesh(data=8, fsdp=1), SHARDED, (REDUCED,)), mesh(data=2, fsdp=4))
        assert found == {
            ("all-gather", "fsdp"): WHOLE,
            ("all-reduce", "fsdp"): WHOLE,
            ("all-reduce", "data"): WHOLE / 4,
        }
        assert any("gathering of divided parameters over fsdp is derived" in each for each in assumptions)

    def test_other_platforms_scatter_the_gradients(self):
        today = run(mesh(data=8, fsdp=1), SHARDED, (REDUCED,))
        gpus = Today(**{**{name: getattr(today, name) for name in today.__slots__}, "platform": "gpu"})
        found, _ = moved(gpus, mesh(data=1, fsdp=8))
        assert found == {("all-gather", "fsdp"): WHOLE, ("reduce-scatter", "fsdp"): WHOLE}

    def test_a_program_that_gathers_twice_does_so_on_other_meshes(self):
        gathers = [
            Exchange(f"all-gather.{i}", "all-gather", "f32[768,768]", WHOLE // 4, ("fsdp",), 2)
            for i in range(4)
        ]
        exchanges = (
            *gathers,
            Exchange("all-reduce.1", "all-reduce", "", WHOLE, ("fsdp",), 1),
            Exchange("all-reduce.2", "all-reduce", "", WHOLE // 2, ("data",), 1),
        )
        found, assumptions = moved(run(mesh(data=4, fsdp=2), SHARDED, exchanges), mesh(data=1, fsdp=8))
        assert found == {("all-gather", "fsdp"): 2 * WHOLE, ("all-reduce", "fsdp"): WHOLE}
        assert not assumptions

    def test_a_program_that_reduces_no_gradients_does_so_nowhere(self):
        loss = Exchange("all-reduce.9", "all-reduce", "f32[]", 4, ("data",), 1)
        found, _ = moved(run(mesh(data=8, fsdp=1), SHARDED, (loss,)), mesh(data=4, fsdp=1))
        assert found == {("all-reduce", "data"): 4}

    def test_one_device_exchanges_nothing(self):
        assert not moved(run(mesh(data=8, fsdp=1), SHARDED, (REDUCED,)), mesh(data=1, fsdp=1))[0]


LAYERS = (
    tensor("params.qkv", "parameters", (4, 128, 3, 8, 16), (), (), (), ("model",), ()),
    tensor("params.out", "parameters", (4, 8, 16, 128), (), ("model",), (), ()),
    tensor("params.up", "parameters", (4, 128, 512), (), (), ("model",)),
    tensor("params.down", "parameters", (4, 512, 128), (), ("model",), ()),
    tensor("mu.up", "optimizer", (4, 128, 512), (), (), ("model",)),
    Tensor("batch", "batch", (8, 64), "int32", (("data",), ()), 2 * KB, 2 * KB),
)
STREAM = 128 * 64 * 4


class TestTensorParallel:
    """A transformer with a loop over four layers, divided as in Megatron."""

    def test_activations_are_reduced_four_times_a_layer(self):
        found, assumptions = moved(run(mesh(data=8, model=1), LAYERS), mesh(data=4, model=2))
        # Forward after `out` and `down`, backward before `qkv` and `up`; two rows of the batch a device.
        assert found["all-reduce", "model"] == 4 * 4 * 2 * STREAM
        assert any("derived" in each for each in assumptions)

    def test_what_is_reduced_today_shrinks_with_the_batch(self):
        today = Exchange("all-reduce.1", "all-reduce", "f32[2,64,128]", 2 * STREAM, ("model",), 16)
        found, _ = moved(run(mesh(data=4, model=2), LAYERS, (today,)), mesh(data=2, model=4))
        assert found["all-reduce", "model"] == 16 * 4 * STREAM
        found, _ = moved(run(mesh(data=4, model=2), LAYERS, (today,)), mesh(data=8, model=1))
        assert ("all-reduce", "model") not in found

    def test_results_that_stay_divided_for_no_matrix_are_gathered(self):
        """A convolution net that divides output channels only: each next layer needs all channels."""
        tensors = (
            tensor("params.1", "parameters", (3, 3, 32, 64), (), (), (), ("model",)),
            tensor("params.2", "parameters", (3, 3, 64, 128), (), (), (), ("model",)),
            tensor("mu.1", "optimizer", (3, 3, 32, 64), (), (), (), ("model",)),
            tensor("images", "batch", (16, 8, 8, 3), ("data",), (), (), ()),
        )
        found, _ = moved(run(mesh(data=8, model=1), tensors, (REDUCED,)), mesh(data=4, model=2))
        rows = 16 * 8 * 8 // 4
        assert found["all-gather", "model"] == 2 * rows * (64 + 128) * 4
        assert found["all-reduce", "model"] == rows * (32 + 64) * 4

    def test_other_gathers_over_the_batch_are_activations(self):
        gathered = Exchange("all-gather.1", "all-gather", "f32[8,64]", 2 * KB, ("data",), 1)
        found, _ = moved(run(mesh(data=4, model=2), LAYERS, (gathered,)), mesh(data=2, model=4))
        assert found["all-gather", "data"] == 2 * KB


def test_tokens_go_to_experts_which_are_not_gathered():
    tensors = (
        tensor("up", "parameters", (8, 128, 512), ("expert",), (), ()),
        tensor("mu", "optimizer", (8, 128, 512), ("expert",), (), ()),
        tensor("x", "batch", (8, 128, 128), ("data", "expert"), (), ()),
    )
    sent = Exchange("all-to-all.1", "all-to-all", "f32[1,1,128,1,4,32]", 128 * KB, ("expert",), 2)
    found, _ = moved(run(mesh(data=4, expert=2), tensors, (sent,)), mesh(data=1, expert=4))
    # Half of the devices have twice the tokens.
    assert found == {("all-to-all", "expert"): 2 * 2 * 128 * KB}
    gate = tensor("gate", "parameters", (128, 8), (), ("expert",))
    today = run(mesh(data=8, expert=1), (*tensors, gate), (REDUCED,))
    derived, assumptions = moved(today, mesh(data=2, expert=4))
    assert set(derived) == {("all-to-all", "expert"), ("all-reduce", "data")}
    assert any("tokens" in each for each in assumptions)


def test_stages_pass_their_activations_on():
    tensors = (
        tensor("w", "parameters", (8, 256, 512), ("stage",), (), ()),
        tensor("v", "parameters", (8, 512, 256), ("stage",), (), ()),
        tensor("mu", "optimizer", (8, 256, 256), ("stage",), (), ()),
        tensor("x", "batch", (8, 64, 256), (), ("data",), ()),
    )
    whole = 2 * 8 * 256 * 512 * 4
    reduced = Exchange("all-reduce.1", "all-reduce", "", whole, ("data",), 1)
    found, _ = moved(run(mesh(data=8, stage=1), tensors, (reduced,)), mesh(data=2, stage=4))
    assert set(found) == {("collective-permute", "stage"), ("all-reduce", "data")}
    assert found["all-reduce", "data"] == pytest.approx(whole / 4)


class TestPipelines:
    """Eight layers over the stages; a batch passes in eight parts, as the rounds of the loop show."""

    TENSORS = (
        tensor("w", "parameters", (8, 256, 256), ("stage",), (), ()),
        tensor("mu", "optimizer", (8, 256, 256), ("stage",), (), ()),
        tensor("x", "batch", (8, 64, 256), (), ("data",), ()),
    )
    SENT = Exchange("collective-permute.1", "collective-permute", "f32[32,256]", 32 * KB, ("stage",), 11)
    TODAY = run(mesh(data=2, stage=4), TENSORS, (SENT,))

    def test_the_loop_has_more_rounds_the_more_stages_there_are(self):
        found, _ = moved(self.TODAY, mesh(data=1, stage=8))
        assert found["collective-permute", "stage"] == 15 * 64 * KB
        alone = Exchange("collective-permute.1", "collective-permute", "f32[8,256]", 8 * KB, (), 8)
        found, _ = moved(run(mesh(data=8, stage=1), self.TENSORS, (alone,)), mesh(data=4, stage=2))
        assert found["collective-permute", "stage"] == 9 * 16 * KB

    def test_devices_also_compute_while_the_pipeline_fills(self):
        program = wire.Program("jit_step", "f", 8, 8, 10**12, 10**6)
        today = run(mesh(data=2, stage=4), self.TENSORS, (self.SENT,), program=program)
        for axes, rounds in ((mesh(data=8, stage=1), 8), (mesh(data=1, stage=8), 15)):
            placed = [PlacedArray(each, each.parts, each.bytes_global) for each in self.TENSORS]
            assert work_ratio(today, axes, placed).value == pytest.approx(rounds / 11, rel=0.01)


def test_layers_are_distinguished_from_widths():
    def layers(*shapes):
        return layers_of([tensor("w", "parameters", each) for each in shapes]).number

    assert layers((4, 128, 3, 8, 16), (4, 8, 16, 128), (4, 128, 512)) == 4
    # Heads of an attention without a loop, and windows of a convolution.
    assert not layers((768, 12, 64), (768, 4, 64), (12, 64, 768), (768, 3072))
    assert not layers((3, 3, 32, 64), (3, 3, 64, 128))


def test_unknown_groups_and_unknown_rows_are_said():
    unknown = Exchange("all-reduce.1", "all-reduce", "f32[64]", 256, None, 1)
    _, assumptions = moved(run(mesh(data=8, model=1), LAYERS[:5], (unknown,)), mesh(data=4, model=2))
    assert any("its groups are unknown" in each for each in assumptions)
    assert any("the rows of a batch are unknown" in each for each in assumptions)
