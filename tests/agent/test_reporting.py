"""What the agent writes into the script's own runs: only when asked, and the script's own history stays."""

from __future__ import annotations

import json
import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest

from jaxtop import wire
from jaxtop.base.protobuf import read
from jaxtop_agent.core.board import Board, Topology
from jaxtop_agent.logged import wandb as wandb_file
from jaxtop_agent.logged.wandb import WandbFile
from jaxtop_agent.reporting import reporter as of_reporter
from jaxtop_agent.reporting.figures import Figures
from jaxtop_agent.reporting.reporter import TrackerReporter
from jaxtop_agent.service.identity import identify
from tests.real.trackers import needs_mlflow, needs_trackio, needs_wandb, quiet
from tests.support import PYTHON, environment, eventually, jaxtop, run, script

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.newest


@pytest.fixture
def board():
    board = Board(identify("test"))
    yield board
    board.stop()
    for wakeup in board.wakeups:
        wakeup.close()


# What a report has


def test_a_report_has_what_is_known_and_nothing_else(board):
    figures = Figures(board)
    assert figures.read() == ({"jaxtop/notes": 0.0}, ())
    spent = dict(zip(wire.SPENT_ON, [0] * 12, strict=True)) | {"starting": 2000, "stepping": 6000}
    board.ledger.latest = wire.Ledger(10_000, 0, tuple(spent.values()), steps=30)
    board.sampler.rhythm = wire.Rhythm(1, p50_us=200_000, milli_per_s=4_500)
    board.sampler.devices = wire.DeviceSample(
        used_bytes=(5, 7, None), peak_bytes=(8, 9, None), limit_bytes=(10, 10, 10)
    )
    assert figures.read().numbers == {
        "jaxtop/notes": 0.0,
        "jaxtop/time/starting": 0.25,
        "jaxtop/time/stepping": 0.75,
        "jaxtop/goodput": 0.75,
        "jaxtop/steps": 30.0,
        "jaxtop/step_p50_seconds": 0.2,
        "jaxtop/steps_per_second": 4.5,
        "jaxtop/memory_used_bytes": 7.0,
        "jaxtop/memory_peak_bytes": 9.0,
        "jaxtop/memory_free_bytes": 3.0,
    }
    spent |= {"stepping": 6500, "input": 1500}
    board.ledger.latest = wire.Ledger(12_000, 0, tuple(spent.values()), steps=31)
    found = figures.read().numbers
    assert {name: found[f"jaxtop/time/{name}"] for name in ("starting", "stepping", "input")} == {
        "starting": 0.0,
        "stepping": 0.25,
        "input": 0.75,
    }
    assert found["jaxtop/goodput"] == 0.65


def test_notes_say_what_is_wrong_with_the_process(board):
    board.publisher.is_stuck = True
    board.programs.recompiling = frozenset({"jit_f\x1b"})
    board.ledger.notable = (
        wire.Scalar("loss", 60, float("nan"), bad=9, bad_step=51),
        wire.Scalar("norm", 60, 9.0, rise=wire.Rise(40, 9.0, 41, 1.0, 2.0, 1.5)),
        wire.Scalar("params/w", 60, 1.0, nonfinite=0.0),
    )
    report = Figures(board).read()
    assert report.numbers["jaxtop/notes"] == 4.0 and report.text.isprintable()
    assert report.notes[0] == "nothing is launched for longer than usual"
    assert report.notes[1].endswith(" is compiled again and again")
    assert report.notes[2:] == (
        "loss is not finite since step 51",
        "norm is far above its usual values since step 40",
    )


# Who writes, and what a destination may do


class Made:
    """A destination that takes reports, fails, or does not answer."""

    name = "made"

    def __init__(self, answers: list[object]) -> None:
        self.answers, self.taken, self.goes_on = answers, 0, threading.Event()

    def write(self, _: object) -> bool:
        self.taken += 1
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        if answer == "waits":
            self.goes_on.wait(60)
        return bool(answer)


