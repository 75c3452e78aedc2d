"""`jaxtop plan` from what is typed to what is printed: meshes, shardings and sizes; JSON and text."""

from __future__ import annotations

import json
import re

import pytest

from jaxtop.features.planning import document as as_json
from jaxtop.features.planning import report as as_text
from jaxtop.features.planning.model.arguments import (
    mesh_as_typed,
    mesh_in_words,
    parse_bytes,
    parse_count,
    parse_mesh,
    parse_rule,
    rule_as_typed,
    spec_in_words,
)
from jaxtop.features.planning.model.plan import (
    Basis,
    Candidate,
    CannotPlan,
    Goal,
    Interval,
    Move,
    PlacedArray,
    Plan,
    ShardingRule,
    Tensor,
)
from tests.builders import NOW

GIB = 1 << 30
OPTIMIZER = ShardingRule("state.opt_state", axis="data")
KERNEL = Tensor(
    "state.params['kernel']", "parameters", (8192, 4096), "float32", ((), ("model",)), GIB // 8, GIB // 32
)


def candidate(axes, *, is_today=False, fits=True, memory=(3.1, 3.6), step=(12.1, 15.3), **more) -> Candidate:
    defaults = {
        "communication_ms": {"data": 1.234, "model": 0.4},
        "changes": (),
        "assumptions": (),
        "basis": (Basis("memory", "3.1–3.6 GiB", "arguments and results exact, temporaries bounded"),),
        "placed": (PlacedArray(KERNEL, ((), ("model",)), GIB // 32, "a note"),),
    }
    return Candidate(
        axes,
        is_today,
        fits,
        2 * GIB,
        memory and Interval(*(each * GIB for each in memory)),
        step and Interval(*step),
        **{**defaults, **more},
    )


TODAY = candidate((("data", 2), ("model", 4)), is_today=True)
ALL_DATA = candidate(
    (("data", 8),),
    memory=(8.0, 8.0),
    step=(9.0, 9.0),
    fits=None,
    communication_ms={"data": 2.1},
    changes=("state.params: 24 arrays are no longer divided by model", *(f"change {i}" for i in range(4))),
    assumptions=("the global batch stays the same", "the links of data are as today"),
    rules=(OPTIMIZER,),
)
HALF = candidate((("data", 1), ("model", 4)), fits=False, assumptions=("the global batch stays the same",))
UNKNOWN = candidate(
    (("data", 4),),
    fits=None,
    memory=None,
    step=None,
    communication_ms={},
    assumptions=("the global batch stays the same",),
)
MOVE = Move(
    "Divide the optimizer state by data",
    "state.opt_state.mu: P(None, 'model') → P('data', 'model')",
    3 * GIB // 2,
    -0.25,
    "today there is a copy on each of the 2 devices along data",
    (OPTIMIZER,),
)
PLAN = Plan(
    "r1",
    Goal.THROUGHPUT,
    8 * GIB,
    (TODAY, ALL_DATA, HALF, UNKNOWN),
    (MOVE,),
    {"step": 0.08},
    ("a note",),
    "train",
    13.4,
)


def test_a_mesh_is_read_as_typed_and_written_back():
    assert parse_mesh("data=8,model=4") == (("data", 8), ("model", 4))
    assert parse_mesh(" data = 8 , model = 1 ") == (("data", 8), ("model", 1))
    assert mesh_in_words((("data", 8), ("model", 4))) == "data 8 × model 4"
    for text in ("data=8,model=4", "data-1=8,x.y=4", """"data 1"=8,'a"b'=2,"a,b=c"=4"""):
        assert mesh_as_typed(parse_mesh(text)) == text
    assert parse_mesh("'data 1'=8") == (("data 1", 8),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data=8,data=4", "axis data stands twice"),
        ("data=8,model=0", "axis model of the mesh data=8,model=0 has no devices"),
        ("data=999999999,model=9", "more than 1,048,576 devices"),
        *((text, "is not a mesh such as") for text in ("", "8", "data", "data=", "=4", "data=-4")),
        *((text, "is not a mesh such as") for text in ("data=4,", "data=4 model=2", "data=1e3", "data=4.0")),
        ("data=99999999999999999999999", "is not a mesh such as"),
        ("data 1=8", "is not a mesh such as data=8,model=4; an axis that is no plain word stands in quotes"),
    ],
)
def test_a_wrong_mesh_is_one_clear_line(text, words):
    with pytest.raises(CannotPlan, match=re.escape(words)):
        parse_mesh(text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("state.opt_state:data", ShardingRule("state.opt_state", axis="data")),
        ("role=optimizer:data", ShardingRule("role=optimizer", axis="data")),
        ("params['a:b']:data", ShardingRule("params['a:b']", axis="data")),
        ("params:None,model", ShardingRule("params", parts=((), ("model",)))),
        ("params:data+fsdp,None", ShardingRule("params", parts=(("data", "fsdp"), ()))),
        ("params:data,None", ShardingRule("params", parts=(("data",), ()))),
        ("params:data+fsdp", ShardingRule("params", parts=(("data", "fsdp"),))),
        ("params:replicated", ShardingRule("params", parts=())),
        ('params:"replicated"', ShardingRule("params", axis="replicated")),
        ('params:"a:b"+data,None', ShardingRule("params", parts=(("a:b", "data"), ()))),
    ],
)
def test_a_sharding_is_read_as_typed_and_written_back(text, rule):
    assert parse_rule(text) == rule
    assert rule_as_typed(rule) == text
    assert parse_rule(rule_as_typed(rule)) == rule


