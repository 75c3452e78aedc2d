"""Collectives are read from the compiler's text: of four versions of JAX, of GPUs and TPUs, cut or garbled.

The texts of GPUs and TPUs are written after XLA's own: docs/async_ops.md and docs/shapes.md (tiled layouts),
the texts in hlo_parser_test.cc (asynchronous operations, with and without their short spelling) and of its
schedulers' tests. Groups are in `test_replica_groups.py`.
"""

from __future__ import annotations

import random

import pytest

from jaxtop import wire
from jaxtop_agent.programs import counting, fitting, hlo, lines
from tests import patience
from tests.made.hlo_texts import (
    DATA,
    DATA_GROUPS,
    EVERYBODY,
    MODEL_GROUPS,
    collective_rows,
    members,
    module,
    only,
    text,
)

VERSIONS = ("0.4.35", "0.8.0", "0.10.2", "0.12.0.1")


@pytest.mark.parametrize("version", VERSIONS)
class TestTextsOfJax:
    def test_every_collective_of_a_mapped_function(self, version):
        """16 × 32 of float32 on each device: 2,048 bytes."""
        reading = hlo.read(text("mapped", version))
        assert collective_rows(reading) == [
            ("all-gather", "all_gather", 64 * 32 * 4, DATA_GROUPS, 1),
            ("all-reduce", "pmax", 2048, DATA_GROUPS, None),  # in a loop that does not tell
            ("all-reduce", "psum", 2048, MODEL_GROUPS, 1),
            ("all-reduce", "psum", 2048, MODEL_GROUPS, None),  # of that loop's condition
            ("all-reduce", "psum", 2048, MODEL_GROUPS, None),  # where a condition holds
            ("all-reduce", "psum", 2048, EVERYBODY, 1),
            ("all-reduce", "psum", 2048, DATA_GROUPS, 1),
            ("all-reduce", "psum", 2048, DATA_GROUPS, 3),  # in a loop of three
            ("all-to-all", "all_to_all", 2048, MODEL_GROUPS, 1),
            ("collective-permute", "ppermute", 2048, DATA_GROUPS, 1),
            ("reduce-scatter", "reduce_scatter", 2048, DATA_GROUPS, 1),
        ]
        assert (reading.devices, reading.unread) == (8, 0)

    def test_what_the_compiler_put_in_for_shardings(self, version):
        reading = hlo.read(text("sharded", version))
        kinds = [each.kind for each in reading.collectives]
        assert sorted(kinds) == ["all-gather", "all-reduce", "all-reduce", "collective-permute"]
        assert all(each.groups is not None and each.bytes for each in reading.collectives)
        assert {each.source for each in reading.collectives} == {"dot_general", "reduce_sum"}

    def test_replicas_of_pmap(self, version):
        assert collective_rows(hlo.read(text("pmap", version))) == [
            ("all-gather", "all_gather", 8 * 16 * 4, EVERYBODY, 1),
            ("all-reduce", "psum", 64, EVERYBODY, 1),
            ("collective-permute", "ppermute", 64, ((0, 1),), 1),
        ]

    def test_a_call_into_python_is_no_collective(self, version):
        assert not hlo.read(text("callback", version)).collectives


