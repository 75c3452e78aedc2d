"""The app's frame: what it says of a run, and what each of its keys does."""

from __future__ import annotations

import pytest
from msgspec import structs
from textual.app import App

from jaxtop import wire
from jaxtop.tui.app import JaxtopApp
from jaxtop.tui.core.palette import DARK, PALETTES
from jaxtop.tui.dialogs.help import NOT_LISTED, Help
from jaxtop.tui.status_line import StatusPart, status_line
from jaxtop.wire import LinkState
from tests import builders
from tests.stage import Stage, play
from tests.staged import hardware as staged_hardware

SIZES = [(80, 24), (120, 40), (200, 50)]


class TestParts:
    app = JaxtopApp(None)
    parts = (app.time, app.requests, app.runs, app.preferences, app.navigation)

    def test_no_part_inherits_from_another(self):
        assert JaxtopApp.__bases__ == (App,)
        assert all(type(part).__bases__ == (object,) for part in self.parts)

    @pytest.mark.parametrize("action", sorted({each.action.partition("(")[0] for each in JaxtopApp.BINDINGS}))
    def test_the_action_of_a_key_is_a_method_of_one_part_or_of_the_app(self, action):
        does = [each for each in (JaxtopApp, *map(type, self.parts)) if hasattr(each, f"action_{action}")]
        assert len(does) == 1
        assert hasattr(self.app, f"action_{action}")