def topology(index: int) -> Topology:
    return Topology(index, 2, "cpu", (), None)


def reporting(board, made, monkeypatch) -> threading.Thread:
    monkeypatch.setattr(of_reporter, "EVERY_S", 0.01)
    thread = threading.Thread(target=TrackerReporter(board, [made]).run, daemon=True)
    thread.start()
    return thread


def test_only_process_0_reports(board, monkeypatch):
    board.sampler.topology = topology(1)
    made = Made([])
    reporting(board, made, monkeypatch).join(60)
    assert made.taken == 0 and not board.is_reporting
    assert board.sources["report to made"] == "waiting: process 0 reports"


def test_it_is_off_after_three_failures_in_a_row_and_says_why(board, monkeypatch):
    board.sampler.topology = topology(0)
    broken = OSError("no answer")
    made = Made([broken, broken, False, True, broken, broken, broken])
    reporting(board, made, monkeypatch).join(60)
    assert made.taken == 7 and not board.is_reporting
    assert board.sources["report to made"] == "off: no answer"


def test_at_most_one_report_a_minute_and_none_before_the_first(board):
    board.sampler.topology = topology(0)
    made = Made([])
    thread = threading.Thread(target=TrackerReporter(board, [made]).run, daemon=True)
    thread.start()
    eventually(lambda: board.is_reporting)
    for _ in range(5):
        board.wakeups.reports.set()
    board.stop()
    thread.join(60)
    assert made.taken == 0 and of_reporter.EVERY_S == 60.0


HANGS = """
import sys, time
import jax, jax.numpy as jnp
from jaxtop import agent
import jaxtop_agent.reporting.destinations as d
import jaxtop_agent.reporting.reporter as r

class Hangs:
    name = "wandb"
    def write(self, report):
        open("hangs", "w").close()
        time.sleep(600)

r.EVERY_S = 0.05
d.ToWandb = Hangs
agent.start(report_to="wandb")
step = jax.jit(lambda x: x + 1)
import os
x = jnp.ones(3)
while not os.path.exists("hangs"):
    x = step(x)
    time.sleep(0.01)
began = time.monotonic()
agent.stop()
print(time.monotonic() - began < 1.5, agent.status().state)
"""


