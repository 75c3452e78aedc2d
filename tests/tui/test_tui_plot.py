"""The plot: a figure over time, of whom a person chose, beside others; live, paused and replayed alike."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import FIGURES, Severity, Unit
from jaxtop.tui.core.palette import DARK, PALETTES
from jaxtop.tui.core.text import writer
from jaxtop.tui.draw.ink import ink_of
from jaxtop.tui.draw.marks import Mark
from jaxtop.tui.draw.plot import LETTERS, PlotFrame, PlotLine, extent, plot, summary, ticks
from jaxtop.tui.draw.plot_contents import PlotComparison, PlotSubject, few
from jaxtop.tui.draw.plot_page import PlotPage, page
from jaxtop.tui.playback import Start
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.cases import thorough
from tests.played.reels import LONG, Reel, session
from tests.stage import Stage, line, play, shown_after
from tests.staged import hardware as staged_hardware
from tests.staged.hardware import working

INK = ink_of(DARK, plain=True)
DOTS = {chr(0x2800 + bits) for bits in range(1, 256)}

pytestmark = pytest.mark.usefixtures("in_utc")


def points(*values: float | None, start: float = NOW) -> tuple[tuple[float, float | None], ...]:
    return tuple((start + i, value) for i, value in enumerate(values))


def drawn(*lines: PlotLine, width: int = 60, height: int = 14, **more) -> list[str]:
    rows, _ = plot(lines, INK, width, height, unit=Unit.WATTS, write=writer(FIGURES["power_w"]), **more)
    return [row.plain for row in rows]


def dotted(rows: list[str]) -> list[int]:
    """The columns in which there are dots."""
    return sorted({x for row in rows for x, each in enumerate(row) if each in DOTS})


class TestLines:
    def test_more_is_higher_and_later_is_farther_right(self):
        rows = drawn(PlotLine("device 0", points(*range(100, 160)), is_chosen=True))
        places = [(y, x) for y, row in enumerate(rows) for x, each in enumerate(row) if each in DOTS]
        first, last = min(places, key=lambda place: place[1]), max(places, key=lambda place: place[1])
        assert first[0] > 8 and last[0] < 2
        assert len(dotted(rows)) > 45

    def test_a_name_that_is_too_long_for_the_table_ends_in_an_ellipsis_or_has_one_within(self):
        lines = (PlotLine("0 trainer-0017.research.example", points(1.0, 2.0), is_chosen=True),)
        shown = PlotPage(FIGURES["power_w"], (0, 1), PlotComparison.HOSTS, lines, 1, None)
        assert "…" in page(shown, INK, 80, 20).text.plain.splitlines()[-1]

    def test_where_nobody_knew_there_is_nothing(self):
        rows = drawn(PlotLine("device 0", points(*[5.0] * 20, *[None] * 20, *[6.0] * 20)))
        columns = dotted(rows)
        gaps = [later - at for at, later in pairwise(columns)]
        assert max(gaps) > 12

    def test_a_longer_interval_is_no_gap(self):
        often, rarely = points(*[5.0] * 60), tuple((NOW + 60 + 10 * i, 5.0) for i in range(8))
        columns = dotted(drawn(PlotLine("device 0", (*often, *rarely))))
        assert max(later - at for at, later in pairwise(columns)) == 1

    def test_samples_that_did_not_come_are_a_gap_too(self):
        silent = (*points(*[5.0] * 20), *points(*[6.0] * 20, start=NOW + 40))
        columns = dotted(drawn(PlotLine("device 0", silent)))
        assert max(later - at for at, later in pairwise(columns)) > 12

    def test_each_line_ends_with_its_letter(self):
        rows = drawn(PlotLine("low", points(1.0, 1.0)), PlotLine("high", points(9.0, 9.0)))
        letters = {row.rstrip()[-1]: y for y, row in enumerate(rows[:-2]) if row.rstrip()[-1] in LETTERS}
        assert letters["b"] < letters["a"]

    def test_one_sample_alone_is_seen(self):
        assert dotted(drawn(PlotLine("device 0", points(None, 5.0, None))))

    def test_of_nothing_there_is_no_plot(self):
        assert plot([PlotLine("x", points(None, None))], INK, 60, 14, unit=Unit.WATTS, write=str) == (
            [],
            None,
        )
        assert plot([], INK, 60, 14, unit=Unit.WATTS, write=str) == ([], None)

    def test_one_line_alone_is_filled_below(self):
        rows = drawn(PlotLine("device 0", points(*range(100, 160)), is_chosen=True))
        column = [row[40] for row in rows[:-2]]
        first = next(y for y, each in enumerate(column) if each in DOTS)
        assert set(column[first + 1 :]) == {"⣿"}
        two = drawn(PlotLine("a", points(1.0, 9.0)), PlotLine("b", points(9.0, 1.0)))
        assert not any("⣿" in row for row in two)

    def test_a_line_ends_with_its_last_value_where_there_is_room(self):
        lines = PlotLine("low", points(100.0, 101.0)), PlotLine("high", points(900.0, 930.0))
        assert any(row.endswith("b 930W") for row in drawn(*lines, width=90))
        assert not any("930W" in row for row in drawn(*lines, width=60))


class TestAxes:
    def test_a_new_sample_leaves_the_axes_and_the_lines_where_they_were(self):
        values = [450.0 + i % 7 for i in range(95)]
        before, after = (
            drawn(PlotLine("x", points(*values[:count])), PlotLine("y", points(1.0)), width=60)
            for count in (93, 94)
        )
        assert before[-2:] == after[-2:]
        assert [row[:40] for row in before] == [row[:40] for row in after]

    def test_what_happened_is_marked_on_the_axis_of_time(self):
        line = PlotLine("x", points(*[5.0] * 60)), PlotLine("y", points(1.0))
        marks = [Mark(NOW + 20, Severity.WARNING, "straggler"), Mark(NOW + 40, Severity.INFO, "back")]
        rows = drawn(*line, marks=marks, width=90)
        assert "△straggler" in rows[-2] and "·back" in rows[-2]
        x = rows[-2].index("△")
        assert "┊" in {row[x] for row in rows[:-2]}
        assert "┊" not in "".join(drawn(*line, marks=[Mark(NOW - 999, Severity.CRITICAL, "x")]))

    def test_values_and_clock_times_stand_beside_the_plot(self):
        rows = drawn(PlotLine("device 0", points(*[450.0 + i for i in range(60)])), width=80)
        assert any("500W┤" in row for row in rows)
        assert "08:00:30" in rows[-1]

    def test_a_limit_is_drawn_once_something_comes_near(self):
        assert any("╌" in row for row in drawn(PlotLine("x", points(600.0, 610.0)), limit=700.0))
        assert not any("╌" in row for row in drawn(PlotLine("x", points(100.0, 110.0)), limit=700.0))

    def test_a_small_change_at_a_high_level_is_seen_and_a_large_one_starts_at_nothing(self):
        calm, wild = (
            extent([PlotLine("x", points(95.0, 99.0))], None),
            extent([PlotLine("x", points(5, 99))], None),
        )
        assert calm is not None and calm[2] > 80
        assert wild is not None and wild[2] == 0

    @pytest.mark.parametrize("scale", [1e-6, 0.3, 1.0, 12.0, 4e9])
    def test_labels_are_round_and_within(self, scale):
        for binary in (False, True):
            found = ticks(3 * scale, 17 * scale, 5, binary=binary)
            assert 1 <= len(found) <= 12
            assert all(3 * scale <= each <= 17 * scale for each in found)
        assert ticks(0, 100, 4, binary=False) == [0, 25, 50, 75, 100]
        assert ticks(0, 4 << 30, 4, binary=True) == [each << 30 for each in range(5)]

    def test_a_column_is_a_time(self):
        shown = PlotFrame(NOW, NOW + 100, 0, 1, width=50, height=10)
        assert [shown.column(shown.time_at(column)) for column in range(50)] == list(range(50))


def test_a_line_in_figures_is_its_last_least_mean_and_most():
    assert summary(PlotLine("x", points(1.0, None, 4.0, 1.0))) == (1.0, 1.0, 2.0, 4.0)
    assert summary(PlotLine("x", points(1.0, None))) == (None, 1.0, 1.0, 1.0)
    assert summary(PlotLine("x", ())) == (None,) * 4


def test_of_a_thousand_hosts_the_chosen_one_the_most_and_the_least_are_drawn():
    everybody = [PlotSubject(f"{i}", f"a{i}", None, (0,), float(i) if i % 2 else None) for i in range(1024)]
    kept = few(everybody, ("a500", None))
    names = [each.name for each in kept]
    assert len(names) == len(LETTERS)
    assert {"500", "1", "1023", "1021"} <= set(names)
    assert names == sorted(names, key=int)


class TestScreen:
    def test_it_opens_at_the_selected_device_beside_those_of_its_host(self):
        shown = shown_after(*working(60), keys=("D", "g", "j", "0"), size=(120, 40))
        assert "utilisation of device 1" in shown
        assert [each for each in range(8) if f"device {each} " in shown] == [0, 1, 2, 3]
        assert "07:59:30" in shown
        assert sum(shown.count(each) for each in DOTS) > 200

    def test_figures_are_gone_through_both_ways_and_only_those_that_are_reported(self):
        async def act(stage: Stage) -> None:
            await stage.press("0")
            seen = [stage.view_shown._figure().name]
            while True:
                await stage.press("m")
                if stage.view_shown._figure().name == seen[0]:
                    break
                seen.append(stage.view_shown._figure().name)
                assert "n/a: " not in stage.text
            assert {"power_w", "mean_ms", "memory_pressure"} <= set(seen)
            assert "queued" not in seen and len(seen) == len(set(seen))
            await stage.press("left")
            assert stage.view_shown._figure().name == seen[-1]

        play(act, *working(5))

    def test_a_device_stands_alone_beside_its_siblings_or_its_host_beside_others(self):
        async def act(stage: Stage) -> None:
            await stage.press("D", "0")
            await stage.press("tab")
            assert "0 node00" in stage.text and "1 node01" in stage.text
            assert "the mean of its devices" in stage.text
            await stage.press("tab")
            assert "device 0" in stage.text and "device 1 " not in stage.text
            await stage.press("j")
            assert "utilisation of device 1" in stage.text and "device 0 " not in stage.text

        play(act, *working(5))

    def test_it_begins_with_the_figure_that_was_looked_at(self):
        async def act(stage: Stage) -> None:
            await stage.press("D")
            table = stage.view_shown.table
            table.sort_by(next(each for each in table.columns if each.key == "power_w"))
            await stage.paint()
            await stage.press("0")
            assert "power of device 0" in stage.text
            await stage.press("3")
            table = stage.view_shown.table
            table.sort_by(next(each for each in table.columns if each.key == "io_pressure"))
            await stage.paint()
            await stage.press("0")
            assert "disk pressure of 0 node00" in stage.text
            await stage.press("2", "m", "m", "m", "m", "0")
            assert "utilisation of device 0" in stage.text

        play(act, *working(5))

    def test_a_host_is_compared_with_the_hosts_of_its_run(self):
        async def act(stage: Stage) -> None:
            await stage.press("3", "j", "0")
            assert "step time of 1 node01" in stage.text
            assert "0 node00" in stage.text
            await stage.press("k", "3")
            assert stage.view_shown.table.row.host.agent == agent_id(0)  # chosen here, chosen there

        play(act, *working(5))

    def test_everything_can_be_clicked(self):
        async def act(stage: Stage) -> None:
            await stage.press("D", "0")

            async def click(word: str) -> None:
                rows = stage.text.splitlines()
                y = next(i for i, row in enumerate(rows) if word in row)
                await stage.pilot.click(offset=(rows[y].index(word) + 1, y))
                await stage.paint()

            await click("c device 2")
            assert "utilisation of device 2" in stage.text
            await click("processes of its run")
            assert "of 0 node00" in stage.text
            await click("m utilisation")
            assert "tensor units of" in stage.text

        play(act, *working(5))

    def test_the_mouse_asks_for_the_values_of_a_time(self):
        async def act(stage: Stage) -> None:
            await stage.press("D", "0")
            assert "last" in line("mean", stage.text)
            await stage.pilot.hover(offset=(60, 12))
            await stage.paint()
            assert "last" not in line("mean", stage.text) and "07:59:" in line("mean", stage.text)
            assert "▲" in stage.text
            await stage.pilot.hover(offset=(1, 0))
            await stage.paint()
            assert "last" in line("mean", stage.text)

        play(act, *working(90))

    def test_it_goes_on_while_live_and_stands_while_paused(self):
        async def act(stage: Stage) -> None:
            await stage.press("D", "0")
            assert "93%" in line("a device 0", stage.text)

            async def hear(second: int) -> None:
                pulse = staged_hardware.pulse(0)
                devices = replace(pulse.devices, utilization_permille=(10 * second,) * stage_devices)
                told = replace(pulse, devices=devices)
                stage.clock.now = NOW + second
                stage.feed.frames = [frame(agent_id(0), told, NOW + second, 999 + second)]
                await stage.paint()

            await hear(1)
            assert " 1%" in line("a device 0", stage.text)
            await stage.press("space")
            await hear(2)
            assert " 1%" in line("a device 0", stage.text)
            await stage.press("end")
            assert " 2%" in line("a device 0", stage.text)

        stage_devices = builders.DEVICES
        play(act, *working(5))

    def test_in_a_replay_it_shows_the_time_that_is_shown(self):
        async def act(stage: Stage) -> None:
            await stage.press("0", *["right_curly_bracket"] * 2)
            there = stage.text
            assert "memory of device 0" in there and sum(there.count(each) for each in DOTS) > 20
            await stage.press("right_curly_bracket")
            assert stage.text.splitlines()[20:32] != there.splitlines()[20:32]
            await stage.press("left_curly_bracket")
            assert stage.text.splitlines()[4:30] == there.splitlines()[4:30]

        session_frames = session(start=NOW - LONG)
        play(act, history=Reel(*session_frames), replay=Start(is_playing=False), size=(120, 40))

    def test_enter_leads_to_the_device_and_escape_back_to_where_one_was(self):
        async def act(stage: Stage) -> None:
            await stage.press("D", "j", "j", "0", "enter")
            assert stage.screen_shown == "screen-mesh"
            await stage.press("0", "escape")
            assert stage.screen_shown == "screen-mesh"

        play(act, *working(5))

    def test_a_process_that_was_started_again_is_followed(self):
        async def act(stage: Stage) -> None:
            await stage.press("D", "j", "0")
            again = replace(staged_hardware.hello(0), agent="f" * 16, started_ms=int(NOW * 1000) + 5000)
            pulses = [frame("f" * 16, staged_hardware.pulse(0), NOW + i, 1 + i) for i in range(3)]
            up = frame("f" * 16, wire.Link(LinkState.UP, "10.0.0.0:7411"), NOW, 0)
            stage.feed.frames = [up, frame("f" * 16, again), *pulses]
            await stage.paint()
            assert "utilisation of device 1" in stage.text
            assert sum(stage.text.count(each) for each in DOTS) > 20

        play(act, *working(5))

    @pytest.mark.parametrize("key", ["question_mark", thorough("colon")])
    def test_made_too_small_below_help_it_is_replaced_by_the_notice(self, key):
        async def act(stage: Stage) -> None:
            await stage.press("D", "0", key)
            await stage.pilot.resize_terminal(39, 9)
            await stage.press("escape")
            assert "jaxtop needs at least 40×10" in stage.text and "n/a" not in stage.text
            await stage.press("0", key)
            await stage.pilot.resize_terminal(60, 16)
            await stage.press("escape")
            assert "jaxtop needs" not in stage.text and "a device 0" in stage.text

        play(act, *working(30), size=(60, 16))

    @pytest.mark.parametrize("size", [(40, 10), thorough((59, 11)), thorough((40, 30)), (100, 12)])
    def test_a_small_terminal_has_the_chosen_line_with_its_range(self, size):
        async def act(stage: Stage) -> None:
            await stage.press("D", "0")
            last = r"  \d+%" if size[0] > 40 else ""
            said = rf" utilisation of (device \d){last}  \d+% to \d+%"
            before = re.search(said, stage.text)[1]
            await stage.press("j")
            chosen = re.search(said, stage.text)[1]
            assert chosen != before
            assert sum(stage.text.count(each) for each in DOTS) > 20
            assert all(len(each) == size[0] for each in stage.text.splitlines())
            await stage.press("m")
            assert " utilisation of" not in stage.text and f"of {chosen}" in stage.text

        play(act, *working(30), size=size)

    def test_in_two_rows_a_line_is_an_area_below_its_range(self):
        line = PlotLine("device 0", points(*range(100, 160)), is_chosen=True)
        shown = PlotPage(FIGURES["power_w"], (0, 1), PlotComparison.ALONE, (line,), 1, None)
        first, second = page(shown, INK, 46, 2).text.plain.splitlines()
        assert first.split() == ["power", "of", "device", "0", "159W", "100W", "to", "159W"]
        assert len(set(second.strip()) & DOTS) >= 4 and len(second) > 40

    def test_before_anything_is_known_it_says_so(self):
        assert "no figures to plot yet" in shown_after(keys="0", size=(80, 24))
        hello = frame(agent_id(0), builders.hello(0))
        assert "no figures to plot yet" in shown_after(hello, keys="0", size=(80, 24))

    @pytest.mark.parametrize(
        ("size", "theme"),
        [*zip([(60, 16), (80, 24), (120, 40), (200, 50), (100, 30)], PALETTES, strict=True)],
    )
    def test_it_fits_every_terminal_in_every_theme(self, size, theme):
        async def act(stage: Stage) -> None:
            stage.app.theme = theme
            await stage.press("D", "0")
            assert sum(stage.text.count(each) for each in DOTS) > 20
            assert "a device 0" in stage.text
            heads = [each.split() for each in stage.text.splitlines() if "mean " in each]
            assert heads and heads[0][:4] == ["last", "min", "mean", "max"]
            assert all(len(each) == size[0] for each in stage.text.splitlines())

        play(act, *working(30), size=size)

    def test_without_colours_lines_are_distinguished_by_their_letters(self, monkeypatch):
        monkeypatch.setenv("NO_COLOR", "1")
        shown = shown_after(*working(20), keys=("D", "0"), size=(120, 40))
        assert all(f"{letter} device {i}" in shown for i, letter in enumerate("abcd"))

    def test_on_a_cpu_there_are_the_memory_the_process_and_its_host(self):
        shown = shown_after(*builders.well(), keys=("D", "0"), size=(120, 40))
        assert "memory of device 0" in shown and "n/a" not in shown


def test_the_library_is_loaded_when_the_first_plot_is_opened():
    code = "import sys, jaxtop.tui.app; sys.exit('plotille' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
