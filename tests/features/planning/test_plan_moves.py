"""Moves worth making: what each saves, against sums made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from jaxtop import wire
from jaxtop.features.planning.model.moves import _is_worth
from jaxtop.features.planning.model.plan import Exchange, LinkCost, PlanRequest, ShardingRule, StepTime, Today
from jaxtop.features.planning.model.planner import plan
from jaxtop.features.planning.model.times.links import BETWEEN, WITHIN
from tests.features.planning.test_planning_memory import run, tensor

MIB = 1 << 20
# 1024 × 1024 floats, 4 MiB, of which each device holds a half; the optimizer has two such moments.
WEIGHT = tensor("state.params['w']", (1024, 1024), None, "model", role="parameters")
MOMENTS = replace(tensor("state.opt_state.mu['w']", (1024, 1024), None, "model", role="optimizer"), count=2)
BATCH = tensor("batch", (64, 1024), "data", role="batch")
STATE = 6 * MIB
PROGRAM = wire.Program(
    "jit_train_step", "f", 8, 8, flops=1 << 30, argument_bytes=STATE + 65536, output_bytes=STATE,
    alias_bytes=STATE, temp_bytes=MIB,
)  # fmt: skip
GRADIENTS = Exchange("all-reduce.1", "all-reduce", "f32[1024,512]", 2 * MIB, ("data",), 1)
STEP = StepTime(30.0, 20.0, 10.0, 0.0)
LINKS = {
    (WITHIN, "any"): LinkCost(10.0, 10e9, "measured"),
    (BETWEEN, "any"): LinkCost(50.0, 1e9, "measured"),
}


def today(*tensors, exchanges=(GRADIENTS,), **more) -> Today:
    made = run(*(tensors or (WEIGHT, MOMENTS, BATCH)), program=PROGRAM)
    return replace(made, platform="gpu", exchanges=exchanges, step=STEP, links=LINKS, **more)


def moves(of: Today, **asked) -> dict:
    return {each.title: each for each in plan(of, PlanRequest(**asked)).moves}


def test_replicated_state_can_be_divided_by_the_axis_that_replicates_it():
    found = moves(today())
    optimizer = found["Divide the optimizer state by data"]
    assert optimizer.saves_bytes == 2 * 2 * MIB * 3 // 4
    assert optimizer.change == "state.opt_state.mu['w']: P(None, 'model') → P('data', 'model')"
    assert optimizer.rules == (ShardingRule("role=optimizer", "data"),)
    assert "each of the 4 devices along data" in optimizer.why
    # What it shows is what the plan for its options shows.
    alone = plan(today(), PlanRequest(rules=optimizer.rules)).candidates[1]
    assert alone.state_bytes_per_device == STATE + 65536 - optimizer.saves_bytes


def test_a_few_bytes_are_not_worth_a_move():
    """Two thirds of the memory of a model with kilobytes are still kilobytes."""
    weight = replace(WEIGHT, shape=(16, 16), bytes_per_device=512)
    moments = replace(MOMENTS, shape=(16, 16), bytes_per_device=512)
    small = replace(today(weight, moments, BATCH), program=None)
    assert plan(small, PlanRequest()).moves == ()


def test_a_move_that_costs_more_of_a_step_than_it_saves_of_the_memory_is_none():
    made = plan(today(), PlanRequest())
    now, move = made.candidates[0], made.moves[0]
    held, step = now.memory_bytes.middle, now.step_ms.middle
    worth = {
        (of_memory, cost): _is_worth(
            move._replace(saves_bytes=of_memory * held, saves_ms=-cost * step), now, None
        )
        for of_memory, cost in ((0.2, 0.1), (0.2, 0.22), (0.5, 0.22), (0.5, 0.26))
    }
    assert [pair for pair, is_worth in worth.items() if is_worth] == [(0.2, 0.1), (0.5, 0.22)]
    saved = move._replace(saves_bytes=3 * MIB, saves_ms=None)
    assert _is_worth(saved, now, 64 * MIB) and not _is_worth(saved, now, 80 << 30)


def test_state_that_is_divided_already_is_left_alone():
    divided = [replace(each, parts=(("data",), ("model",)), bytes_per_device=MIB // 2) for each in
               (WEIGHT, MOMENTS)]  # fmt: skip
    assert not [title for title in moves(today(*divided, BATCH)) if title.startswith("Divide")]


def test_a_heavy_axis_that_crosses_hosts_changes_places():
    two_hosts = today(devices_per_host=2, exchanges=(replace(GRADIENTS, axes=("data",)),))
    assert not [each for each in moves(two_hosts).values() if each.axes]  # 4 devices do not fit on a host
    four = today(devices_per_host=4, exchanges=(replace(GRADIENTS, bytes=20 * MIB),))
    (found,) = [each for each in moves(four).values() if each.axes]
    assert found.title == "Change the order of the axes: data stays within hosts"
    assert found.axes == (("model", 2), ("data", 4))
    assert found.change.startswith(
        "jax.make_mesh((4, 2), ('data', 'model')) → jax.make_mesh((2, 4), ('model'"
    )
    assert found.saves_ms > 1 and found.saves_bytes == 0
    assert not [each for each in moves(today(devices_per_host=8)).values() if each.axes]


def test_an_axis_that_communicates_more_does_not_cross_hosts_instead():
    heavier = Exchange("all-reduce.2", "all-reduce", "f32[4096,512]", 90 * MIB, ("model",), 1)
    of = today(devices_per_host=4, exchanges=(replace(GRADIENTS, bytes=20 * MIB), heavier))
    # Where processes share a machine, what crosses them can be measured as the faster.
    faster = replace(
        of, links={(WITHIN, "any"): LINKS[BETWEEN, "any"], (BETWEEN, "any"): LINKS[WITHIN, "any"]}
    )
    assert not [each for each in moves(faster).values() if each.axes]


def test_state_whose_memory_is_not_reused_can_be_donated():
    undonated = replace(today(), program=replace_struct(PROGRAM, alias_bytes=2 * MIB))
    found = moves(undonated)["Donate the state to train_step"]
    assert found.saves_bytes == 4 * MIB and found.saves_ms is None
    assert "donate_argnums" in found.change
    other = replace(today(), program=replace_struct(PROGRAM, alias_bytes=0, argument_bytes=65536))
    assert "Donate the state to train_step" not in moves(other)  # it is not the program of the state
    assert "Donate the state to train_step" not in moves(today())


def replace_struct(program: wire.Program, **fields) -> wire.Program:
    return structs.replace(program, **fields)


def gather(shape="f32[1024,512]", times=2, took=5000.0) -> Exchange:
    return Exchange("all-gather.1", "all-gather", shape, 2 * MIB, ("data",), times, transfer_us=took)


SHARDED = replace(WEIGHT, parts=(("data",), ("model",)), bytes_per_device=MIB // 2)


def test_parameters_that_are_gathered_twice_can_be_gathered_once():
    of = today(SHARDED, BATCH, exchanges=(gather(),))
    found = moves(of)["Gather parameters once a step instead of 2 times"]
    assert found.saves_ms == pytest.approx(5.0)
    assert found.saves_bytes == -3 * MIB // 2  # 2 MiB for each part of the model, of which it holds a quarter
    assert found.change.startswith("jax.lax.with_sharding_constraint(state.params['w'], P(None, 'model'))")
    assert not [each for each in moves(replace(of, exchanges=(gather(times=1),))) if "Gather" in each]


def test_gathers_are_counted_for_each_array_and_layer():
    stacked = replace(
        SHARDED, shape=(4, 1024, 1024), parts=((), ("data",), ("model",)), bytes_per_device=2 * MIB
    )
    one_by_one = today(stacked, BATCH, exchanges=(gather(times=8),))
    assert "Gather parameters once a step instead of 2 times" in moves(one_by_one)
    once = today(replace(SHARDED, count=2), BATCH, exchanges=(gather(),))
    assert not [each for each in moves(once) if "Gather" in each]


def test_moments_with_the_shape_of_a_parameter_are_not_taken_for_it():
    moments = replace(SHARDED, name="state.mu", role="optimizer")
    found = moves(today(moments, SHARDED, BATCH, exchanges=(gather(),)))
    assert "state.params" in found["Gather parameters once a step instead of 2 times"].change


def test_an_array_that_no_step_changes_can_be_held_whole():
    table = replace(SHARDED, name="rotations", role=None)
    found = moves(today(table, BATCH, exchanges=(gather(times=1),)))
    move = found["Hold rotations whole instead of gathering it in each step"]
    assert move.change == "rotations: P('data', 'model') → P(None, 'model')"
    assert (move.saves_ms, move.saves_bytes) == (pytest.approx(5.0), -3 * MIB // 2)
    assert move.rules == (ShardingRule("rotations", parts=((), ("model",))),)


def test_what_would_no_longer_fit_is_not_proposed():
    of = today(SHARDED, BATCH, exchanges=(gather(),))
    assert [each for each in moves(of, limit_bytes=64 * MIB) if "Gather" in each]
    assert not [each for each in moves(of, limit_bytes=int(7.5 * MIB)) if "Gather" in each]


def test_what_costs_much_time_is_proposed_only_if_today_does_not_fit():
    # There, gradients are reduced whole, so gathering the parameters comes on top.
    slow = replace(today(), platform="cpu", links={(WITHIN, "any"): LinkCost(10.0, 0.1e9, "measured")})
    title = "Divide parameters and optimizer state by data"
    assert title not in moves(slow)
    assert moves(slow, limit_bytes=MIB)[title].saves_ms < 0


def test_small_gains_are_not_worth_a_line():
    ema = tensor("ema", (4096, 4096), role="other")
    assert not moves(today(ema, BATCH, tensor("mu", (64, 64), role="optimizer")))