class TestGpu:
    def test_started_and_done_counts_once(self):
        entry = (
            "%p = f32[1024]{0} parameter(0)",
            (
                "%all-reduce-start.2 = f32[1024]{0} all-reduce-start(%p), channel_id=1, "
                "replica_groups=[1,8]<=[8], use_global_device_ids=true, to_apply=%add, "
                'backend_config={"collective_backend_config":{"is_sync":false}}'
            ),
            "ROOT %all-reduce-done.5 = f32[1024]{0} all-reduce-done(%all-reduce-start.2)",
        )
        collective, reading = only(*entry)
        assert (collective.op, collective.bytes, collective.is_async) == ("all-reduce-start.2", 4096, True)
        assert reading.ends == {"all-reduce-done.5": "all-reduce-start.2"}

    def test_waited_for_at_once_is_not_asynchronous(self):
        start = "%s = f32[8]{0} all-reduce-start(%p), replica_groups={}, to_apply=%add, backend_config="
        assert not only(start + '{"collective_backend_config":{"is_sync":true}}')[0].is_async

    def test_a_gathering_start_tells_operand_and_result(self):
        start = "%s = (bf16[2,4]{1,0}, bf16[16,4]{1,0}) all-gather-start(%p), channel_id=1, "
        collective, _ = only(start + "replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true")
        assert (collective.bytes, collective.shape) == (16 * 4 * 2, "bf16[16,4]")

    def test_several_in_one(self):
        start = "%s = ((f32[2]{0}, bf16[4]{0}), (f32[16]{0}, bf16[32]{0})) all-gather-start(%a, %b), "
        start += "channel_id=1, "
        collective, _ = only(start + "replica_groups=[1,8]<=[8], dimensions={0}, use_global_device_ids=true")
        assert (collective.bytes, collective.shape) == (128, "(f32[16], bf16[32])")

    def test_the_short_spelling_of_asynchronous_operations(self):
        """As JAX's texts of GPUs have it, attributes and all."""
        collective, reading = only(
            "%reduce-scatter-start = ((f32[8]{0}), f32[4]{0}) reduce-scatter-start(%p), channel_id=2, "
            "replica_groups=[4,2]<=[8], use_global_device_ids=true, dimensions={0}, to_apply=%add",
            "%update = ((f32[8]{0}), f32[4]{0}) reduce-scatter-update(%reduce-scatter-start)",
            "ROOT %done = f32[4]{0} reduce-scatter-done(%update)",
        )
        assert (collective.kind, collective.bytes, collective.is_async) == ("reduce-scatter", 32, True)
        assert reading.ends["done"] == "reduce-scatter-start"

    def test_what_a_general_start_wraps_is_shown_by_its_own_name(self):
        inside = (
            "%async_computation (param: f32[8,4]) -> f32[8,4] {\n  %param = f32[8,4]{1,0} parameter(0)\n"
            "  ROOT %all-to-all.9 = f32[8,4]{1,0} all-to-all(%param), channel_id=3, "
            'replica_groups=[2,4]<=[8], dimensions={0}, metadata={op_name="jit(f)/all_to_all"}\n}\n\n'
        )
        collective, reading = only(
            "%all-to-all-start = ((f32[8,4]{1,0}), f32[8,4]{1,0}) async-start(%p), calls=%async_computation",
            "ROOT %all-to-all-done = f32[8,4]{1,0} async-done(%all-to-all-start)",
            before=inside,
        )
        assert (collective.op, collective.source) == ("all-to-all.9", "all_to_all")
        assert (collective.is_async, collective.bytes, collective.times) == (True, 128, 1)
        assert reading.ends == {"all-to-all-start": "all-to-all.9", "all-to-all-done": "all-to-all.9"}

    def test_a_general_start_has_the_bytes_of_its_results(self):
        """Its type is ((operands), results); the text lacks the name of the operation inside."""
        collective, reading = only(
            "%all-reduce-start = ((f32[8]{0}, f32[]), (f32[8]{0}, f32[])) all-reduce-start(%p, %q), "
            "channel_id=1, replica_groups=[1,8]<=[8], use_global_device_ids=true, to_apply=%add",
            "ROOT %done = (f32[8]{0}, f32[]) all-reduce-done(%all-reduce-start)",
        )
        assert (collective.op, collective.bytes) == ("all-reduce-start", 36)
        assert collective.shape == "(f32[8], f32[])"
        assert reading.ends == {"done": "all-reduce-start"}

    def test_several_sums_in_one_start_of_their_own_kind_have_no_operands_in_its_type(self):
        start = "%s = (f32[2]{0}, f32[4]{0}) all-reduce-start(%a, %b), replica_groups={}, to_apply=%add"
        assert only(start)[0].bytes == 24
        assert [each.bytes for each in counting.results(lines.read(start))] == [8, 16]

    def test_names_in_the_text_of_the_script_mislead_nobody(self):
        reading = hlo.read(
            module(
                '%a = f32[8]{0} add(%p, %p), metadata={op_name="jit(f)/x = f32[8] all-reduce(y), {"}',
                '%b = f32[8]{0} all-reduce(%p), replica_groups={}, to_apply=%add, metadata={op_type="a" '
                "op_name=\"jit(f)/psum[axes=(\\'a\\',) replica_groups={{0},{1}}]\"}",
            )
        )
        assert [(each.op, each.source) for each in reading.collectives] == [("b", "psum")]
        assert reading.unread == 0


