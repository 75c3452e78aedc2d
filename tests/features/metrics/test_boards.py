"""Dashboards and alert rules: what Grafana imports, and what Prometheus's own tool says of them."""

from __future__ import annotations

import copy
import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from jaxtop import cli
from jaxtop.export.metrics import METRICS, SERIES, sample_name
from jaxtop.features.metrics import alert_rules
from jaxtop.features.metrics.boards import BOARDS
from jaxtop.model import RULES, Severity
from jaxtop.model.findings.advice import advice_of_rule
from tests.features.metrics.prometheus import chosen, imported, promtool, with_promtool
from tests.pages import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import Rule

COLUMNS = 24


def queries(name: str) -> list[str]:
    return [target["expr"] for panel in imported(name)["panels"] for target in panel.get("targets", ())]


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_has_its_own_id_and_panels_that_do_not_overlap(name):
    board = imported(name)
    assert board["uid"] == f"jaxtop-{name}"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_asks_the_data_source_that_is_chosen_above_it(name):
    board = imported(name)
    [source] = [each for each in board["templating"]["list"] if each["type"] == "datasource"]
    assert source["query"] == "prometheus"
    for panel in board["panels"]:
        for asked in [panel, *panel.get("targets", ())] if panel["type"] != "row" else ():
            assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def through_grafana(board: dict) -> dict:
    """A board as Grafana's own model has it after it read it: fields that it does not have are lost."""
    register_default_plugins()
    return json.loads(JSONEncoder().encode(Dashboard.from_json(copy.deepcopy(board))))


