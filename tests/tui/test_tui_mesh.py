"""The mesh screen: what it shows, and what every key and click does."""

from __future__ import annotations

import re

import pytest
from msgspec import structs
from textual.color import Color

from jaxtop import wire
from jaxtop.tui.core.moment import NO_SELECTION, Selection
from jaxtop.tui.core.palette import DARK, PALETTES
from tests.stage import play
from tests.staged import collectives as staged_collectives
from tests.staged.mesh import DATA_MODEL, MIB, NOW, a_run, drive, pulse
from tests.stories import hello, link, tell

SIZES = [(80, 24), (120, 40), (200, 50)]
THREE_AXES = (("data", 2), ("fsdp", 2), ("model", 2))


def spot(app, device):
    """Where a click hits this device."""
    cell = app.grid.plan.by_device[app.grid._contents.devices.index(app.view.moment.device_views[device])]
    return cell.x + app.grid.plan.tile.width // 2, cell.y


def _titles(line):
    """The titles of the rows and columns of axes."""
    return [" ".join(pair) for pair in zip(line.split()[::2], line.split()[1::2], strict=True)]


def _is_drawn(words):
    """Whether there is a curve: braille characters with different numbers of dots."""
    return len({each for each in words if "⠀" < each <= "⣿"}) > 1


class TestWhatItShows:
    @pytest.mark.parametrize("size", SIZES)
    def test_every_device_the_legend_and_the_detail_are_there(self, size):
        async def act(app, _):
            seen = app.text()
            assert all(f" {device} " in seen for device in range(8))
            assert "host 0 (node0)" in seen
            assert "host 1 (node1)" in seen
            assert "most: device 7 on host 1, 8.0M" in app.text("#legend")
            assert "device 0" in app.text("#detail")

        drive(act, a_run(), size)

    def test_64_hosts_of_8_devices_fit_80x24(self):
        async def act(app, _):
            assert len(app.grid.plan.by_device) == 512
            assert app.grid.plan.height <= app.grid.size.height
            await _.press("tab")
            assert app.grid.plan.height <= app.grid.size.height

        drive(act, a_run(64, 8, meshes=((("data", 64), ("model", 8)),)), (80, 24))

    def test_1024_hosts_of_8_devices_fit_200x50_in_every_arrangement(self):
        async def act(app, pilot):
            assert app.level == "HALF"
            assert app.grid.plan.height <= app.grid.size.height
            await pilot.press("tab")
            assert "data →" in app.text()
            assert len(app.grid.plan.by_device) == 8192
            assert app.grid.plan.height <= app.grid.size.height
            assert app.grid.plan.width <= app.grid.size.width

        drive(act, a_run(1024, 8, meshes=((("data", 1024), ("model", 8)),)), (200, 50))

    def test_before_anything_is_known_it_says_so(self):
        async def act(app, pilot):
            assert "no devices yet" in app.text()
            assert "no device yet" in app.text("#detail")
            for key in ("tab", "m", "o", "a", "x", "l", "j", "g", "G", "less_than_sign", "enter"):
                await pilot.press(key)
            assert app.heard == []

        drive(act, a_run(hosts=0))

    def test_hosts_that_are_not_live_show_their_sign_in_cells_and_labels(self):
        cluster = a_run()
        tell(cluster, (NOW, "r1-1", link("dead")))

        async def act(app, _):
            assert "host 1 (node1) × died" in app.text()
            assert app.text().count("× ╮") == 4
            assert "× died" in app.text("#legend")

        drive(act, cluster)

    def test_a_host_falls_quiet_and_blocked_by_time_alone(self):
        async def act(app, _):
            assert "~" not in app.text()
            app.now = NOW + 3
            app.look()
            assert "host 0 (node0) ~ quiet" in app.text()
            app.now = NOW + 30
            app.look()
            assert "host 0 (node0) ! blocked" in app.text()

        drive(act, a_run())

    def test_a_host_of_which_only_the_address_is_known_has_its_place(self):
        async def act(app, pilot):
            assert "host 1 (node1) ? unreachable" in app.text()
            assert app.text().count(" ? ╮") == 4
            await pilot.press("tab")
            assert len(app.grid.plan.by_device) == 4
            assert "· absent" in app.text("#legend")

        drive(act, a_run(silent=(1,)), (200, 50))

    def test_the_legend_says_that_nobody_has_a_metric(self):
        async def act(app, _):
            assert "n/a: no device reports memory used" in app.text("#legend")

        drive(act, a_run(used=lambda _: None))

    def test_names_of_others_cannot_steer_the_terminal(self):
        cluster = a_run(meshes=((("da\x1b[2Jta", 4), ("mo\ndel", 2)),))
        tell(cluster, (NOW, "r1-1", hello(1, hostname="ev\x1b]0;il\x07", devices=())))

        async def act(app, pilot):
            for _ in range(2):
                seen = "".join(map(app.text, ("MeshGrid", "#switches", "#detail", "#legend")))
                assert not set("\x1b\x07") & set(seen)
                await pilot.press("tab")

        drive(act, cluster)


