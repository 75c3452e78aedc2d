"""What changed between two moments: as rows, and on its screen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import Static

from jaxtop import wire
from jaxtop.model import Cluster
from jaxtop.model.session.difference import ChangeKind, MomentChange, PastCluster, difference_of
from jaxtop.tui.playback import Start
from jaxtop.tui.screens.difference import DifferenceScreen
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.cases import thorough
from tests.played.reels import DIES, Reel, session
from tests.stage import Stage, play
from tests.staged import devices as staged_devices

MIB, GIB = 1 << 20, 1 << 30
TOLD = session()


pytestmark = pytest.mark.usefixtures("in_utc")


def after(told: list[wire.Frame], seconds: float = 0) -> PastCluster:
    cluster = Cluster()
    for each in sorted(told, key=lambda each: each.at):
        if each.at <= NOW + seconds:
            cluster.feed(each)
    return PastCluster(NOW + seconds, cluster)


def changes(before: PastCluster, later: PastCluster, kind: ChangeKind) -> list[MomentChange]:
    return [each for each in difference_of(before, later) if each.kind is kind]


def names_and_changes(found: list[MomentChange]) -> list[tuple[str, str]]:
    return [(each.name, each.how) for each in found]


class TestHosts:
    def test_a_state_that_changed_is_reported_with_what_it_was(self):
        found = changes(after(TOLD, 100), after(TOLD, 200), ChangeKind.HOST)
        assert names_and_changes(found) == [("host 1 (node01)", "live → died")]
        assert found[0].agent == agent_id(1)

    def test_a_host_that_came_and_one_that_went(self):
        alone = [each for each in TOLD if each.agent == agent_id(0)]
        assert names_and_changes(changes(after(alone, 50), after(TOLD, 60), ChangeKind.HOST)) == [
            ("host 1 (node01)", "new: live")
        ]
        assert names_and_changes(changes(after(TOLD, 50), after(alone, 60), ChangeKind.HOST)) == [
            ("host 1 (node01)", "gone: was live")
        ]

    def test_a_process_that_was_started_again_is_one_and_not_two(self):
        again = replace(builders.hello(1), agent="b" * 16, started_ms=int((NOW + 160) * 1000))
        new = [frame("b" * 16, again, NOW + 160), frame("b" * 16, builders.pulse(1, NOW + 170), NOW + 170)]
        found = changes(after(TOLD, 155), after([*TOLD, *new], 170), ChangeKind.HOST)
        assert names_and_changes(found) == [("host 1 (node01)", "restarted: died → live")]

    def test_time_alone_makes_a_difference(self):
        still = after(builders.well())
        assert names_and_changes(changes(still, PastCluster(NOW + 60, still.cluster), ChangeKind.HOST)) == [
            ("host 0 (node00)", "live → blocked"), ("host 1 (node01)", "live → blocked"),
        ]  # fmt: skip


class TestMemory:
    def test_changes_of_devices_are_listed_with_the_largest_first(self):
        more = [each for each in staged_devices.held() if each.kind != "pulse"]
        more += [
            frame(agent_id(i), staged_devices.allocated(i, NOW + 9, used=15 * GIB), NOW + 9) for i in range(2)
        ]
        before, later = after(staged_devices.held()), after([*staged_devices.held(), *more], 9)
        found = changes(before, later, ChangeKind.MEMORY)
        assert (found[0].name, found[0].grown) == ("temporaries", 16 * GIB)
        weights = [each.weight for each in found]
        assert weights == sorted(weights, reverse=True)
        devices = changes(before, later, ChangeKind.DEVICE)
        assert len(devices) == 8
        assert {each.grown for each in devices} == {2 * GIB}
        assert devices[0].detail == "node00"

    def test_what_devices_of_a_process_that_died_held_went_with_it(self):
        found = {
            each.name: each for each in changes(after(TOLD, DIES - 1), after(TOLD, DIES), ChangeKind.DEVICE)
        }
        assert (found["device 4"].how, found["device 4"].after) == ("gone", None)
        parts = {
            each.name: each for each in changes(after(TOLD, DIES - 1), after(TOLD, DIES), ChangeKind.MEMORY)
        }
        assert parts["parameters"].grown == -parts["parameters"].before // 2

    def test_what_was_not_known_before_is_not_taken_for_nothing(self):
        unknown = [frame(agent_id(0), replace(builders.pulse(0), devices=wire.DeviceSample()), NOW)]
        before = after([each for each in builders.well() if each.kind != "pulse"] + unknown)
        found = changes(before, after(builders.well()), ChangeKind.DEVICE)
        assert {(each.how, each.before, each.grown) for each in found} == {("unknown before", None, None)}


class TestArrays:
    def test_arrays_that_appeared_went_and_grew_are_reported_with_their_number_and_bytes(self):
        def census(names: dict[str, int], at: float) -> wire.Frame:
            sharding = wire.Sharding("single", "SingleDevice", None, ((0, 1),), "device", None, ())
            groups = tuple(wire.ArrayGroup((8,), "float32", 0, 32, 32, name, "train") for name in names)
            told = wire.Arrays(
                int(at * 1000), int(at), 1, shardings=(sharding,), groups=groups, counts=tuple(names.values())
            )
            return frame(agent_id(0), told, at)

        first = census({"params": 1, "old": 2, "log[0]": 1, "cache": 3, "same": 1}, NOW)
        then = census({"params": 1, "new": 1, "log[0]": 1, "log[1]": 1, "cache": 1, "same": 1}, NOW + 5)
        well = [each for each in builders.well() if each.kind != "arrays"]
        found = changes(after([*well, first]), after([*well, first, then], 5), ChangeKind.ARRAYS)
        assert [(each.name, each.how, each.counts, each.grown) for each in found] == [
            ("cache", "shrank", (3, 1), -64), ("old", "gone", (2, 0), -64), ("log[*]", "grew", (1, 2), 32),
            ("new", "new", (0, 1), 32),
        ]  # fmt: skip

    def test_bytes_are_those_of_all_devices(self):
        found = changes(after(TOLD, 90), after(TOLD, 110), ChangeKind.ARRAYS)
        assert [(each.name, each.counts, each.grown, each.detail) for each in found] == [
            ("unnamed", (3, 43), 40 * 64 * 64 * 4,
             "float32[64,64], SingleDevice, pinned_host, train.py:88 log_metrics"),
        ]  # fmt: skip

    def test_before_the_first_census_nobody_knew(self):
        before = after([each for each in TOLD if each.kind != "arrays"], 50)
        found = changes(before, after(TOLD, 50), ChangeKind.ARRAYS)
        assert found
        assert {(each.how, each.before, each.counts) for each in found} == {("unknown before", None, None)}


class TestProgramsAndLaunches:
    def test_programs_that_are_new_and_gone(self):
        assert names_and_changes(changes(after(TOLD, 90), after(TOLD, 110), ChangeKind.PROGRAM)) == [
            ("jit_evaluate", "new")
        ]
        assert names_and_changes(changes(after(TOLD, 110), after(TOLD, 90), ChangeKind.PROGRAM)) == [
            ("jit_evaluate", "gone")
        ]

    def test_before_programs_were_listed_nobody_knew(self):
        before = after([each for each in TOLD if each.kind != "programs"], 50)
        assert names_and_changes(changes(before, after(TOLD, 50), ChangeKind.PROGRAM)) == [
            ("jit_train_step", "unknown before")
        ]

    def test_launches_are_those_of_one_process_for_they_launch_together(self):
        (found,) = changes(after(TOLD, 50), after(TOLD, 70), ChangeKind.LAUNCHES)
        assert (found.name, found.before, found.after, found.grown) == ("train_step", 500, 700, 200)
        assert found.detail == "10.0/s"

    def test_what_was_launched_before_anyone_looked_is_not_counted_as_launched_since(self):
        before = after([each for each in TOLD if each.kind != "pulse"], 50)
        (found,) = changes(before, after(TOLD, 70), ChangeKind.LAUNCHES)
        assert (found.before, found.grown, found.how) == (None, None, "unknown before")


def test_a_moment_does_not_differ_from_itself():
    assert difference_of(after(TOLD, 100), after(TOLD, 100)) == []
    assert difference_of(PastCluster(0, Cluster()), PastCluster(9, Cluster())) == []


def test_changes_are_listed_by_kind():
    kinds = [each.kind for each in difference_of(after(TOLD, 50), after(TOLD, 200))]
    assert list(dict.fromkeys(kinds)) == list(ChangeKind)


# The screen


async def press(stage: Stage, *keys: str) -> None:
    for key in keys:
        await stage.press(key)


def replay(act, size=(120, 40), seconds: float = 50) -> None:
    start = Start(at=NOW + seconds, is_playing=False)
    play(act, history=Reel(*TOLD), replay=start, size=size)


class TestScreen:
    @pytest.mark.parametrize(("first", "title"), [
        (50, "08:00:50 (v) → 08:03:20  2:30 later"), (200, "08:00:50 → 08:03:20 (v)  2:30 later"),
    ])  # fmt: skip
    def test_a_mark_and_another_time_are_compared_the_earlier_first(self, first, title):
        async def act(stage: Stage) -> None:
            await press(stage, "v")
            assert f"v {'08:00:50' if first == 50 else '08:03:20'}" in stage.line("controls")
            stage.app.view_state.playback.seek(NOW + 250 - first)
            await press(stage, "v")
            assert isinstance(stage.app.screen, DifferenceScreen)
            assert title in stage.text
            assert "live → died" in stage.text

        replay(act, seconds=first)

    def test_counts_for_which_there_is_no_room_end_in_an_ellipsis(self):
        async def act(stage: Stage) -> None:
            await press(stage, "v", "right_curly_bracket", "v")
            assert stage.text.splitlines()[1].rstrip().endswith("…")

        replay(act, size=(24, 10))

    def test_enter_twice_is_as_good_as_once(self):
        async def act(stage: Stage) -> None:
            await press(stage, "v", "right_curly_bracket", "v")
            table = stage.screen.table
            for _ in range(2):
                table.post_message(table.Chosen(table.row))
            await stage.pilot.pause()
            assert stage.app.screen is stage.app.screen_stack[0]

        replay(act)

    def test_escape_keeps_the_mark_and_d_drops_it(self):
        async def act(stage: Stage) -> None:
            await press(stage, "v", "right_curly_bracket", "v", "escape")
            assert stage.app.view_state.playback.mark is not None
            await press(stage, "v", "d")
            assert stage.app.view_state.playback.mark is None
            assert stage.app.screen is stage.app.screen_stack[0]

        replay(act)

    def test_its_rows_are_filtered_as_others_are(self):
        async def act(stage: Stage) -> None:
            await press(stage, "v", "end", "v", "slash", *"launches", "enter")
            assert [each.name for each in stage.screen.table.shown] == ["train_step"]
            await press(stage, "escape")
            assert len(stage.screen.table.shown) > 1
            await press(stage, "escape")
            assert stage.app.screen is stage.app.screen_stack[0]

        replay(act)

    @pytest.mark.parametrize(
        ("word", "screen"),
        [("host", "hosts"), ("jit", "programs"), ("optimizer", "memory"), ("device node01", "devices")],
    )
    def test_enter_leads_to_the_screen_that_shows_more_of_a_change(self, word, screen):
        async def act(stage: Stage) -> None:
            await press(stage, "v", "end", "v", "slash", *word, "enter", "enter")
            assert stage.screen_shown == f"screen-{screen}"
            assert stage.app.view_state.playback.mark is not None

        replay(act)

    def test_a_time_is_not_compared_with_itself(self):
        async def act(stage: Stage) -> None:
            await press(stage, "v", "v")
            assert stage.app.screen is stage.app.screen_stack[0]

        replay(act)

    @pytest.mark.parametrize(
        ("key", "name"),
        [
            ("1", "overview"),
            ("0", "plot"),
            thorough("2", "mesh"),
            thorough("4", "arrays"),
            thorough("9", "stacks"),
        ],
    )
    def test_the_key_of_a_screen_leads_there_and_keeps_what_is_selected(self, key, name):
        async def act(stage: Stage) -> None:
            await press(stage, "3", "j")
            selected = stage.app.navigation.selection.agent
            await press(stage, "v", "right_curly_bracket", "v", key)
            assert stage.app.screen is stage.app.screen_stack[0]
            assert stage.screen_shown == f"screen-{name}"
            assert stage.app.navigation.selection.agent == selected

        replay(act)

    def test_help_and_palette_open_as_on_other_screens(self):
        async def act(stage: Stage) -> None:
            await press(stage, "v", "right_curly_bracket", "v", "question_mark")
            assert "type to search" in stage.text and "Remove the mark" in stage.text
            await press(stage, "escape")
            assert isinstance(stage.app.screen, DifferenceScreen)
            await press(stage, "colon", *"remove the")
            await stage.until(lambda: "Remove the mark (" in stage.text)
            await press(stage, "enter")
            await stage.until(lambda: stage.app.view_state.playback.mark is None)

        replay(act)

    def test_live_a_mark_is_shown_and_compared_with_the_present_without_a_history(self):
        async def act(stage: Stage) -> None:
            await press(stage, "v")
            assert stage.line("controls").startswith(" LIVE ")
            assert "v 08:00:00" in stage.line("controls")
            stage.clock.now += 5
            stage.feed.frames = [builders.trouble(1, "closed")]
            await stage.paint()
            await press(stage, "v")
            assert "live → died" in stage.text
            await press(stage, "d")
            assert not stage.app.query_one("#time").display

        play(act, *builders.well())

    def test_by_mouse_alone(self):
        async def act(stage: Stage) -> None:
            async def click(sign: str, widget: str) -> None:
                at = str(stage.app.screen.query_one(widget, Static).content).rindex(sign)
                await stage.pilot.click(widget, offset=(at + 1, 0))
                await stage.paint()

            await click(" v ", "#controls")
            await click("}", "#controls")
            await click(" v ", "#controls")
            assert isinstance(stage.app.screen, DifferenceScreen)
            await click("Remove the mark", "#keys")
            assert stage.app.view_state.playback.mark is None

        replay(act, (80, 24))

    @pytest.mark.parametrize("size", [(60, 16), thorough((80, 24)), thorough((120, 40)), (200, 50)])
    def test_it_fits_every_size(self, size):
        async def act(stage: Stage) -> None:
            await press(stage, "v", "end", "v")
            lines = stage.text.splitlines()
            assert "DIFFERENCE" in lines[0]
            assert "KIND" in lines[2] and "HOW" in lines[2]
            assert "Remove the mark" in lines[-1]

        replay(act, size)
