"""The arrays' screen: the tree, its filter, the pane with the slices, keys and mouse."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace
from textual.widgets import Input, Static

from jaxtop import wire
from jaxtop.model import MeshView
from jaxtop.model.arrays.tree import grow
from jaxtop.tui.core.metrics import METRICS
from jaxtop.tui.core.palette import DARK
from jaxtop.tui.core.slices import slices_of
from jaxtop.tui.draw.ink import ink_of
from jaxtop.tui.draw.panes.array import pane as pane_of
from jaxtop.tui.screens.arrays import ArraysScreen
from jaxtop.tui.screens.mesh import MeshScreen
from jaxtop.tui.widgets.array_pane import ArrayPane
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, census, frame, training
from tests.cases import thorough
from tests.stage import play
from tests.stories import array

SIZES = [(80, 24), thorough((120, 40)), (200, 50)]


def look(act, *frames, size=(120, 40)):
    """Act on the arrays' screen of a run; by default of one that trains."""

    async def on_arrays(stage):
        await stage.press("4")
        stage.view = stage.app.query_one(ArraysScreen)
        stage.table = stage.view.table
        await act(stage)

    play(on_arrays, *(frames or training()), size=size)


def seen(stage) -> list[str]:
    """The first cells, from the top."""
    return [stage.table._first_cell(node) for node in stage.table.shown]


def cell(stage, key):
    column = next(each for each in stage.table.columns if each.key == key)
    return column.write(stage.table.row).strip()


def pane(stage) -> str:
    """What stands in the pane."""
    return "\n".join(line.plain for line in stage.app.query_one(ArrayPane)._pane.lines)


async def go_to(stage, *steps):
    """Put the cursor on what has this path, with the branches above it unfolded."""
    await stage.press("asterisk")
    node = next(each for each in stage.table.shown if each.path[-len(steps) :] == steps)
    stage.table.select(node.path)
    await stage.paint()


KERNEL = (".params", "['Dense_0']", "['kernel']")


