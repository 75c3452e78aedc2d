"""Settings of the agent with values that cannot be used: they are seen, and change nothing else."""

from __future__ import annotations

import json

import pytest

from jaxtop_agent.core import settings
from tests.support import PYTHON, environment, jaxtop, run, script

UNSET = {
    "interval": 1.0,
    "collectives": "auto",
    "record_minutes": 10,
    "peak_flops": None,
    "simulated_limit": None,
    "is_on": True,
    "read_only": False,
    "report_to": (),
}


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    for name in (
        "",
        "_INTERVAL",
        "_COLLECTIVES",
        "_RECORD_MINUTES",
        "_PEAK_FLOPS",
        "_SIMULATED_LIMIT",
        "_READONLY",
        "_RECORD",
        "_REPORT_TO",
    ):
        monkeypatch.delenv(f"JAXTOP{name}", raising=False)


@pytest.mark.parametrize(
    ("variable", "value", "used", "why"),
    [
        ("JAXTOP_INTERVAL", "abc", {"interval": 1.0}, "'abc' is not a number; 1 is used"),
        ("JAXTOP_INTERVAL", "nan", {"interval": 1.0}, "'nan' is not a number; 1 is used"),
        ("JAXTOP_INTERVAL", "0.001", {"interval": 0.1}, "'0.001' is not between 0.1 and 60; 0.1 is used"),
        ("JAXTOP_INTERVAL", "inf", {"interval": 60.0}, "'inf' is not between 0.1 and 60; 60 is used"),
        (
            "JAXTOP_COLLECTIVES",
            "sometimes",
            {"collectives": "auto"},
            "'sometimes' is not one of auto, sampled, on request, off; auto is used",
        ),
        ("JAXTOP_RECORD_MINUTES", "ten", {"record_minutes": 10}, "'ten' is not a number; 10 is used"),
        ("JAXTOP_RECORD_MINUTES", "inf", {"record_minutes": 1_000_000}, "1e+06 is used"),
        ("JAXTOP_RECORD_MINUTES", "-1", {"record_minutes": 0}, "0 is used"),
        ("JAXTOP_PEAK_FLOPS", "1 PF", {"peak_flops": None}, "'1 PF' is not a number; none is used"),
        ("JAXTOP_PEAK_FLOPS", "1e30", {"peak_flops": None}, "none is used"),
        ("JAXTOP", "maybe", {"is_on": True}, "'maybe' is neither 1 nor 0; 1 is used"),
        ("JAXTOP_READONLY", "maybe", {"read_only": True}, "'maybe' is neither 1 nor 0; 1 is used"),
        (
            "JAXTOP_REPORT_TO",
            "wandbb",
            {"report_to": ()},
            "'wandbb' is not one of wandb, mlflow, trackio; none is used",
        ),
        (
            "JAXTOP_REPORT_TO",
            "wandb,tensorboard",
            {"report_to": ("wandb",)},
            "'wandb,tensorboard' is not one of wandb, mlflow, trackio; wandb is used",
        ),
        ("JAXTOP_INTERVAL", "x\x1b[31m" * 99, {"interval": 1.0}, "is not a number; 1 is used"),
    ],
)
def test_a_value_that_cannot_be_used_is_noted_and_counts_as_missing(monkeypatch, variable, value, used, why):
    monkeypatch.setenv(variable, value)
    found = settings.read()
    assert {name: getattr(found, name) for name in UNSET} == UNSET | used
    (note,) = found.ignored
    assert note.startswith(f"{variable}=") and note.endswith(why) and note.isprintable() and len(note) < 150
    assert found.sources == {"settings": f"ignored: {note}"}


@pytest.mark.parametrize(
    ("variables", "used"),
    [
        ({}, {}),
        ({"JAXTOP_INTERVAL": "2.5", "JAXTOP": "", "JAXTOP_READONLY": ""}, {"interval": 2.5}),
        ({"JAXTOP_COLLECTIVES": " On Request "}, {"collectives": "on request"}),
        ({"JAXTOP": "Off", "JAXTOP_READONLY": "no"}, {"is_on": False}),
        ({"JAXTOP_SIMULATED_LIMIT": "67108864"}, {"simulated_limit": 1 << 26}),
        ({"JAXTOP_READONLY": "1", "JAXTOP_PEAK_FLOPS": "1e15"}, {"read_only": True, "peak_flops": 10**15}),
        ({"JAXTOP_RECORD_MINUTES": "0"}, {"record_minutes": 0}),
        ({"JAXTOP_REPORT_TO": " MLflow,wandb,"}, {"report_to": ("mlflow", "wandb")}),
        ({"JAXTOP_REPORT_TO": "off"}, {"report_to": ()}),
    ],
)
def test_a_good_value_is_taken_without_a_note(monkeypatch, variables, used):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = settings.read()
    assert {name: getattr(found, name) for name in UNSET} == UNSET | used
    assert found.ignored == () and found.sources == {}


def test_arguments_precede_variables_and_are_noted_alike(monkeypatch):
    monkeypatch.setenv("JAXTOP_INTERVAL", "abc")
    assert settings.read(interval=2).ignored == ()
    assert settings.read(interval="often", collectives="x").ignored == (
        "interval='often' is not a number; 1 is used",
        "collectives='x' is not one of auto, sampled, on request, off; auto is used",
    )


def test_it_is_seen_in_the_process_the_debug_log_the_commands_and_the_findings(tmp_path):
    """And the script sees nothing of it."""
    path = script(
        tmp_path,
        "import time\n"
        "from jaxtop import agent\n"
        "import jax\n"
        "agent.start()\n"
        "jax.devices()\n"
        "for _ in range(600):\n"
        "    if agent.status().state == 'serves': break\n"
        "    time.sleep(0.1)\n"
        "print(agent.status().ignored)\n"
        "print(agent.status())\n"
        "import subprocess, sys\n"
        "for words in (['doctor'], ['check', '--json', '--wait', '6', agent.status().address]):\n"
        "    words = [sys.executable, '-m', 'jaxtop', *words]\n"
        "    done = subprocess.run(words, capture_output=True, text=True)\n"
        "    open(words[3], 'w').write(done.stdout)\n",
    )
    note = "JAXTOP_INTERVAL='abc' is not a number; 1 is used"
    env = environment(1, JAXTOP_INTERVAL="abc", JAXTOP_DEBUG="debug.log", HOME=str(tmp_path))
    done = run(PYTHON, path, env=env, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    ignored, shown = done.stdout.splitlines()
    assert ignored == repr((note,)) and f"({note})" in shown and "serves" in shown
    assert f"settings warning: {note}" in (tmp_path / "debug.log").read_text()
    seen = [line.split(maxsplit=1) for line in (tmp_path / "doctor").read_text().splitlines()]
    assert sum(rest.endswith(note) and verdict == "note" for verdict, rest in seen) == 2, seen
    findings = json.loads((tmp_path / "check").read_text())["findings"]
    assert note in [each["text"] for each in findings if each["rule"] == "setting_ignored"]


def test_run_warns_and_runs_the_script(tmp_path):
    path = script(tmp_path, "print('done')\n")
    done = jaxtop("run", path, env=environment(1, JAXTOP_INTERVAL="abc"))
    assert (done.returncode, done.stdout) == (0, "done\n")
    said = "jaxtop: JAXTOP_INTERVAL='abc' is not a number; 1 is used; the script runs all the same\n"
    assert done.stderr == said
    done = jaxtop("run", "--interval", "2", path, env=environment(1, JAXTOP_INTERVAL="abc"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