@pytest.mark.jax
def test_neither_the_script_nor_its_end_waits_for_a_tracker_that_does_not_answer(tmp_path):
    done = run(PYTHON, script(tmp_path, HANGS), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True off\n", "")


ASKED = """
import sys, time
import jax, jax.numpy as jnp
from jaxtop import agent

if __name__ == "__main__":
    import jaxtop_agent
    handle = agent.start({arguments})
    jax.jit(lambda x: x + 1)(jnp.ones(3))
    end = time.monotonic() + 60
    while not handle.address and time.monotonic() < end:
        time.sleep(0.02)
    sources = jaxtop_agent._agent._board.sources
    print(sorted(each for each in sys.modules if each.startswith("jaxtop_agent.reporting")) != [])
    print({name: state for name, state in sources.items() if name.startswith("report")})
    print(*handle.ignored)
    print([each for each in ("wandb", "mlflow", "trackio") if each in sys.modules])
"""
WAITS = "waiting: the script has no run open"


@pytest.mark.jax
@pytest.mark.parametrize(
    ("arguments", "variable", "states", "ignored"),
    [
        ("", "", {}, ""),
        ("report_to='wandb'", "", {"report to wandb": WAITS}, ""),
        ("", "mlflow, wandb", {"report to mlflow": WAITS, "report to wandb": WAITS}, ""),
        (
            "report_to='wandbb'",
            "",
            {},
            "report_to='wandbb' is not one of wandb, mlflow, trackio; none is used",
        ),
        ("report_to='off'", "trackio", {}, ""),
    ],
)
def test_it_is_off_unless_asked_for_and_imports_no_tracker(tmp_path, arguments, variable, states, ignored):
    text = ASKED.replace("{arguments}", arguments)
    env = environment(1, JAXTOP_REPORT_TO=variable)
    done = run(PYTHON, script(tmp_path, text), cwd=tmp_path, env=env)
    assert done.stdout.splitlines() == [str(bool(states)), str(states), ignored, "[]"], done.stderr


# The real trackers

STARTS = """
import os, sys, time
import jax, jax.numpy as jnp

WITH = sys.argv[1] == "with"
if WITH:
    import jaxtop_agent
    import jaxtop_agent.reporting.reporter as r
    from jaxtop import agent

    r.EVERY_S = 0.1
    agent.start(report_to="{tracker}")

def until(seen):
    end = time.monotonic() + 120
    while WITH and not seen(jaxtop_agent._agent._board.sources):
        assert time.monotonic() < end
        time.sleep(0.01)

step = jax.jit(lambda x: x * 1.01)
x = jnp.ones(8)
"""

TO_WANDB = (
    STARTS
    + """
import wandb

run = wandb.init(project="p", mode="offline", dir=os.getcwd(), settings=wandb.Settings(silent=True))
for i in range(120):
    x = step(x)
    if i % 3 == 0:
        wandb.log({"loss": 1 / (i + 1)}, step=i, commit=False)
        time.sleep(0.02)
        wandb.log({"late": float(i)}, step=i)
    else:
        run.log({"loss": 1 / (i + 1), "nested": {"norm": float(i)}})
    if i == 60:
        until(lambda sources: sources.get("report to wandb") == "on")
        time.sleep(0.5)
run.summary["own"] = 7
wandb.finish()
until(lambda sources: sources["report to wandb"].startswith("waiting"))
"""
)


def wandb_run(folder: Path, monkeypatch) -> tuple[list[tuple[str, int, float]], dict[str, object], int]:
    """The history, the last values of the summary, and how many records of system metrics have ours."""
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    records: list[bytes] = []
    with monkeypatch.context() as patched:
        patched.setattr(wandb_file, "scalars_in", lambda record: records.append(record) or ())
        list(WandbFile(path).new_scalars())
    summary: dict[str, object] = {}
    times = 0
    for record in map(read, records):
        if (changed := record.message(3)) is not None:
            for item in changed.messages(1):
                name = item.text(1) or ".".join(item.texts(2))
                if not name.startswith("_"):
                    summary[name] = json.loads(item.text(16))
        if (measured := record.message(7)) is not None:
            times += "jaxtop/goodput" in {item.text(1) for item in measured.messages(3)}
    history = sorted(each[:3] for each in WandbFile(path).new_scalars())  # a row has no order
    return history, summary, times


def both_ways(tmp_path, text):
    """Run a script without and with reports; yield which, its folder, and how it ended."""
    path = script(tmp_path, text)
    for way in ("without", "with"):
        folder = tmp_path / way
        folder.mkdir()
        done = run(PYTHON, path, way, cwd=folder, env=quiet(folder))
        assert done.returncode == 0, done.stderr
        yield way, folder, done


@pytest.mark.jax
@needs_wandb
def test_the_history_of_a_run_of_wandb_is_the_same_and_its_summary_has_the_figures(tmp_path, monkeypatch):
    found = {}
    for way, folder, done in both_ways(tmp_path, TO_WANDB.replace("{tracker}", "wandb")):
        found[way] = (*wandb_run(folder, monkeypatch), done.stdout, done.stderr)
    history, summary, times, *words = found["with"]
    plain_history, plain_summary, plain_times, *plain_words = found["without"]
    assert history == plain_history and len(history) > 150 and words == plain_words
    ours = {name: value for name, value in summary.items() if name.startswith("jaxtop/")}
    assert {name: value for name, value in summary.items() if name not in ours} == plain_summary
    assert 0 < ours["jaxtop/goodput"] < 1 and ours["jaxtop/steps"] > 3 and ours["jaxtop/notes_text"] == ""
    assert times >= 1 and plain_times == 0


TO_MLFLOW = (
    STARTS
    + """
import mlflow

mlflow.set_tracking_uri("sqlite:///runs.db")
with mlflow.start_run() as run:
    for i in range(30):
        x = step(x)
        mlflow.log_metric("loss", float("nan") if i > 3 else 1 / (i + 1), step=i, timestamp=1_700_000_000_000)
        if i == 20:
            until(lambda sources: sources.get("report to mlflow") == "on")
            time.sleep(3.0)   # the ledger looks every two seconds
    mlflow.log_param("layers", 3)
until(lambda sources: sources["report to mlflow"].startswith("waiting"))
print(mlflow.MlflowClient().get_run(run.info.run_id).info.status)
"""
)


@pytest.mark.jax
@needs_mlflow
def test_a_run_of_mlflow_has_the_figures_beside_its_own_metrics(tmp_path):
    found = {}
    for way, folder, done in both_ways(tmp_path, TO_MLFLOW.replace("{tracker}", "mlflow")):
        assert done.stdout == "FINISHED\n"
        with sqlite3.connect(folder / "runs.db") as base:
            found[way] = [
                base.execute(f"select {what}").fetchall()
                for what in (
                    "key, step, value, is_nan from metrics where key not like 'jaxtop/%' order by 1, 2",
                    "key, value from params",
                    "key, count(*) from metrics where key like 'jaxtop/%' group by key",
                    "key, value from tags where key like 'jaxtop%'",
                    "distinct step from metrics where key like 'jaxtop/%'",
                )
            ]
    assert found["with"][:2] == found["without"][:2] and len(found["with"][0]) == 30
    assert found["without"][2:] == [[], [], []]
    assert {"jaxtop/goodput", "jaxtop/steps", "jaxtop/notes"} <= {name for name, _ in found["with"][2]}
    assert found["with"][3] == [("jaxtop/notes_text", "loss is not finite since step 4")]
    assert (20,) in found["with"][4]


TO_TRACKIO = (
    STARTS
    + """
import trackio

trackio.init(project="p", name="first")
for i in range(30):
    x = step(x)
    trackio.log({"loss": 1 / (i + 1)}) if i % 2 else trackio.log({"loss": 1 / (i + 1)}, step=i)
    if i == 20:
        until(lambda sources: sources.get("report to trackio") == "on")
trackio.finish()
until(lambda sources: sources["report to trackio"].startswith("waiting"))
"""
)


@pytest.mark.jax
@needs_trackio
def test_a_run_of_trackio_has_the_figures_as_system_metrics(tmp_path):
    found = {}
    for way, folder, done in both_ways(tmp_path, TO_TRACKIO.replace("{tracker}", "trackio")):
        (base,) = (folder / "trackio").glob("*.db")
        with sqlite3.connect(base) as opened:
            found[way] = (
                opened.execute("select step, metrics from metrics order by id").fetchall(),
                [json.loads(each) for (each,) in opened.execute("select metrics from system_metrics")],
                done.stdout.replace(str(folder), ""),
            )
    history, ours, words = found["with"]
    assert history == found["without"][0] and len(history) == 30 and words == found["without"][2]
    assert found["without"][1] == []
    assert ours and all(0 <= each["jaxtop/goodput"] <= 1 for each in ours)


@pytest.mark.jax
@needs_wandb
def test_the_variable_works_under_jaxtop_run_too(tmp_path, monkeypatch):
    text = TO_WANDB.replace("WITH = sys.argv[1]", "import jaxtop_agent\nWITH = sys.argv[1]").replace(
        'agent.start(report_to="{tracker}")', "pass"
    )
    env = quiet(tmp_path, JAXTOP_REPORT_TO="wandb")
    done = jaxtop("run", script(tmp_path, text), "with", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "jaxtop/goodput" in wandb_run(tmp_path, monkeypatch)[1]