class TestWhatTheFrameSays:
    @pytest.mark.parametrize("size", SIZES)
    def test_a_run_in_which_all_is_well_says_how_many_hosts_are_live_and_where_most_memory_is(self, size):
        async def act(stage: Stage) -> None:
            assert "train" in stage.line("header")
            assert "2/2 hosts live" in stage.line("header")
            assert "8 devices" in stage.line("header")
            assert "LIVE" in stage.line("header")
            await stage.press("8")  # the overview has the verdict there
            assert "most memory on device 7: 8.0M" in stage.line("facts")
            assert "data 4 × model 2" in stage.line("facts")

        play(act, *builders.well(), size=size)

    def test_launches_and_steps_are_rates_over_the_last_samples(self):
        async def act(stage: Stage) -> None:
            assert "launches 20.0/s" in stage.line("header")
            assert "steps 10.0/s" in stage.line("header")

        play(act, *builders.well())

    def test_on_a_narrow_screen_the_step_comes_before_the_launches(self):
        async def act(stage: Stage) -> None:
            assert "step 410ms" in stage.line("header")
            assert "launches" not in stage.line("header")

        play(act, *staged_hardware.working(4), size=(80, 24))

    def test_without_a_run_it_says_that_it_waits(self):
        async def act(stage: Stage) -> None:
            assert "waiting for a run" in stage.line("facts")

        play(act)

    def test_while_connecting_the_address_is_named(self):
        async def act(stage: Stage) -> None:
            assert "connecting to node01" in stage.line("facts")

        play(act, builders.frame("", wire.Link(LinkState.CONNECTING, "node01")))

    @pytest.mark.parametrize(("link", "mode"), [("connecting", "CONNECTING"), ("closed", "NO HOST")])
    def test_a_view_that_has_met_no_host_is_not_live(self, link, mode):
        async def act(stage: Stage) -> None:
            assert mode in stage.line("header") and "LIVE" not in stage.line("header")
            stage.feed.frames = builders.well()
            await stage.paint()
            assert "LIVE" in stage.line("header")

        play(act, builders.frame("", wire.Link(link, "node01")))

    def test_events_from_before_the_view_began_are_not_denied(self):
        async def act(stage: Stage) -> None:
            await stage.press("8")
            assert "no events since 08:00:00, when this view began: starts" in stage.text

        play(act)

    def test_compilations_from_before_the_view_began_are_listed_on_the_overview_and_said_on_events(self):
        async def act(stage: Stage) -> None:
            assert "Last hour" in stage.text and "compiled train_step" in stage.text, stage.text
            assert "8 Events  7 Programs" in stage.text
            await stage.press("8")
            assert "earlier compilations are on Programs (7)" in stage.text

        at_ms = int((builders.NOW - 60) * 1000)
        told = wire.Programs(at_ms, compilations=(wire.Compilation(at_ms, "train_step", "t.py:5", 900),))
        frames = [each for each in builders.well() if each.kind != "event"]
        play(act, *frames, builders.frame(builders.agent_id(0), told))

    def test_hosts_that_are_still_missing_are_counted(self):
        async def act(stage: Stage) -> None:
            assert "2/5 hosts live" in stage.line("header")

        told = [f for f in builders.well() if f.kind != "hello"]
        told += [builders.frame(builders.agent_id(i), builders.hello(i, processes=5)) for i in range(2)]
        play(act, *told)

    @pytest.mark.parametrize(
        ("link", "words"),
        [
            ("closed", "host 1 (node01) died"),
            ("silent", "host 1 (node01) stopped"),
            ("deaf", "host 1 (node01) blocked"),
            ("unreachable", "host 1 (node01) not reachable from here"),
            ("refused", "host 1 (node01) refuses your key"),
        ],
    )
    def test_trouble_comes_first_and_names_the_host(self, link, words):
        async def act(stage: Stage) -> None:
            assert words in stage.line("facts")
            assert "1/2 hosts live" in stage.line("header")
            stage.feed.frames = [builders.trouble(1, "up")]
            await stage.paint()
            assert words not in stage.line("facts")

        play(act, *builders.well(), builders.trouble(1, link))

    def test_what_a_host_launched_before_it_died_is_no_rate_of_now(self):
        async def act(stage: Stage) -> None:
            assert "launches 10.0/s" in stage.line("header")

        play(act, *builders.well(), builders.trouble(1, "closed"))

    @pytest.mark.parametrize(
        ("width", "line"), [(30, "! one  ·  # two  ·  # three"), (20, "! one  ·  # two …"), (8, "! one …")]
    )
    def test_parts_of_the_second_line_without_room_are_replaced_by_dots(self, width, line):
        parts = [StatusPart("!", "one", ""), StatusPart("#", "two", ""), StatusPart("#", "three", "")]
        assert status_line(parts, width, DARK).plain == line

    def test_of_devices_that_read_the_same_the_first_is_named(self):
        told = [f for f in builders.well() if f.kind != "pulse"]
        for index, more in ((0, 0), (1, 4)):
            devices = wire.DeviceSample(used_bytes=(2**20 + more,) * 4)
            pulse = structs.replace(builders.pulse(index), devices=devices)
            told.append(builders.frame(builders.agent_id(index), pulse))

        async def act(stage: Stage) -> None:
            await stage.press("3")
            assert "most memory on device 0: 1.0M (and 7 more)" in stage.line("facts")

        play(act, *told)

    def test_of_several_runs_hosts_and_devices_are_called_by_their_run_too(self):
        other = structs.replace(builders.hello(0, 1), agent="f" * 16, run="r2", name="eval")
        pulse = builders.pulse(0, launches=20)
        most = structs.replace(pulse, devices=wire.DeviceSample(used_bytes=(1 << 30, 1, 1, 1)))
        told = [*builders.well(), builders.frame(other.agent, other), builders.frame(other.agent, most)]

        async def act(stage: Stage) -> None:
            await stage.press("3")
            assert "most memory on eval device 0: 1.0G" in stage.line("facts")
            await stage.press("2", "g")
            assert stage.text.count("eval process 0 on node00") == 2  # its block, and the device's facts
            await stage.press("3", "g")
            assert "● eval process 0 on node00" in stage.text

        play(act, *told)
        alike = structs.replace(other, name="train")

        async def act_alike(stage: Stage) -> None:
            await stage.press("3")
            assert "most memory on train r2 device 0" in stage.line("facts")

        play(act_alike, *builders.well(), *(builders.frame(other.agent, each) for each in (alike, most)))
        lost = builders.frame(other.agent, wire.Link(LinkState.UNREACHABLE, "10.0.0.9:7411"), sequence=9)

        async def act_later(stage: Stage) -> None:
            assert "eval process 0 on node00 not reachable" in stage.line("facts")
            await stage.press("8")
            (event,) = [line.split() for line in stage.text.splitlines() if "is not reachable" in line]
            assert event[-9:-5] == ["eval", "process", "0", "(ongoing)"]

        play(act_later, *told, lost)

    def test_a_black_box_that_is_not_written_is_a_fact_and_an_event(self):
        """From the first look on, and again where the reason changes; one that works is none."""
        full = structs.replace(builders.hello(1), sources={"recording": "off: no space left on device"})
        works = structs.replace(builders.hello(0), sources={"recording": "on: /boxes"})

        async def act(stage: Stage) -> None:
            assert "host 1 (node01) writes no black box: no space left on device" in stage.line("facts")
            await stage.press("8")
            assert len([line for line in stage.text.splitlines() if "writes no black box" in line]) == 2

        told = [*builders.well(), *(builders.frame(each.agent, each) for each in (full, works, full))]
        play(act, *told)

    def test_a_fact_that_does_not_fit_is_cut_and_not_left_out(self):
        async def act(stage: Stage) -> None:
            await stage.press("3")
            assert stage.line("facts").startswith("· all hosts live, mesh data 4 × model 2, most memory")
            assert stage.line("facts").rstrip().endswith("…")

        play(act, *builders.well(), size=(60, 16))

    def test_a_host_that_falls_silent_turns_quiet_and_then_blocked_by_time_alone(self):
        async def act(stage: Stage) -> None:
            stage.clock.now += 3
            await stage.paint()
            assert "quiet" in stage.line("facts")
            stage.clock.now += 5
            await stage.paint()
            assert "blocked" in stage.line("facts")

        play(act, *builders.well())

    def test_a_running_compilation_is_named_with_its_duration(self):
        async def act(stage: Stage) -> None:
            assert "compiling train_step  for 42s" in stage.text
            await stage.press("3")
            assert "compiling train_step for 42s" in stage.line("facts")

        since = int(builders.NOW * 1000) - 42_000
        compiling = builders.pulse(0, compiling=(wire.Compiling("train_step", since),))
        play(act, *builders.well(), builders.frame(builders.agent_id(0), compiling, sequence=3))

    def test_messages_that_could_not_be_read_are_not_passed_over_in_silence(self):
        async def act(stage: Stage) -> None:
            stage.feed.skipped = {"a newer jaxtop speaks wire version 2": 3}
            await stage.paint()
            assert "3 messages skipped: a newer jaxtop" in stage.line("facts")

        play(act, *builders.well())

    def test_a_terminal_that_is_too_small_says_so_and_recovers(self):
        async def act(stage: Stage) -> None:
            await stage.pilot.resize_terminal(50, 9)
            await stage.paint()
            assert stage.app.query_one("#too-small").display
            assert not stage.app.query_one("#body").display
            await stage.pilot.resize_terminal(24, 8)
            await stage.paint()
            assert "40×10" in stage.text and "characters" in stage.text
            await stage.pilot.resize_terminal(100, 30)
            await stage.paint()
            assert not stage.app.query_one("#too-small").display
            assert stage.app.query_one("#body").display

        play(act, *builders.well())


