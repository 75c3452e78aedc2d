"""The bar that says which time is shown: as text, and in the app by keys alone and by the mouse alone."""

from __future__ import annotations

import asyncio

import pytest
from textual.events import MouseMove
from textual.widgets._toast import Toast

from jaxtop.model.session.summary import Bin, SessionSummary
from jaxtop.model.state import LoggedEvent
from jaxtop.tui.app import JaxtopApp
from jaxtop.tui.core.moment import Mode
from jaxtop.tui.core.palette import DARK
from jaxtop.tui.dialogs.go_to import GoTo
from jaxtop.tui.draw.time_bar import TimeBarState, controls, glance, tip, track
from jaxtop.tui.playback import Start
from tests.builders import NOW
from tests.cases import thorough
from tests.played.reels import DIES, LONG, WARNS, Recorder, Reel, session
from tests.stage import Feed, Stage, play

MIB = 1 << 20
TOLD = session()
PAUSED = Start(is_playing=False)


pytestmark = pytest.mark.usefixtures("in_utc")


def bar(seconds: float = 35, **more) -> TimeBarState:
    bins = tuple(Bin(NOW + i * 10, NOW + i * 10 + 10, 2, 2, i * MIB, 0) for i in range(20) if i != 7)
    events = tuple(
        LoggedEvent(NOW + at, severity, "kind", "", text)
        for at, severity, text in (
            (20, "info", "compiled"), (60, "warning", "slow"), (61, "info", "compiled"),
            (150, "critical", "died"),
        )
    )  # fmt: skip
    given = {
        "mode": "REPLAY",
        "is_playing": False,
        "span": (NOW, NOW + 200),
        "overview": SessionSummary(bins, events),
    }
    return TimeBarState(**{**given, "position": NOW + seconds, **more})


def line(shown: TimeBarState, width: int) -> str:
    return controls(shown, width, DARK).plain


def pressed(shown: TimeBarState, width: int) -> list[str]:
    """What can be pressed, from left to right."""
    styles = [span.style for span in controls(shown, width, DARK).spans if not isinstance(span.style, str)]
    actions = [style.meta["press"] for style in styles if "press" in style.meta]
    return [action for before, action in zip([None, *actions], actions, strict=False) if action != before]


def rows(shown: TimeBarState, width: int, count: int = 2) -> list[str]:
    return track(shown, glance(shown, width), count, DARK).plain.split("\n")


class TestControls:
    def test_it_says_that_it_is_a_replay_the_time_the_position_and_the_speed(self):
        said = line(bar(35, speed=0.25, is_playing=True), 120)
        assert said.startswith(" REPLAY  ▶ 08:00:35  0:35 / 3:20 0.25× ")

    @pytest.mark.parametrize("width", [60, 80, 120, 200])
    def test_it_is_as_wide_as_there_is_room_and_has_all_buttons(self, width):
        said = line(bar(35), width)
        assert len(said) == width
        assert pressed(bar(35), width) == [
            "go_to", "to_start", "skip(-60)", "step(-1)", "pause", "step(1)", "skip(60)", "event(-1)",
            "event(1)", "faster(-1)", "faster(1)", "loop", "go_to", "mark", "to_end",
        ]  # fmt: skip
        assert "REPLAY  ‖ 08:00:35" in said

    def test_with_room_buttons_have_words(self):
        said = line(bar(), 200)
        for word in (
            "⇤ start",
            "{ 1 min",
            "[ sample",
            "▶ play",
            "n event",
            "+ speed",
            "L loop",
            "b go to",
            "⇥ end",
        ):
            assert word in said

    def test_live_one_goes_back_to_live_and_loops_nothing(self):
        said = line(bar(mode="REWIND", has_present=True, is_looped=True), 200)
        assert "⇥ live" in said
        assert "loop" not in said and "↻" not in said

    def test_a_loop_and_a_mark_are_reported(self):
        said = line(bar(is_looped=True, marked=NOW + 5), 120)
        assert "1×↻" in said
        assert "v 08:00:05" in said

    @pytest.mark.parametrize("width", [60, 80, 120, 200])
    def test_buttons_stay_in_their_places_whatever_is_played(self, width):
        places = {
            line(each, width).index(" n ")
            for each in (
                bar(0), bar(199), bar(speed=0.25), bar(speed=64.0), bar(is_looped=True),
                bar(marked=NOW), bar(is_playing=True),
            )
        }  # fmt: skip
        assert len(places) == 1

    def test_without_a_reel_it_says_since_when_it_is_paused_and_leads_back(self):
        said = line(bar(mode="PAUSED", has_present=True, has_history=False), 80)
        assert said.split() == ["PAUSED", "‖", "08:00:35", "▶", "play", "v", "mark", "⇥", "live"]

    def test_several_days_have_dates_and_hours(self):
        said = line(bar(span=(NOW, NOW + 90_000)), 120)
        assert "01-15 08:00:35      0:35 / 25:00:00" in said


