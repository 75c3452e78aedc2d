"""Who takes part in a collective, how many bytes it moves, and what of a program is told.

The groups are those of XLA's replica_group_test.cc and mesh_and_axis_test.cc; whose ids they are is from the
examples in collective_ops_utils.h; layouts and types are from docs/shapes.md and xla_data.proto.
"""

from __future__ import annotations

import random

import pytest

from jaxtop import wire
from jaxtop.traces.members import BOTH, FLAT, PARTITION, REPLICA, DeviceAssignment, flattened, linked
from jaxtop_agent.programs import fitting, groups, hlo, shapes
from tests.made.hlo_texts import DATA_GROUPS, MODEL_GROUPS, members, module, only


class TestGroups:
    @pytest.mark.parametrize(
        ("written", "meant"),
        [
            ("{}", ()),
            ("{{0,2},{1,3}}", ((0, 2), (1, 3))),
            ("{{0},{1,2},{3,4,5}}", ((0,), (1, 2), (3, 4, 5))),
            ("[2,10]<=[20]", (tuple(range(10)), tuple(range(10, 20)))),
            (
                "[2,10]<=[4,5]T(1,0)",
                ((0, 5, 10, 15, 1, 6, 11, 16, 2, 7), (12, 17, 3, 8, 13, 18, 4, 9, 14, 19)),
            ),
            ("mesh['axis_0'=4,'axis_1'=2] {'axis_1'}", MODEL_GROUPS),
            ("mesh['axis_0'=4,'axis_1'=2] {'axis_0'}", DATA_GROUPS),
            ("mesh[x=2,y=2] {x,y}", ((0, 1, 2, 3),)),
            ("mesh[x=2,y=2] {y,x}", ((0, 2, 1, 3),)),
            ("mesh['a'=8] {'a':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
            ("mesh['a'=8] {'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
            ("mesh['a'=8] {'a':(1)2,'a':(4)2}", ((0, 1, 4, 5), (2, 3, 6, 7))),
            ("mesh['a'=8] {'a':(4)2,'a':(1)2}", ((0, 4, 1, 5), (2, 6, 3, 7))),
            ("mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'y'}", ((0, 2), (1, 3))),
            ("mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'x'}", ((0, 1), (2, 3), (4, 5), (6, 7))),
            ("mesh[x=2] {}", ((0,), (1,))),
        ],
    )
    def test_all_spellings(self, written, meant):
        assert groups.read(written) == meant
        found = groups.PATTERN.search(f", channel_id=1, replica_groups={written}, dimensions={{0}}")
        assert found and found[1] == written

    @pytest.mark.parametrize(
        "written",
        [
            "", "{{0,1}", "{{}}", "{{0,,1}}", "{0,1}", "[2,4]<=[9]", "[2,4]<=[4,2]T(0,0)", "[2,4]<=[4,2]T(1)",
            "[9999999,9999999]<=[9999999,9999999]", "mesh[x=2] {y}", "mesh[x=2,y=2], device_ids=(0,1,2) {x}",
            "mesh['a'=8] {'a':(3)2}", "mesh['a'=8] {'a':(1)2,'a':(1)2}", "mesh['a'=8] {'a':(0)2}",
            "mesh[x=0] {x}",
        ],
    )  # fmt: skip
    def test_what_is_no_spelling_is_unknown(self, written):
        assert not groups.read(written)

    def test_whose_ids_they_are(self):
        """The example of collective_ops_utils.h: three replicas of two partitions."""
        places = DeviceAssignment(3, 2)
        assert flattened(((0,), (1, 2)), REPLICA, places) == ((0,), (2, 4), (1,), (3, 5))
        assert flattened(((0, 1),), PARTITION, places) == ((0, 1), (2, 3), (4, 5))
        assert flattened(((0,), (1, 2)), BOTH, places) == ((0, 1), (2, 3, 4, 5))
        assert flattened(((0,), (1, 2), (3, 4, 5)), FLAT, places) == ((0,), (1, 2), (3, 4, 5))
        assert flattened((), REPLICA, places) == ((0, 2, 4), (1, 3, 5))
        assert flattened(((0, 3),), REPLICA, places) is None

    def test_permutations_join_who_sends_to_whom(self):
        assert linked(((4, 5), (0, 2), (2, 0), (5, 1))) == ((0, 2), (1, 4, 5))

    def test_sums_of_replicas_and_of_partitions_of_each_are_distinguished(self):
        line = "%a = f32[4]{{0}} all-reduce(%p), {}replica_groups={{{{0,1}}}}, to_apply=%add"
        both = "replica_count=2, num_partitions=2"
        collective, reading = only(line.format(""), devices=both)
        assert members(reading.groups[collective.groups]) == ((0, 2), (1, 3))
        collective, reading = only(line.format("channel_id=1, "), devices=both)
        assert members(reading.groups[collective.groups]) == ((0, 1, 2, 3),)
        assert only(line.format("use_global_device_ids=true, "), devices=both)[0].groups is None

    def test_groups_that_do_not_fit_the_devices_are_unknown(self):
        line = "%a = f32[4]{0} all-reduce(%p), replica_groups={{0,9}}, to_apply=%add"
        collective, _ = only(line, devices="replica_count=8")
        assert (collective.groups, collective.bytes) == (None, 16)

    def test_each_kind_of_groups_is_reported_once(self):
        line = "f32[4]{0} all-reduce(%p), channel_id=1, use_global_device_ids=true, replica_groups="
        spelled = ("{{0,1},{2,3},{4,5},{6,7}}", "[4,2]<=[8]", "mesh['a'=4,'b'=2] {'b'}")
        reading = hlo.read(module(*(f"%a.{i} = {line}{each}" for i, each in enumerate(spelled))))
        assert [each.groups for each in reading.collectives] == [0, 0, 0] and len(reading.groups) == 1


class TestBytes:
    @pytest.mark.parametrize(
        ("shape", "size"),
        [
            ("f32[]", 4), ("pred[8]", 8), ("bf16[3,5]{1,0}", 30), ("f8e4m3fn[7]", 7), ("f8e5m2[7]{0}", 7),
            ("f4e2m1fn[6]", 3), ("s4[5]{0:E(4)}", 3), ("u4[8]", 4), ("s4[8]{0:T(64)E(8)}", 8), ("c64[2]", 16),
            ("c128[2]", 32), ("token[]", 0), ("f32[0,8]", 0), ("f32[<=8,2]{1,0}", 64), ("f64[3]", 24),
            ("f32[?,2]", None), ("opaque[]", None), ("f32[99999999999,99999999999]", None), ("new7[2]", None),
        ],
    )  # fmt: skip
    def test_of_every_type(self, shape, size):
        found = shapes.read(shape)
        assert found is not None and shapes.size(shapes.arrays(found)) == size

    def test_of_what_is_scattered_the_whole(self):
        """Where the text has the operands, as in older versions, by them; else by what all members get."""
        line = "%r = f32[2,4]{{1,0}} reduce-scatter({}%p), channel_id=1, replica_groups=[2,4]<=[8], "
        end = "use_global_device_ids=true, dimensions={0}, to_apply=%add"
        assert (
            only(line.format("") + end)[0].bytes == only(line.format("f32[8,4]{1,0} ") + end)[0].bytes == 128
        )

    def test_a_tuple_is_the_sum_of_its_parts(self):
        line = "%a = (f32[32,64]{1,0}, f32[], /*index=2*/s32[2], u8[3]) all-reduce(%p, %q), replica_groups={}"
        collective, _ = only(line)
        assert (collective.bytes, collective.shape) == (
            8192 + 4 + 8 + 3,
            "(f32[32,64], f32[], s32[2], 1 more)",
        )

    def test_a_shape_that_is_none_leaves_the_rest_known(self):
        collective, reading = only("%a = !!! all-reduce(%p), replica_groups={}", devices="replica_count=4")
        assert (collective.bytes, collective.shape, collective.groups) == (None, "", 0)
        assert reading.unread == 0


class TestMessages:
    def reading(self, count: int) -> hlo.HloReading:
        every = "all-reduce(%p), channel_id=1, use_global_device_ids=true, replica_groups=[1,8]<=[8]"
        return hlo.read(module(*(f"%a.{i} = f32[{i + 1}]{{0}} {every}" for i in range(count))))

    def test_those_that_move_most_are_listed_the_rest_is_counted(self):
        told = fitting.fitted(wire.Inventory(0, "jit_step", "f", 8), self.reading(3000))
        assert len(told.collectives) + told.rest == 3000 and len(told.collectives) > 500
        assert [each.op for each in told.collectives] == [f"a.{i}" for i in range(told.rest, 3000)]
        assert len(wire.encode(told)) <= wire.MAX_TELEMETRY

    def test_groups_without_order_leave_room_for_the_rest(self):
        ids = random.Random(1).sample(range(65536), 65536)
        shuffled = "{{" + ",".join(map(str, ids)) + "}}"
        line = (
            f"f32[4]{{0}} all-reduce(%p), channel_id=1, use_global_device_ids=true, replica_groups={shuffled}"
        )
        reading = hlo.read(module(f"%a = {line}", devices="num_partitions=65536"))
        (collective,) = (told := fitting.fitted(wire.Inventory(0, "p", None, 65536), reading)).collectives
        assert (collective.bytes, collective.groups, told.groups) == (16, None, ())

    def test_a_new_viewer_gets_the_weightiest_programs_there_is_room_for(self):
        inventories = {
            i: fitting.fitted(wire.Inventory(0, f"p{i}", None, 8), self.reading(20 + i)) for i in range(40)
        }
        listed = fitting.most_important(inventories, 30_000)
        names = [wire.decode("inventory", each).program for each in listed]
        assert names == [f"p{i}" for i in range(39, 39 - len(names), -1)] and 1 < len(names) < 40
        assert sum(map(len, listed)) <= 30_000
