"""The overview: the verdict, the findings, their proof and explanation, and the panels at every size."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.text import Text

from jaxtop import wire
from jaxtop.model import FIGURES, RULES, RULES_BY_NAME, Finding, Severity, Tuning
from jaxtop.model.finding import FindingCost
from jaxtop.model.findings.rules import garbage
from jaxtop.tui.columns import hosts
from jaxtop.tui.core.moment import EMPTY
from jaxtop.tui.core.palette import DARK
from jaxtop.tui.draw import bars
from jaxtop.tui.draw.ink import ink_of
from jaxtop.tui.draw.overview import arrange
from jaxtop.tui.draw.overview.answers import finding_lines
from jaxtop.tui.draw.overview.panels import OverviewPanel
from jaxtop.tui.draw.panel import Heading, beside, cut, panel, wrapped
from jaxtop.tui.draw.panes.curves import shaded
from jaxtop.tui.draw.panes.finding import figure_of
from jaxtop.tui.draw.sparkline import area
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, agent_id, frame
from tests.cases import thorough
from tests.made import sessions as made_sessions
from tests.played.reels import Reel
from tests.stage import Stage, play, shown_after
from tests.staged import collectives as staged_collectives
from tests.staged import parts as staged_parts
from tests.staged.findings import Staged, reports, trains
from tests.staged.hangs import stopped_steps
from tests.staged.hardware import working

LATE = staged_collectives.late()
TRAINING = builders.training()
DIED = [*builders.well(), frame(agent_id(1), wire.Link(LinkState.CLOSED, "x"), NOW, 9)]


def test_a_straggler_is_the_first_thing_and_enter_opens_its_proof():
    async def act(stage: Stage) -> None:
        assert "1 finding" in stage.line("facts") and "Straggler" in stage.text.splitlines()[4]
        assert stage.app.navigation.selection.agent == agent_id(3)
        await stage.press("enter")
        assert stage.screen_shown == "screen-collectives"
        await stage.press("escape")
        assert stage.screen_shown == "screen-overview"

    play(act, *LATE)


def test_a_finding_explains_itself_and_can_be_muted():
    async def act(stage: Stage) -> None:
        await stage.press("i")
        assert "Next step: " in stage.text and "wait of the others" in stage.text
        assert "╭ Mesh  " not in stage.text
        await stage.press("escape")
        assert "Next step: " not in stage.text and "╭ Mesh  " in stage.text
        await stage.press("x")
        assert "▲ Straggler" not in stage.text and "Mesh  " in stage.text

    play(act, *LATE)


def test_w_opens_the_proof_of_the_worst_finding_from_every_screen():
    async def act(stage: Stage) -> None:
        await stage.press("5", "w")
        assert stage.screen_shown == "screen-collectives"

    play(act, *LATE)

    async def act_healthy(stage: Stage) -> None:
        await stage.press("5", "w")
        assert stage.screen_shown == "screen-memory"

    play(act_healthy, *builders.well())


def test_a_run_with_a_lost_host_is_never_called_healthy():
    shown = shown_after(*DIED, keys=(), size=(120, 40))
    assert "Healthy" not in shown and "host 1" in shown


@pytest.mark.parametrize("frames", [LATE, DIED, working(5)], ids=["late", "died", "gpus"])
def test_it_fits_every_terminal(frames):
    async def act(stage: Stage) -> None:
        for size in [(40, 10), (60, 16), (80, 24), (120, 40), (200, 50), (250, 80)]:
            await stage.pilot.resize_terminal(*size)
            await stage.paint()
            shown = stage.text
            assert "hosts" in shown.lower() and "memory" in shown.lower(), size
            boxes = sum(shown.count(corner) for corner in "╭╮╰╯")
            assert boxes % 4 == 0 and (boxes > 0) == (size[0] >= 100), size

    play(act, *frames, size=(40, 10))


class TestAreas:
    def test_the_scale_is_the_range_of_the_values_and_two_stand_in_a_character(self):
        lines, low, high = area([1.0, 2.0, 3.0, 4.0], 2, 2)
        assert (high, round(low, 3)) == (4.0, 0.625)
        assert lines == ["⠀⣼", "⣰⣿"]

    def test_noise_looks_flat(self):
        lines, low, high = area([100, 99, 100, 101], 2, 4)
        assert high - low > 10 and low < 99 and high > 101
        assert lines[0] == "⠀⠀" and lines[-1] == "⣿⣿"

    def test_unknown_values_are_blank_and_the_newest_one_is_at_the_right(self):
        lines, _, _ = area([1.0, None, 1.0], 3, 1)
        assert lines[0][0] == "⠀" and lines[0][1:] != "⠀⠀"
        assert area([None, 1.0], 1, 1).lines[0] in "⢀⢠⢰⢸"
        assert area([], 2, 2).lines == ["⠀⠀", "⠀⠀"]

    def test_nothing_but_zeros_has_a_line_at_the_bottom(self):
        assert area([0.0, 0.0], 1, 2).lines[0] == "⠀" and area([0.0, 0.0], 1, 2).lines[1] != "⠀"

    def test_what_is_above_a_curve_costs_a_terminal_one_byte_a_cell(self):
        above, *_ = shaded([1.0, 2.0, 1.0, 1.0], ink_of(DARK, plain=False), 4, 3)
        assert len(above.plain.encode()) < 3 * above.cell_len and above.plain.startswith("  ")


def test_a_panel_has_exactly_its_size_and_panels_stand_side_by_side():
    ink = ink_of(DARK, plain=True)
    left = panel("a title that is far too long for it", [Text("x" * 50)], (20, 4), ink)
    right = panel(Heading("b", "figures", "note", (("2", "Mesh"),)), [], (10, 3), ink)
    assert [line.cell_len for line in left] == [20] * 4 and [line.cell_len for line in right] == [10] * 3
    assert [line.cell_len for line in beside([left, right])] == [30] * 4


def test_long_names_keep_their_end():
    for words, shown in (("gpu-cluster-node-0017", "gpu-…-0017"), ("node", "node")):
        line = Text(words)
        cut(line, 11)
        assert line.plain == shown


def test_in_few_lines_the_first_finding_stands_with_one_sign():
    shown = shown_after(*LATE, keys=(), size=(60, 11))
    assert " ▲ Straggler: host 3" in shown and "▲ ▲" not in shown


def lost_loss():
    """Two processes whose loss is not finite on the second."""
    run = Staged()
    run.train(30, reports(2.31))
    run.train(4, reports(math.nan, on=1))
    return run


def collecting():
    """Two processes, of which the second collects garbage for a third of the time."""
    run = Staged()
    run.train(30)
    for index, us in ((0, 20_000), (1, 7_000_000)):
        run.tell(index, wire.Activity(int(run.at * 1000), 20_000, (100, 0, 0, 0), gc_runs=60, gc_us=us))
    run.train(10)
    return run


@pytest.mark.parametrize("size", [(60, 16), thorough((80, 24)), (120, 40)])
@pytest.mark.parametrize(
    ("run", "rule", "figure"),
    [(lost_loss, "bad_loss", "not finite"), (collecting, "gc_pauses", "35%")],
    ids=["loss", "collections"],
)
def test_the_screen_with_the_proof_shows_the_figure_of_the_finding(run, rule, figure, size):
    run = run()

    async def act(stage: Stage) -> None:
        stage.clock.now = run.at
        await stage.paint()
        finding = next(each for each in stage.app.moment.findings if each.rule == rule)
        stage.view_shown.choose(finding.key)
        await stage.press("enter")
        assert stage.screen_shown == "screen-hosts"
        row = next(line for line in stage.text.splitlines() if line.startswith("▌"))
        assert figure in row
        first = finding.evidence[0]
        figures = f"{finding.severity.sign} {RULES_BY_NAME[rule].title}: {first.name} {figure_of(first)}"
        assert stage.line("facts").startswith(figures)
        await stage.press("1", "3")
        assert not stage.text.splitlines()[1].startswith(figures)

    play(act, *run.frames, size=size)


def test_the_columns_that_rules_name_exist():
    rules = Path(garbage.__file__).parent
    named = {key for path in rules.glob("*.py") for key in re.findall(r'column="(\w+)"', path.read_text())}
    figures = {each.name for each in FIGURES.values() if each.has_column}
    of_hosts = {each.key for each in hosts.columns_for(EMPTY)}
    assert named and named <= figures | of_hosts


@pytest.mark.parametrize("size", [(59, 20), (40, 10)])
def test_where_the_proof_has_no_room_its_explanation_opens(size):
    async def act(stage: Stage) -> None:
        await stage.press("enter")
        assert stage.screen_shown == "screen-overview" and "Next step: " in stage.text
        await stage.press("escape", "5", "w")
        assert stage.screen_shown == "screen-overview" and "Next step: " in stage.text

    play(act, *LATE, size=size)


@pytest.mark.parametrize("size", [(120, 40), thorough((80, 24)), thorough((60, 11)), (40, 10)])
def test_keys_are_about_the_finding_that_is_selected(size):
    run = lost_loss()
    run.tell(1, wire.Link(LinkState.CLOSED, "x"))
    run.train(4, lambda index, at, step: trains(index, at, step) if index == 0 else None)

    async def act(stage: Stage) -> None:
        stage.clock.now = run.at
        await stage.paint()
        first, second, *_ = stage.app.moment.findings
        for keys, finding in (((), first), (("down",), second), (("up",), first)):
            await stage.press(*keys)
            title = RULES_BY_NAME[finding.rule].title
            assert stage.view_shown.row.key == finding.key
            assert re.search(
                rf"^.{{0,2}}[▲△·] {title}: ", "\n".join(stage.text.splitlines()[2:]), re.MULTILINE
            )
            await stage.press("i")
            assert title in map(str.strip, stage.text.splitlines()[2:4])  # there are tabs on a high terminal
            await stage.press("escape")
        await stage.press("x")
        assert stage.view_shown.muted == {first.key}
        assert RULES_BY_NAME[second.rule].title in stage.text

    play(act, *run.frames, size=size)


def test_a_muted_finding_is_neither_counted_nor_opened_nor_in_the_second_line():
    run = lost_loss()

    async def act(stage: Stage) -> None:
        stage.clock.now = run.at
        await stage.paint()
        (finding,) = stage.app.moment.findings
        title = RULES_BY_NAME[finding.rule].title
        assert f"▲ {title}" in stage.text and "1 finding" in stage.line("facts")
        await stage.press("3")
        assert title in stage.line("facts")
        await stage.press("1", "x")
        assert "1 finding muted" in stage.line("facts") and "What is wrong" not in stage.text
        await stage.press("3")
        assert title not in stage.line("facts")
        await stage.press("1")
        await stage.press("w")
        assert stage.screen_shown == "screen-overview"

    play(act, *run.frames)


def dead():
    """Two processes, of which the second died."""
    run = Staged()
    run.train(20)
    run.tell(1, wire.Link(LinkState.CLOSED, "x"))
    run.train(4, lambda index, at, step: trains(index, at, step) if index == 0 else None)
    return run.frames


@pytest.mark.parametrize("frames", [LATE, dead()], ids=["late", "died"])
def test_a_proven_finding_stands_once_in_the_second_line(frames):
    async def act(stage: Stage) -> None:
        stage.clock.now = frames[-1].at
        await stage.press("w")
        finding = stage.app.moment.findings[0]
        facts = stage.line("facts").split("  ·  ")
        assert facts[0].startswith(f"{finding.severity.sign} {RULES_BY_NAME[finding.rule].title}: ")
        assert not any("is late" in each or "died" in each for each in facts[1:])

    play(act, *frames, size=(250, 50))


def test_the_hint_to_rewind_follows_a_change_of_height_alone():
    async def act(stage: Stage) -> None:
        for height, is_shown in ((40, False), (12, True), (40, False)):
            await stage.pilot.resize_terminal(120, height)
            await stage.paint()
            assert ("[ Rewind" in stage.line("keys")) == is_shown

    play(act, *LATE, size=(120, 30), history=Reel(*LATE))


def shown_at(run, size):
    """The screen at the end of a staged run."""
    shown = []

    async def act(stage: Stage) -> None:
        stage.clock.now = run.at
        await stage.paint()
        shown.append(stage.text)

    play(act, *run.frames, size=size)
    return shown[0]


def test_a_run_that_compiles_or_is_hardly_measured_is_not_called_healthy():
    run = Staged()
    run.train(20)
    shown = shown_at(run, (120, 40))
    assert "Healthy" not in shown and re.search(rf"Nothing wrong in \d+ of {len(RULES)} rules checked", shown)
    running = (wire.Compiling("train_step", int(run.at * 1000)),)
    run.train(2, lambda index, at, step: builders.pulse(index, at, launches=step, compiling=running))
    assert "nothing wrong so far, 2 of 2 hosts compile" in shown_at(run, (80, 24))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_the_verdict_fits_and_i_says_which_rules_were_not_checked_and_why(size):
    async def act(stage: Stage) -> None:
        assert f"of {len(RULES)} rules checked (i: why)" in stage.line("facts")
        await stage.press("i")
        assert "Not checked: " in stage.text and "no collectives were measured" in stage.text
        await stage.press("escape")
        assert "Not checked: " not in stage.text

    play(act, *builders.well(), size=size)


def test_the_explanation_has_the_numbers_that_the_user_changed():
    tuning = Tuning({("straggler", "critical_share"): 0.9})

    async def act(stage: Stage) -> None:
        await stage.press("i")
        shown = " ".join(stage.text.split())
        assert "critical_share = 0.9 instead of 0.25" in shown

    play(act, *LATE, size=(200, 50), tuning=tuning)


@pytest.mark.parametrize("size", [(40, 10), (60, 16)])
def test_a_small_live_view_says_how_to_rewind(size):
    async def act(stage: Stage) -> None:
        assert "[ rewind" in stage.text.lower()

    play(act, *LATE, size=size, history=Reel(*LATE))


# The panels


def lines_of(shown: str) -> list[str]:
    """The lines between the second one and the last."""
    return shown.splitlines()[2:-1]


@pytest.mark.parametrize("size", [(120, 40), thorough((200, 50)), (250, 80)])
@pytest.mark.parametrize("frames", [LATE, working(90), TRAINING], ids=["late", "gpus", "training"])
def test_no_panel_is_empty_and_borders_stand_in_columns(frames, size):
    lines = lines_of(shown_after(*frames, keys=(), size=size))
    boxes = []
    for y, line in enumerate(lines):
        for found in re.finditer(r"╭[^╭╮]*╮", line):
            x, end = found.span()
            bottom = next(i for i in range(y, len(lines)) if lines[i][x] == "╰")
            inside = [row[x + 1 : end - 1].strip() for row in lines[y + 1 : bottom]]
            assert any(inside), found.group()
            assert all(row[x] == "│" and row[end - 1] == "│" for row in lines[y + 1 : bottom])
            boxes.append((x, end))
    assert len(boxes) >= 5
    columns = {2 if size[0] < 170 else 3 if size[0] < 230 else 4}
    assert len({x for x, _ in boxes}) <= max(columns)


def answered(shown: str) -> dict[str, bool]:
    """Which of the twelve questions the screen answers."""
    words = {
        "healthy": r"findings?, |Healthy|[Nn]othing wrong",
        "how fast": r"p50 \S+ms +p99 \S+ms +[\d.]+/s",
        "what bounds it": r"█ [a-z0-9 ]+ \d+%",
        "who is late": r"▲ late|late: data",
        "who holds memory": r"parameters \S+[KMG]|optimizer \S+[KMG]|unexplained \S+G",
        "headroom": r"\d+\S+ of \d+\S+ on device|no limit known",
        "what grows": r"grows +\S",
        "what was compiled": r"train_step .*(shape|first call)",
        "input": r"host gap +.*%|script +.*%",
        "last hour": r"\d\d:\d\d:\d\d [▲△·] ",
        "fewer devices": r"fewer +\S",
        "what next": r"next step +\S",
    }
    return {question: bool(re.search(pattern, shown)) for question, pattern in words.items()}


def everything() -> list[wire.Frame]:
    """The run with a late host, with steps, named arrays, and a compilation with its cause."""
    end = NOW + 6
    took = wire.Rhythm(1, ("train_step",), 50, 100, 100_000, 10_000, 50, 100_000, 120_000, 150_000)
    ids = wire.pack_ids(tuple(range(16)))
    mesh = wire.Mesh((("data", 4), ("model", 4)), ids)
    sharding = wire.Sharding("named", "P('data',)", 0, (), "device", (("data",),))
    weights = wire.ArrayGroup(
        (512, 512), "float32", 0, 1 << 20, 1 << 18, "params['w']", "train", "parameters"
    )
    arrays = wire.Arrays(int(end * 1000), 2, 1, (mesh,), (sharding,), (weights,), (1,))
    again = wire.Compilation(
        int(NOW * 1000), "train_step", "train.py:41", 2400, "shape", "x", "f32[64]", "f32[32]"
    )
    told = []
    for index in range(staged_collectives.HOSTS):
        agent = agent_id(index)
        loaded = next(wire.decode(each.kind, each.raw) for each in LATE if each.kind == "programs")
        told += [
            frame(agent, replace(loaded, compilations=(again,)), NOW + 1, 50),
            frame(agent, arrays, NOW + 1, 51),
        ]
        for step in range(1, 7):
            at = NOW + step
            told.append(
                frame(agent, builders.pulse(index, at, 4, 20 + 10 * step, rhythm=took), at, 60 + step)
            )
    return [*LATE, *sorted(told, key=lambda each: each.at)]


@pytest.mark.parametrize("size", [(120, 40), thorough((200, 50)), (250, 80)])
def test_the_first_screen_answers_twelve_questions(size):
    frames = everything()

    async def act(stage: Stage) -> None:
        stage.clock.now = frames[-1].at
        await stage.paint()
        assert [each for each, is_there in answered(stage.text).items() if not is_there] == []

    play(act, *frames, size=size)


def held_up(seconds: int = 3, newer: float | None = None) -> list[wire.Frame]:
    """Two processes of which one is late for 300 of the 500 ms from step to step; the median step is shorter.

    They report for so long since that was found. Since the last check of the rules they may have reported
    another pace, in steps a second.
    """
    took = staged_parts.rhythm(per_second=2.0, p50_ms=450)
    begun = staged_parts.of_two_hosts(took=(200, 200), script=(0, 26), rhythms=(took, took))
    frames = sorted(begun, key=lambda each: each.at)
    paces = [(NOW + at, took) for at in range(3, seconds + 1, 3)]
    paces += [] if newer is None else [(NOW + seconds + 1, staged_parts.rhythm(per_second=newer, p50_ms=450))]
    for at, rhythm in paces:
        launches = 27 + round(2 * (at - NOW))
        for i in (0, 1):
            told = staged_parts.launched(at, launches, rhythm)
            frames.append(frame(agent_id(i), told, at, launches))
    return frames


def shown_late(frames, size):
    """The screen at the time of the last frame."""
    run = Staged(0)
    run.frames, run.at = frames, frames[-1].at
    return shown_at(run, size)


@pytest.mark.parametrize("newer", [None, 1.6], ids=["checked", "since the check"])
@pytest.mark.parametrize(
    "size", [(80, 24), thorough((120, 36)), thorough((120, 40)), thorough((200, 50)), (250, 80)]
)
def test_a_finding_and_the_panel_of_the_step_have_the_same_times(size, newer):
    shown = " ".join(shown_late(held_up(newer=newer), size).split())
    assert re.search("wait 300 ms of a 500 (since [0-9:]+ )?ms step", shown)
    assert re.search(r"█ compute 40% 200ms +█ waits for host 1 60% 300ms", shown)
    assert ("Where a step goes mean 500ms" in shown) == (size[0] >= 100)
    assert "270ms" not in shown  # that would be of the median


@pytest.mark.parametrize(
    ("frames", "has_parts"), [(held_up(), True), (LATE, False)], ids=["by its script", "in a collective"]
)
@pytest.mark.parametrize("size", [(60, 16), thorough((80, 24)), thorough((120, 40)), (200, 50)])
def test_the_share_that_a_straggler_costs_is_the_same_everywhere(frames, has_parts, size):
    shown = shown_late(frames, size)
    (share,) = re.findall(r"(\d+%) of each step is lost", shown)
    assert re.findall(r"waits for host 1 (\d+%)", shown) == [share] * has_parts
    assert shown.count(f"({share})") == (size != (60, 16))


def test_a_finding_says_what_follows_from_its_cost():
    """Of 30 s, 18 are lost."""
    shown = shown_late(held_up(33), (120, 40))
    assert re.search(r"costs +━+ +up to 2\.50× as fast without it, ~18s lost so far", shown)
    assert re.search(r"because +train\.py:54 load", shown) and "since 08:00:03" in shown
    assert "lost so far" not in shown_late(held_up(), (120, 40))


def test_a_finding_whose_sentence_has_no_share_says_it_below():
    finding = Finding(
        Severity.WARNING, 1.0, "host 1 is slow", cost=FindingCost(84.0, 0.5), rule="straggler", since=NOW
    )
    lines = [each.plain for each in finding_lines(finding, NOW + 60, ink_of(DARK, plain=True), 100, 6)]
    assert any("84 ms per step on average (50% of the time)" in each for each in lines)


@pytest.mark.parametrize("frames", [held_up(), LATE, working(90)], ids=["script", "late", "gpus"])
@pytest.mark.parametrize("size", [(120, 40), thorough((200, 50))])
def test_notes_about_input_and_machines_are_whole_words(frames, size):
    shown = shown_late(frames, size).splitlines()
    top = next(i for i, each in enumerate(shown) if "Input and machines" in each)
    start = shown[top].index("Input and machines") - 2
    panel_lines = []
    for each in shown[top + 1 :]:
        if each[start] == "╰":
            break
        panel_lines.append(each[start : each.index("│", start + 1)])
    words = "\n".join(panel_lines)
    assert panel_lines and "…" not in words
    bars = [re.search("[━╸]+", each)[0] for each in panel_lines if "%" in each]
    assert len({len(each) for each in bars}) == 1
    if frames is LATE:
        assert "of 16.0G on host 0" in words and "no wait for input" in words


def test_where_no_time_of_a_step_is_known_its_parts_over_time_are_columns_of_one_height():
    shown = shown_after(*LATE, keys=(), size=(120, 40))
    top = next(each for each in shown.splitlines() if "100%┤" in each)
    assert "█" in top or "▁" in top
    assert re.search(r"│ +0┤.*█", shown)


@pytest.mark.parametrize("size", [(120, 40), (300, 90)])
def test_the_mesh_of_a_single_device_has_its_memory_since_nothing_waits(size):
    frames = made_sessions.frames(made_sessions.Made(1, 1, seconds=60, has_trouble=False))
    shown = shown_late(frames, size)
    assert "Mesh  data 1 × model 1  memory used" in shown and "100%: 0us" not in shown
    assert "Where a step goes  n/a" not in shown


def test_a_click_on_a_panel_opens_the_screen_that_its_border_names():
    async def act(stage: Stage) -> None:
        for word, screen in (("╭ Mesh  ", "mesh"), ("╭ Memory  ", "memory"), ("Last hour", "events")):
            await stage.press("1")
            y, line = next((i, each) for i, each in enumerate(stage.text.splitlines()) if word in each)
            await stage.pilot.click(offset=(line.index(word), y + 1))
            await stage.paint()
            assert stage.screen_shown == f"screen-{screen}"

    play(act, *LATE)


def test_the_whole_frame_of_findings_has_the_colour_of_the_worst():
    async def act(stage: Stage) -> None:
        drawn = [strip for strip in stage.screen._compositor.render_strips() if "─" in strip.text][:3]
        colours = [next(each.style.color.name for each in strip if each.text[0] in "╭╰") for strip in drawn]
        assert colours[:2] == [DARK.bad] * 2 and colours[2] != DARK.bad

    play(act, *LATE)


def test_before_the_first_step_there_is_a_checklist():
    run = Staged()
    run.train(1)
    running = (wire.Compiling("train_step", int(run.at * 1000) - 41_000),)
    run.train(2, lambda index, at, _: builders.pulse(index, at, launches=0, compiling=running))
    shown = shown_at(run, (80, 24))
    assert re.search(r"✓ connected to 2 of 2 hosts", shown)
    assert re.search(r"▸ compiling train_step +for 4\ds", shown) and shown.count("compiling train_step") == 1
    assert "· first steps" in shown
    nothing = shown_after(keys=(), size=(80, 24))
    assert "waiting for a run" in nothing and "jaxtop run" in nothing


def test_the_parts_of_a_bar_and_of_columns_add_up_to_their_length():
    plain, ink = ink_of(DARK, plain=True), ink_of(DARK, plain=False)
    parts = [bars.BarPart(0.25, "#ff0000", "a"), bars.BarPart(0.5, "#00ff00", "b")]
    assert bars.bar_line(parts, 1.0, 8, plain).plain == "aabbbb··"
    assert bars.bar_line(parts, 0.75, 8, ink).plain == "██▋█████"
    assert bars.thin_bar(0.5, 5, "#ff0000", plain).plain == "━━╸··"
    drawn = bars.columns([(1.0, 1.0), None, (0.5, 0.25)], ("#ff0000", "#00ff00"), "ab", 2, plain)
    assert [line.plain for line in drawn] == ["b  ", "a a"]


def test_words_are_cut_between_words():
    assert wrapped("one two three four", 8, 2) == ["one two", "three …"]
    assert wrapped("one two", 8, 2) == ["one two"]


def test_rows_share_all_lines_and_panels_without_room_are_left_out():
    def one(least: int, wants: int, *, grows: bool = False) -> OverviewPanel:
        draw = [Text("x")]
        return OverviewPanel(
            Heading("x"), "mesh", lambda _: wants, lambda *_: draw, lambda _: draw, least, grows
        )

    found = {"anatomy": one(3, 5, grows=True), "mesh": one(2, 4), "memory": one(2, 2), "hosts": one(2, 9)}
    for height in range(20, 60):
        drawing = arrange.draw(found, ink_of(DARK, plain=True), 120, height)
        assert len(drawing.lines) == height
    assert arrange.draw(found, ink_of(DARK, plain=True), 80, 24).lines == [Text("x")] * 4


def test_in_few_lines_a_note_has_the_sign_of_a_note():
    run = Staged()
    run.train(30)
    for index in range(2):  # of which it is unknown what they hold up
        run.tell(index, wire.Activity(int(run.at * 1000), 20_000, (100, 0, 0, 0), gc_runs=60, gc_us=800_000))
    run.train(10)
    assert shown_at(run, (40, 10)).splitlines()[2].startswith(" · Garbage collection")


@pytest.mark.parametrize(
    ("frames", "word"), [(LATE, "Next step: "), (builders.well(), "Not checked: ")], ids=["late", "well"]
)
def test_the_keys_work_after_the_terminal_became_smaller(frames, word):
    async def act(stage: Stage) -> None:
        for size in ((60, 11), (120, 40), (40, 10)):
            await stage.pilot.resize_terminal(*size)
            await stage.paint()
            await stage.press("i")
            assert word in stage.text
            await stage.press("i")
            assert word not in stage.text
        if frames is LATE:
            await stage.press("enter")
            assert word in stage.text

    play(act, *frames, size=(80, 24))


def test_the_step_panel_of_a_run_that_hangs_ends_at_its_last_step():
    shown = shown_after(*stopped_steps(seen=60, hung=40), keys=(), size=(120, 40)).splitlines()
    top = next(i for i, line in enumerate(shown) if "p50 200ms" in line)
    assert "(40s ago)" in shown[top] and "last 1m" in shown[top]
    axis = next(i for i, line in enumerate(shown) if i > top and " now " in line)
    plot = [line[: shown[axis].index(" now ")] for line in shown[top + 1 : axis]]
    assert len(plot) >= 3
    for line in plot:
        inside = line.partition("│" if "┤" not in line else "┤")[2]
        assert not inside[len(inside) // 2 :].strip("⠀ ")
    assert any(line.strip("⠀ │┤") for line in plot)


def test_steps_before_the_viewer_came_are_not_plotted():
    shown = shown_after(*stopped_steps(seen=36, hung=155), keys=(), size=(120, 40)).splitlines()
    head = next(line for line in shown if "p50 200ms" in line)
    assert "(2m35s ago)" in head and " last " not in head
    assert not any("┤" in line for line in shown)
    assert any("no step has ended since this view began" in line for line in shown)