class TestTrack:
    def test_it_shows_memory_events_and_where_the_view_stands(self):
        curve, marks = rows(bar(100), 41)
        assert curve[20] == "┃"
        assert marks == "    ·       !       ▲         ×          "

    def test_memory_rises_from_left_to_right_and_what_nobody_knew_is_a_gap(self):
        curve = rows(bar(0), 41)[0]
        assert curve[0] == "┃"
        heights = ["▁▂▃▄▅▆▇█".find(each) for each in curve[1:] if each != "─"]
        assert heights == sorted(heights)
        assert heights[-1] == 7

    def test_the_worst_event_of_a_place_is_shown(self):
        assert rows(bar(0), 11)[1] == "▲· !    ×  "

    def test_the_mark_has_a_letter(self):
        assert rows(bar(100, marked=NOW + 50), 41)[1] == "    ·     v !       ▲         ×          "

    def test_in_one_row_events_take_the_place_of_memory(self):
        (only,) = rows(bar(100, marked=NOW + 50), 41, 1)
        assert (only[4], only[10], only[12], only[20], only[30]) == ("·", "v", "!", "┃", "×")
        assert set(only) & set("▁▂▃▄▅▆▇█")

    @pytest.mark.parametrize("width", [0, 1, 2, 2000])
    def test_any_width_and_a_session_of_no_length_harm_nothing(self, width):
        for shown in (
            bar(0),
            bar(0, span=(NOW, NOW)),
            bar(500),
            bar(-500),
            bar(0, overview=SessionSummary()),
        ):
            for count in (1, 2):
                assert {len(row) for row in rows(shown, width, count)} == {width}

    def test_a_position_on_the_time_bar_shows_its_time_memory_and_events(self):
        shown = bar(0)
        assert tip(shown, 30, 41) == "08:02:30  15.0M on the fullest device\n▲ 08:02:30 died"
        assert tip(shown, 12, 41).split("\n")[1:] == ["△ 08:01:00 slow", "· 08:01:01 compiled"]
        many = tuple(LoggedEvent(NOW, "info", "", "", "\x1b[31mtext") for _ in range(9))
        assert tip(bar(0, overview=SessionSummary((), many)), 0, 41).split("\n")[-1] == "and 6 more"
        assert "\x1b" not in tip(bar(0, overview=SessionSummary((), many)), 0, 41)


def at(stage: Stage) -> float:
    return pytest.approx(stage.app.view_state.playback.position - NOW, abs=0.01)


async def press(stage: Stage, *keys: str) -> None:
    for key in keys:
        await stage.press(key)


def controls_shown(stage: Stage) -> str:
    return stage.line("controls")


