"""Where cells and labels go, and what the lines around and in the mesh say: pure, as text."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from msgspec import structs
from rich.style import Style

from jaxtop.model import State, device_views
from jaxtop.model.host import NO_PULSE
from jaxtop.tui.core.metrics import METRICS
from jaxtop.tui.core.palette import DARK, PALETTES
from jaxtop.tui.draw.ink import PEER, SELECTED, ink_of
from jaxtop.tui.draw.legend import legend
from jaxtop.tui.draw.mesh.axes import Grid, Pair, physical
from jaxtop.tui.draw.mesh.axis_bands import by_axes
from jaxtop.tui.draw.mesh.cells import paint
from jaxtop.tui.draw.mesh.grid_contents import GridContents, changed_lines
from jaxtop.tui.draw.mesh.host_blocks import by_host
from jaxtop.tui.draw.mesh.layouts import Block, CellDetail, Label, Room
from jaxtop.tui.draw.panes.device import ids_in_words
from jaxtop.tui.draw.reading import UNSEEN, read
from jaxtop.tui.draw.sparkline import bar, sparkline
from jaxtop.wire import DeviceSample
from tests.staged.mesh import MIB, NOW, a_run

INK = ink_of(DARK, plain=False)
PLAIN = ink_of(DARK, plain=True)
MEMORY, SHARE = METRICS[0], METRICS[1]


def blocks(hosts, per_host):
    names = [(f"process {i} on node{i:02}", f"process {i}", f"{i} node{i:02}", f"{i}") for i in range(hosts)]
    return [Block(names[i], tuple(range(i * per_host, (i + 1) * per_host))) for i in range(hosts)]


def table(rows, columns):
    return [[row * columns + column for column in range(columns)] for row in range(rows)]


def room(width, height, count=8):
    return Room(width, height, len(str(count - 1)))


def picture(plan, cluster=None, ink=PLAIN, metric=MEMORY, **options):
    """The lines of a plan, painted."""
    known = device_views(cluster or a_run(hosts=len(plan.by_device) // 4, meshes=()), NOW)
    scene = GridContents(plan, known, read(known, metric), ink, id_width=len(str(known[-1].id)), **options)
    return [paint(scene, y).text.rstrip() for y in range(plan.height)]


class TestEverythingFits:
    @pytest.mark.parametrize(
        ("hosts", "width", "height", "level"),
        [
            (2, 160, 44, CellDetail.BOX),
            (8, 160, 44, CellDetail.BOX),
            (8, 80, 24, CellDetail.CHIP),
            (32, 160, 44, CellDetail.CHIP),
            (64, 160, 44, CellDetail.CHIP),
            (64, 80, 11, CellDetail.CHAR),
            (512, 160, 44, CellDetail.CHAR),
            (1024, 159, 43, CellDetail.HALF),
        ],
    )
    def test_cells_shrink_with_the_number_of_devices_until_all_of_them_fit(self, hosts, width, height, level):
        plan = by_host(blocks(hosts, 8), room(width, height, hosts * 8))
        assert plan.tile.level is level
        assert plan.width <= width
        assert plan.height <= height
        assert len(plan.by_device) == hosts * 8

    @pytest.mark.parametrize(
        ("rows", "columns"), [(8, 1024), (4, 2048), (128, 64), (64, 128), (1, 8192), (32, 256)]
    )
    def test_8192_devices_fit_by_axes(self, rows, columns):
        plan = by_axes(table(rows, columns), ("data" if rows > 1 else "", "model"), room(159, 43, 8192))
        assert plan.width <= 159
        assert plan.height <= 43
        assert len(plan.by_device) == rows * columns

    def test_64_by_8_fits_80x24_by_axes(self):
        plan = by_axes(table(64, 8), ("data", "model"), room(80, 11, 512))
        assert plan.width <= 80
        assert plan.height <= 11

    def test_without_enough_room_it_scrolls_down_only(self):
        plan = by_host(blocks(1024, 8), room(60, 8, 8192))
        assert plan.width <= 60
        assert plan.height > 8
        assert by_axes(table(512, 16), ("data", "model"), room(60, 8, 8192)).width <= 60


SIZES = [(38, 4), (78, 12), (78, 34), (158, 44), (258, 84)]


def covered(plan):
    """The characters that the cells take."""
    parts = {CellDetail.HALF: 2, CellDetail.QUARTER: 4}.get(plan.tile.level, 1)
    return len(plan.cells) * plan.tile.width * plan.tile.height / parts


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("hosts", "per_host"), [(1, 1), (2, 4), (8, 8), (1024, 8)])
def test_every_device_has_one_cell_and_they_take_most_of_the_room(size, hosts, per_host):
    count = hosts * per_host
    space = room(size[0], size[1], count)
    for plan in (
        by_host(blocks(hosts, per_host), space),
        by_axes(table(hosts, per_host), ("data" if hosts > 1 else "", "model"), space),
    ):
        assert sorted(cell.device for cell in plan.cells) == list(range(count))
        spots = {(cell.x, cell.y, cell.half, cell.side) for cell in plan.cells}
        assert len(spots) == count
        if plan.height <= space.height and space.height > 4:
            assert plan.width * plan.height >= 0.7 * space.width * space.height
            assert covered(plan) >= 0.35 * space.width * space.height


def random_plans(count):
    dice = random.Random(7)
    for _ in range(count):
        hosts, per_host = dice.choice([1, 2, 3, 5, 8, 31, 64]), dice.choice([1, 2, 3, 4, 8, 16])
        space = room(dice.randint(30, 220), dice.randint(2, 60), hosts * per_host)
        yield by_host(blocks(hosts, per_host), space), hosts * per_host
        rows, columns = dice.choice([1, 2, 5, 16, 64]), dice.choice([1, 2, 7, 8, 33])
        names = ("data" if rows > 1 else "", dice.choice(["x", "model", "tensor_parallel_and_more"]))
        yield by_axes(table(rows, columns), names, space), rows * columns


def test_nothing_is_ever_drawn_over_anything_else():
    for plan, count in random_plans(300):
        taken = set()
        for cell in plan.cells:
            for dx in range(plan.tile.width):
                for dy in range(plan.tile.height):
                    spot = cell.x + dx, cell.y + dy, cell.half, cell.side
                    assert spot not in taken
                    taken.add(spot)
        for label in plan.labels:
            for x in range(label.x, label.x + label.width):
                assert not {(x, label.y, half, side) for half in (0, 1) for side in (0, 1)} & taken
        assert len(plan.by_device) == count
        assert all(item.x >= 0 for line in plan.items for item in line)


def test_every_device_can_be_reached_with_arrows_and_pointed_at():
    for plan, count in random_plans(40):
        reached, fresh = {0}, [0]
        while fresh:
            device = fresh.pop()
            for step in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                if (beside := plan.step(device, *step)) not in reached:
                    reached.add(beside)
                    fresh.append(beside)
        assert len(reached) == count
        for device, cell in plan.by_device.items():
            assert device in plan.devices_at(cell.x, cell.y)


class TestByHost:
    def test_each_process_is_a_block_with_its_name(self):
        lines = picture(by_host(blocks(2, 4), room(60, 12)))
        assert lines[0].startswith("╭ process 0 on node00 ─")
        assert lines[1].startswith("│ ╭ 0 ─")
        assert "│ 1.0M" in lines[2]
        assert lines[6].startswith("╭ process 1 on node01 ─")

    def test_chips_have_id_and_value_on_one_line(self):
        lines = picture(by_host(blocks(2, 4), room(60, 5)))
        assert lines[0].startswith("process 0 on node00 ")
        assert lines[1].split() == ["0", "1.0M", "1", "2.0M", "4", "5.0M", "5", "6.0M"]

    def test_rows_of_many_hosts_are_labelled_with_their_first(self):
        plan = by_host(blocks(64, 8), room(80, 11, 512))
        assert [label.text for label in plan.labels] == ["0", "8", "16", "24", "32", "40", "48", "56"]

    def test_labels_tell_which_hosts_are_not_live(self):
        plan = by_host(blocks(2, 4), room(60, 12))
        lines = picture(plan, states=(State.LIVE, State.DIED))
        assert lines[0].startswith("╭ process 0 on node00 ─")
        assert lines[6].startswith("╭ process 1 on node01 × died ─")

    def test_the_label_of_several_hosts_tells_the_worst_state(self):
        plan = by_host(blocks(64, 8), room(80, 11, 512))
        states = [State.LIVE] * 64
        states[9], states[10] = State.QUIET, State.DIED
        lines = picture(plan, a_run(hosts=64, per_host=8, meshes=()), states=tuple(states))
        assert lines[0].startswith("0  ")
        assert lines[1].startswith("8 ×")


class TestByAxes:
    def test_rows_and_columns_carry_the_names_of_their_axes_and_their_indices(self):
        lines = picture(by_axes(table(4, 2), ("data", "model"), room(40, 8)))
        assert lines[0].strip() == "model →"
        assert lines[1].split() == ["data", "↓", "0", "1"]
        assert [line.split()[0] for line in lines[2:]] == ["0", "1", "2", "3"]

    def test_a_long_axis_is_cut_into_bands_with_indices_that_go_on(self):
        plan = by_axes(table(2, 16), ("data", "model"), room(60, 20, 32))
        columns = [label.text.strip() for label in plan.labels if label.role == "column"]
        assert columns == [f"model {i}" for i in range(16)]
        assert len({label.y for label in plan.labels if label.role == "column"}) > 1
        assert [label.text for label in plan.labels].count("data ↓") > 1

    def test_a_single_axis_needs_no_rows(self):
        plan = by_axes(table(1, 8), ("", "x"), room(80, 20))
        assert [label.text.strip() for label in plan.labels] == [f"x {i}" for i in range(8)]
        assert not [label for label in plan.labels if label.role == "row"]

    def test_the_row_and_the_column_of_the_selected_device_stand_out(self):
        plan = by_axes(table(4, 2), ("data", "model"), room(40, 8))
        known = device_views(a_run(meshes=()), NOW)
        scene = GridContents(plan, known, read(known, MEMORY), PLAIN, selected=5)
        bold = [
            " ".join(segment.text.split())
            for y in range(1, plan.height)
            for segment in paint(scene, y)
            if segment.style and segment.style.bold and segment.text.strip()
        ]
        assert bold == ["data ↓", "1", "2", "[ 5 6.0M]"]


class TestGrids:
    GRID = Grid((("data", 2), ("fsdp", 3), ("model", 4)), tuple(range(24)))

    def test_a_device_has_a_place_on_every_axis(self):
        assert self.GRID.coordinates(0) == (0, 0, 0)
        assert self.GRID.coordinates(23) == (1, 2, 3)
        assert self.GRID.coordinates(17) == (1, 1, 1)
        assert self.GRID.coordinates(99) is None

    def test_a_group_is_the_devices_that_differ_along_one_axis_only(self):
        assert self.GRID.group(17, 2) == (16, 17, 18, 19)
        assert self.GRID.group(17, 1) == (13, 17, 21)
        assert self.GRID.group(17, 0) == (5, 17)

    def test_the_largest_two_axes_come_first_in_their_own_order(self):
        assert self.GRID.pairs[0] == Pair(1, 2)
        assert self.GRID.pairs[1] == Pair(2, 1)
        assert len(self.GRID.pairs) == 6

    def test_the_other_axes_are_pages_that_hold_every_device_once(self):
        for pair in self.GRID.pairs:
            seen = []
            for page in range(self.GRID.pages(pair)):
                shown = [each for row in self.GRID.table(pair, page) for each in row]
                assert {self.GRID.page_of(each, pair) for each in shown} == {page}
                seen += shown
            assert sorted(seen) == list(range(24))

    def test_a_page_says_where_on_the_other_axes_it_is(self):
        assert self.GRID.on_page(Pair(1, 2), 1) == (("data", 1),)
        assert self.GRID.on_page(Pair(None, 2), 5) == (("data", 1), ("fsdp", 2))

    def test_devices_stand_where_their_order_in_the_mesh_puts_them(self):
        grid = Grid((("data", 2), ("model", 2)), (3, 1, 0, 2))
        assert grid.table(Pair(0, 1), 0) == ((3, 1), (0, 2))
        assert grid.group(0, 1) == (0, 2)


class TestCoordinates:
    def known(self, coords, count=8, **more):
        return device_views(a_run(hosts=count // 4, meshes=(), coords=coords, **more), NOW)

    def test_x_runs_across_and_y_down(self):
        grid = physical(self.known(lambda i: (i % 4, i // 4, 0)), "r1")
        assert grid.axes == (("z", 1), ("y", 2), ("x", 4))
        assert grid.table(grid.pairs[0], 0) == ((0, 1, 2, 3), (4, 5, 6, 7))

    def test_devices_at_the_same_place_are_its_cores(self):
        grid = physical(self.known(lambda i: (i // 2 % 2, i // 4)), "r1")
        assert grid.axes == (("core", 2), ("y", 2), ("x", 2))
        assert grid.coordinates(1) == (1, 0, 0)

    def test_a_cube_has_pages_and_each_device_a_place_of_its_own(self):
        grid = physical(self.known(lambda i: (i % 4, i // 4 % 4, i // 16), 64), "r1")
        assert grid.axes == (("z", 4), ("y", 4), ("x", 4))
        assert grid.pairs[0] == Pair(1, 2)
        assert grid.pages(grid.pairs[0]) == 4
        assert grid.table(grid.pairs[0], 2)[1] == (36, 37, 38, 39)
        assert grid.on_page(grid.pairs[0], 2) == (("z", 2),)
        assert grid.group(37, 0) == (5, 21, 37, 53)  # neighbours along z, to the end of the torus

    def test_cores_say_which_they_are(self):
        grid = physical(self.known(lambda i: (i // 2 % 2, i // 4), core=lambda i: 1 - i % 2), "r1")
        assert grid.axes == (("core", 2), ("y", 2), ("x", 2))
        assert grid.table(Pair(1, 2), 0) == ((1, 3), (5, 7))
        assert grid.table(Pair(1, 2), 1) == ((0, 2), (4, 6))

    def test_slices_that_have_the_same_coordinates_are_no_cores(self):
        known = self.known(lambda i: (i % 2, i // 2 % 4, 0), 16, slice_of=lambda i: i // 8)
        grid = physical(known, "r1")
        assert grid.axes == (("slice", 2), ("z", 1), ("y", 4), ("x", 2))
        assert [grid.coordinates(i)[0] for i in (0, 7, 8, 15)] == [0, 0, 1, 1]
        assert grid.table(Pair(2, 3), 1) == ((8, 9), (10, 11), (12, 13), (14, 15))

    def test_two_slices_of_chips_with_two_cores(self):
        known = self.known(
            lambda i: (i // 2 % 2, i // 4 % 2), 16, core=lambda i: i % 2, slice_of=lambda i: 5 + i // 8
        )
        grid = physical(known, "r1")
        assert grid.axes == (("slice", 2), ("core", 2), ("y", 2), ("x", 2))
        assert sorted(grid.members) == list(range(16))
        assert grid.coordinates(13) == (1, 1, 1, 0)

    def test_places_without_a_device_stay_empty(self):
        grid = physical(self.known(lambda i: (2 * i, 5)), "r1")
        assert grid.axes == (("y", 1), ("x", 15))
        assert grid.members[:3] == (0, UNSEEN, 1)

    def test_devices_without_coordinates_and_absurd_ones_make_no_grid(self):
        assert physical(self.known(lambda _: None), "r1") is None
        assert physical(self.known(lambda i: (i * 10**6, 0)), "r1") is None

    @pytest.mark.parametrize(
        ("coords", "count", "core", "axes"),
        [
            # v5e 4x8, two hosts of eight chips of one core; v6e is alike.
            (lambda i: (i % 4, i // 4, 0), 32, lambda _: 0, (("z", 1), ("y", 8), ("x", 4))),
            # v4 and v5p 2x2x4: a device is a chip with both cores (megacore).
            (lambda i: (i % 2, i // 2 % 2, i // 4), 16, lambda _: 0, (("z", 4), ("y", 2), ("x", 2))),
            # v3 and 7x 2x2x1: two devices on a chip.
            (
                lambda i: (i // 2 % 2, i // 4, 0),
                8,
                lambda i: i % 2,
                (("core", 2), ("z", 1), ("y", 2), ("x", 2)),
            ),
        ],
    )
    def test_each_generation_of_tpus_has_its_torus(self, coords, count, core, axes):
        grid = physical(self.known(coords, count, core=core, platform="tpu"), "r1")
        assert grid.axes == axes and sorted(grid.members) == list(range(count))

    @pytest.mark.parametrize("coords", [lambda i: (i % 4,), lambda i: (0, i // 4, i % 4), lambda _: None])
    def test_gpus_have_no_coordinates_even_where_xla_numbers_them(self, coords):
        """The ordinals in two hosts are the same: these are no cores that share a chip."""
        assert physical(self.known(coords, 8, platform="gpu", slice_of=lambda i: i // 4), "r1") is None


class TestWithoutColour:
    def test_the_value_is_shown_by_glyphs_only(self):
        glyphs = [PLAIN.whole(step)[0] for step in range(8)]
        assert glyphs == list("░░▒▒▓▓██")
        assert all(style.color is None and style.bgcolor is None for _, style in map(PLAIN.whole, range(8)))

    def test_two_devices_in_one_character_are_distinguished_by_dots(self):
        glyphs = [PLAIN.halves(upper * 10_000 + lower)[0] for upper in (0, 7) for lower in (0, 7)]
        assert len(set(glyphs)) == 4

    @pytest.mark.parametrize("ink", [INK, PLAIN], ids=["colour", "plain"])
    def test_the_selected_device_is_marked_by_a_sign(self, ink):
        assert ink.whole(3 + SELECTED)[0] == "◆"
        assert ink.halves((3 + SELECTED) * 10_000 + 3)[0] == "▲"
        assert ink.halves(3 * 10_000 + 3 + SELECTED)[0] == "▼"

    @pytest.mark.parametrize("ink", [INK, PLAIN], ids=["colour", "plain"])
    def test_peers_look_different_from_others(self, ink):
        assert ink.whole(3 + PEER)[1].underline
        both = (3 + PEER) * 10_000 + 3 + PEER
        assert ink.halves(both) != ink.halves(30_003)
        assert ink.halves(both)[0] == ":" or ink.halves(both)[1].underline

    @pytest.mark.parametrize("theme", list(PALETTES))
    def test_every_theme_has_another_colour_for_each_step(self, theme):
        ink = ink_of(PALETTES[theme], plain=False)
        assert len({ink.whole(step)[1] for step in range(8)}) == 8


class TestSigns:
    @pytest.mark.parametrize(
        ("level", "width", "height", "expected"),
        [
            (CellDetail.BOX, 60, 12, "died"),
            (CellDetail.CHIP, 50, 5, "4×    n/a"),
            (CellDetail.PAIR, 20, 3, "××"),
            (CellDetail.CHAR, 12, 2, "××××"),
        ],
    )
    def test_devices_of_a_host_that_is_not_live_show_its_sign(self, level, width, height, expected):
        known = [
            replace(device, state=State.DIED if device.process_index else State.LIVE)
            for device in device_views(a_run(meshes=()), NOW)
        ]
        plan = by_host(blocks(2, 4), room(width, height))
        assert plan.tile.level is level
        scene = GridContents(plan, known, read(known, MEMORY), PLAIN, id_width=1)
        lines = [paint(scene, y).text for y in range(plan.height)]
        assert expected in "\n".join(lines)

    def test_a_process_that_is_gone_holds_nothing_any_more(self):
        known = device_views(a_run(meshes=()), NOW)
        gone = [replace(d, state=State.DIED if d.id == 7 else State.LIVE) for d in known]
        assert read(known, MEMORY).most == 7
        assert read(gone, MEMORY).most == 6
        assert read(gone, MEMORY).end == 7 * MIB

    def test_unknown_is_no_step_of_the_scale(self):
        nothing = {
            used: structs.replace(NO_PULSE, devices=DeviceSample(used_bytes=(used,))) for used in (0, None)
        }
        known = [
            replace(d, position=0, pulse=nothing[None if d.id == 1 else 0])
            for d in device_views(a_run(meshes=()), NOW)
        ]
        scene = GridContents(by_host(blocks(2, 4), room(12, 2)), known, read(known, MEMORY), PLAIN)
        assert paint(scene, 0).text == "0   ░░╌╌░░░░"


class TestTheLegend:
    def line(self, metric=MEMORY, width=120, **options):
        known = device_views(a_run(meshes=(), **options), NOW)
        return legend(read(known, metric), known, PLAIN, width)

    def test_it_says_metric_scale_ramp_and_who_holds_most(self):
        assert self.line().plain == (
            " memory used  0B ░░▒▒▓▓██ 8.0M  relative: no limit known   most: device 7 on host 1, 8.0M"
        )

    def test_it_says_so_where_several_hold_as_much(self):
        assert "most: device 0 on host 0, 1.0M (and 7 more)" in self.line(used=lambda _: MIB).plain

    def test_a_metric_that_nobody_has_is_said_to_be_unknown(self):
        power = next(metric for metric in METRICS if metric.name == "power")
        assert self.line(power).plain == " power  n/a: no device reports power"

    def test_a_share_has_a_scale_to_100_percent(self):
        assert "0% ░░▒▒▓▓██ 100%   most: device 7 on host 1, 50%" in self.line(SHARE, limit=16 * MIB).plain

    def test_what_is_pointed_at_takes_the_place_of_most(self):
        known = device_views(a_run(meshes=()), NOW)
        said = legend(read(known, MEMORY), known, PLAIN, 120, pointed=2).plain
        assert "here: device 2 on host 0, 3.0M" in said
        assert "most" not in said

    def test_signs_are_explained_where_they_are_seen(self):
        known = device_views(a_run(meshes=()), NOW)
        said = legend(
            read(known, MEMORY), known, PLAIN, 140, states=[State.LIVE, State.QUIET, State.DIED], absent=True
        ).plain
        assert said.endswith("~ quiet   × died   · absent")

    def test_it_never_gets_wider_than_there_is_room(self):
        assert all(self.line(width=width).cell_len <= width for width in range(10, 120))


class TestRepaints:
    def scene(self, plan, used, **options):
        known = device_views(a_run(meshes=(), used=used), NOW)
        return GridContents(plan, known, read(known, MEMORY), INK, (State.LIVE,) * 2, id_width=1, **options)

    def used(self, **more):
        return lambda device: more.get(f"d{device}", 8 * MIB)

    def test_nothing_changed_means_no_line_is_drawn_again(self):
        plan = by_host(blocks(2, 4), room(60, 12))
        assert changed_lines(self.scene(plan, self.used()), self.scene(plan, self.used())) == set()

    def test_only_the_lines_of_devices_that_changed_are_drawn_again(self):
        plan = by_host(blocks(2, 4), room(60, 12))
        changed = changed_lines(self.scene(plan, self.used()), self.scene(plan, self.used(d5=MIB)))
        assert changed == set(plan.lines_of(5))

    def test_where_only_colours_show_a_change_that_stays_within_its_colour_is_no_change(self):
        plan = by_host(blocks(2, 4), room(12, 2))
        small = self.scene(plan, self.used(d5=2 * MIB))
        assert changed_lines(small, self.scene(plan, self.used(d5=2 * MIB + 1))) == set()

    def test_moving_the_selection_draws_both_places_and_their_labels(self):
        plan = by_host(blocks(2, 4), room(60, 12))
        before = self.scene(plan, self.used(), selected=0)
        after = self.scene(plan, self.used(), selected=4)
        titles = {label.y for label in plan.labels if label.role == "title"}
        assert changed_lines(before, after) == {*plan.lines_of(0), *plan.lines_of(4), *titles}

    def test_another_scale_or_another_plan_draws_all_lines(self):
        plan = by_host(blocks(2, 4), room(60, 12))
        before = self.scene(plan, self.used())
        assert changed_lines(before, self.scene(plan, self.used(d5=9 * MIB))) is None
        assert changed_lines(before, self.scene(by_host(blocks(2, 4), room(60, 12)), self.used())) is None


class TestSmallDrawings:
    def test_a_sparkline_runs_from_the_smallest_to_the_largest(self):
        assert sparkline([1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇█"

    def test_a_sparkline_leaves_a_gap_where_nobody_knew(self):
        assert sparkline([5, None, 9]) == "▄ █"
        assert sparkline([None, None]) == "  " and sparkline([]) == ""

    def test_a_sparkline_stands_on_0(self):
        assert sparkline([4, 4, 8, 16]) == "▂▂▄█"
        assert sparkline([0, 0]) == "▁▁"

    def test_a_figure_that_hardly_moves_is_drawn_as_calm_as_it_is(self):
        assert set(sparkline([1000, 1001, 999, 1000])) == {"█"}

    def test_a_bar_is_as_wide_as_its_track(self):
        assert bar(0.5, 4) == "██  "
        assert bar(0.53, 4).strip() == "██▏"
        assert bar(2, 4) == "████"
        assert bar(None, 4) == "    "

    def test_many_ids_are_shortened_to_the_first_the_last_and_their_number(self):
        assert ids_in_words((2, 3), 10) == "2 3"
        assert ids_in_words(tuple(range(0, 8192, 8)), 28) == "0 8 … 8184 (1,024 devices)"
        assert len(ids_in_words(tuple(range(8192)), 20)) <= 20

    def test_what_others_sent_cannot_reach_the_terminal_as_control_characters(self):
        plan = by_host([Block(("a\x1b[2Jb", "0"), (0,))], room(40, 6))
        assert isinstance(plan.labels[0], Label)
        known = device_views(a_run(meshes=()), NOW)
        scene = GridContents(plan, known, read(known, MEMORY), INK, (State.LIVE,))
        assert "\x1b" not in paint(scene, 0).text

    def test_styles_are_made_once(self):
        assert ink_of(DARK, plain=False) is INK
        assert isinstance(INK.blank, Style)
