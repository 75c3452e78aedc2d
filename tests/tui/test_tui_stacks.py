"""The screen of the stacks, and the keys that ask processes for something, as a person uses them."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from msgspec import structs

from jaxtop import wire
from jaxtop.tui.app import JaxtopApp
from jaxtop.tui.core.moment import Selection
from jaxtop.tui.screens import SCREENS
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.wire import LinkState
from tests import builders
from tests import stage as staging
from tests.builders import agent_id, frame
from tests.played.reels import Reel
from tests.stage import Stage, line, play, shown_after
from tests.staged import collectives as staged_collectives


def seen(*frames, keys=("9",), size=(200, 50)) -> str:
    return shown_after(*frames, keys=keys, size=size)


class TestTheTree:
    def test_before_anything_came_it_says_how_to_ask(self):
        async def act(stage, _asker):
            await stage.press("9")
            assert "press p to ask all processes" in stage.text and "Sample now" in stage.text

        asking(act, *builders.well())
        assert "no process has reported" in seen()

    def test_of_a_recording_nobody_is_asked(self):
        shown = seen(*builders.well())
        assert "no stacks until here" in shown and "Sample now" not in shown and "press p" not in shown
        assert "press p" not in seen(*staged_collectives.standing())

    def test_the_sign_of_its_tab_is_explained_where_no_diagnosis_says_it(self):
        """A run of which all processes have died has no diagnosis of now."""
        told, since = staged_collectives.standing(), int((builders.NOW - 9) * 1000)
        stall = wire.Stall("train_step", since, 1000)
        for second in range(1, 16):
            for i in range(staged_collectives.HOSTS):
                at, launches = builders.NOW + second, 19 if i == staged_collectives.HOSTS - 1 else 20
                pulse = builders.pulse(i, at, staged_collectives.DEVICES, launches, stall=stall)
                told.append(frame(agent_id(i), pulse, at, 10 + second))
        for i in range(staged_collectives.HOSTS):
            told.append(frame(agent_id(i), wire.Link(LinkState.DEAD, f"10.0.0.{i}:7411"), builders.NOW + 17))
        shown = seen(*told)
        assert "▲ Stalled: " in shown and "load_batch" in shown, shown

    def test_hosts_that_stand_alike_are_one_line_and_the_odd_one_another(self):
        shown = seen(*staged_collectives.standing())
        assert line("▸ hosts 0–2", shown).split()[-6:] == [
            "waits", "train.py:51", "train", "jax/_src/array.py:631", "_value", "2s",
        ]  # fmt: skip
        assert "data.py:88 load_batch" in line("host 3 (node03)  ", shown)

    def test_the_column_of_their_number_is_called_as_the_run_calls_them(self):
        assert "WHO" in line(" HOSTS ", seen(*staged_collectives.standing()))
        together = [
            frame(
                agent_id(i),
                builders.hello(i, staged_collectives.HOSTS, staged_collectives.DEVICES, hostname="vm"),
            )
            for i in range(staged_collectives.HOSTS)
        ]
        shown = seen(*staged_collectives.standing(), *together)
        assert "▸ processes 0–2" in shown and "WHO" in line(" PROCESSES ", shown)

    def test_what_holds_the_run_up_stands_on_top(self):
        first = seen(*staged_collectives.standing()).splitlines()[3]
        assert "host 3 has not launched it: data.py:88 load_batch" in first

    def test_a_group_unfolds_to_hosts_threads_and_lines(self):
        shown = seen(*staged_collectives.standing(), keys=("9", "enter"))
        rows = [row.strip(" ▌") for row in shown.splitlines()]
        at = next(i for i, row in enumerate(rows) if "▾ hosts 0–2" in row)
        assert [row.split("  ")[0] for row in rows[at + 1 : at + 7]] == [
            "▾ host 0 (node00)",
            "▾ main thread",
            "array.py:631 _value",
            "train.py:51 train",
            "train.py:120 <module>",
            "▸ thread prefetch",
        ]

    def test_a_click_on_the_sign_unfolds(self):
        async def act(stage: Stage) -> None:
            await stage.press("9")
            y = next(i for i, row in enumerate(stage.text.splitlines()) if "▸ hosts 0–2" in row)
            await stage.pilot.click(offset=(2, y))
            await stage.paint()
            assert "▾ hosts 0–2" in stage.text and "main thread" in stage.text

        play(act, *staged_collectives.standing())

    def test_words_and_conditions_find_hosts_by_what_stands_in_their_stacks(self):
        shown = seen(*staged_collectives.standing(), keys=("9", "slash", *"load_batch", "enter"))
        assert "1 of 4" in shown and "▸ hosts 0–2" not in shown and "▾ hosts 0–2" not in shown
        shown = seen(*staged_collectives.standing(), keys=("9", "slash", *"function~_value", "enter"))
        assert "3 of 4" in shown

    def test_a_host_under_the_cursor_is_selected_on_the_other_screens(self):
        async def act(stage: Stage) -> None:
            await stage.press("9", "j")
            assert stage.app.navigation.selection.agent == agent_id(3)
            await stage.press("z")
            assert stage.screen_shown == "screen-mesh"
            assert stage.app.navigation.selection.device_key == (agent_id(3), 12)

        play(act, *staged_collectives.standing())

    def test_the_rows_stay_unfolded_when_the_next_stacks_come(self):
        async def act(stage: Stage) -> None:
            await stage.press("9", "enter")
            again = staged_collectives.stacks(staged_collectives.WAITS, ago=0)
            stage.feed.frames = [frame(agent_id(i), again) for i in range(3)]
            await stage.paint()
            assert "▾ hosts 0–2" in stage.text and "0s" in line("▾ hosts 0–2", stage.text)

        play(act, *staged_collectives.standing())

    def test_who_runs_its_own_code_while_others_wait_stands_out(self):
        async def act(stage: Stage) -> None:
            await stage.press("9")
            waiting, running = line("▸ hosts 0–2", stage.text), line("▸ host 3", stage.text)
            assert "△ own code" in running and "△" not in waiting
            assert waiting.count("█") > running.count("█") > 0  # three of four, and one

        play(act, *staged_collectives.standing())

    def test_where_nobody_waits_nobody_stands_out(self):
        again = staged_collectives.stacks(staged_collectives.LOADS, ago=0)

        async def act(stage: Stage) -> None:
            stage.feed.frames = [frame(agent_id(i), again) for i in range(4)]
            await stage.press("9")
            assert "own code" in stage.text and "△ own code" not in stage.text

        play(act, *staged_collectives.standing())

    def test_below_are_the_lines_of_all_main_threads_as_one_tree(self):
        async def act(stage: Stage) -> None:
            await stage.press("9")
            rows = stage.text.splitlines()
            at = next(i for i, row in enumerate(rows) if "Main threads" in row)
            tree = [re.sub(r"^[ █▏▎▍▌▋▊▉]+", "", row).rstrip() for row in rows[at + 1 : at + 7]]
            assert tree == [
                "4  train.py:120 <module>",
                "3    train.py:51 train",
                "3      array.py:631 _value",
                "1    train.py:48 train",
                "1      data.py:88 load_batch",
                "1        socket.py:706 readinto",
            ]
            await stage.press("asterisk")
            await stage.pilot.resize_terminal(80, 24)
            await stage.paint()
            assert "Main threads" not in stage.text  # the rows need the room

        play(act, *staged_collectives.standing())


class Asked:
    """Answers that a test puts in."""

    def __init__(self, count: int) -> None:
        self.requested, self.replied, self.silent = count, 0, 0
        self.refused: Counter[str] = Counter()


class Asker:
    def __init__(self) -> None:
        self.questions: list[tuple[str, list[str], Asked]] = []
        self.intervals: list[int | None] = []

    def __call__(self, what, agents, interval_ms):
        asked = Asked(len(agents))
        self.questions.append((what, list(agents), asked))
        self.intervals.append(interval_ms)
        return asked


def asking(act, *frames) -> None:
    """Run the app with somebody to ask."""

    async def steps(stage: Stage) -> None:
        asker = Asker()
        stage.app.requests.send_through(asker)
        await act(stage, asker)

    play(steps, *frames)


class TestAsking:
    def test_p_asks_all_processes_and_opens_the_stacks(self):
        async def act(stage, asker):
            await stage.press("p")
            assert stage.screen_shown == "screen-stacks"
            what, agents, answers = asker.questions[0]
            assert (what, agents) == ("stacks", [agent_id(0), agent_id(1)])
            answers.replied = 1
            await stage.paint()
            assert "asking 2 processes for stacks: 1 answered" in stage.line("facts")
            answers.replied = 2
            await stage.paint()
            assert stage.said[-1] == "asked 2 processes for stacks: 2 answered"
            assert "asking" not in stage.line("facts")

        asking(act, *builders.well())

    def test_a_finding_whose_proof_are_stacks_asks_for_them(self):
        async def act(stage, asker):
            stage.app.post_message(ScreenPane.Drilled(Selection(agent_id(1)), "stacks"))
            await stage.until(lambda: bool(asker.questions))
            assert stage.screen_shown == "screen-stacks"
            assert asker.questions[0][:2] == ("stacks", [agent_id(0), agent_id(1)])

        asking(act, *builders.well())

    def test_p_samples_twenty_times_one_after_another_and_tallies_the_lines(self):
        async def act(stage, asker):
            await stage.press("p")
            for sample in range(30):
                asker.questions[-1][2].replied = 2
                ago = 1.0 - sample / 100
                stage.feed.frames = [
                    frame(
                        agent_id(0),
                        staged_collectives.stacks(staged_collectives.WAITS, ago),
                        sequence=20 + sample,
                    ),
                    frame(
                        agent_id(1),
                        staged_collectives.stacks(staged_collectives.LOADS, ago),
                        sequence=20 + sample,
                    ),
                ]
                await stage.paint()
                if sample < 5:
                    assert len(asker.questions) == sample + 2
            assert len(asker.questions) == 20 and {each[0] for each in asker.questions} == {"stacks"}
            assert "samples: 50% " in stage.text and "(waits)" in stage.text
            assert len([each for each in stage.said if each.startswith("asked")]) == 1

        asking(act, *builders.well())

    def test_sampling_ends_where_processes_do_not_answer_and_large_runs_are_asked_once(self):
        async def act(stage, asker):
            await stage.press("p")
            asker.questions[-1][2].silent = len(asker.questions[-1][1])
            for _ in range(4):
                await stage.paint()
            assert len(asker.questions) == 1

        async def act_large(stage, asker):
            await stage.press("p")
            asker.questions[-1][2].replied = 40
            for _ in range(4):
                await stage.paint()
            assert len(asker.questions) == 1

        asking(act, *builders.well())
        asking(act_large, *builders.well(processes=40))

    def test_c_asks_for_a_window_wherever_one_is(self):
        async def act(stage, asker):
            for key, screen in (("2", "mesh"), ("6", "collectives"), ("9", "stacks")):
                await stage.press(key, "c")
                assert asker.questions[-1][0] == "window"
                assert stage.screen_shown == f"screen-{screen}"
                asker.questions[-1][2].replied = 2
                await stage.paint()
            assert len(asker.questions) == 3

        asking(act, *builders.well())

    def test_why_not_is_reported_in_words_once_for_all(self):
        async def act(stage, asker):
            await stage.press("c")
            answers = asker.questions[0][2]
            answers.refused = Counter({"this run is read-only (JAXTOP_READONLY=1)": 1})
            answers.silent = 1
            await stage.paint()
            why = "1 refused: this run is read-only (JAXTOP_READONLY=1); 1 did not answer"
            assert stage.said[-1] == f"asked 2 processes for a profiler window: 0 answered; {why}"

        asking(act, *builders.well())

    def test_the_same_is_not_asked_twice_at_a_time(self):
        async def act(stage, asker):
            await stage.press("p", "p", "p")
            assert len(asker.questions) == 1

        asking(act, *builders.well())

    def test_the_dead_are_not_asked(self):
        async def act(stage, asker):
            await stage.press("p")
            assert asker.questions[0][1] == [agent_id(0)]

        asking(act, *builders.well(), builders.trouble(1, "closed"))

    def test_without_anybody_to_ask_the_keys_say_so(self):
        async def act(stage: Stage) -> None:
            await stage.press("c")
            assert "requests need a live run" in stage.said[-1]

        play(act, *builders.well())

    def test_before_there_is_a_host_the_keys_say_so(self):
        async def act(stage, asker):
            await stage.press("p")
            assert stage.said == ["no live process to ask"] and not asker.questions

        asking(act)

    def test_help_and_palette_tell_of_them(self):
        async def act(stage, _asker):
            titles = [each.title for each in stage.app.get_system_commands(stage.app.screen)]
            assert {"Window of the profiler now (c)", "Ask for stacks (p)"} <= set(titles)

        asking(act, *builders.well())


def paced(index: int, interval_ms: int):
    return frame(agent_id(index), structs.replace(builders.hello(index), interval_ms=interval_ms), sequence=5)


class TestTheInterval:
    def test_plus_asks_all_processes_to_tell_less_often_and_minus_oftener(self):
        async def act(stage, asker):
            await stage.press("plus")
            assert asker.questions[0][:2] == ("pace", [agent_id(0), agent_id(1)])
            assert "asking 2 processes for figures every 2s: 0 answered" in stage.line("facts")
            asker.questions[0][2].replied = 2
            stage.feed.frames = [paced(0, 2000), paced(1, 2000)]
            await stage.paint()
            assert stage.said[-1] == "asked 2 processes for figures every 2s: 2 answered"
            await stage.press("minus")
            assert asker.intervals == [2000, 1000]

        asking(act, *builders.well())

    def test_an_interval_that_is_not_the_usual_one_stands_in_the_header(self):
        async def act(stage: Stage) -> None:
            assert "every" not in stage.line("header")
            stage.feed.frames = [paced(0, 500)]
            await stage.paint()
            assert "every 0.5s–1s" in stage.line("header")
            stage.feed.frames = [paced(1, 500)]
            await stage.paint()
            assert "every 0.5s " in stage.line("header")

        play(act, *builders.well())

    def test_keys_that_are_pressed_while_processes_answer_count_and_the_last_one_is_asked_for(self):
        async def act(stage, asker):
            await stage.press("plus", "plus", "plus")
            assert asker.intervals == [2000]
            asker.questions[0][2].replied = 2
            await stage.paint()
            assert asker.intervals == [2000, 10_000]

        asking(act, *builders.well())

    def test_a_process_that_refuses_is_named_and_the_interval_stays(self):
        async def act(stage, asker):
            await stage.press("minus")
            asker.questions[0][2].refused = Counter({"only the owner of the run may do this": 2})
            await stage.paint()
            assert stage.said[-1].endswith("0 answered; 2 refused: only the owner of the run may do this")
            assert "every" not in stage.line("header")

        asking(act, *builders.well())

    @pytest.mark.parametrize(("key", "interval_ms"), [("plus", 60_000), ("minus", 500), ("minus", 100)])
    def test_at_the_last_stop_nobody_is_asked(self, key, interval_ms):
        async def act(stage, asker):
            await stage.press(key)
            assert "interval" in stage.said[-1] and not asker.questions

        asking(act, *builders.well(), paced(0, interval_ms), paced(1, interval_ms))

    def test_in_a_pause_the_keys_are_those_of_the_replay(self):
        async def act(stage: Stage) -> None:
            def titles() -> set[str]:
                return {each.title for each in stage.app.get_system_commands(stage.app.screen)}

            assert "Longer interval (+)" in titles() and "Replay faster (+)" not in titles()
            await stage.press("space")
            assert "Longer interval (+)" not in titles() and "Replay faster (+)" in titles()

        play(act, *builders.well(), history=Reel(*builders.well(), is_growing=True))


class TestTheLastLine:
    @pytest.mark.parametrize("key", [each.key for each in SCREENS])
    def test_at_80_columns_every_screen_has_its_key_and_the_open_one_its_name(self, key):
        async def act(stage: Stage) -> None:
            await stage.press(key)
            bar = stage.text.splitlines()[-1]
            (title,) = (screen.title for screen in SCREENS if screen.key == key)
            assert f" {key} {title}" in bar and "? Help  q Quit" in bar
            places = [re.search(rf" {screen.key}\b", bar).start() for screen in SCREENS]
            assert places == sorted(places)

        play(act, *builders.well(), size=(80, 24))

    @pytest.mark.parametrize(
        ("width", "keys"), [(40, ()), (59, ()), (80, ("⏎ Proof",)), (120, ("⏎ Proof", "i Why"))]
    )
    def test_at_any_width_the_line_fits_with_the_keys_that_matter_here(self, width, keys):
        async def act(stage: Stage) -> None:
            bar = stage.text.splitlines()[-1]
            assert all(each in bar for each in (*keys, "1 Overview", "? Help", "q Quit"))
            assert len(bar) <= width

        play(act, *staged_collectives.late(), size=(width, 24))

    def test_on_high_terminals_screens_and_keys_have_a_line_each(self):
        async def act(stage: Stage) -> None:
            assert all(f"{screen.key} {screen.title}" in stage.line("tabs") for screen in SCREENS)
            keys = ("⏎ Proof", "i Why", "space Pause", ": Palette", "? Help", "q Quit")
            assert all(each in stage.line("keys") for each in keys)

        play(act, *staged_collectives.late(), size=(200, 40))


def test_the_app_asks_nobody_unless_it_is_given_a_way():
    assert not JaxtopApp(staging.Feed()).requests.can_request


def test_stacks_of_a_stopped_process_are_of_the_past():
    shown = seen(*staged_collectives.standing(), builders.trouble(0, "silent"), keys=("9", "enter"))
    assert "stacks of 3 of 3 live processes; last stacks of 1 stopped process" in shown
    assert "waited" in line("▾ host 0 (node00)", shown)
    assert "waits" in line("host 1 (node01)", shown)


def test_old_stacks_are_dimmed_and_say_what_was():
    async def act(stage: Stage) -> None:
        await stage.press("9")
        assert "waits" in line("▸ hosts 0–2", stage.text)
        table = stage.view_shown.table
        assert table._tone(table.shown[0], stage.app.palette) is None
        stage.clock.now += 41 * 60
        stage.feed.frames += [
            frame(agent_id(i), builders.pulse(i, stage.clock.now), sequence=9) for i in range(4)
        ]
        await stage.paint()
        row = line("▸ hosts 0–2", stage.text)
        assert "waited" in row and "41m" in row
        tones = {table._tone(node, stage.app.palette) for node in table.shown}
        assert tones == {stage.app.palette.muted}

    play(act, *staged_collectives.standing(), size=(200, 50))