class TestMeans:
    def test_they_are_those_of_rows_and_columns_and_say_where_to_look(self):
        async def act(app, pilot):
            await pilot.press("tab")
            seen = app.text("#means")
            figures = [word for line in app.lines("#means") for word in line.split() if word.endswith("M")]
            assert figures == ["1.5M", "4.0M", "3.5M", "5.0M", "5.5M", "7.5M"]
            assert "Rows differ by 6.0M, columns by 1.0M: look along data, at host 1." in seen

        drive(act, a_run(), (120, 50))

    def test_every_axis_has_some_also_that_of_the_pages(self):
        async def act(app, pilot):
            await pilot.press("tab")
            assert app.lines("#means")[0].count("mean by") == 3
            assert "Data differ by" in app.text("#means") or "data by" in app.text("#means")

        drive(act, a_run(meshes=(THREE_AXES,)), (200, 50))

    def test_hosts_that_are_alike_are_said_to_be(self):
        async def act(app, _):
            assert "Places on a host and hosts hardly differ: by 4B at most." in app.text("#means")
            assert re.search(r"most: device \d+ on host \d, 1\.0M \(and 7 more\)", app.text("#legend"))

        drive(act, a_run(used=lambda device: MIB + 8 * (device == 3)), (120, 50))


class TestLate:
    def test_the_late_ones_are_marked_in_their_cells_and_at_their_host(self):
        seen = []

        async def act(stage):
            await stage.press("2")
            seen.append(stage.text)

        play(act, *staged_collectives.late(), size=(120, 41))
        # In each cell, at the name of the host, and at its mean.
        assert seen[0].count("▲ late") == staged_collectives.DEVICES + 2


class TestDetail:
    def test_it_tells_where_the_device_is_and_with_whom_it_shares_groups(self):
        async def act(app, pilot):
            await pilot.press("l", "j")
            detail = app.text("#detail")
            assert "device 3  ● live" in detail
            assert "cpu, local id 3" in detail
            assert "host 0 (node0)" in detail
            assert "mesh data 4 × model 2" in detail
            assert "data 1  model 1" in detail
            assert "data group: 1 3 5 7" in detail
            assert "model group: 2 3" in detail

        drive(act, a_run())

    @pytest.mark.parametrize(
        ("source", "words"), [("arrays", "memory: sum of live arrays"), ("allocator", "memory: allocator")]
    )
    def test_it_tells_where_the_memory_figure_comes_from(self, source, words):
        async def act(app, _):
            assert words in app.text("#detail")

        drive(act, a_run(source=source))

    def test_unknown_is_said_to_be_unknown(self):
        async def act(app, _):
            assert "used 1.0M  peak n/a" in app.text("#detail")
            assert "no limit known" in app.text("#detail") and "share" not in app.text("#detail")
            assert "step n/a" in app.text("#detail")

        drive(act, a_run())

    def test_a_limit_gives_a_share_and_its_bar(self):
        async def act(app, _):
            assert "limit 2.0M  share 50%" in app.text("#detail")
            assert "█████" in app.text("#detail")

        drive(act, a_run(limit=2 * MIB))

    def test_what_is_reserved_is_said_and_counts_in_the_share(self):
        cluster = a_run(limit=4 * MIB, source="allocator", platform="tpu")
        held = cluster.hosts["r1-0"].pulse
        sample = structs.replace(held.devices, reserved_bytes=(2 * MIB,) * 4)
        tell(cluster, (NOW, "r1-0", structs.replace(held, at_ms=held.at_ms + 1, devices=sample)))

        async def act(app, _):
            assert "limit 4.0M  share 75%" in app.text("#detail")
            assert "reserved 2.0M" in app.text("#detail")

        drive(act, cluster)

    def test_history_has_its_ends_in_figures(self):
        cluster = a_run()
        for i in range(1, 21):
            tell(cluster, (NOW + i, "r1-0", pulse(range(4), lambda _, i=i: i * MIB)))

        async def act(app, _):
            assert _is_drawn(app.text("#detail"))
            assert "min 1.0M  max 20.0M" in app.text("#detail")

        drive(act, cluster, now=NOW + 20)

    def test_large_boxes_show_the_history_of_the_memory_and_under_another_metric_whose_it_is(self):
        cluster = a_run(used=lambda _: 8 * MIB)
        for i in range(1, 9):
            tell(cluster, (NOW + i, "r1-0", pulse(range(4), lambda _, i=i: i * MIB)))

        async def act(app, pilot):
            assert _is_drawn(app.lines()[4])
            assert "memory" not in app.text()
            await pilot.press("m", "m")
            assert "memory" in app.text()

        drive(act, cluster, now=NOW + 8)

    def test_a_process_that_died_launches_nothing_and_its_figures_are_its_last(self):
        cluster = a_run()
        tell(cluster, (NOW, "r1-0", link("dead")))

        async def act(app, _):
            assert "device 0  × died" in app.text("#detail")
            assert "last memory" in app.text("#detail")
            assert "launches n/a" in app.text("#detail")

        drive(act, cluster)

    def test_it_stands_beside_the_mesh_or_below_it(self):
        async def act(app, pilot):
            detail, grid = app.view.query_one("#detail"), app.grid
            assert detail.region.x > grid.region.right - 1
            await pilot.resize_terminal(80, 24)
            await pilot.pause()
            assert detail.region.y >= grid.region.bottom
            assert detail.size.height == 6
            assert "model group: 0 1" in app.text("#detail")
            await pilot.resize_terminal(60, 16)
            await pilot.pause()
            assert detail.size.height < 6
            assert grid.size.height >= 4

        drive(act, a_run(), (120, 40))