def lost(given: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield where the model has another value than was given."""
    if isinstance(given, dict) and isinstance(found, dict):
        for key, value in given.items():
            yield from lost(value, found.get(key), f"{path}.{key}")
    elif isinstance(given, list) and isinstance(found, list) and len(given) == len(found):
        for number, (one, other) in enumerate(zip(given, found, strict=True)):
            yield from lost(one, other, f"{path}[{number}]")
    elif given != found:
        yield path


@pytest.mark.parametrize("name", BOARDS)
def test_grafana_has_every_field_of_a_board(name):
    """By the model that Grafana generates of its schema, with the options of each type of panel."""
    board = imported(name)
    assert not list(lost(board, through_grafana(board)))
    for field in ("legend", "stacking"):  # the model knows the fields of panels, too
        wrong = json.loads(json.dumps(board).replace(f'"{field}"', '"of_nobody"'))
        assert (wrong == board) or any("of_nobody" in path for path in lost(wrong, through_grafana(wrong)))


@pytest.mark.parametrize("name", BOARDS)
def test_every_choice_in_a_query_stands_above_the_board(name):
    offered = {each["name"] for each in imported(name)["templating"]["list"]} | {"__rate_interval"}
    board = imported(name)
    asked = [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    used = {found for query in (*queries(name), *asked) for found in re.findall(r"\$(\w+)", query)}
    assert used <= offered
    assert offered - used <= {"datasource", "__rate_interval"}


def test_every_metric_is_on_a_board():
    shown = " ".join(query for name in BOARDS for query in queries(name))
    missing = {
        name
        for name, metric in METRICS.items()
        if metric.only != SERIES and not re.search(rf"\b{sample_name(name)}\b", shown)
    }
    assert not missing


def test_the_command_prints_boards_and_rules(capsys):
    for name in BOARDS:
        assert cli.main(["exporter", "--dashboard", name]) == 0
        assert json.loads(capsys.readouterr().out)["uid"] == f"jaxtop-{name}"
    assert cli.main(["exporter", "--alert-rules"]) == 0
    assert capsys.readouterr().out == alert_rules.to_yaml()
    for wrong in (["--dashboard", "x"], ["--dashboard", "host", "--alert-rules"]):
        assert cli.main(["exporter", *wrong]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_every_rule_has_an_alert_and_no_text_is_taken_for_a_template():
    text = alert_rules.to_yaml()
    assert re.findall(r"alert: (\w+)", text) == [*map(alert_rules.alert_name, RULES), "JaxtopExporterDown"]
    assert not any("{{" in f"{rule.title}{rule.rationale}{rule.advice}" for rule in RULES)


@with_promtool
def test_promtool_reads_every_query(tmp_path):
    every = [chosen(query) for name in BOARDS for query in queries(name)]
    rules = [{"record": f"q{i}", "expr": query} for i, query in enumerate(every)]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "boards", "rules": rules}]}))
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stderr.decode()
    assert f"{len(every)} rules found" in done.stdout.decode()


@with_promtool
def test_each_finding_raises_its_alert_and_only_that(tmp_path):
    """By `promtool test rules`: findings of every second rule, from the first minute to the tenth."""
    (tmp_path / "rules.yml").write_text(alert_rules.to_yaml())
    tests = [_raised(severity, first) for severity in Severity for first in (0, 1)]
    (tmp_path / "test.yml").write_text(
        json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "30s", "tests": [*tests, _down()]})
    )
    assert promtool("check", "rules", tmp_path / "rules.yml").returncode == 0
    done = promtool("test", "rules", tmp_path / "test.yml")
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-4000:]


_WHERE = {"instance": "localhost:9410", "job": "jaxtop", "run": "r1"}


def _series(metric: str, **labels: str) -> str:
    written = ",".join(f'{key}="{value}"' for key, value in {**_WHERE, **labels}.items())
    return f"{metric}{{{written}}}"


def _raised(severity: str, first: int) -> dict[str, Any]:
    found = [rule.name for rule in RULES[first::2]]
    series = [_series("jaxtop_findings", rule=name, severity=severity) for name in found]
    info = {"series": _series("jaxtop_run_info", name="train", process_count="2"), "values": "1x40"}
    return {
        "interval": "30s",
        "input_series": [info, *({"series": each, "values": "_x1 2x18 stale"} for each in series)],
        "alert_rule_test": [
            {
                "eval_time": when,
                "alertname": alert_rules.alert_name(rule),
                "exp_alerts": [_alert(rule, severity)]
                if when == "5m" and severity != "info" and rule.name in found
                else [],
            }
            for when in ("0m", "5m", "15m")
            for rule in RULES
        ],
    }


def _alert(rule: Rule, severity: str) -> dict[str, Any]:
    return {
        "exp_labels": {**_WHERE, "rule": rule.name, "severity": severity, "name": "train"},
        "exp_annotations": {
            "summary": f"{rule.title} in run train",
            "description": rule.rationale,
            "action": advice_of_rule(rule),
        },
    }


def _down():
    expected = {
        "exp_labels": {"instance": "localhost:9410", "job": "jaxtop", "severity": "warning"},
        "exp_annotations": {
            "summary": "jaxtop exporter at localhost:9410 does not answer",
            "description": "Nothing is known of its runs meanwhile: no finding raises an alert.",
            "action": "Start jaxtop exporter again, and read its standard error.",
        },
    }
    return {
        "interval": "30s",
        "input_series": [{"series": 'up{instance="localhost:9410",job="jaxtop"}', "values": "1x4 0x10"}],
        "alert_rule_test": [
            {"eval_time": "1m", "alertname": "JaxtopExporterDown", "exp_alerts": []},
            {"eval_time": "6m", "alertname": "JaxtopExporterDown", "exp_alerts": [expected]},
        ],
    }


def configurations() -> list[str]:
    """The files for Prometheus that the page shows."""
    text = (DOCS / "monitoring.md").read_text()
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [textwrap.dedent(each) for each in blocks if "scrape_configs:" in each]


@with_promtool
def test_promtool_accepts_the_configurations_of_the_page(tmp_path):
    (tmp_path / "jaxtop-rules.yml").write_text(alert_rules.to_yaml())
    assert configurations()
    for text in configurations():
        file = tmp_path / "prometheus.yml"
        file.write_text(text)
        done = promtool("check", "config", file)
        assert done.returncode == 0, done.stderr.decode()