class TestKeys:
    @pytest.mark.parametrize(
        ("key", "name"), [("1", "overview"), ("2", "mesh"), ("3", "hosts"), ("D", "devices"), ("8", "events")]
    )
    def test_keys_open_screens(self, key, name):
        async def act(stage: Stage) -> None:
            await stage.press(key)
            assert stage.screen_shown == f"screen-{name}"

        play(act, *builders.well())

    def test_escape_goes_back_to_the_screen_before(self):
        async def act(stage: Stage) -> None:
            await stage.press("3", "D", "escape")
            assert stage.screen_shown == "screen-hosts"
            await stage.press("escape")
            assert stage.screen_shown == "screen-overview"

        play(act, *builders.well())

    def test_z_jumps_between_screens_with_the_selection_kept(self):
        async def act(stage: Stage) -> None:
            await stage.press("D", "j", "j", "j", "j", "j")
            chosen = stage.app.navigation.selection
            assert chosen.agent is not None and chosen.device_id is not None
            await stage.press("z", "z", "z")
            assert stage.screen_shown == "screen-devices"
            assert stage.app.navigation.selection == chosen

        play(act, *builders.well())

    def test_enter_drills_from_a_host_to_its_devices_and_on_to_the_cell(self):
        async def act(stage: Stage) -> None:
            await stage.press("3", "j", "enter")
            assert stage.screen_shown == "screen-devices"
            assert stage.app.navigation.selection.agent == builders.agent_id(1)
            await stage.press("enter")
            assert stage.screen_shown == "screen-mesh"
            assert stage.app.navigation.selection.agent == builders.agent_id(1)

        play(act, *builders.well())

    def test_space_pauses_the_view_and_says_so_while_the_cluster_is_followed_on(self):
        async def act(stage: Stage) -> None:
            await stage.press("space")
            assert "PAUSED" in stage.line("header")
            stage.feed.frames = [builders.trouble(1, "closed")]
            await stage.paint()
            assert "2/2 hosts live" in stage.line("header")
            await stage.press("space")
            assert "LIVE" in stage.line("header")
            assert "1/2 hosts live" in stage.line("header")

        play(act, *builders.well())

    def test_ctrl_c_leaves(self):
        async def act(stage: Stage) -> None:
            await stage.press("ctrl+c")
            assert not stage.app.is_running

        play(act, *builders.well())

    def test_the_palette_offers_everything_once(self):
        async def act(stage: Stage) -> None:
            titles = [each.title for each in stage.app.get_system_commands(stage.app.screen)]
            names = [title.rpartition(" (")[0] or title for title in titles]
            assert len(names) == len(set(names))
            assert "Pause" in names
            assert "Copy selected text" not in names

        play(act, *builders.well())

    def test_help_lists_every_key_that_works_here_and_closes(self):
        async def act(stage: Stage) -> None:
            bound = {
                each.binding.description
                for each in stage.app.screen.active_bindings.values()
                if each.binding.description and each.binding.action not in NOT_LISTED
            }
            await stage.press("question_mark")
            assert isinstance(stage.app.screen, Help)
            shown = {description for description in bound if description in stage.text}
            assert shown == bound
            await stage.press("escape")
            assert not isinstance(stage.app.screen, Help)

        play(act, *builders.well(), size=(120, 80))

    @pytest.mark.parametrize("key", ["colon", "ctrl+p"])
    def test_the_palette_offers_what_the_keymap_offers(self, key):
        async def act(stage: Stage) -> None:
            await stage.pilot.press(key)
            await stage.pilot.pause()
            assert type(stage.app.screen).__name__ == "CommandPalette"
            await stage.pilot.press(*"Hosts")
            await stage.until(lambda: "Hosts (3)" in stage.text)
            await stage.pilot.press("down", "enter")
            await stage.until(lambda: stage.screen_shown == "screen-hosts")

        play(act, *builders.well())

    def test_t_goes_through_all_themes(self):
        async def act(stage: Stage) -> None:
            seen = [stage.app.theme]
            for _ in range(len(PALETTES)):
                await stage.press("t")
                seen.append(stage.app.theme)
            assert set(seen) == set(PALETTES)
            assert seen[0] == seen[-1]

        play(act, *builders.well())

    def test_m_capital_maximises_the_screen_and_gives_the_lines_back(self):
        async def act(stage: Stage) -> None:
            before = stage.app.query_one("#body").size.height
            await stage.press("M")
            assert stage.app.query_one("#body").size.height > before
            await stage.press("M")
            assert stage.app.query_one("#body").size.height == before

        play(act, *builders.well())

    def test_q_leaves(self):
        async def act(stage: Stage) -> None:
            await stage.pilot.press("q")
            await stage.pilot.pause()
            assert not stage.app.is_running or stage.app._exit

        play(act, *builders.well())

    def test_what_is_typed_after_q_opens_nothing_that_the_app_would_stumble_over(self):
        async def act(stage: Stage) -> None:
            stage.app.exit()
            for opens in ("mark", "mark", "help", "go_to"):
                await stage.app.run_action(opens)
            await stage.pilot.pause()
            assert len(stage.app.screen_stack) == 1

        play(act, *builders.well())

    def test_when_there_is_nothing_more_to_follow_the_app_ends_with_the_reason(self):
        async def act(stage: Stage) -> None:
            stage.feed.reason = "the demo did not start"
            stage.app._paint()
            await stage.pilot.pause()
            assert stage.app.return_value == "the demo did not start"

        play(act, *builders.well())


class TestMouse:
    @pytest.mark.parametrize(("line", "size"), [("tabs", (120, 40)), ("keys", (120, 24)), ("keys", (80, 24))])
    def test_the_screens_can_be_clicked(self, line, size):
        async def act(stage: Stage) -> None:
            at = stage.line(line).index("D")
            await stage.pilot.click(f"#{line}", offset=(at, 0))
            await stage.paint()
            assert stage.screen_shown == "screen-devices"
            at = stage.line("keys").index("? Help")
            await stage.pilot.click("#keys", offset=(at, 0))
            await stage.pilot.pause()
            assert isinstance(stage.screen, Help)

        play(act, *builders.well(), size=size)