class TestTree:
    def test_parameters_and_optimizer_state_are_seen_at_one_glance(self):
        async def act(stage):
            assert seen(stage) == [
                "▾ train()",
                "  ▾ state",
                "    ▸ .opt_state[0]",
                "    ▸ .params",
                "      .step",
                "  ▾ batch",
                "      ['image']",
                "      ['label']",
                "▸ (no name)",
            ]

        look(act)

    def test_enter_unfolds_and_folds(self):
        async def act(stage):
            await stage.press("j", "j", "j", "enter")
            assert seen(stage)[3:7] == [
                "    ▾ .params",
                "      ▸ ['Dense_0']",
                "      ▸ ['Dense_1']",
                "      ▸ ['Dense_2']",
            ]
            await stage.press("enter")
            assert seen(stage)[3:5] == ["    ▸ .params", "      .step"]

        look(act)

    def test_right_unfolds_and_enters_left_leaves_and_folds(self):
        async def act(stage):
            await stage.press("j", "j", "l")
            assert "    ▾ .opt_state[0]" in seen(stage)
            await stage.press("l")
            assert stage.table.row.label == ".mu"
            await stage.press("h")
            assert stage.table.row.label == ".opt_state[0]"
            await stage.press("left")
            assert "    ▸ .opt_state[0]" in seen(stage)
            await stage.press("left", "left")
            assert seen(stage)[1] == "  ▸ state"
            await stage.press("left", "left", "left")
            assert seen(stage)[0] == "▸ train()" and stage.table.row.label == "train()"
            await stage.press("right", "right")
            assert stage.table.row.label == "state"

        look(act)

    def test_star_unfolds_everything_and_back(self):
        async def act(stage):
            before = seen(stage)
            await go_to(stage, *KERNEL)
            assert len(seen(stage)) > 30 and not any("▸" in line for line in seen(stage))
            assert stage.table.row.path[-1] == "['kernel']"
            await stage.press("asterisk")
            assert seen(stage) == before
            assert stage.table.row.label == ".params"

        look(act)

    def test_a_click_on_the_sign_folds_and_one_on_the_row_selects(self):
        async def act(stage):
            await stage.pilot.click(stage.table, offset=(7, 4))
            await stage.paint()
            assert seen(stage)[3] == "    ▾ .params" and stage.table.row.label == ".params"
            await stage.pilot.click(stage.table, offset=(20, 2))
            await stage.paint()
            assert stage.table.row.label == "state" and seen(stage)[1] == "  ▾ state"
            await stage.pilot.click(stage.table, offset=(20, 2))
            await stage.paint()
            assert seen(stage)[1] == "  ▸ state"

        look(act)

    def test_siblings_are_sorted_and_stay_on_their_branch(self):
        async def act(stage):
            labels = lambda: [node.label for node in stage.table.shown]  # noqa: E731
            assert labels()[2:5] == [".opt_state[0]", ".params", ".step"]
            await stage.press("S")
            assert labels() == [
                "(no name)",
                "train()",
                "batch",
                "['label']",
                "['image']",
                "state",
                ".step",
                ".params",
                ".opt_state[0]",
            ]
            await stage.press("comma")
            assert stage.table.sorted_by == ("name", False)
            assert labels()[:3] == ["(no name)", "train()", "batch"]

        look(act)

    def test_what_is_folded_and_selected_stays_so_while_figures_change(self):
        async def act(stage):
            await stage.press("j", "j", "j", "l", "j", "j")
            assert stage.table.row.label == "['Dense_1']"
            before = seen(stage)
            for index in range(2):
                stage.feed.frames.append(frame(agent_id(index), census(NOW + 1, leaked=900), NOW + 1))
            await stage.paint()
            assert stage.table.row.label == "['Dense_1']"
            assert seen(stage) == [before[-1], *before[:-1]]  # what leaks has come to the top
            assert stage.table._cursor == before.index("      ▸ ['Dense_1']") + 1

        look(act)

    def test_a_branch_that_was_folded_keeps_the_cursor(self):
        async def act(stage):
            await stage.press("enter")
            assert seen(stage) == ["▸ train()", "▸ (no name)"]
            for index in range(2):
                stage.feed.frames.append(frame(agent_id(index), census(NOW + 1, leaked=900), NOW + 1))
            await stage.paint()
            assert seen(stage) == ["▸ (no name)", "▸ train()"]
            assert stage.table.row.label == "train()"

        look(act)

    def test_growth_is_seen_and_marked(self):
        async def act(stage):
            await stage.press("G")
            assert stage.table.row.label == "(no name)"
            assert cell(stage, "growth") == "+640K"
            assert "growth +640K in 30s" in pane(stage)
            await stage.press("g")
            assert cell(stage, "growth") == "0B"

        look(act)

    def test_the_columns_move_sideways_with_angle_brackets(self):
        async def act(stage):
            before = stage.text
            assert "DTYPE" in before and "MEMORY" not in before
            await stage.press(*["greater_than_sign"] * 8)
            assert "MEMORY" in stage.text and "train()" in stage.text
            await stage.press(*["less_than_sign"] * 8)
            assert stage.text == before

        look(act)

    def test_arrays_that_are_gone_leave_the_cursor_near_their_place(self):
        async def act(stage):
            await go_to(stage, "batch", "['label']")
            stage.feed.frames += [frame(agent_id(i), builders.arrays(), NOW + 1) for i in range(2)]
            await stage.paint()
            assert seen(stage) == ["  (no name): (unknown origin) float32[8, 8]"]
            assert stage.table.row is not None

        look(act)

    def test_runs_are_on_top_where_there_are_several(self):
        other = [
            frame("b" * 16, wire.Link(LinkState.UP, "10.0.0.9:7411"), NOW),
            frame("b" * 16, replace(builders.hello(0), **OTHER), NOW),
            frame("b" * 16, census(NOW), NOW),
        ]

        async def act(stage):
            assert {node.label for node in stage.table.shown if node.depth == 0} == {"eval", "train"}

        look(act, *training(), *other)

    def test_long_branches_are_folded_so_that_the_next_is_seen(self):
        told = census()
        groups = tuple(
            wire.ArrayGroup((8,), "float32", 1, 32, 32, f"{name}['{i}']", "train")
            for name in ("layers", "few")
            for i in range(50 if name == "layers" else 3)
        )
        long = wire.Arrays(int(NOW * 1000), 2, 1, told.meshes, told.shardings, groups, (1,) * len(groups))

        async def act(stage):
            assert [line.strip() for line in seen(stage)][:4] == ["▾ train()", "▸ layers", "▾ few", "['0']"]

        look(act, *training(), *(frame(agent_id(i), long, NOW + 1) for i in range(2)))

    def test_what_a_run_held_that_is_over_is_said_to_be_past(self):
        async def act(stage):
            assert "run ended: its last arrays" in stage.text
            assert stage.table._tone(stage.table.row, DARK) == DARK.muted

        look(act, *training(), *(builders.trouble(i, "closed") for i in range(2)))