class TestReplayByKeys:
    def test_a_replay_plays_pauses_and_says_so(self):
        async def act(stage: Stage) -> None:
            assert "REPLAY" in stage.line("header")
            stage.clock.now += 1
            await stage.paint()
            assert at(stage) == 1
            assert "REPLAY  ▶ 08:00:01" in controls_shown(stage)
            assert "08:00:01" in stage.line("header")
            await press(stage, "space")
            stage.clock.now += 1
            await stage.paint()
            assert at(stage) == 1
            assert "REPLAY  ‖ 08:00:01" in controls_shown(stage)

        play(act, history=Reel(*TOLD), replay=Start())

    def test_every_key_moves_as_it_says(self):
        async def act(stage: Stage) -> None:
            for key, seconds in (
                ("right_square_bracket", 1), ("right_curly_bracket", 61), ("left_square_bracket", 60),
                ("left_curly_bracket", 0), ("n", 20), ("n", WARNS), ("n", DIES), ("n", DIES), ("N", WARNS),
                ("end", LONG), ("home", 0),
            ):  # fmt: skip
                await press(stage, key)
                assert at(stage) == seconds, key

        play(act, history=Reel(*TOLD), replay=PAUSED)

    @pytest.mark.parametrize("screen", [*"159", *map(thorough, "234678")])
    def test_the_keys_work_on_every_screen(self, screen):
        async def act(stage: Stage) -> None:
            await press(stage, screen, "n", "n", "n", "right_square_bracket")
            assert at(stage) == DIES + 1
            assert "host 1 (node01) died 2s ago" in stage.line("facts")
            await press(stage, "home")
            said = "Nothing wrong" if screen == "1" else "all hosts live"
            assert said in stage.line("facts")

        play(act, history=Reel(*TOLD), replay=PAUSED)

    def test_speed_and_loop_are_changed_and_told(self):
        async def act(stage: Stage) -> None:
            await press(stage, "plus", "plus", "L")
            assert "4×↻" in controls_shown(stage)
            await press(stage, "minus", "minus", "minus", "L")
            assert "0.5× " in controls_shown(stage)

        play(act, history=Reel(*TOLD), replay=PAUSED)

    def test_a_time_is_typed_and_gone_to(self):
        async def act(stage: Stage) -> None:
            await press(stage, "b")
            await press(stage, *"1h ago", "enter")
            assert isinstance(stage.app.screen, GoTo)
            assert "is outside of 08:00:00 to 08:03:20" in stage.text
            await press(stage, *["backspace"] * 6, *"+90s", "enter")
            assert at(stage) == 90
            assert "08:01:30" in stage.line("header")
            await press(stage, "b", "escape")
            assert at(stage) == 90

        play(act, history=Reel(*TOLD), replay=PAUSED)

    def test_what_is_to_be_known_of_a_recording_is_said_once(self):
        async def act(stage: Stage) -> None:
            for _ in range(3):
                await stage.paint()
            assert stage.said == ["cut off after 3:20"]

        play(act, history=Reel(*TOLD, notes=("cut off after 3:20",)), replay=PAUSED)

    def test_of_many_seeks_at_once_only_the_first_and_the_last_are_shown(self):
        reel = Reel(*TOLD)

        async def act(stage: Stage) -> None:
            before = len(reel.asked)
            for _ in range(50):
                stage.app.time.action_step(1)
            await stage.paint()
            assert at(stage) == 50
            assert len(reel.asked) - before <= 4

        play(act, history=reel, replay=PAUSED)

    @pytest.mark.parametrize("size", [(60, 16), thorough((80, 24)), thorough((120, 40)), (200, 50)])
    def test_it_fits_every_size(self, size):
        async def act(stage: Stage) -> None:
            bar = stage.app.query_one("#time")
            assert bar.region.bottom == size[1] - 1
            assert bar.region.height == (2 if size[1] < 20 else 3)
            assert "REPLAY" in stage.text.splitlines()[bar.region.y]

        play(act, history=Reel(*TOLD), replay=PAUSED, size=size)


