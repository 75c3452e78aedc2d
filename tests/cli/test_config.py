"""`config.toml`: what it sets, what precedes it, and how mistakes are reported."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jaxtop import cli
from jaxtop.base import keys
from jaxtop.cli import run as run_command
from jaxtop.cli import settings
from jaxtop.cli.live import rewind
from jaxtop.model import RULES, Cluster, Mute, Tuning, reported_findings, runs
from jaxtop.model.collectives import collective_views
from jaxtop.model.findings.reducer import MUTED
from jaxtop.model.findings.rule import RunFacts
from jaxtop.model.findings.rules import garbage, stragglers
from jaxtop.model.tuning import Number
from tests.builders import NOW, two_processes
from tests.model.test_findings_time import of_late_host
from tests.played.recordings import recorded
from tests.staged import collectives as staged_collectives
from tests.support import is_one_line, jaxtop_here

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Write the file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def write(text: str | bytes) -> None:
        path = keys.config_dir() / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return write


@pytest.mark.usefixtures("config")
def test_without_a_file_everything_is_as_declared():
    loaded = settings.load()
    assert loaded.values == {} and loaded.tuning == Tuning()
    assert stragglers.CRITICAL_SHARE.default == loaded.tuning.value("straggler", stragglers.CRITICAL_SHARE)


def test_the_file_sets_numbers_mutes_and_alerts(config):
    config("""
        [thresholds]
        gc_pauses = 0.1
        [rules.straggler]
        critical_share = 0.5
        holds_for = 30
        [findings]
        mute = ["clock_offset", {rule = "host_lost", run = "train"}]
        [alerts]
        webhook = "https://example.org/secret"
    """)
    loaded = settings.load()
    assert loaded.tuning.value("straggler", stragglers.CRITICAL_SHARE) == 0.5
    assert loaded.tuning.holds_for("straggler", 0.0) == 30
    assert loaded.tuning.value("gc_pauses", garbage.NOTE_SHARE) == 0.1
    assert loaded.tuning.mutes == {Mute("clock_offset"), Mute("host_lost", "train")}
    assert loaded.get("alerts.webhook") == "https://example.org/secret"


def test_each_number_of_a_rule_is_read():
    """Some code of the model beside the declaration of the rule reads it, and so by the name of the rule."""
    package = Path(settings.__file__).parents[1]
    paths = (path for path in (package / "model").rglob("*.py") if path.stem != "__init__")
    read = {number for path in paths for number in _numbers_read(path, package)}
    assert {number for rule in RULES for number in rule.numbers} - read == set()


def _numbers_read(path: Path, package: Path) -> Iterator[Number]:
    module = import_module(".".join(["jaxtop", *path.relative_to(package).with_suffix("").parts]))
    tree = ast.parse(path.read_text())
    declared = [each for each in ast.walk(tree) if isinstance(each, ast.keyword) and each.arg == "numbers"]
    names = _names(tree) - Counter(name for each in declared for name in _names(each))
    return (found for name in names if isinstance(found := getattr(module, name, None), Number))


def _names(node: ast.AST) -> Counter[str]:
    found = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return Counter(each.id for each in found if isinstance(each.ctx, ast.Load))


def test_how_late_a_straggler_is_at_least_can_be_set():
    silent = set()
    for key in ("collective_ms", "collective_ms_on_cpu", "critical_share"):
        cluster = Cluster(tuning=Tuning({("straggler", key): 10_000.0}))
        for each in staged_collectives.late():
            cluster.feed(each)
        if not any(each.straggler for each in collective_views(cluster, NOW)):
            silent.add(key)
    assert silent == {"collective_ms_on_cpu"}
    slow = of_late_host()
    assert RunFacts(slow, runs(slow, NOW + 11)[0], NOW + 11).late_scripts
    slow.tuning = Tuning({("straggler", "script_ms"): 10_000.0})
    assert not RunFacts(slow, runs(slow, NOW + 11)[0], NOW + 11).late_scripts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[alerts]\nwebook = 'x'", "unknown setting alerts.webook; did you mean alerts.webhook?"),
        ("[rules.stragler]\ncritical_share = 1", "did you mean rules.straggler.critical_share?"),
        (
            "[thresholds]\nstragler = 1",
            "thresholds.stragler; did you mean thresholds.straggler?",
        ),
        ("[thresholds]\nstraggler = 'x'", "thresholds.straggler must be a number from 0"),
        ("thresholds.gc_pauses = 1\nrules.gc_pauses.share = 2", "are the same setting"),
        ("rewind = '1G'", "did you mean view.rewind?"),
        ("[view]\nrewind = '1k'", "view.rewind must be a size of at least 1 MiB"),
        ("[alerts]\nseverity = 'bad'", "alerts.severity must be one of critical, warning"),
        ("[rules.straggler]\ncritical_share = true", "must be a number"),
        ("[findings]\nmute = ['stragler']", "names the unknown rule stragler; did you mean straggler?"),
        ("[findings]\nmute = 'straggler'", "must be a list"),
        ("[findings]\nmute = [{run = 'x'}]", "neither the name of a rule"),
        ("[alerts\n", "line 1"),
        ("a = 1\nb =\n", "line 2"),
        (b"a = 1\nb = '\xff'", "line 2 is not UTF-8"),
    ],
)
def test_a_mistake_is_one_line_that_says_where(config, text, said):
    config(text)
    for command in (["config"], ["snapshot", "nobody"], ["check", "nobody"]):
        done = jaxtop_here(*command)
        assert done.returncode in (2, 3) and is_one_line(done.stderr), done.stderr
        assert "config.toml: " in done.stderr and said in done.stderr


def test_the_command_line_precedes_the_environment_and_that_the_file(config, monkeypatch):
    monkeypatch.delenv("JAXTOP_REWIND", raising=False)
    config("[view]\nrewind = '3M'\n")
    configured = settings.load().get("view.rewind")
    assert rewind.size_of(None, configured) == 3 << 20
    monkeypatch.setenv("JAXTOP_REWIND", "4M")
    assert rewind.size_of(None, configured) == 4 << 20
    assert rewind.size_of("5M", configured) == 5 << 20
    assert settings.load().get("view.rewind") is None


def test_the_command_config_shows_each_setting_with_its_origin(config, monkeypatch):
    monkeypatch.setenv("JAXTOP_INTERVAL", "2")
    config("[alerts]\nwebhook = 'https://example.org/secret'\n[findings]\nmute = ['straggler']\n")
    shown = {each["setting"]: each for each in json.loads(jaxtop_here("config", "--json").stdout)["settings"]}
    assert set(settings.SETTINGS) <= set(shown)
    assert (shown["run.interval"]["value"], shown["run.interval"]["origin"]) == ("2", "JAXTOP_INTERVAL")
    assert (shown["findings.mute"]["value"], shown["findings.mute"]["origin"]) == ("straggler", "file")
    assert shown["view.rewind"]["origin"] == "default"
    assert shown["alerts.webhook"]["value"] == "https://example.org/…"  # the rest is a password
    text = jaxtop_here("config").stdout
    assert "secret" not in text and text.startswith("file: ") and "rules.straggler.critical_share" in text


def test_a_muted_rule_is_not_checked_and_its_findings_are_gone(tmp_path, config):
    path = recorded(tmp_path / "a.mcap", two_processes(died_at=20))
    assert jaxtop_here("check", path).returncode == 2
    for mute in ("'host_lost'", "{rule = 'host_lost', run = 'train'}", "{rule = 'host_lost', run = 'r1'}"):
        config(f"[findings]\nmute = [{mute}]\n")
        done = jaxtop_here("check", path, "--json")
        document = json.loads(done.stdout)
        assert "host_lost" not in {each["rule"] for each in document["findings"]}
        assert {"run": "r1", "rule": "host_lost", "reason": MUTED} in document["unchecked"]
    config("[findings]\nmute = [{rule = 'host_lost', run = 'another'}]\n")
    assert jaxtop_here("check", path).returncode == 2


def test_a_rule_holds_for_as_long_as_the_user_says():
    def cluster(tuning: Tuning) -> Cluster:
        cluster = Cluster(tuning=tuning)
        for each in two_processes(died_at=10):
            cluster.feed(each)
        return cluster

    assert reported_findings(cluster(Tuning()))
    assert not reported_findings(cluster(Tuning({("host_lost", "holds_for"): 60.0})))
    copied = cluster(Tuning({("host_lost", "holds_for"): 60.0})).frozen()
    copied.check(NOW + 90)
    assert reported_findings(copied)[0].rule == "host_lost"


def test_each_number_of_a_rule_can_be_set():
    for rule in RULES:
        for number in rule.numbers:
            setting = settings.SETTINGS[f"rules.{rule.name}.{number.name}"]
            assert setting.parse(number.default) == number.default and number.meaning


def leave(*_):
    """Stand in for os.execve, which does not return."""
    raise KeyboardInterrupt


def test_run_takes_the_file_unless_the_environment_or_the_command_line_precedes_it(config, monkeypatch):
    given = []
    monkeypatch.setattr(os, "execve", leave)
    monkeypatch.setattr(run_command, "boot_environment", lambda _, settings: given.append(settings) or {})
    monkeypatch.setattr(sys, "orig_argv", ["python"])
    monkeypatch.delenv("JAXTOP_INTERVAL", raising=False)
    config("[run]\ninterval = 5\n")
    cli.main(["run", "-c", "pass"])
    cli.main(["run", "--interval", "3", "-c", "pass"])
    monkeypatch.setenv("JAXTOP_INTERVAL", "2")
    cli.main(["run", "-c", "pass"])
    assert [each["interval"] for each in given] == [5.0, 3.0, None]


def test_a_broken_file_does_not_keep_a_script_from_running(config, monkeypatch, capsys):
    monkeypatch.setattr(os, "execve", leave)
    config("[run\n")
    cli.main(["run", "-c", "pass"])
    assert "line 1" in capsys.readouterr().err
