"""The screen of plans, as a person uses it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxtop.features.planning import pane as draw
from jaxtop.features.planning.columns import PlanRow, columns
from jaxtop.features.planning.frontier import frontier
from jaxtop.features.planning.model import sentences
from jaxtop.features.planning.model.plan import Candidate, Goal, Interval, Plan, ShardingRule
from jaxtop.tui.core.palette import DARK
from jaxtop.tui.draw.ink import ink_of
from jaxtop.tui.playback import Start
from tests import builders
from tests.cases import thorough
from tests.features.planning import staged_plan
from tests.played.reels import LONG, Reel, session
from tests.stage import Stage, line, play

GIB = 1 << 30
INK = ink_of(DARK, plain=True)


def candidate(memory=None, step=None, **more) -> Candidate:
    defaults = {
        "axes": (("data", 2),),
        "is_today": False,
        "fits": None,
        "state_bytes_per_device": GIB,
        "memory_bytes": memory and Interval(*memory),
        "step_ms": step and Interval(*step),
        "communication_ms": {},
        "changes": (),
        "assumptions": (),
    }
    return Candidate(**{**defaults, **more})


def plan_of(*candidates, limit=None, **more) -> Plan:
    return Plan("r1", Goal.THROUGHPUT, limit, candidates, (), {}, **more)


def seen(*keys, frames=None, size=(160, 40), **more) -> str:
    shown: list[str] = []

    async def act(stage: Stage) -> None:
        await stage.press("W", *keys)
        shown.append(stage.text)

    play(act, *(staged_plan.measured() if frames is None else frames), size=size, **more)
    return shown[0]


def rows_of(shown) -> list[str]:
    """The lines of candidates, without the line of facts above them."""
    return [each for each in shown.splitlines() if "× model" in each and "mesh" not in each]


def test_memory_against_time_has_today_the_cursor_the_limit_and_the_best():
    plan = staged_plan.plan()
    other = plan.candidates[2]
    picture = [each.plain for each in frontier(plan, (other.axes, other.rules), INK, 100, 20)]
    assert "Memory against time  limit 24.0G" in picture[0] and len(picture) == 20
    points = "".join(picture[1:-3])
    assert points.count("○") == points.count("◆") == 1 and points.count("╎") > 10
    assert any("⠀" < dots <= "⣿" for dots in points) and "24.0G" in line("└", "\n".join(picture[:-1]))


def test_without_times_the_frontier_is_not_drawn():
    shown = frontier(plan_of(candidate(memory=(GIB, GIB))), None, INK, 100, 20)
    assert "for no candidate both memory and time are known" in shown[1].plain


def drawn(segments) -> str:
    return "".join(text for text, _, _ in segments)


class TestBars:
    def test_memory_is_drawn_against_the_limit(self):
        sure, over = candidate((2, 4)), candidate((6, 12))
        scale = draw.scales(plan_of(sure, over, limit=8))
        assert drawn(draw.memory_bar(sure.memory_bytes, scale, 12, DARK.good, DARK)) == "██▒▒    │   "
        assert drawn(draw.memory_bar(over.memory_bytes, scale, 12, DARK.good, DARK)) == "██████▒▒│▒▒▒"

    def test_without_a_limit_it_is_drawn_against_the_most(self):
        sure, over = candidate((2, 4)), candidate((6, 12))
        scale = draw.scales(plan_of(sure, over))
        assert drawn(draw.memory_bar(sure.memory_bytes, scale, 12, DARK.good, DARK)) == "██▒▒        "
        titles = [each.title for each in columns(120, has_limit=False)]
        assert "of the largest" in titles and "of the limit" not in titles

    def test_a_step_is_drawn_beside_todays(self):
        today, other, same = (
            candidate(step=(4, 6), is_today=True),
            candidate(step=(8, 10)),
            candidate(step=(5, 5)),
        )
        scale = draw.scales(plan_of(today, other, same))
        bars = [drawn(draw.step_bar(each.step_ms, scale, 11, DARK)) for each in (today, other, same)]
        assert bars == ["    ━━┿━   ", "      │  ━━", "      ◆    "]

    def test_unknown_is_not_drawn(self):
        scale = draw.scales(plan_of(candidate()))
        assert drawn(draw.memory_bar(None, scale, 12, DARK.good, DARK)) == "n/a"
        assert drawn(draw.step_bar(None, scale, 12, DARK)) == "n/a"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ("3.1G", "3.6G", "3.1–3.6G"),
        ("987M", "1.2G", "987M–1.2G"),
        ("12.1ms", "15.3ms", "12.1–15.3ms"),
        ("12 ms", "15 ms", "12–15 ms"),
        ("0B", "0B", "0B"),
    ],
)
def test_an_interval_has_its_unit_once(low, high, expected):
    assert sentences.between(low, high) == expected


def test_figures_sort_by_their_middle_and_unknown_ones_come_last():
    plan = plan_of(candidate(step=(1, 9)), candidate(step=(4, 5)), candidate())
    rows = [PlanRow(each, plan, draw.scales(plan)) for each in plan.candidates]
    step = next(each for each in columns(120) if each.key == "step")
    assert [step.read(row) for row in rows] == [5, 4.5, None]
    assert [step.write(row) for row in rows] == ["1.0–9.0ms", "4.0–5.0ms", "n/a"]


def test_fits_says_how_sure_it_is():
    plan = plan_of(candidate(), limit=GIB)
    found = [sentences.fits(candidate((1, 2), fits=fits), plan) for fits in (True, False, None)]
    assert [*found, sentences.fits(candidate(), plan)] == ["yes", "no", "perhaps", "n/a"]


def test_the_pane_cuts_changes_before_moves():
    many = candidate(changes=tuple(f"change {i}" for i in range(20)))
    lines = [each.plain for each in draw.below(many, plan_of(many), INK, 6)]
    assert lines == ["Changes", *(f"  change {i}" for i in range(4)), "  and 16 more lines: press Enter"]


class TestScreen:
    def test_candidates_come_with_todays_layout_first(self):
        shown = seen()
        rows = rows_of(shown)
        assert "data 2 × model 4 (today)" in rows[0]
        assert "for throughput, by the mid-range step time  limit 24.0G  prediction error" in shown
        today = rows[0].split()
        assert "100%" in today and "14.0G" in today and "yes" in today
        assert "██" in rows[0] and "│" in rows[0]
        assert "nothing changes: this is today's layout" in shown

    def test_enter_shows_where_figures_come_from_and_escape_goes_back(self):
        async def act(stage: Stage) -> None:
            await stage.press("W", "enter")
            assert "Where the figures of data 2 × model 4 (today) come from" in stage.text
            assert "state 1.5 GiB" in stage.text and "Assumptions" in stage.text
            assert "overlap of computing and communication to none; no interval of confidence" in stage.text
            await stage.press("G")
            assert "state.opt_state[0].mu['w']" in stage.text
            await stage.press("escape")
            assert "Where the figures" not in stage.text and "(today)" in stage.text

        play(act, *staged_plan.measured(), size=(160, 30))

    def test_m_sorts_by_the_next_goal(self):
        assert "for latency, by the upper bound" in seen("m")
        assert "for energy, by the energy" in seen("m", "m")
        assert "for throughput, " in seen("m", "m", "m")

    def test_it_sorts_by_columns_and_filters(self):
        by_mesh = rows_of(seen("full_stop"))
        assert by_mesh == sorted(by_mesh, key=lambda row: row[2:30])
        shown = seen("slash", *"(today)", "enter")
        assert len(rows_of(shown)) == 1

    @pytest.mark.parametrize("size", [(60, 16), thorough((80, 24)), (250, 80)])
    def test_the_mesh_and_its_memory_are_shown_at_every_size(self, size):
        row = line("(today)", seen(size=size))
        assert "14.0G" in row

    def test_where_it_has_no_room_it_says_so(self):
        assert "jaxtop needs at least 60×16 characters" in seen(size=(40, 10))

    @pytest.mark.parametrize(
        ("frames", "why"),
        [
            ([], "no plan yet: no process has reported"),
            (builders.well(), "no named array of train lies on a mesh; place its state with a NamedSharding"),
        ],
    )
    def test_what_is_missing_is_said(self, frames, why):
        assert why in seen(frames=frames)

    def test_missing_programs_and_steps_are_said_below(self):
        shown = seen(frames=builders.training())
        assert "Unknown" in shown and "no process reports a repeating step" in shown
        assert "n/a" in line("(tod", shown)

    def test_a_replay_has_plans(self):
        shown = seen(
            frames=(), history=Reel(*session(start=builders.NOW - LONG)), replay=Start(is_playing=False)
        )
        assert "no plan" in shown or "(today)" in shown

    def test_an_unchanged_run_is_planned_once(self):
        async def act(stage: Stage) -> None:
            await stage.press("W")
            first = stage.view_shown._plan
            assert first is not None
            await stage.press("j")
            stage.clock.now += 5
            await stage.paint()
            assert stage.view_shown._plan is first
            stage.clock.now += 20
            stage.view_shown._not_before = 0.0
            await stage.paint()
            assert stage.view_shown._plan is not first

        play(act, *staged_plan.measured())

    def test_untrusted_names_cannot_control_the_terminal(self):
        bad = candidate(
            (1, 2),
            axes=(("a\x1b[31m", 2),),
            changes=("x\x1b]0;y\x07",),
            rules=(ShardingRule("\x1b[2J", "a"),),
        )
        plan = plan_of(bad, notes=("\x1b[0m",))
        written = [*draw.below(bad, plan, INK, 20), draw.explained(bad, plan, INK, 80)]
        assert all("\x1b" not in each.plain and "\x07" not in each.plain for each in written)


def test_a_plan_is_shown_with_its_goal_and_errors():
    told = replace(plan_of(candidate()), error_of_today={"step": -0.083})
    assert draw.summary(told, INK, is_planning=True).plain.endswith("prediction error step 8%  planning…")