OTHER = {"agent": "b" * 16, "run": "r2", "name": "eval", "process_count": 1}


class TestFilter:
    async def typed(self, stage, text):
        line = stage.app.query_one("#screen-arrays FilteredTable Input", Input)
        if not line.has_focus:
            await stage.press("slash")
        line.value = text
        await stage.paint()
        await stage.pilot.pause()

    def count(self, stage):
        return str(stage.app.query_one("#screen-arrays FilteredTable #count", Static).content)

    def test_conditions_leave_matches_and_the_branches_above_them(self):
        async def act(stage):
            await self.typed(stage, "role=optimizer & shape=512")
            assert seen(stage) == [
                "▾ train(): state.opt_state[0]",
                "  ▾ .mu",
                "      ['Dense_0']['bias']",
                "      ['Dense_1']['bias']",
                "      ['Dense_2']['bias']",
                "  ▾ .nu",
                "      ['Dense_0']['bias']",
                "      ['Dense_1']['bias']",
                "      ['Dense_2']['bias']",
            ]
            assert self.count(stage) == "6 of 26"
            assert cell(stage, "bytes") == "12.0K"  # of what matches

        look(act)

    def test_words_are_looked_for_in_the_whole_name(self):
        async def act(stage):
            await self.typed(stage, "OPT_STATE count")
            assert seen(stage) == ["  train(): state.opt_state[0].count"]

        look(act)

    def test_what_makes_no_sense_is_said_and_the_rows_stay(self):
        async def act(stage):
            await self.typed(stage, "role=optimizer")
            before = seen(stage)
            await self.typed(stage, "role=optimizer & byts>1")
            assert self.count(stage) == "✗ no field byts, try bytes, at 18"
            assert "✗ no field byts" in stage.text
            assert seen(stage) == before
            await self.typed(stage, "role=optimizer")
            assert self.count(stage) == "13 of 26"
            await stage.press("escape")
            assert len(seen(stage)) == 9

        look(act)

    def test_a_mistake_typed_in_one_burst_is_said_and_stays(self):
        async def act(stage):
            await stage.press("slash")
            for key in "bytes>1x":
                stage.app.simulate_key(key)
            await stage.pilot.pause()
            assert self.count(stage) == "✗ 1x is not a number, at 7"
            stage.table.update_views(list(stage.table._views)[:5], {}, "")
            await stage.pilot.pause()
            assert self.count(stage) == "✗ 1x is not a number, at 7"
            await stage.press("backspace")
            assert self.count(stage) == "26 of 26"

        look(act)

    def test_siblings_stay_sorted_with_a_filter_on(self):
        async def act(stage):
            await self.typed(stage, "name~Dense_0 & !name~.nu")
            await stage.press("enter", "S")
            assert [node.label for node in stage.table.shown] == [
                "train(): state",
                ".opt_state[0].mu['Dense_0']",
                "['bias']",
                "['kernel']",
                ".params['Dense_0']",
                "['bias']",
                "['kernel']",
            ]

        look(act)

    def test_what_was_folded_is_so_again_when_the_filter_goes(self):
        async def act(stage):
            await stage.press("h")
            assert seen(stage) == ["▸ train()", "▸ (no name)"]
            await self.typed(stage, "bytes>100K")
            await stage.press("enter")
            assert len(seen(stage)) > 5
            await stage.press("escape")
            assert seen(stage) == ["▸ train()", "▸ (no name)"]

        look(act)

    def test_nothing_that_matches_is_said(self):
        async def act(stage):
            await self.typed(stage, "bytes>1T")
            assert "no array matches the filter 'bytes>1T'" in stage.text
            await stage.press("enter", "enter", "j", "h", "l")

        look(act)


