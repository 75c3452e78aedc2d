"""A learner and its actors on the screens: one first line, groups, and the step of the learner."""

from __future__ import annotations

from msgspec.structs import replace

from jaxtop import wire
from jaxtop.wire import LinkState
from tests import builders
from tests.builders import NOW, frame
from tests.stage import Stage, play


def family(actors=2):
    frames = []
    for index in range(actors + 1):
        agent = f"{index}" * 16
        facts = {"agent": agent, "run": f"r{index}", "process_index": 0, "family": "f", "hostname": "node00"}
        if index:
            facts |= {"role": "actor", "is_role_guessed": True, "parent_pid": 1000}
        hello = builders.hello(0, 1, started_ms=int(NOW * 1000) + index, **facts)
        took = 3_000 if index else 100_000
        rhythm = wire.Rhythm(1, ("step",), 100, mean_us=took, samples=50, p50_us=took, milli_per_s=10_000)
        frames += [frame(agent, hello), frame(agent, replace(builders.pulse(0), rhythm=rhythm))]
    return frames


def test_the_first_line_names_the_groups_and_has_the_step_of_the_learner():
    async def act(stage: Stage) -> None:
        first = stage.text.splitlines()[0]
        assert "train: ~main, 2 × ~actor" in first and "3/3" in first
        assert "step 100ms" in first and "actor" not in first.partition("step")[2]

    play(act, *family(), size=(160, 45))


def test_the_overview_lists_the_processes_by_what_they_are_for():
    async def act(stage: Stage) -> None:
        lines = [line for line in stage.text.splitlines() if "actor 0" in line or "actor 1" in line]
        assert len(lines) == 2 and all("100ms" in line for line in lines), stage.text
        assert "3 of 3 live" in stage.text

    play(act, *family(), size=(160, 60))


def test_findings_and_events_say_of_which_run_they_are():
    lost = [frame("2" * 16, wire.Link(LinkState.DEAD, "10.0.0.0:7411"), NOW + 1)]
    seen = [frame(str(i) * 16, builders.pulse(0, NOW + s), NOW + s, s) for s in range(2, 20) for i in (0, 1)]

    async def act(stage: Stage) -> None:
        lines = [line for line in stage.text.splitlines() if "actor 1: " in line]
        assert any("Host lost" in line for line in lines) and len(lines) >= 2, lines

    play(act, *family(), *lost, *seen, size=(160, 60))


def test_hosts_have_a_column_and_a_filter_for_the_role():
    async def act(stage: Stage) -> None:
        await stage.press("3")
        assert stage.text.count("~actor") == 3 and "ROLE" in stage.text
        await stage.press("/", *"role~main", "enter")
        assert "1 of 3" in stage.text, stage.text

    play(act, *family(), size=(200, 45))