def chained(number: int, part: str, chain: int) -> str:
    """A fusion with a part of an all-gather that runs beside other work."""
    gather = (
        f"%g.{number} = bf16[1,64,256]{{2,1,0:T(8,128)}} all-gather(%p.{number}), channel_id=1, "
        f"replica_groups=[2,4]<=[4,2]T(1,0), dimensions={{2}}, use_global_device_ids=true, "
        f'frontend_attributes={{chain_id="{chain}"}}, '
        'backend_config={"async_collective_fusion_config":{"flag_start":"2","flag_end":"8"}}'
    )
    other = f"%d.{number} = bf16[64,64]{{1,0}} negate(%x)"
    call = (
        f'%c.{number} = bf16[1,64,256] custom-call(%g.{number}), custom_call_target="AsyncCollective{part}"'
    )
    listed = (f"%p.{number} = bf16[1,64,64]{{2,1,0}} parameter(0)", gather, call if part else other)
    return f"%fused.{number} (p: bf16[1,64,64]) -> bf16[] {{\n  " + "\n  ".join(listed) + "\n}\n\n"


class TestTpu:
    def test_tiled_layouts(self):
        collective, _ = only(
            "%all-reduce.1 = bf16[1024,256]{1,0:T(8,128)(2,1)S(1)} all-reduce(%fusion.3), channel_id=1, "
            "replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=%add"
        )
        assert (collective.bytes, collective.shape) == (1024 * 256 * 2, "bf16[1024,256]")

    def test_a_permutation_with_its_signals(self):
        collective, reading = only(
            "%s = (f32[128,32]{1,0:T(8,128)}, f32[128,32]{1,0:T(8,128)}, u32[]{:S(2)}, u32[]{:S(2)}) "
            "collective-permute-start(%p), channel_id=4, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}",
            "ROOT %d = f32[128,32]{1,0:T(8,128)} collective-permute-done(%s)",
        )
        assert (collective.bytes, collective.shape) == (128 * 32 * 4, "f32[128,32]")
        assert members(reading.groups[collective.groups]) == ((0, 1, 2, 3),)

    def test_a_permutation_of_parts_in_place_has_no_size(self):
        collective, _ = only(
            "%c = f32[128,128]{1,0} collective-permute(%a, %b, %i, %j), channel_id=4, "
            "source_target_pairs={{0,1},{1,0}}, slice_sizes={{64,32}}"
        )
        assert collective.bytes is None

    def test_fused_ones_are_shown_by_the_name_of_the_fusion(self):
        inside = (
            "%all-reduce-scatter.3 (p: bf16[32,64]) -> bf16[32,8] {\n  %p = bf16[32,64]{1,0} parameter(0)\n"
            "  %all-reduce.7 = bf16[32,64]{1,0} all-reduce(%p), channel_id=1, replica_groups=[1,8]<=[8], "
            "use_global_device_ids=true, to_apply=%add\n"
            "  ROOT %dynamic-slice = bf16[32,8]{1,0} dynamic-slice(%all-reduce.7, %c, %i)\n}\n\n"
        )
        collective, _ = only(
            "%fusion.3 = bf16[32,8]{1,0:T(8,128)(2,1)} fusion(%p), kind=kCustom, calls=%all-reduce-scatter.3",
            before=inside,
        )
        assert (collective.op, collective.kind, collective.times) == ("fusion.3", "reduce-scatter", 1)
        assert (collective.shape, collective.bytes) == ("bf16[32,8]", 32 * 64 * 2)

    def test_a_sum_whose_slice_is_not_fused_stays_one(self):
        """The slice is only a reduce-scatter where one fusion has both and nothing else uses the sum."""
        reduce = (
            "%r = bf16[32,64]{1,0} all-reduce(%p), channel_id=1, replica_groups=[1,8]<=[8], "
            "use_global_device_ids=true, to_apply=%add"
        )
        cut = "%s = bf16[32,8]{1,0} dynamic-slice(%r, %c, %i)"
        assert only(reduce, cut)[0].kind == "all-reduce"
        inside = f"{reduce}\n  {cut}\n  %n = bf16[32,64] negate(%r)"
        both = f"%f (p: bf16[32,64]) -> bf16[32,64] {{\n  {inside}\n}}\n\n"
        assert (
            only("%u = bf16[32,64] fusion(%p), kind=kCustom, calls=%f", before=both)[0].kind == "all-reduce"
        )

    def test_a_chain_of_fusions_is_one_collective(self):
        """It starts in one fusion, goes on in those of other work, and ends in one that waits for it."""
        before = "".join(
            chained(number, part, chain=chain)
            for chain in (4, 5)
            for number, part in enumerate(("Start", "", "Done"), start=10 * chain)
        )
        fusion = "%{} = bf16[1,64,256]{{2,1,0:T(8,128)S(1)}} fusion(%p), kind=kCustom, calls=%fused.{}"
        entry = [
            fusion.format(name, number)
            for name, number in (
                ("async-collective-start", 40),
                ("async-collective-start.1", 50),
                ("fusion.9", 41),
                ("fusion.10", 51),
                ("async-collective-done", 42),
                ("async-collective-done.1", 52),
            )
        ]
        reading = hlo.read(module(*entry, before=before))
        found = [(each.op, each.bytes, each.times, each.is_async) for each in reading.collectives]
        assert found == [
            ("async-collective-start", 64 * 256 * 2, 1, True),
            ("async-collective-start.1", 64 * 256 * 2, 1, True),
        ]
        assert reading.ends == {
            "async-collective-done": "async-collective-start",
            "async-collective-done.1": "async-collective-start.1",
        }

    def test_an_operation_in_its_own_wrapper_of_short_spelling(self):
        """What a fusion or a call starts is shown, and waited for, under the name of the start."""
        inside = (
            "%{0} (p: f32[]) -> f32[] {{\n  %p.{0} = f32[] parameter(0)\n  ROOT %r.{0} = f32[] all-reduce("
            "%p.{0}), channel_id=1, replica_groups=[1,8]<=[8], use_global_device_ids=true, to_apply=%add"
            "\n}}\n\n"
        )
        reading = hlo.read(
            module(
                "%fusion-start = ((f32[]), f32[], u32[]) fusion-start(%a), kind=kCustom, calls=%one",
                "%call-start = ((f32[]), f32[], u32[]) call-start(%b), to_apply=%two",
                "%call-done = f32[] call-done(%call-start)",
                "%fusion-done = f32[] fusion-done(%fusion-start)",
                before=inside.format("one") + inside.format("two"),
            )
        )
        found = [(each.op, each.bytes, each.times, each.is_async) for each in reading.collectives]
        assert found == [("fusion-start", 4, 1, True), ("call-start", 4, 1, True)]
        assert reading.ends == {"fusion-done": "fusion-start", "call-done": "call-start"}

    def test_a_transfer_to_the_host_is_no_collective(self):
        send = "%s = (f32[], u32[], token[]) send(%p, %t), channel_id=2, is_host_transfer=true"
        assert hlo.read(module(send)) == hlo.HloReading(devices=hlo.read(module()).devices)

    def test_ragged_and_broadcast(self):
        reading = hlo.read(
            module(
                "%r = bf16[64]{0} ragged-all-to-all(%a, %b, %c, %d, %e, /*index=5*/%f), replica_groups={}",
                "%c = s8[64]{0} collective-broadcast(%a), replica_groups=[4,2]<=[8], channel_id=1",
                devices="replica_count=8",
            )
        )
        kinds = [(each.kind, each.bytes) for each in reading.collectives]
        assert kinds == [("ragged-all-to-all", 128), ("collective-broadcast", 64)]
        assert [each.added for each in reading.collectives] == ["", ""]  # no partitioner adds these
        assert [each.groups for each in reading.collectives] == [0, None]  # the second speaks of partitions