class TestPane:
    @pytest.mark.parametrize("size", SIZES)
    def test_an_array_and_its_slices_are_shown_at_every_size(self, size):
        async def act(stage):
            await go_to(stage, *KERNEL)
            for word in (
                "float32[1024, 512]",
                "P('data', 'model')",
                "data 2 × model 4",
                "256K",
                "parameters",
            ):
                assert word in pane(stage), word
            beside = size[0] == 80
            assert ("data ↓  model →" if beside else "data 2 ↓  model 4 →") in pane(stage)
            assert ("h [512:1024, 384:512] on 7" if beside else "h  [512:1024, 384:512]  device 7") in pane(
                stage
            )
            assert " a   b   c   d" in pane(stage) and " e   f   g   h" in pane(stage)
            assert "[512:1024" in stage.text

        look(act, size=size)

    def test_arrays_of_one_shape_are_one_shape(self):
        async def act(stage):
            await TestFilter().typed(stage, "shape=1024,512 & name~Dense_0")
            views = stage.table.row.views
            assert len(views) == 3 and "arrays 3  shapes 1" in pane(stage)

        look(act)

    def test_the_devices_of_each_slice_are_named(self):
        async def act(stage):
            await go_to(stage, *KERNEL)
            assert "b  [0:512, 128:256]  device 1" in pane(stage)
            await go_to(stage, "batch", "['label']")
            await go_to(stage, "batch", "['label']")
            assert "a  [0:128]  devices 0 1 2 3" in pane(stage)
            assert "b  [128:256]  devices 4 5 6 7" in pane(stage)

        look(act)

    def test_a_whole_copy_on_each_device_is_said(self):
        async def act(stage):
            await go_to(stage, "state", ".step")
            assert "all of it, on each of 8 devices" in pane(stage)

        look(act)

    def test_of_what_was_counted_long_ago_that_is_said(self):
        long_ago = builders.pulse(1, counted_ms=int((NOW - 42) * 1000))

        async def act(stage):
            assert pane(stage).rstrip().endswith("counted 42s ago")

        look(act, *training(), frame(agent_id(1), long_ago, sequence=9))

    def test_of_what_nobody_knows_that_is_said(self):
        async def act(stage):
            await go_to(stage, "(unknown origin)")
            await stage.press("j")
            assert "many small arrays" in pane(stage)
            await stage.press("enter")
            assert stage.screen_shown == "screen-arrays"

        look(act)

    def test_what_is_said_beside_figures_is_drawn_back(self):
        async def act(stage):
            await go_to(stage, *KERNEL)
            widget = stage.app.query_one(ArrayPane)
            styles = {segment.text: segment.style for y in range(20) for segment in widget.render_line(y)}
            assert styles["state.params['Dense_0']['kernel']"].bold
            assert styles["data 2 ↓  model 4 →"].color.name == DARK.muted
            backs = [styles[f" {letter} "].bgcolor.name for letter in "abcdefgh"]
            assert backs == list(DARK.categories)

        look(act)

    def test_a_branch_is_summed_up(self):
        async def act(stage):
            assert "train()" in pane(stage)
            assert "arrays 22" in pane(stage) and "select an array" in pane(stage)

        look(act)

    @pytest.mark.parametrize("size", SIZES)
    def test_the_mouse_over_a_cell_tells_what_its_device_holds(self, size):
        async def act(stage):
            await go_to(stage, *KERNEL)
            widget = stage.app.query_one(ArrayPane)
            gutter = widget.gutter

            def last():
                return widget._pane.lines[-1].plain

            x, y = widget._pane.x + gutter.left, widget._pane.y + gutter.top
            await stage.pilot.hover(widget, offset=(x + 5, y + 1))
            await stage.pilot.pause()
            assert last().startswith("device 5 [512:1024, 128:256]  data 1")
            assert "device 5 [512:1024, 128:256]" in stage.text
            await stage.pilot.hover(widget, offset=(x + 5, y + 2))
            await stage.pilot.pause()
            assert last() == ""

        look(act, size=size)

    def test_it_gives_way_where_there_is_no_room(self):
        async def act(stage):
            assert not stage.app.query_one(ArrayPane).display
            assert len(seen(stage)) == 9 and "(no name)" in stage.text

        look(act, size=(70, 16))

    def test_it_follows_the_filter_and_the_folds_at_once(self):
        async def act(stage):
            await stage.press("slash", *"step")
            assert "state.step" in pane(stage)

        look(act)