def test_a_sharding_of_one_dimension_is_not_written_as_an_axis():
    rule = ShardingRule("bias", parts=(("data",),))
    assert parse_rule(rule_as_typed(rule)).parts == (("data",), ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("params:data,data", "axis data stands twice in params:data,data"),
        ("params:data+data", "axis data stands twice"),
        ("params:None+data", "None stands alone"),
        *((text, "is not a sharding such as") for text in ("", "params", ":data", "params:", "params:data,")),
        *((text, "is not a sharding such as") for text in ("params:P('data')", "params:4", "params:a b")),
    ],
)
def test_a_wrong_sharding_is_one_clear_line(text, words):
    with pytest.raises(CannotPlan, match=re.escape(words)) as found:
        parse_rule(text)
    assert "\n" not in str(found.value)


def test_sizes_are_binary_like_those_on_the_screens_except_where_decimal_ones_are_typed():
    assert parse_bytes("80G") == parse_bytes("80GiB") == parse_bytes("80 gi") == 80 * GIB
    assert parse_bytes("80GB") == 80 * 10**9
    assert parse_bytes("1.5T") == 3 << 39
    assert parse_bytes("1000") == parse_bytes("1000B") == 1000
    for text in ("", "0", "-1G", "80X", "G", "1e9", "999999999999999T", "nan"):
        with pytest.raises(CannotPlan, match="is not a size of memory"):
            parse_bytes(text)


def test_a_number_of_devices():
    assert parse_count("32") == 32
    for text in ("0", "-1", "x", "1.5", "9999999", "99999999999999999999"):
        with pytest.raises(CannotPlan, match="is not a number of devices"):
            parse_count(text)


def test_a_spec_is_written_as_in_a_script():
    assert spec_in_words(((), ("model",)), 3) == "P(None, 'model', None)"
    assert spec_in_words((("data", "fsdp"),)) == "P(('data', 'fsdp'))"
    assert spec_in_words(((), ()), 2) == spec_in_words(()) == "P()"
    assert spec_in_words(None) == "n/a"