class TestHowOften:
    reduce = "%{} = f32[4]{{0}} all-reduce(%p), replica_groups={{}}, to_apply=%add"

    def times(self, before: str, *entry: str) -> dict[str, int | None]:
        return {each.op: each.times for each in hlo.read(module(*entry, before=before)).collectives}

    def block(self, name: str, *inside: str) -> str:
        return f"%{name} (p: f32[4]) -> f32[4] {{\n" + "".join(f"  {line}\n" for line in inside) + "}\n\n"

    def loop(self, body: str, count: int | None) -> str:
        known = f', backend_config={{"known_trip_count":{{"n":"{count}"}}}}' if count is not None else ""
        return f"%while.{body} = f32[4]{{0}} while(%t), condition=%{body}.cond, body=%{body}{known}"

    def test_loops_within_loops_multiply(self):
        inner = self.block("inner", self.reduce.format("a"))
        outer = self.block("outer", self.loop("inner", 4), self.reduce.format("b"))
        assert self.times(inner + outer, self.loop("outer", 3)) == {"a": 12, "b": 3}

    def test_what_is_called_twice_runs_twice(self):
        shared = self.block("shared", self.reduce.format("a"))
        calls = [f"%call.{i} = f32[4]{{0}} call(%p), to_apply=%shared" for i in range(2)]
        assert self.times(shared, *calls) == {"a": 2}

    def test_where_a_condition_decides_nobody_knows(self):
        taken = self.block("taken", self.reduce.format("a")) + self.block("other", self.reduce.format("b"))
        branch = "%c = f32[4]{0} conditional(%i, %p, %p), branch_computations={%taken, %other}"
        assert self.times(taken, branch) == {"a": None, "b": None}
        branch = "%c = f32[4] conditional(%i, %p, %p), true_computation=%taken, false_computation=%other"
        assert self.times(taken, branch) == {"a": None, "b": None}

    def test_a_condition_of_a_loop_is_asked_once_more(self):
        condition = self.block("body.cond", self.reduce.format("a"))
        assert self.times(condition, self.loop("body", 3)) == {"a": 4}

    def test_an_escaped_count_is_a_count(self):
        body = self.block("body", self.reduce.format("a"))
        known = '"{\\"known_trip_count\\":{\\"n\\":\\"7\\"}}"'
        loop = f"%w = f32[4] while(%t), condition=%c, body=%body, backend_config={known}"
        assert self.times(body, loop) == {"a": 7}

    def test_what_calls_itself_or_is_called_by_nobody_has_no_number(self):
        again = self.block("again", self.reduce.format("a"), "%c = f32[4] call(%p), to_apply=%again")
        lost = self.block("lost", self.reduce.format("b"))
        assert self.times(again + lost, self.reduce.format("d")) == {"a": None, "b": None, "d": 1}