class TestOnTheMesh:
    def test_enter_on_an_array_colours_the_mesh_by_its_slices(self):
        async def act(stage):
            await go_to(stage, *KERNEL)
            await stage.press("enter")
            assert stage.screen_shown == "screen-mesh"
            assert "slice of state.params['Dense_0']['kernel']  abcdefgh " in stage.text
            mesh = stage.app.query_one(MeshScreen)
            assert mesh._read().values == tuple(map(float, range(8)))
            await stage.press("m")
            assert f" {METRICS[0].name}" in stage.text
            await stage.press("3", "2")
            assert f" {METRICS[0].name}" in stage.text  # it comes once, not whenever one returns
            await stage.press("4", "enter")
            assert "slice of state.params['Dense_0']['kernel']" in stage.text

        look(act)

    def test_devices_that_hold_nothing_of_it_say_so(self):
        async def act(stage):
            await go_to(stage, "made at train.py:88 log_metrics")
            await stage.press("j", "enter")
            assert "slice of float32[64, 64]" in stage.text
            values = stage.app.query_one(MeshScreen)._read().values
            assert values == (0, *[None] * 7)

        look(act)


class TestEmpty:
    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize(
        ("frames", "words"),
        [
            (
                [frame("", wire.Link(LinkState.CONNECTING, "node01"))],
                "no arrays yet: no process has reported",
            ),
            (
                [each for each in training() if each.kind != "arrays"],
                "no arrays yet: no process has counted its arrays",
            ),
            (
                [
                    *(each for each in training() if each.kind != "arrays"),
                    frame(agent_id(0), wire.Arrays(int(NOW * 1000), 1, 1)),
                ],
                "no arrays: no process holds any",
            ),
            (
                [
                    frame(agent_id(0), replace(builders.hello(0), sources={"arrays": "off: too many"})),
                    frame(agent_id(0), wire.Arrays(int(NOW * 1000), 1, 1)),
                ],
                "arrays are not counted: off: too many",
            ),
        ],
    )
    def test_why_there_are_none_is_said(self, frames, words, size):
        async def act(stage):
            assert words in stage.text
            await stage.press("j", "h", "l", "enter", "asterisk", "S", "G", "greater_than_sign")
            assert words in stage.text

        look(act, *frames, size=size)


def slices_drawn(axes, parts, shape, width=38, height=30):
    """The pane of an array that is cut so over a mesh."""
    ids = tuple(range(math.prod(size for _, size in axes)))
    view = array(shape=shape, mesh=MeshView("r1", axes, ids), device_ids=ids, parts=parts)
    drawn = pane_of(grow([view], {})[0], slices_of(view), ink_of(DARK, plain=False), width, height)
    assert len(drawn.lines) == height and all(line.cell_len <= width for line in drawn.lines)
    return drawn


