"""The screen of the collectives, and what the mesh shows of them, as a person uses them."""

from __future__ import annotations

import pytest

from jaxtop import wire
from jaxtop.tui.core.metrics import METRICS
from jaxtop.tui.core.moment import Moment
from jaxtop.tui.screens.collectives import untimed
from jaxtop.tui.screens.mesh import MeshScreen
from tests import builders
from tests.builders import NOW, agent_id, folded, frame
from tests.cases import thorough
from tests.made.windows import Made
from tests.stage import Stage, line, play, shown_after
from tests.staged import collectives as staged_collectives

KEYS = {" ": "space"}


def seen(*frames, keys=("6",), size=(200, 50)) -> str:
    return shown_after(*frames, keys=keys, size=size)


class TestTheTable:
    def test_each_collective_has_a_line_with_what_it_costs(self):
        row = line("reduce-scatter", seen(*staged_collectives.late(), size=(250, 50))).split()
        assert row[1:3] == ["data", "32.0M"] and row[5:8] == ["none", "10.0", "4"]
        assert {"jit_train_step", "psum_scatter", "100", "×1", "f32[8388608]"} <= set(row)

    def test_small_ones_of_one_line_share_a_row_that_unfolds_and_folds_again(self):
        shown = seen(*staged_collectives.of_one_line())
        row = line("▸ 6 all-gathers", shown)
        assert "train.py:40" in row and "3.0K" in row  # six of 256 bytes, twice a launch
        assert "2 collectives" not in shown and "7 collectives" in shown
        unfolded = seen(*staged_collectives.of_one_line(), keys=("6", "G", "enter"))
        assert "▸ 6" not in unfolded and unfolded.count("train.py:40") >= 6
        assert "▸ 6 all-gathers" in seen(*staged_collectives.of_one_line(), keys=("6", "G", "enter", "*"))
        found = seen(*staged_collectives.of_one_line(), keys=("6", *"/line~40", "enter"))
        assert found.count("train.py:40") >= 6

    def test_what_the_partitioner_added_is_marked_with_the_operand(self):
        shown = seen(*staged_collectives.of_one_line(), size=(250, 50))
        row = line("4.0M", shown)
        assert "train.py:12" in row and "resharding" in row
        assert "resharding, added by the partitioner" in shown
        assert "params['w'] is cut along dimension 0 in 4" in shown
        assert "whole along dimension 0" in shown

    def test_who_comes_last_is_named_with_a_sign(self):
        shown = seen(*staged_collectives.late(), size=(80, 24))
        assert "! host 3 100%" in line("▌ all-reduce", shown)
        assert "! host 3 comes last in 100%, others wait" in shown

    def test_where_all_are_in_step_nobody_is_named(self):
        shown = seen(*staged_collectives.in_step())
        assert "no straggler in" in shown and "!" not in line("▌", shown)

    def test_few_samples_are_said_to_be_few(self):
        shown = seen(*staged_collectives.few())
        assert "too few: 20" in line("▌ all-reduce", shown)
        assert "too few samples to name a straggler: 20" in shown

    def test_what_nobody_could_read_is_timed_all_the_same(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        shown = seen(*staged_collectives.unread())
        row = line("▌ all-reduce", shown).split()
        assert row.count("n/a") > 6 and any(word.endswith("ms") for word in row)
        assert "devices unknown" in shown and "░" not in line("0 node00", shown)

    @pytest.mark.parametrize(
        ("typed", "count"),
        [
            ("psum", 2),
            ("wait>5000", 1),
            ("axes=model & bytes<=4M", 1),
            ("straggler=3", 1),
            ("crosses=yes !kind=all-reduce", 2),
        ],
    )
    def test_words_and_conditions_find_collectives(self, typed, count):
        keys = ("6", "slash", *(KEYS.get(c, c) for c in typed), "enter")
        assert f"{count} of 6" in seen(*staged_collectives.late(), keys=keys)

    def test_a_field_that_there_is_not_is_said_to_be_none(self):
        assert "no field wiat, try wait" in seen(*staged_collectives.late(), keys=("6", "slash", *"wiat>1"))


class TestWhyThereIsNothing:
    def test_without_hosts(self):
        assert "no collectives yet: no process has reported" in seen()

    def test_without_programs(self):
        assert "no program has been read yet" in seen(*builders.well())

    def test_with_a_single_device(self):
        assert "the run has one device" in seen(*builders.well(processes=1, devices=1))

    def test_before_the_first_window(self):
        assert "waiting for the first window: press c to take one now" in seen(
            *staged_collectives.never_timed()
        )

    def test_a_collective_that_no_window_has_does_not_wait_for_the_first_one(self):
        cluster = folded(staged_collectives.late())
        assert untimed(Moment(cluster, NOW + 20)) == "not in the 5 windows so far: press c for another"

    def test_with_windows_switched_off(self):
        off = "off: the script's own profile is running"
        assert f"no times: {off}" in seen(*staged_collectives.never_timed({"collectives": off}))

    def test_a_window_that_shows_nothing_does_not_deny_the_times_of_those_before(self):
        """As during a hang, in which no device does anything."""
        empty = wire.Window(int(NOW * 1000), 9_000, note="no device events")
        shown = seen(
            *staged_collectives.late(),
            *(frame(agent_id(i), empty, NOW, 99) for i in range(staged_collectives.HOSTS)),
        )
        assert "no times" not in shown and "without times: no device events" in shown, shown


class TestThePane:
    def test_it_says_how_much_of_a_launch_collectives_take_and_when_that_was_measured(self):
        shown = seen(*staged_collectives.late(), size=(120, 40))
        assert "6 collectives, 4 across hosts · 26% of jit_train_step in collectives" in shown
        assert "windows: 5, last 6s ago" in shown

    def test_its_summary_leaves_out_a_part_that_a_narrow_terminal_has_no_room_for(self):
        assert (
            line("6 collectives", seen(*staged_collectives.late(), size=(60, 16))).strip().endswith("exposed")
        )

    def test_each_member_of_a_group_has_its_wait_and_the_group_that_waits_most_comes_first(self):
        shown = seen(*staged_collectives.late(), size=(120, 40))
        assert "waits in 4 groups of 4, by device" in shown
        assert "12! 0us" in line("a 0 ", shown)
        assert "estimated, as in nccl-tests" in shown

    def test_the_late_host_is_seen_to_begin_late_and_the_others_to_wait(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        shown = seen(*staged_collectives.late(), size=(120, 40))
        first, last = (line(name, shown).split(name)[1] for name in ("0 node00", "3 node03"))
        assert "░░░░░░░░" in first and "░" not in last
        assert last.index("─") > first.index("─") + 5
        assert abs(last.index("█") - first.index("█")) <= 1

    def test_the_late_host_is_outlined_where_there_is_room_and_marked_where_there_is_none(self):
        shown = seen(*staged_collectives.late(), size=(120, 40)).splitlines()
        at = next(i for i, row in enumerate(shown) if "╭─ ! host 3 comes last, others wait 6" in row)
        inside = [row for row in shown[at:] if "3 node03" in row]
        assert inside and inside[0].count("│") == 4  # of the panel, and of the outline
        low = seen(*staged_collectives.late(), size=(80, 24))
        assert "╭" not in low and line("3 node03", low).count("│") == 2
        assert "│" not in line("2 node02", low)

    def test_times_stand_below_the_launches_with_their_unit(self):
        scale = line("└0", seen(*staged_collectives.late(), size=(80, 24)))
        assert scale.strip().strip("└").replace("─", "").split("┴") == ["0", "100ms", "200ms"]

    def test_what_is_below_few_collectives_is_beside_many_where_the_terminal_is_wide(self):
        shown = seen(*staged_collectives.of_one_line(), keys=("6", "G", "enter"), size=(200, 24))
        assert "waiting for the first window" in line("KIND", shown)

    def test_hosts_for_which_there_is_no_room_are_counted(self):
        shown = seen(*staged_collectives.run(Made(24, 2, late=20)), size=(80, 24))
        assert "20 node20" in shown and "+20 more" in shown


class TestOnTheMesh:
    @pytest.mark.parametrize("key", ["enter", "z"])
    def test_groups_and_waits_are_painted(self, key):
        async def act(stage: Stage) -> None:
            await stage.press("6", key)
            assert stage.screen_shown == "screen-mesh"
            assert (
                "wait by group of all-reduce.3  0us " in stage.text and "! last: host 3, 100%" in stage.text
            )
            assert "a! 0us" in stage.text and "b 60." in stage.text
            assert stage.app.navigation.selection.device_key == (agent_id(3), 12)
            reading = stage.app.query_one(MeshScreen)._read()
            assert reading.values[12:] == (0,) * 4 and min(reading.values[:12]) > 60_000

        play(act, *staged_collectives.late())

    @pytest.mark.parametrize("size", [(80, 24), thorough((200, 50))])
    def test_the_late_one_has_a_sign_in_cells_of_any_size_without_colours(self, size, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        for made in (Made(4, 4, late=3), Made(64, 8, late=3)):
            # The late one is selected at first, and has the sign of that.
            shown = seen(*staged_collectives.run(made, windows=4), keys=("6", "enter", "l"), size=size)
            assert "!" in shown.replace("! last", ""), made

    def test_m_comes_to_the_waits_and_to_the_groups(self):
        async def act(stage: Stage) -> None:
            names = []
            await stage.press("6", "enter")
            for _ in range(5):
                await stage.press("m")
                names.append(stage.app.query_one(MeshScreen).metric.name)
            assert names == [
                METRICS[0].name,
                "launches",
                "host CPU",
                "collective wait",
                "wait by group of all-reduce.3",
            ]

        play(act, *staged_collectives.late())

    def test_waits_are_not_stopped_at_where_nobody_timed_any(self):
        async def act(stage: Stage) -> None:
            await stage.press("2")
            for _ in range(6):
                await stage.press("m")
                assert stage.app.query_one(MeshScreen).metric.name != "collective wait"

        play(act, *staged_collectives.never_timed())

    def test_what_is_painted_follows_the_next_window(self):
        frames = staged_collectives.late()
        later = [frame for frame in frames if frame.kind == "window"][-staged_collectives.HOSTS :]
        earlier = [frame for frame in frames if not any(frame is each for each in later)]

        async def act(stage: Stage) -> None:
            await stage.press("6", "enter")
            before = stage.app.query_one(MeshScreen).metric
            await stage.paint()
            assert stage.app.query_one(MeshScreen).metric is before
            stage.feed.frames = later
            await stage.paint()
            after = stage.app.query_one(MeshScreen).metric
            assert after is not before and after.name == before.name

        play(act, *earlier)

    def test_who_takes_part_may_not_be_known(self):
        async def act(stage: Stage) -> None:
            await stage.press("6", "enter")
            assert stage.screen_shown == "screen-collectives"
            said = stage.said
            assert said == ["the devices of all-reduce.3 are unknown"]

        play(act, *staged_collectives.unread())


def test_rows_that_are_not_arranged_yet_blame_no_filter():
    async def act(stage: Stage) -> None:
        await stage.press("6")
        table = stage.view_shown.table
        rows = table._rows
        assert rows and table.shown
        table._shown = []  # as between their arrival and the next refresh
        table._lines = []
        table._stale = True
        assert "filter" not in table.draw_line(3, stage.app.palette).text
        table._stale, table._query.text = False, "nothing like it"
        assert (
            "no collective matches the filter 'nothing like it'" in table.draw_line(3, stage.app.palette).text
        )

    play(act, *staged_collectives.late())


def test_a_screen_opens_with_its_own_keys():
    async def act(stage: Stage) -> None:
        navigation = stage.app.navigation
        await navigation.action_screen("collectives")
        assert "Window now" in stage.line("keys") and "Mute" not in stage.line("keys")
        stage.app.requests.send_through(lambda *_: None)
        await navigation.action_screen("stacks")
        assert "Sample now" in stage.line("keys") and "Window now" not in stage.line("keys")

    play(act, *staged_collectives.late(), size=(200, 50))