def test_json_has_what_was_promised():
    document = json.loads(as_json.to_json(PLAN, NOW))
    assert [document[name] for name in ("schema", "run", "name", "goal")] == [1, "r1", "train", "throughput"]
    assert document["error_of_today"] == {"step": 0.08} and document["step_ms_today"] == 13.4
    first, second, third, fourth = document["candidates"]
    assert list(first["mesh"].items()) == [("data", 2), ("model", 4)]
    assert [each["today"] for each in document["candidates"]] == [True, False, False, False]
    assert [each["fits"] for each in document["candidates"]] == [True, None, False, None]
    assert second["state_bytes_per_device"] == 2 * GIB
    assert second["memory_bytes_per_device"] == [8 * GIB, 8 * GIB]
    assert first["step_ms"] == [12.1, 15.3]
    assert third["communication_ms"] == {"data": 1.234, "model": 0.4}
    assert second["changes"][0].startswith("state.params")
    assert second["assumptions"] == ["the global batch stays the same", "the links of data are as today"]
    assert second["shard"] == ["state.opt_state:data"]
    assert fourth["memory_bytes_per_device"] is None and fourth["step_ms"] is None
    assert fourth["communication_ms"] == {} and fourth["energy"] is None
    [move] = document["moves"]
    assert (move["saves_bytes_per_device"], move["saves_ms"]) == (3 * GIB // 2, -0.25)
    assert move["shard"] == ["state.opt_state:data"] and move["mesh"] is None
    assert "arrays" not in first


def test_json_has_the_arrays_on_request():
    [array] = json.loads(as_json.to_json(PLAN, NOW, with_arrays=True))["candidates"][0]["arrays"]
    assert array["name"] == KERNEL.name and array["bytes_per_device"] == GIB // 32
    assert array["spec"] == array["spec_today"] == "P(None, 'model')" and array["note"] == "a note"


def test_the_table_has_today_first_and_says_what_each_figure_is():
    lines = as_text.to_text(PLAN, 140).splitlines()
    head = "train: today's layout (13.4 ms a step), then by the mid-range step time"
    assert lines[0] == f"{head}; limit 8.0 GiB a device"
    table = {line.split("  ")[0]: line for line in lines[2:]}
    assert list(table)[:2] == ["MESH", "data 2 × model 4 (today)"]
    assert re.search(
        r"8 +2\.0 GiB +3\.1–3\.6 GiB +yes +12\.1–15\.3 ms +data ~1\.23 ms, model ~0\.4 ms$",
        table["data 2 × model 4 (today)"],
    )
    # Equal bounds of memory are exact; of time they are an estimate.
    assert re.search(r" 8\.0 GiB +perhaps +~9 ms ", table["data 8 + state.opt_state:data"])
    assert re.search(r"2\.0 GiB +n/a +n/a +n/a +n/a$", table["data 4"])
    assert " no " in table["data 1 × model 4"]


def test_the_text_says_what_was_assumed_and_what_is_worth_doing():
    text = as_text.to_text(PLAN, 140)
    assert "    state.params: 24 arrays are no longer divided by model" in text
    assert "    and 2 more changes: --json lists all" in text
    assert "The same formulas miss what was measured today: step by 8%" in text
    assert "STEP is from the fullest overlap of computing and communication to none; no interval" in text
    assert "\n- the global batch stays the same\n" in text
    assert "\n- data 8 + state.opt_state:data: the links of data are as today\n" in text
    title = "1. Divide the optimizer state by data: 1.5 GiB less on each device, ~0.25 ms more a step"
    assert f"\n{title}\n   state.opt_state.mu: P(None, 'model') → P('data', 'model')\n" in text
    assert "   alone: jaxtop plan --shard state.opt_state:data\n" in text
    assert text.endswith("Notes\n- a note\n")


def test_where_numbers_come_from_is_printed_on_request():
    text = as_text.to_text(PLAN, 140)
    explained = as_text.to_text(PLAN, 140, explained=True)
    source = "  memory 3.1–3.6 GiB: arguments and results exact, temporaries bounded"
    assert source not in text and explained.count(source) == len(PLAN.candidates)
    assert "  state.params['kernel'] float32 8192×4096: P(None, 'model'), 32.0 MiB (a note)" in explained


@pytest.mark.parametrize("width", [1, 40, 47, 60, 80, 100, 120, 250, 1000])
def test_no_line_is_wider_than_asked_and_none_loses_a_figure(width):
    text = as_text.to_text(PLAN, width, explained=True)
    assert max(map(len, text.splitlines())) <= min(max(width, as_text.MIN_WIDTH), as_text.MAX_WIDTH)
    together = " ".join(text.split())
    for figure in ("3.1–3.6 GiB", "12.1–15.3 ms", "~9 ms", "data ~1.23 ms", "model ~0.4 ms", "perhaps"):
        assert figure in together


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(0, 0), "0 bytes"),
        (Interval(900, 2048), "900 bytes–2.0 KiB"),
        (Interval(3 * GIB, 3.6 * GIB), "3.0–3.6 GiB"),
        (Interval(3.01 * GIB, 3.02 * GIB), "3.0 GiB"),
        (None, "n/a"),
    ],
)
def test_intervals_of_memory(interval, words):
    assert as_text.memory_in_words(interval) == words


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(0.0123, 0.0456), "0.0123–0.0456 ms"),
        (Interval(12, 12), "~12 ms"),
        (Interval(900, 1100), "900 ms–1.1 s"),
        (Interval(1500, 2500), "1.5–2.5 s"),
        (Interval(5e6, 6e9), "5,000–6,000,000 s"),
        (None, "n/a"),
    ],
)
def test_intervals_of_time(interval, words):
    assert as_text.step_in_words(interval) == words


def test_names_of_the_run_cannot_move_the_cursor():
    placed = (PlacedArray(KERNEL, None, 1, "\x1b[2J"),)
    strange = candidate((("da\nta", 2),), is_today=True, placed=placed, changes=("\x1b]0;x\x07",))
    text = as_text.to_text(Plan("\x1b[31m", Goal.ENERGY, None, (strange,), (), {}), 80, explained=True)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "da\\nta 2" in text


def test_energy_is_a_column_only_where_it_is_the_goal():
    joules = candidate((("data", 2),), energy=1.5)
    for unit in ("J", "device-s"):
        plan = Plan("r", Goal.ENERGY, None, (joules,), (), {}, energy_unit=unit)
        assert f"~1.5 {unit}" in as_text.to_text(plan, 140)
        assert json.loads(as_json.to_json(plan, NOW))["energy_unit"] == unit
    assert "ENERGY" not in as_text.to_text(Plan("r", Goal.LATENCY, None, (joules,), (), {}), 140)
