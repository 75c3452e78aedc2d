"""Plans: what a run is like today, from the messages of its processes."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.features.planning.model.plan import CannotPlan, Today
from jaxtop.features.planning.model.sharding import place, state_bytes
from jaxtop.features.planning.model.today import plannable, today
from jaxtop.model import Cluster
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, folded, frame, hello, pulse

GRID = wire.Mesh((("data", 4), ("model", 2)), ((0, 8),))
FLAT = wire.Mesh((("i", 8),), ((0, 8),))
# The same devices, in the order of the columns of GRID.
COLUMNS = wire.Mesh((("tensor", 2), ("rows", 4)), wire.pack_ids((0, 2, 4, 6, 1, 3, 5, 7)))
HALF = wire.Mesh((("data", 4),), ((0, 4),))
MESHES = (GRID, FLAT, COLUMNS, HALF)


def named(mesh: int, *parts: str | tuple[str, ...] | None, memory: str = "device") -> wire.Sharding:
    cut = tuple((part,) if isinstance(part, str) else tuple(part or ()) for part in parts)
    return wire.Sharding("named", f"P{parts}", mesh, (), memory, cut)


def group(name: str | None, shape: tuple[int, ...], sharding: int, pieces: int, **more) -> wire.ArrayGroup:
    size = math.prod(shape) * 4
    return wire.ArrayGroup(shape, "float32", sharding, size, size // pieces, name, **more)


def census(*arrays: tuple[wire.ArrayGroup, wire.Sharding], counts: tuple[int, ...] = ()) -> wire.Arrays:
    """Return the census of these arrays; the sharding of each is numbered by its place."""
    return wire.Arrays(
        int(NOW * 1000),
        1,
        1,
        MESHES,
        tuple(sharding for _, sharding in arrays),
        tuple(replace(each, sharding=i) for i, (each, _) in enumerate(arrays)),
        counts or (1,) * len(arrays),
    )


def cluster_of(*messages: wire.Message, processes: int = 1) -> Cluster:
    """Return what a viewer knows of a run on 8 devices, each process of which sends these messages."""
    cluster = Cluster()
    for index in range(processes):
        for message in (
            wire.Link(LinkState.UP, "10.0.0.1:7411"), hello(index, processes, 8 // processes), *messages
        ):  # fmt: skip
            cluster.feed(frame(agent_id(index), message))
    return cluster


def of(*arrays: tuple[wire.ArrayGroup, wire.Sharding], counts: tuple[int, ...] = ()) -> Today:
    return today(cluster_of(census(*arrays, counts=counts), pulse(0, NOW, 8)), NOW)


# The array that decides which mesh is planned.
LARGE = group("state.w", (1024, 64), 0, 8), named(0, "data", "model")


class TestArrays:
    def parts_of(self, each: wire.ArrayGroup, sharding: wire.Sharding):
        found = of(LARGE, (each, sharding))
        assert found.axes == (("data", 4), ("model", 2))
        return next(tensor for tensor in found.tensors if tensor.name == each.name).parts

    def test_the_mesh_with_most_bytes_is_planned(self):
        small = group("x", (64,), 0, 8), named(1, "i")
        assert of(LARGE, small).axes == (("data", 4), ("model", 2))
        assert of(small).axes == (("i", 8),)

    @pytest.mark.parametrize(
        ("shape", "sharding", "expected"),
        [
            ((16, 4), named(1, "i"), (("data", "model"), ())),
            ((4, 16), named(1, None, "i"), ((), ("data", "model"))),
            ((4, 16), named(1), ((), ())),
            ((4, 16), named(2, "tensor", "rows"), (("model",), ("data",))),
            ((4, 16), named(2, None, ("tensor", "rows")), ((), ("model", "data"))),
            ((), named(2), ()),
        ],
    )
    def test_other_meshes_of_the_same_devices_are_put_in_its_axes(self, shape, sharding, expected):
        assert self.parts_of(group("x", shape, 1, 1), sharding) == expected

    def test_arrays_on_other_devices_stay_where_they_are(self):
        assert self.parts_of(group("x", (16,), 1, 4), named(3, "data")) is None
        single = wire.Sharding("single", "", None, ((5, 1),), "device")
        found = of(LARGE, (group("key", (2,), 1, 1), single))
        assert next(each for each in found.tensors if each.name == "key").device_ids == (5,)

    @pytest.mark.parametrize(
        ("tiles", "ids", "expected"),
        [
            ((8, 1), tuple(range(8)), (("data", "model"), ())),
            ((4, 1), tuple(range(8)), (("data",), ())),
            ((1, 2), (0, 2, 4, 6, 1, 3, 5, 7), ((), ("model",))),
            ((2, 1), tuple(range(8)), None),  # half of an axis
            ((), tuple(range(8)), ((), ())),
        ],
    )
    def test_tiles_are_put_in_its_axes(self, tiles, ids, expected):
        tiled = wire.Sharding("gspmd", "", None, wire.pack_ids(ids), "device", None, tiles)
        assert self.parts_of(group("x", (16, 4), 1, 1), tiled) == expected

    def test_the_old_state_during_a_step_does_not_count(self):
        listed = group("history[*]", (8,), 1, 1), named(0)
        found = of(LARGE, listed, counts=(2, 3))
        assert {each.name: each.count for each in found.tensors} == {"state.w": 1, "history[*]": 3}
        assert state_bytes(found, found.axes, place(found, found.axes)) == 1024 * 64 * 4 // 8 + 3 * 32

    def test_many_small_arrays_in_one_sum_keep_their_bytes(self):
        tail = wire.ArrayGroup((), "", 1, 40_960, 10_240, "state", groups=37), named(0, "data")
        found = of(LARGE, tail, counts=(1, 112))
        summary = next(each for each in found.tensors if each.groups > 1)
        assert (summary.bytes_per_device, summary.count) == (10_240, 1)
        (placed,) = (each for each in place(found, (("data", 8),)) if each.tensor is summary)
        assert placed.bytes_per_device == 5_120
        assert "37 kinds of small arrays" in placed.note

    def test_arrays_in_the_memory_of_the_host(self):
        found = of(LARGE, (group("x", (8,), 1, 1), named(0, memory="pinned_host")))
        assert [each.is_on_host for each in found.tensors] == [False, True]
        assert state_bytes(found, found.axes, place(found, found.axes)) == 1024 * 64 * 4 // 8


class TestAxesOfSizeOne:
    """After the first step, JAX names no axis of size 1 in the shardings that the compiler chose."""

    NARROW = wire.Mesh((("data", 8), ("model", 1)), ((0, 8),))

    def tensors(self, *arrays: tuple[wire.ArrayGroup, wire.Sharding], counts: tuple[int, ...] = ()):
        message = replace(census(*arrays, counts=counts), meshes=(self.NARROW,))
        return {each.name: each for each in today(cluster_of(message, pulse(0, NOW, 8)), NOW).tensors}

    def test_they_may_divide_arrays_that_do_not_name_them(self):
        made = {"created": "train.py:9 main"}
        found = self.tensors(
            (group("w", (16, 8), 0, 8, role="parameters", **made), named(0, "data")),
            (group("batch", (16, 8), 1, 8, role="batch"), named(0, "data")),
        )
        assert (found["w"].parts, found["w"].hidden) == ((("data",),), ("model",))
        assert found["batch"].hidden == ()

    def test_an_earlier_placement_of_the_same_array_names_them(self):
        step, start = {"created": "train.py:9 main"}, {"created": "train.py:3 main"}
        found = self.tensors(
            (group("state.w", (16, 8), 0, 8, **step), named(0, "data")),
            (group("state.w", (16, 8), 1, 8, **start), named(0, "data", "model")),
            (group("state.b", (8,), 2, 1, **step), named(0)),
            (group("other", (16, 8), 3, 8, **step), named(0, "data")),
            (group("state.w", (16, 8), 4, 1, **start), named(0, None, "model")),
            counts=(1, 0, 1, 1, 0),
        )
        assert found["state.w"].parts == (("data",), ("model",))
        # The compiler chooses how results are divided, so it may divide what the script has replicated.
        assert (found["state.b"].parts, found["state.b"].hidden) == ((), ("model",))
        assert found["other"].hidden == ("model",)

    def test_shardings_that_name_them_are_as_the_script_wrote_them(self):
        found = self.tensors(
            (group("state.w", (16, 8), 0, 8), named(0, "data", "model")),
            (group("state.b", (8,), 1, 1), named(0)),
        )
        assert [each.hidden for each in found.values()] == [(), ()]


class TestTheProgramOfTheStep:
    def of(self, *programs: wire.Program, rhythm: wire.Rhythm | None, launches: dict[str, int]) -> Today:
        before = dict.fromkeys(launches, 0)
        return today(
            cluster_of(
                census(LARGE),
                wire.Programs(int(NOW * 1000), programs),
                replace(pulse(0, NOW - 10, 8), launches=before, rhythm=rhythm),
                replace(pulse(0, NOW, 8), launches=launches, rhythm=rhythm),
            ),
            NOW,
        )

    def program(self, name: str, size: int, devices: int = 8) -> wire.Program:
        return wire.Program(name, name[-1], devices, devices, argument_bytes=size, temp_bytes=0)

    def test_it_is_one_of_the_rhythm(self):
        rhythm = wire.Rhythm(1, ("step_a",), 10, milli_per_s=1000)
        programs = self.program("jit_step_a", 100), self.program("jit_evaluate_b", 1000)
        found = self.of(*programs, rhythm=rhythm, launches={"step_a": 10, "evaluate_b": 1})
        assert (found.program, found.launches_per_step) == (programs[0], 1.0)

    def test_the_one_that_needs_most_memory_where_no_window_shows_times(self):
        rhythm = wire.Rhythm(1, ("step_a", "apply_b"), 10, milli_per_s=1000)
        programs = self.program("jit_step_a", 100), self.program("jit_apply_b", 1000)
        found = self.of(*programs, rhythm=rhythm, launches={"step_a": 40, "apply_b": 10})
        assert found.program == programs[1]

    def test_gradient_accumulation_launches_it_several_times(self):
        rhythm = wire.Rhythm(1, ("step_a", "apply_b"), 10, milli_per_s=1000)
        programs = self.program("jit_step_a", 1000), self.program("jit_apply_b", 100)
        found = self.of(*programs, rhythm=rhythm, launches={"step_a": 40, "apply_b": 10})
        assert (found.program, found.launches_per_step) == (programs[0], 4.0)

    def test_programs_on_the_whole_mesh_come_first(self):
        rhythm = wire.Rhythm(1, ("step_a", "apply_b"), 10, milli_per_s=1000)
        programs = self.program("jit_step_a", 1000, 1), self.program("jit_apply_b", 100)
        found = self.of(*programs, rhythm=rhythm, launches={"step_a": 10, "apply_b": 10})
        assert found.program == programs[1]

    def test_before_a_step_repeats_a_program_that_ran_once_is_none(self):
        """`init` may need far more memory than the step that is still being compiled."""
        programs = self.program("jit_init_a", 1000), self.program("jit_step_b", 100)
        found = self.of(*programs, rhythm=None, launches={"init_a": 1})
        assert found.program is None and found.before_steps == "train has repeated no step yet"
        found = self.of(*programs, rhythm=None, launches={"init_a": 1, "step_b": 2})
        assert found.program == programs[1] and "those of jit_step_b" in found.unknown[-1]

    def test_a_process_without_a_step_does_not_choose_for_those_that_have_one(self):
        rhythm = wire.Rhythm(1, ("step_a",), 10, milli_per_s=1000)
        programs = self.program("jit_step_a", 100), self.program("jit_evaluate_b", 1000)
        cluster = cluster_of(census(LARGE), wire.Programs(int(NOW * 1000), programs), processes=2)
        for index, own, launches in ((0, rhythm, {"step_a": 9}), (1, None, {"evaluate_b": 9})):
            told = replace(pulse(index, NOW, 4), rhythm=own, launches=launches)
            cluster.feed(frame(agent_id(index), told))
        assert today(cluster, NOW).program == programs[0]

    def test_without_one_the_plan_says_so(self):
        found = self.of(rhythm=None, launches={})
        assert found.program is None
        assert "no process reports a compiled program" in found.unknown[0]


NAMELESS = census((group(None, (8,), 0, 1), named(0)))
A_ROW_EACH = census((group("step_no", (8,), 0, 8), named(1, "i")))
STEPPING = wire.Pulse(
    int(NOW * 1000), launches={"step": 9}, rhythm=wire.Rhythm(1, ("step",), 9, milli_per_s=1000)
)


class TestRuns:
    def test_several_processes_hold_an_array_once(self):
        cluster = folded(builders.training())
        found = today(cluster, NOW)
        assert (found.axes, found.device_ids, found.devices_per_host) == (
            (("data", 2), ("model", 4)), tuple(range(8)), 4
        )  # fmt: skip
        assert len({each.name for each in found.tensors if each.name}) == len(builders.STATE)

    def test_a_run_is_found_by_id_or_name(self):
        cluster = cluster_of(census(LARGE))
        assert today(cluster, NOW, "r1").run == today(cluster, NOW, "train").run == "r1"
        with pytest.raises(CannotPlan, match="there is no run other; there is train"):
            today(cluster, NOW, "other")

    def test_of_several_runs_the_newest_is_planned_unless_one_is_named(self):
        cluster = cluster_of(census(LARGE))
        newer = replace(hello(0, 1, 8), agent="b" * 16, run="r2", started_ms=int(NOW * 1000) + 1)
        for message in (newer, census(LARGE)):
            cluster.feed(frame("b" * 16, message))
        assert [run.id for run in plannable(cluster, NOW)] == ["r2", "r1"]
        assert today(cluster, NOW).run == today(cluster, NOW, "train").run == "r2"
        assert today(cluster, NOW, "r1").run == "r1"

    @pytest.mark.parametrize(
        ("messages", "why"),
        [
            ((), "no process of train has counted its arrays yet"),
            ((NAMELESS, STEPPING), "no named array of train lies on a mesh"),
            (
                (NAMELESS, replace(STEPPING, launches={"step": 1}, rhythm=None)),
                "train has repeated no step yet; plan it after",
            ),
            (
                (
                    NAMELESS,
                    wire.Pulse(
                        int(NOW * 1000), compiling=(wire.Compiling("init", int(NOW * 1000) - 40_000),)
                    ),
                ),
                "train has run nothing yet: it has been compiling init for 40 s",
            ),
            ((NAMELESS, wire.Pulse(int(NOW * 1000))), "train has run nothing yet"),
            ((A_ROW_EACH, wire.Pulse(int(NOW * 1000))), "train has run nothing yet"),
            ((A_ROW_EACH, STEPPING), "each array of train has a row for each device, as jax.pmap"),
        ],
    )
    def test_what_cannot_be_planned_is_one_line(self, messages, why):
        with pytest.raises(CannotPlan, match=f"^{why}[^\n]*$"):
            today(cluster_of(*messages), NOW)

    def test_the_limit_is_that_of_the_device_with_least_memory(self):
        sample = wire.DeviceSample(limit_bytes=(100,) * 7 + (90,), reserved_bytes=(20,) + (0,) * 7)
        cluster = cluster_of(census(LARGE), replace(pulse(0, NOW, 8), devices=sample))
        found = today(cluster, NOW)
        assert (found.limit_bytes, found.is_limit_simulated) == (80, False)
