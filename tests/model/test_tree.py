"""The tree of arrays: how names are taken apart, what stands on which branch, and what it adds up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxtop.model.arrays.tree import MIXED, flatten, form, grow, path_parts
from tests.stories import array

RUN = {"r1": "train"}


def lines(views, runs=RUN, *, is_open=lambda _: True, in_order=list):
    """The tree as it is seen, two spaces a level."""
    return ["  " * node.depth + node.label for node in flatten(grow(views, runs), is_open, in_order)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x", ["x"]),
        ("state.params['Dense_0']['kernel']", ["state", ".params", "['Dense_0']", "['kernel']"]),
        ("layers[3].w[*]", ["layers", "[3]", ".w", "[*]"]),
        ("p['a.b[0]']['it\\'s']", ["p", "['a.b[0]']", "['it\\'s']"]),
        ('p["it\'s"].q', ["p", '["it\'s"]', ".q"]),
        ("p[(1, [2])][Key(name='[')]", ["p", "[(1, [2])]", "[Key(name='[')]"]),
        ("broken['", ["broken", "['"]),
        ("a..b", ["a", "..b"]),
        ("", []),
    ],
)
def test_a_name_is_taken_apart_and_what_is_in_quotes_stays_together(name, expected):
    assert list(path_parts(name)) == expected
    assert "".join(path_parts(name)) == name


def test_arrays_stand_under_their_function_their_variable_and_each_part_of_the_path():
    names = [
        "state.params['a']['w']",
        "state.params['a']['b']",
        "state.params['c']['w']",
        "state.step",
        "batch",
    ]
    assert lines(map(array, names)) == [
        "train()",
        "  state",
        "    .params",
        "      ['a']",
        "        ['w']",
        "        ['b']",
        "      ['c']['w']",
        "    .step",
        "  batch",
    ]


def test_steps_without_a_choice_are_one_line():
    assert lines([array("state.params['a']['w']"), array("state.params['a']['b']")]) == [
        "train(): state.params['a']",
        "  ['w']",
        "  ['b']",
    ]
    assert lines([array("x.y")]) == ["train(): x.y"]


def test_the_module_and_names_that_were_given_have_their_own_lines():
    views = [array("x", function="<module>"), array("x"), array("params['w']", function=None)]
    assert lines(views) == ["module level: x", "train(): x", "params['w']"]


def test_arrays_of_one_name_are_distinguished_by_what_they_are():
    views = [array(), array(shape=(8, 128), dtype="bfloat16"), array("state.step")]
    assert lines(views)[1:] == ["  .params['w']", "    float32[8]", "    bfloat16[8, 128]", "  .step"]


def test_a_name_may_be_an_array_and_a_branch():
    assert lines([array("x"), array("x.y")]) == ["train(): x", "  .y", "  float32[8]"]


def test_arrays_without_names_stand_under_the_line_that_made_them():
    views = [
        array(None),
        array(None, shape=(4, 4)),
        array("", created="train.py:88 log"),
        array(None, created=None),
        array(None, created=None, groups=37, shape=()),
        array("x"),
    ]
    assert lines(views) == [
        "(no name)",
        "  made at train.py:57 init",
        "    float32[8]",
        "    float32[4, 4]",
        "  made at train.py:88 log float32[8]",
        "  (unknown origin)",
        "    float32[8]",
        "    37 smaller groups",
        "train(): x",
    ]


def test_runs_are_on_top_where_there_are_several():
    views = [array("x"), array("y"), array("x", run="r2")]
    assert lines(views, {"r1": "train", "r2": "r2"}) == ["train: train()", "  x", "  y", "r2: train(): x"]
    assert grow([], RUN) == ()


def test_a_branch_adds_up_what_is_known_of_its_arrays():
    views = [
        array("x.a", count=2, bytes_global=100, bytes_per_device=50, grown_bytes=30, grown_s=60),
        array("x.b", count=1, bytes_global=10, bytes_per_device=10, grown_bytes=-5, grown_s=60),
        array("x.c", dtype="int32"),
    ]
    (top,) = grow(views, RUN)
    assert (top.count, top.bytes_global, top.bytes_per_device, top.grown_bytes) == (4, 142, 92, 25)
    assert (top.shared("dtype"), top.shared("role"), top.shared("memory_kind")) == (MIXED, None, "device")
    assert top.view is None and [node.view for node in top.children] == views
    assert [node.grown_bytes for node in top.children] == [30, -5, None]
    assert all(node.children == () for node in top.children)


def test_arrays_on_different_devices_do_not_add_up_on_one():
    """One array on each device takes no more of a device than one; what is pinned on the host takes none."""
    views = [
        array("hog", device_ids=(0,), bytes_per_device=40, grown_bytes=4),
        array("hog", device_ids=(1,), bytes_per_device=50, grown_bytes=-2),
        array("w", device_ids=(0, 1), bytes_per_device=5, grown_bytes=1),
        array("kept", device_ids=(1,), bytes_per_device=30, memory_kind="pinned_host"),
        array("w", run="r2", device_ids=(1,), bytes_per_device=7),
    ]
    (top, other) = grow(views, {"r1": "train", "r2": "again"})
    assert (top.bytes_per_device, other.bytes_per_device) == (55, 7)
    assert top.grown_bytes == 5
    assert top.held_bytes == 40 + 50 + 2 * 5 + 30 == sum(node.held_bytes for node in top.children)
    hog = next(node for node in top.children if node.label == "hog")
    assert (hog.bytes_per_device, hog.bytes_global) == (50, sum(node.bytes_global for node in hog.children))


def test_unasked_one_sees_down_to_what_a_variable_is_made_of():
    names = [f"state.{part}['{i}']" for part in ("params", "opt_state") for i in range(5)] + ["batch"]
    views = [*map(array, names), array(None), array(None, shape=(1,))]
    assert lines(views, is_open=lambda node: node.opens_by_default) == [
        "train()",
        "  state",
        "    .params",
        "    .opt_state",
        "  batch",
        "(no name): made at train.py:57 init",
    ]


def test_paths_stay_what_they_are_while_figures_and_shapes_change():
    views = [array("x.a"), array("x.b")]
    grown = [replace(views[0], bytes_per_device=999, shape=(9,)), views[1]]
    before, after = ([node.path for node in grow(each, RUN)[0].children] for each in (views, grown))
    assert before == after == [("r1", "train()", "x", ".a"), ("r1", "train()", "x", ".b")]


def test_siblings_are_sorted_among_themselves_and_numbers_as_numbers():
    views = [array(f"x[{i}].{part}") for i in (10, 9, 1) for part in "ba"]

    def by_label(nodes):
        return sorted(nodes, key=lambda node: node.order)

    assert lines(views, in_order=by_label)[1:5] == ["  [1]", "    .a", "    .b", "  [9]"]
    assert lines(views, in_order=by_label)[7] == "  [10]"


def test_what_an_array_is_reads_as_in_jax():
    assert form(array(shape=(8, 128), dtype="bfloat16")) == "bfloat16[8, 128]"
    assert form(array(shape=(), dtype="int32")) == "int32[]"


def test_names_of_any_depth_are_shown():
    deep = "x" + "[0]" * 3000
    views = [array(deep[: 1 + 3 * i]) for i in range(0, 3001, 2)]
    assert len(lines(views)) == len(views) + 1500
