"""Terminals: what the app needs of one, how it looks with few colours, how it ends."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from msgspec.structs import replace
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color as TextualColor
from textual.widgets._toast import Toast

from jaxtop.base import keys
from jaxtop.cli import terminal
from jaxtop.cli.errors import UserError
from jaxtop.store import runfiles
from jaxtop.tui.app import JaxtopApp
from jaxtop.tui.colours16 import in_16_colours
from jaxtop.tui.colours256 import Colours256, in_256_colours, nearest
from jaxtop.tui.core.palette import DARK, PALETTES, TERMINAL
from jaxtop.tui.dialogs.picker import LiveRuns, Picker
from jaxtop.tui.widgets.key_bar import KeyBar
from tests import builders
from tests import stage as staging
from tests.made.agents import hello_here
from tests.real.terminals import in_a_terminal, read_until
from tests.stage import Stage, play
from tests.support import jaxtop

BLACK = TextualColor(0, 0, 0)


@pytest.fixture
def two_runs():
    """Two live runs of this user; this very process is both."""
    keys.load()
    for number, name in enumerate(("train", "evaluate")):
        telemetry, requests = f"127.0.0.1:{number + 1}", f"127.0.0.1:{number + 3}"
        at = {"telemetry": telemetry, "requests": requests, "started_ms": 1_000 * number}
        runfiles.write(replace(hello_here(f"a{number}"), name=name, run=f"r{number}", **at))


class TestWhatItNeeds:
    @pytest.mark.usefixtures("two_runs")
    @pytest.mark.parametrize("kind", ["dumb", "unknown"])
    def test_a_terminal_without_a_cursor_gets_one_clear_line(self, kind):
        with in_a_terminal("attach", "r1", TERM=kind) as (process, screen):
            said = read_until(screen, "no such words")
            assert process.wait() == 2
        (line,) = said.strip().splitlines()
        assert f"TERM is {kind}" in line and "jaxtop snapshot" in line
        assert "\x1b" not in said

    def test_without_a_run_it_says_how_to_start_one(self):
        done = jaxtop()
        (line,) = done.stderr.splitlines()
        assert "jaxtop run SCRIPT" in line and "jaxtop demo" in line
        assert done.returncode == 2

    @pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=["coloured", "NO_COLOR"])
    def test_no_color_leaves_no_hue(self, monkeypatch, variables):
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        seen: set[Color] = set()

        async def act(stage: Stage) -> None:
            strips = stage.app.screen._compositor.render_strips()
            styles = [segment.style for strip in strips for segment in strip if segment.style]
            seen.update(each for style in styles for each in (style.color, style.bgcolor) if each)

        play(act, *builders.well(), builders.trouble(1, "closed"))
        hues = [each for each in seen if each.triplet and len(set(each.triplet)) > 1]
        assert bool(hues) == (not variables)


@pytest.mark.usefixtures("two_runs")
def test_an_app_ends_with_its_terminal():
    with in_a_terminal(TERM="xterm-256color") as (process, screen):
        assert "evaluate" in read_until(screen, "evaluate")
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), screen)
        assert process.wait() == -signal.SIGHUP


class TestSeveralRuns:
    @pytest.mark.usefixtures("two_runs")
    def test_jaxtop_alone_asks_which_one(self):
        with in_a_terminal(TERM="xterm-256color") as (process, screen):
            asked = read_until(screen, "evaluate")
            assert "2 live runs" in asked and "evaluate" in asked
            os.write(screen, b"q")
            read_until(screen, "no such words")
            assert process.wait() == 0

    @pytest.mark.usefixtures("two_runs")
    def test_a_command_without_a_screen_says_which_one_it_took(self):
        done = jaxtop("snapshot", "--wait", "0.5")
        assert "2 live runs: showing evaluate (r1)" in done.stderr
        assert "live runs" not in jaxtop("snapshot", "r0", "--wait", "0.5").stderr

    def test_the_chosen_one_is_returned_and_none_if_the_person_leaves(self):
        async def chosen(*pressed: str) -> str | None:
            app = Picker(
                lambda: LiveRuns(("NAME", "ID"), {"r0": ("train", "r0"), "r1": ("[/] evaluate", "r1")})
            )
            async with app.run_test(size=(40, 10)) as pilot:
                await pilot.press(*pressed)
                await pilot.pause()
            return app.return_value

        assert asyncio.run(chosen("enter")) == "r0"
        assert asyncio.run(chosen("j", "enter")) == "r1"
        assert asyncio.run(chosen("j", "q")) is None
        assert asyncio.run(chosen("escape")) is None

    def test_the_last_line_names_each_key_once(self):
        async def last_line() -> str:
            app = Picker(lambda: LiveRuns(("NAME", "ID"), {"r0": ("train", "r0"), "r1": ("evaluate", "r1")}))
            async with app.run_test(size=(40, 10)) as pilot:
                await pilot.pause()
                return str(app.screen.query_one(KeyBar).render())

        assert asyncio.run(last_line()).split() == ["⏎", "Open", "q", "Leave"]


class TestFewColours:
    @pytest.mark.parametrize("name", PALETTES)
    def test_with_256_colours_bands_and_lines_stand_out_from_the_background(self, name):
        theme = PALETTES[name].theme
        shown = {
            part: shown_as(getattr(theme, part))
            for part in ("background", "surface", "panel", "foreground", "primary", "warning", "error")
        }
        assert shown["panel"] != shown["background"]
        assert len({shown["background"], shown["foreground"], shown["primary"], shown["error"]}) == 4
        if theme.surface != theme.background:
            assert shown["surface"] not in (shown["background"], shown["panel"])

    @pytest.mark.parametrize("name", PALETTES)
    def test_with_256_colours_no_step_of_the_ramp_looks_like_nothing_known_and_notes_are_grey(self, name):
        palette = PALETTES[name]
        greys = {
            shown_as(each, name) for each in (palette.divider, palette.frame, palette.track, palette.muted)
        }
        steps = [shown_as(each, name) for each in palette.ramp]
        assert greys.isdisjoint(steps) and len(set(steps)) == len(steps)
        assert set(steps).isdisjoint(shown_as(each, name) for each in palette.categories)
        assert all((each - 59) % 43 == 0 or each >= 232 for each in greys if each is not None)

    def test_what_a_terminal_may_have_changed_is_never_taken(self):
        assert min(nearest(r, g, b) for r in (0, 255) for g in (0, 128) for b in (0, 255)) >= 16

    def test_the_app_uses_them_where_the_terminal_has_no_more(self):
        async def act(stage: Stage) -> None:
            stage.app.console._color_system = ColorSystem.EIGHT_BIT
            assert any(isinstance(each, Colours256) for each in stage.app.get_line_filters())
            stage.app.console._color_system = ColorSystem.TRUECOLOR
            assert not any(isinstance(each, Colours256) for each in stage.app.get_line_filters())

        play(act, *builders.well())

    @pytest.mark.parametrize("name", PALETTES)
    def test_with_16_colours_text_and_ground_stay_the_terminals_own(self, name):
        palette, both = PALETTES[name], in_16_colours(name)

        def shown(colour: str, ground: str = palette.background) -> Style:
            (segment,) = both.apply([Segment("x", Style(color=colour, bgcolor=ground))], BLACK)
            assert segment.style is not None
            return segment.style

        def number(colour: str) -> int | None:
            found = shown(colour).color
            return None if found is None else found.number

        for ground in palette.grounds:
            text = shown(palette.foreground, ground)
            assert text.color == text.bgcolor == Color.default() and not text.dim
        assert shown(palette.muted).dim and shown(palette.muted).color == Color.default()
        assert [number(each) for each in (palette.good, palette.warning, palette.bad)] == [2, 3, 1]
        others = {number(each) for each in (*palette.ramp, *palette.categories)}
        assert others.isdisjoint({None, 1, 2, 3, number(palette.accent)})
        assert len({number(each) for each in palette.categories}) == len(palette.categories)
        under_the_cursor = shown(palette.foreground, palette.cursor(focused=True))
        assert under_the_cursor.reverse and under_the_cursor.bgcolor == Color.default()
        for step, bright in ((palette.ramp[0], 15), (palette.ramp[-1], 0)):
            colour = shown(palette.foreground, step).color
            assert colour is not None and colour.number == bright

    def test_the_theme_terminal_sends_only_such_colours(self):
        async def act(stage: Stage) -> None:
            stage.app.theme = TERMINAL.theme.name
            for key in "123456789":
                await stage.press(key)
                for strip in stage.app.screen._compositor.render_strips():
                    styles = [segment.style for segment in strip if segment.style is not None]
                    sent = [
                        each for style in styles for each in (style.color, style.bgcolor) if each is not None
                    ]
                    assert all(each.is_default or (each.number or 0) < 16 for each in sent)
                    assert not any(each.triplet for each in sent)

        play(act, *builders.well())


def shown_as(colour: str, theme: str = DARK.theme.name) -> int | None:
    """The number that reaches the terminal."""
    (segment,) = in_256_colours(theme).apply([Segment("x", Style(color=colour))], BLACK)
    assert segment.style is not None and segment.style.color is not None
    return segment.style.color.downgrade(ColorSystem.EIGHT_BIT).number


class Failing(App[str]):
    """An app that fails as soon as it is there."""

    def on_mount(self) -> None:
        raise RuntimeError("something that nobody thought of")

    def run(self, **_: object) -> str | None:
        return super().run(headless=True)


class TestHowItEnds:
    def test_a_crash_never_ends_with_status_0(self):
        with pytest.raises(UserError) as failed:
            terminal.show(Failing())
        assert failed.value.status == 1

    @pytest.mark.parametrize("text", ["error in [/] here", "[link=x]no", "[red", "\x1b[31mred"])
    def test_words_of_others_are_shown_as_they_are(self, text):
        async def run() -> str:
            app = JaxtopApp(staging.Feed(), staging.Clock())
            async with app.run_test(notifications=True) as pilot:
                app.notify(text)
                while not (toasts := list(app.query(Toast))):
                    await pilot.pause(0.01)
                return str(toasts[0].render())

        assert text.replace("\x1b", " ") in asyncio.run(run())