class TestByMouse:
    def test_a_click_on_the_track_goes_there_and_on_a_mark_to_what_happened(self):
        async def act(stage: Stage) -> None:
            await stage.pilot.click("#track", offset=(1 + 50, 0))
            await stage.paint()
            assert at(stage) == pytest.approx(50 / 117 * LONG, abs=0.01)
            x = stage.text.splitlines()[stage.app.query_one("#track").region.bottom - 1].index("×")
            await stage.pilot.click("#track", offset=(x, 1))
            await stage.paint()
            assert at(stage) == DIES

        play(act, history=Reel(*TOLD), replay=PAUSED)

    def test_with_the_button_held_it_scrubs_until_it_is_let_go(self):
        async def act(stage: Stage) -> None:
            await stage.pilot.mouse_down("#track", offset=(11, 0))
            await stage.paint()
            assert at(stage) == pytest.approx(10 / 117 * LONG, abs=0.01)
            for x in (21, 31):
                await stage.pilot._post_mouse_events([MouseMove], "#track", offset=(x, 0), button=1)
                await stage.paint()
                assert at(stage) == pytest.approx((x - 1) / 117 * LONG, abs=0.01)
            await stage.pilot.mouse_up("#track", offset=(31, 0))
            await stage.pilot.hover("#track", offset=(61, 0))
            await stage.paint()
            assert at(stage) == pytest.approx(30 / 117 * LONG, abs=0.01)

        play(act, history=Reel(*TOLD), replay=PAUSED)

    @pytest.mark.parametrize("size", [(60, 16), thorough((80, 24)), thorough((120, 40)), (200, 50)])
    def test_every_button_does_what_its_key_does(self, size):
        async def click(stage: Stage, sign: str) -> None:
            x = controls_shown(stage).rindex(sign) + sign.startswith(" ")
            await stage.pilot.click("#controls", offset=(x, 0))
            await stage.paint()

        async def act(stage: Stage) -> None:
            for sign, seconds in (
                ("]", 1), ("}", 61), ("[", 60), ("{", 0), (" n ", 20), ("⇥", LONG), (" N ", DIES), ("⇤", 0),
            ):  # fmt: skip
                await click(stage, sign)
                assert at(stage) == seconds, sign
            await click(stage, "▶")
            assert stage.app.view_state.playback.is_playing
            await click(stage, "‖")
            assert not stage.app.view_state.playback.is_playing
            await click(stage, "+")
            await click(stage, " L")
            assert (stage.app.view_state.playback.speed, stage.app.view_state.playback.is_looped) == (
                2.0,
                True,
            )
            await click(stage, " b")
            assert isinstance(stage.app.screen, GoTo)

        play(act, history=Reel(*TOLD), replay=PAUSED, size=size)

    def test_the_mouse_gets_the_time_the_events_and_the_keys(self):
        async def act(stage: Stage) -> None:
            x = stage.text.splitlines()[stage.app.query_one("#track").region.bottom - 1].index("×")
            await stage.pilot.hover("#track", offset=(x, 1))
            assert "host 1 (node01)" in str(stage.app.query_one("#track").tooltip)
            await stage.pilot.hover("#controls", offset=(controls_shown(stage).index("{"), 0))
            assert stage.app.query_one("#controls").tooltip == "One minute back ({)"

        play(act, history=Reel(*TOLD), replay=PAUSED)