class TestPicture:
    def test_all_axes_but_the_last_are_rows_while_that_fits(self):
        drawn = slices_drawn((("data", 2), ("fsdp", 2), ("model", 4)), (("data", "fsdp"), ("model",)), (8, 8))
        lines = [line.plain.strip() for line in drawn.lines]
        assert "data fsdp ↓  model 4 →" in lines
        assert lines[lines.index("m   n   o   p") + 2] == "a  [0:2, 0:2]  device 0"

    def test_one_axis_goes_on_in_the_next_row(self):
        drawn = slices_drawn((("data", 16),), (("data",),), (64,))
        assert drawn.picture.rows == (tuple(range(9)), tuple(range(9, 16)))

    def test_four_dimensions_are_written_out(self):
        drawn = slices_drawn((("data", 2),), (("data",), (), (), ()), (4, 3, 2, 1))
        assert any("b  [2:4, 0:3, 0:2, 0:1]  device 1" in line.plain for line in drawn.lines)

    def test_thousands_of_devices_are_single_characters_and_what_is_cut_is_said(self):
        axes = ("data", 1024), ("model", 8)
        drawn = slices_drawn(axes, ((), ("model",)), (64, 64))
        shown = sum(map(len, drawn.picture.rows))
        assert drawn.picture.cell == 1 and len(drawn.picture.rows[0]) == 32
        assert drawn.picture.caption == f"in mesh order, {shown:,} of 8,192"
        assert drawn.lines[drawn.y].plain == "abcdefgh" * 4
        many = slices_drawn(axes, (("data",), ("model",)), (8192, 64))
        assert any("more, letters repeat" in line.plain for line in many.lines)

    def test_more_slices_than_letters_are_numbered_where_there_is_room(self):
        drawn = slices_drawn((("data", 8), ("model", 10)), (("data",), ("model",)), (80, 80), 58, 40)
        assert "10   11   12" in drawn.lines[drawn.y + 1].plain
        assert any("10  [10:20, 0:8]  device 10" in line.plain for line in drawn.lines)

    @pytest.mark.parametrize("width", [1, 8, 20, 38, 60, 78, 120])
    @pytest.mark.parametrize("height", [2, 3, 5, 9, 13, 30])
    def test_it_fits_any_room(self, width, height):
        slices_drawn((("data", 64), ("model", 8)), (("data",), ("model",)), (64, 64), width, height)

    def test_figures_that_contradict_each_other_are_not_drawn(self):
        mesh = MeshView("r1", (("data", 0), ("model", 4)), (0, 1))
        assert slices_of(array(mesh=mesh, device_ids=(0, 1), parts=(("data",),))) is None
        assert (
            slices_of(array(mesh=MeshView("r1", (("data", 0),), ()), device_ids=(), parts=(("data",),)))
            is None
        )


def test_names_of_others_cannot_steer_the_terminal():
    evil = census()
    groups = tuple(
        wire.ArrayGroup((8,), "float\x1b[2J", 0, 32, 8, f"x\x07['{i}\n\x1b]0;']", "f\r", "ro\x1b", "a\x1bb")
        for i in range(2)
    )
    told = wire.Arrays(int(NOW * 1000), 2, 1, evil.meshes, evil.shardings, groups, (1, 1))

    async def act(stage):
        await stage.press("asterisk", "j")
        assert not set("\x1b\x07\r") & set(stage.text)

    look(act, *training(), *(frame(agent_id(i), told, NOW + 1) for i in range(2)))


@pytest.mark.parametrize("theme_presses", [0, thorough(1), thorough(2), 3])
def test_every_theme_draws_it(theme_presses):
    async def act(stage):
        await go_to(stage, *KERNEL)
        await stage.press(*["t"] * theme_presses)
        assert "data 2 ↓  model 4 →" in stage.text

    look(act)


def test_every_key_is_explained():
    bindings = [each for keys in ArraysScreen().table._bindings.key_to_bindings.values() for each in keys]
    assert bindings and all(each.description for each in bindings)