class TestWhatCannotBeRead:
    def test_it_is_counted(self):
        line = "%a = f32[4]{0} all-reduce(%p, replica_groups={}"
        assert hlo.read(module(line)).unread == 1

    def test_cuts_and_garbling_never_raise(self):
        dice = random.Random(5)
        whole = [path.read_text() for path in sorted(DATA.glob("*.hlo"))]
        for _ in range(400):
            garbled = dice.choice(whole)
            for _ in range(dice.randrange(1, 6)):
                at = dice.randrange(len(garbled) + 1)
                piece = dice.choice(
                    ["", "{", "}", "(", ")", '"', "\\", ",", "\n", "=", " all-reduce(", "9" * 30]
                )
                garbled = garbled[:at] + piece + garbled[at + dice.randrange(0, 40) :]
            garbled = garbled[: dice.randrange(len(garbled) + 1)] if dice.random() < 0.5 else garbled
            reading = hlo.read(garbled)
            for each in reading.collectives:
                assert each.groups is None or each.groups < len(reading.groups)
            wire.encode(fitting.fitted(wire.Inventory(0, "p", None, 8), reading))

    @pytest.mark.parametrize(
        "piece", ["(", "{", '"', "\\", "a[", "{{0,1},", "x=1,", "all-reduce(", " = ", "'"]
    )
    def test_long_rubbish_ends_soon(self, piece):
        """Within 0.1 s; with a look back at all that was read, each piece would take minutes."""
        with patience.cpu_time(10):
            for head in (
                "%a = f32[4]{0} all-reduce(%p), replica_groups=",
                "%a = ",
                "%a = f32[4] while(%p), body=",
            ):
                found = hlo.read(module(head + piece * 50_000))
                assert len(found.collectives) <= 50_001
            lines.read("%a = f32[2] add(%p), metadata={" + piece * 50_000)

    def test_nothing_is_nothing(self):
        assert hlo.read("") == hlo.HloReading(devices=1)