class TestArrangements:
    def test_tab_goes_through_those_that_there_are(self):
        async def act(app, pilot):
            seen = []
            for _ in range(4):
                seen.append((app.lines()[0], app.lines()[1]))
                await pilot.press("tab")
            assert "host 0" in seen[0][0]
            assert {"data ↓", "model 0"} <= set(_titles(seen[1][0]))
            assert {"y ↓", "x 0"} <= set(_titles(seen[2][0]))
            assert seen[3] == seen[0]
            await pilot.press("shift+tab")
            assert (app.lines()[0], app.lines()[1]) == seen[0]

        drive(act, a_run(coords=lambda i: (i % 4, i // 4)))

    def test_slices_are_pages_of_the_same_coordinates(self):
        async def act(app, pilot):
            await pilot.press("tab")
            assert "slice 0" in app.text("#switches")
            shown = [app.view.moment.device_views[cell.device].id for cell in app.grid.plan.cells]
            await pilot.press("pagedown")
            assert "slice 1" in app.text("#switches")
            then = [app.view.moment.device_views[cell.device].id for cell in app.grid.plan.cells]
            assert (shown, then) == ([*range(8)], [*range(8, 16)])

        drive(
            act,
            a_run(4, meshes=(), coords=lambda i: (i % 4, i // 4 % 2, 0), slice_of=lambda i: i // 8),
        )

    def test_without_meshes_and_coordinates_there_is_but_one(self):
        async def act(app, pilot):
            assert "coordinates" not in app.text("#switches")
            await pilot.press("tab")
            assert "host 0" in app.lines()[0]

        drive(act, a_run(meshes=()))

    def test_a_click_on_the_switch_arranges(self):
        async def act(app, pilot):
            at = app.lines("#switches")[0].index("axes")
            await pilot.click("#switches", offset=(at + 3, 0))
            assert "model 0" in app.lines()[0]
            at = app.lines("#switches")[0].index("host")
            await pilot.click("#switches", offset=(at + 3, 0))
            assert "host 0" in app.lines()[0]

        drive(act, a_run())

    def test_devices_stand_in_the_order_of_the_mesh(self):
        async def act(app, pilot):
            await pilot.press("tab")
            ids = [app.view.moment.device_views[cell.device].id for cell in app.grid.plan.cells]
            assert ids == [7, 6, 5, 4, 3, 2, 1, 0]

        drive(act, a_run(meshes=((DATA_MODEL, (7, 6, 5, 4, 3, 2, 1, 0)),)))

    def test_a_swaps_the_axes_and_goes_through_the_pairs(self):
        async def act(app, pilot):
            await pilot.press("tab")
            seen = set()
            for _ in range(6):
                seen.add(tuple(app.lines()[0].split()[:3:2]))
                await pilot.press("a")
            assert len(seen) == 6
            assert {("model", "fsdp"), ("fsdp", "model")} <= seen

        drive(act, a_run(meshes=(THREE_AXES,)))

    def test_the_other_axes_are_pages_and_the_selection_keeps_its_place_on_them(self):
        async def act(app, pilot):
            await pilot.press("tab", "l", "j")
            assert app.selected == 3
            assert "data 0 (page 1 of 2)" in app.text("#switches")
            await pilot.press("greater_than_sign")
            assert app.selected == 7
            assert "data 1 (page 2 of 2)" in app.text("#switches")
            assert sorted(app.grid.plan.by_device) == [4, 5, 6, 7]
            await pilot.press("less_than_sign")
            assert app.selected == 3
            await pilot.press("pagedown")
            assert app.selected == 7
            await pilot.press("pageup")
            assert app.selected == 3

        drive(act, a_run(meshes=(THREE_AXES,)), (200, 50))

    def test_pages_turn_with_the_mouse(self):
        async def act(app, pilot):
            await pilot.press("tab")
            at = app.lines("#switches")[0].index(">")
            await pilot.click("#switches", offset=(at, 0))
            assert app.selected == 4
            at = app.lines("#switches")[0].index("<")
            await pilot.click("#switches", offset=(at, 0))
            assert app.selected == 0

        drive(act, a_run(meshes=(THREE_AXES,)), (200, 50))

    def test_the_page_follows_what_is_selected_elsewhere(self):
        async def act(app, pilot):
            await pilot.press("tab")
            app.view.select(Selection("r1-1", 6))
            assert sorted(app.grid.plan.by_device) == [4, 5, 6, 7]

        drive(act, a_run(meshes=(THREE_AXES,)))

    def test_o_shows_the_other_mesh(self):
        async def act(app, pilot):
            await pilot.press("tab")
            assert "mesh data 4 × model 2 (1 of 2)" in app.text("#switches")
            await pilot.press("o")
            assert "mesh x 8 (2 of 2)" in app.text("#switches")
            assert app.lines()[0].split()[:4] == ["x", "0", "x", "1"]
            at = app.lines("#switches")[0].index("mesh x 8")
            await pilot.click("#switches", offset=(at, 0))
            assert "data 4 × model 2 (1 of 2)" in app.text("#switches")

        drive(act, a_run(meshes=(DATA_MODEL, (("x", 8),))), (200, 50))

    def test_several_runs_have_their_names_on_their_hosts(self):
        cluster = a_run(hosts=1)
        other = a_run(hosts=1, run="r2")
        cluster.hosts.update(other.hosts)
        cluster.past_pulses.update(other.past_pulses)

        async def act(app, _):
            assert "train r1 process 0 on node0" in app.text()
            assert app.text().count("process 0 on node0") == 2

        drive(act, cluster)

    def test_a_mesh_that_nothing_lies_on_harms_nothing(self):
        cluster = a_run(meshes=())
        odd = (wire.Mesh((), ((0, 1),)), wire.Mesh((("x", 0),), ()))
        tell(cluster, (NOW, "r1-0", wire.Arrays(0, odd)))

        async def act(app, pilot):
            await pilot.press("tab", "o", "a", "x", "greater_than_sign")
            assert "host 0" in app.lines()[0]

        drive(act, cluster)

    def test_a_mesh_stays_while_its_arrays_are_being_replaced(self):
        cluster = a_run()

        async def act(app, pilot):
            await pilot.press("tab")
            for agent in ("r1-0", "r1-1"):
                tell(cluster, (NOW, agent, wire.Arrays(0)))
            app.look()
            assert "model 0" in app.lines()[0]

        drive(act, cluster)


class TestSelection:
    def test_the_first_device_is_selected_at_first_and_others_are_counted(self):
        async def act(app, _):
            assert app.heard == [Selection("r1-0", 0)]

        drive(act, a_run())

    @pytest.mark.parametrize(
        ("keys", "device"),
        [
            (["l"], 1),
            (["right", "down"], 3),
            (["l", "h"], 0),
            (["right", "left"], 0),
            (["j"], 2),
            (["down", "up"], 0),
            (["j", "k"], 0),
            (["G"], 7),
            (["G", "g"], 0),
            (["h"], 0),
            (["k"], 0),
        ],
    )
    def test_keys_move_it(self, keys, device):
        async def act(app, pilot):
            await pilot.press(*keys)
            assert app.selected == device
            assert app.heard[-1] == Selection(f"r1-{device // 4}", device)
            assert f"device {device} " in app.text("#detail")

        drive(act, a_run(), (120, 40))

    def test_a_click_selects_and_a_click_on_the_selected_device_opens_it(self):
        async def act(app, pilot):
            await pilot.click("MeshGrid", offset=spot(app, 6))
            assert app.selected == 6
            assert app.heard[-1] == Selection("r1-1", 6)
            await pilot.click("MeshGrid", offset=spot(app, 6))
            assert app.heard[-1] == ("devices", Selection("r1-1", 6))

        drive(act, a_run())

    def test_enter_opens_the_devices(self):
        async def act(app, pilot):
            await pilot.press("l", "enter")
            assert app.heard[-1] == ("devices", Selection("r1-0", 1))

        drive(act, a_run())

    def test_of_two_devices_in_one_character_the_next_click_takes_the_other(self):
        async def act(app, pilot):
            assert app.level == "HALF"
            plan = app.grid.plan
            cell = plan.by_device[20]
            both = plan.devices_at(cell.x, cell.y)
            assert len(both) == 2
            app.CLICK_CHAIN_TIME_THRESHOLD = 0  # else the second is a double click
            for device in (both[0], both[1]):
                await pilot.click("MeshGrid", offset=(cell.x, cell.y))
                assert app.selected == device

        drive(act, a_run(256, 8, meshes=()), (80, 24))

    def test_it_is_marked_by_a_sign_at_every_size_of_cell(self):
        marks = {
            "BOX": "┏ 0 ━",
            "CHIP": "[ 1.0M",
            "PAIR": "[]",
            "CHAR": "◆",
            "HALF": "▲",
            "QUARTER": "◤",
        }
        seen = set()
        for hosts, size in (
            (2, (120, 40)),
            (8, (80, 24)),
            (16, (80, 24)),
            (64, (80, 24)),
            (256, (80, 24)),
            (400, (80, 24)),
        ):

            async def act(app, _):
                seen.add(app.level)
                assert marks[app.level] in app.text().replace("[  1", "[ 1")

            drive(act, a_run(hosts, 8, meshes=()), size)
        assert seen == set(marks)

    def test_resizing_keeps_it_and_keeps_it_in_sight(self):
        async def act(app, pilot):
            app.view.select(Selection("r1-100", 805))
            for size in ((80, 24), (200, 50), (60, 16), (120, 40)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                assert app.selected == 805
                assert "▼" in app.text() or "▲" in app.text() or "◆" in app.text() or "[" in app.text()

        drive(act, a_run(128, 8, meshes=()), (120, 40))

    def test_arrangements_and_metrics_keep_it(self):
        async def act(app, pilot):
            await pilot.press("l", "j", "tab", "m", "tab", "x", "o")
            assert app.selected == 3

        drive(act, a_run(meshes=(DATA_MODEL, (("x", 8),))))

    def test_what_is_selected_elsewhere_is_selected_here(self):
        async def act(app, _):
            app.view.select(Selection("r1-1", 6))
            assert "┏ 6 ━" in app.text()
            app.view.select(NO_SELECTION)
            assert "┏ 6 ━" in app.text()

        drive(act, a_run())

    def test_a_host_selected_elsewhere_brings_its_first_device_or_the_one_that_was(self):
        async def act(app, _):
            app.view.select(Selection("r1-1"))
            assert app.selected == 4
            app.view.select(Selection("r1-1", 6))
            app.view.select(Selection("r1-1"))
            assert app.selected == 6

        drive(act, a_run())

    def test_a_host_without_known_devices_stays_selected(self):
        async def act(app, _):
            app.view.select(Selection("r1-1"))
            app.look()
            assert app.view.selection == Selection("r1-1")
            assert "host 1 (node1): no devices yet" in app.text("#detail").replace("\n", " ")

        drive(act, a_run(silent=(1,)))

    def test_it_stays_on_its_device_when_the_process_is_started_again(self):
        cluster = a_run()

        async def act(app, _):
            app.view.select(Selection("r1-1", 6))
            again = hello(1, agent="new", devices=_devices(4, 5, 6, 7), started_ms=9 * 10**12)
            tell(cluster, (NOW, "new", again), (NOW, "new", pulse(range(4, 8), lambda _: MIB)))
            app.look()
            assert app.view.selection == Selection("new", 6)

        drive(act, cluster)

    def test_the_mouse_shows_what_it_is_over(self):
        async def act(app, pilot):
            await pilot.hover("MeshGrid", offset=spot(app, 5))
            await pilot.pause()
            assert "here: device 5 on host 1, 6.0M" in app.text("#legend")
            await pilot.hover("#detail")
            await pilot.pause()
            assert "most: device 7" in app.text("#legend")

        drive(act, a_run())


def _devices(*ids):
    return tuple(wire.Device(each, "cpu", "cpu", i) for i, each in enumerate(ids))


class TestGroups:
    def marked(self, app):
        return sorted(app.view.moment.device_views[i].id for i in app.grid._contents.peers)

    def test_x_goes_through_the_axes_whose_group_is_marked(self):
        async def act(app, pilot):
            app.view.select(Selection("r1-0", 3))
            assert self.marked(app) == [2]
            assert "x marked: same model group" in app.text("#switches")
            await pilot.press("x")
            assert self.marked(app) == [1, 5, 7]
            assert "x marked: same data group" in app.text("#switches")
            await pilot.press("x")
            assert self.marked(app) == []
            await pilot.press("x")
            assert self.marked(app) == [2]

        drive(act, a_run(), (200, 50))

    def test_they_follow_the_selection(self):
        async def act(app, pilot):
            await pilot.press("G")
            assert self.marked(app) == [6]
            assert "╭ 6 ╌" in app.text()

        drive(act, a_run())


class TestMetrics:
    def test_m_goes_through_those_that_some_device_reports(self):
        async def act(app, pilot):
            for name in ("memory used", "memory share", "launches", "host CPU", "memory used"):
                assert f"m  {name} " in app.text("#switches")
                assert app.text("#legend").startswith(f" {name} ")
                await pilot.press("m")

        drive(act, a_run(limit=16 * MIB))

    def test_a_click_on_its_name_is_the_same(self):
        async def act(app, pilot):
            await pilot.click("#legend", offset=(4, 0))
            assert "memory share" in app.text("#legend")

        drive(act, a_run(limit=16 * MIB))

    @pytest.mark.parametrize(
        ("limit", "colour"), [(8 * MIB, DARK.ramp[-1]), (16 * MIB, DARK.ramp[4]), (None, DARK.ramp[-1])]
    )
    def test_cells_have_the_colour_of_their_share_of_the_limit_or_of_the_largest_value(self, limit, colour):
        async def act(app, _):
            top = app.grid.render_line(app.grid.plan.by_device[7].y)
            colours = {segment.style.color for segment in top if segment.style and "─" in segment.text}
            assert Color.parse(colour).rich_color in colours
            assert ("relative" in app.text("#legend")) == (limit is None)

        drive(act, a_run(limit=limit))


class TestRepaints:
    def test_nothing_is_painted_where_nothing_changed(self):
        async def act(app, pilot):
            await pilot.pause()
            repaints = []
            for name in ("MeshGrid", "#detail", "#legend", "#switches"):
                widget = app.view.query_one(name)
                widget.refresh = lambda *regions, name=name, **_: repaints.append((name, regions))
            app.look()
            assert repaints == []
            tell(app.cluster, (NOW, "r1-1", pulse(range(4, 8), lambda i: (i + (0 if i == 6 else 1)) * MIB)))
            app.look()
            assert {name for name, _ in repaints} == {"MeshGrid"}
            touched = {region.y for _, regions in repaints for region in regions}
            assert touched == set(app.grid.plan.lines_of(6))

        drive(act, a_run())

    def test_another_theme_is_seen_at_once(self):
        async def act(app, pilot):
            before = [segment.style for segment in app.grid.render_line(1)]
            app.theme = list(PALETTES)[1]
            await pilot.pause()
            assert [segment.style for segment in app.grid.render_line(1)] != before

        drive(act, a_run())

    def test_without_colours_glyphs_tell_the_value(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")

        async def act(app, _):
            assert {"░", "▒", "▓", "█"} <= set(app.text())

        drive(act, a_run(64, 8, meshes=()), (80, 24))