class TestLive:
    @pytest.mark.parametrize("width", [59, 60, thorough(80), 120])
    def test_while_it_is_live_one_line_says_how_to_go_back(self, width):
        async def act(stage: Stage) -> None:
            said = controls_shown(stage)
            assert stage.app.query_one("#time").size.height == 1 and len(said) <= width
            assert " now " in said and "[ rewind" in said and "‖ pause" in said and {*said} & {*"·!×"}
            await press(stage, "space")
            assert stage.app.query_one("#time").size.height == 3
            assert controls_shown(stage).startswith(" PAUSED  ‖ ")
            await press(stage, "space")
            assert stage.app.query_one("#time").size.height == 1
            await press(stage, "left_square_bracket")
            assert stage.app.view_state.playback.mode == Mode.REWIND

        play(act, *TOLD, history=Reel(*TOLD, is_growing=True), size=(width, 24))

    def test_without_a_history_or_in_few_lines_there_is_no_such_line(self):
        async def act(stage: Stage) -> None:
            assert not stage.app.query_one("#time").display

        async def low(stage: Stage) -> None:
            await act(stage)
            assert "[ Rewind" in stage.line("keys")
            await press(stage, "space")  # from now on the bar has the key
            assert "Rewind" not in stage.line("keys")

        play(act, *TOLD)
        play(low, *TOLD, history=Reel(*TOLD, is_growing=True), size=(80, 13))

    @pytest.mark.parametrize("size", [(40, 10), (60, 16), (120, 40)])
    def test_at_most_one_message_is_shown_and_never_over_the_header(self, size):
        async def shown() -> list[tuple[int, str]]:
            app = JaxtopApp(Feed())
            async with app.run_test(size=size, notifications=True) as pilot:
                for words in ("first", "second " * 60, "third"):
                    app.notify(words, title="Title")
                    await pilot.pause()
                toasts = [each for each in app.query(Toast) if each.region.height]
                return [(each.region.y, each._notification.message) for each in toasts]

        ((y, message),) = asyncio.run(shown())
        assert y > 1 and message == "third"

    def test_one_looks_back_while_the_run_goes_on_and_misses_nothing(self):
        half = [each for each in TOLD if each.at < NOW + 100]
        reel = Reel(*half, is_growing=True)

        async def act(stage: Stage) -> None:
            stage.clock.now = NOW + 99
            await stage.paint()
            await press(stage, "left_square_bracket")
            assert stage.app.view_state.playback.mode == Mode.REWIND
            assert "REWIND 1s" in stage.line("header")
            stage.feed.frames = [each for each in TOLD if each.at >= NOW + 100]
            reel.frames = TOLD
            stage.clock.now = NOW + LONG
            await stage.paint()
            assert at(stage) == 98
            assert "2/2 hosts live" in stage.line("header")
            await press(stage, "end")
            assert "LIVE" in stage.line("header")
            assert "1/2 hosts live" in stage.line("header")
            await press(stage, "N")
            assert at(stage) == DIES

        play(act, *half, history=reel)

    def test_without_a_reel_a_pause_is_a_pause_and_other_times_are_not_offered(self):
        async def act(stage: Stage) -> None:
            await press(stage, "space", "left_square_bracket", "home", "n", "b")
            assert stage.app.view_state.playback.mode == Mode.PAUSED
            assert stage.app.screen is stage.app.screen_stack[0]
            await press(stage, "end")
            assert "LIVE" in stage.line("header")

        play(act, *TOLD)


class TestRecording:
    def test_r_records_and_the_header_says_so_until_it_ends(self):
        async def act(stage: Stage) -> None:
            await press(stage, "r")
            assert "● REC 1.2M, 0:35" in stage.line("header")
            await press(stage, "r")
            assert "REC" not in stage.line("header")
            said = stage.said
            assert said == ["recording to run.mcap", "finishing run.mcap", "recorded 1.2M to run.mcap"]

        play(act, *TOLD, recorder=Recorder())

    def test_a_recording_that_stops_by_itself_says_why(self):
        recorder = Recorder()

        async def act(stage: Stage) -> None:
            await press(stage, "r")
            recorder.is_on, recorder.status = False, "the disk is full"
            await stage.paint()
            await stage.paint()
            assert stage.said[1:] == ["the disk is full"]

        play(act, *TOLD, recorder=recorder)

    def test_where_nothing_can_be_recorded_the_key_is_not_offered(self):
        async def act(stage: Stage) -> None:
            assert "Record" not in stage.line("keys")

        play(act, *TOLD)
