"""The next step of findings: right where it is shown."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import jaxtop.model.findings.rules
from jaxtop.export import check
from jaxtop.export.check import Checkup
from jaxtop.model import RULES, RULES_BY_NAME
from jaxtop.model.finding import Finding, Severity
from jaxtop.model.findings.advice import advice_in_app, advice_of_rule, advice_outside
from tests.builders import NOW, folded, well

STALLED = Finding(Severity.CRITICAL, 1.0, "nothing launched", rule="stalled", run="r1", since=NOW)
# Keys in words: whoever reads them in a log has no app.
PRESSED = re.compile(r"\b[Pp]ress \w\b|\(key \w\)|\w \([a-z0-9]\)[.,:; ]")


def texts():
    """All texts in the files of rules."""
    for folder in jaxtop.model.findings.rules.__path__:
        for path in Path(folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield path.name, f"{node.value} "


def test_no_rule_names_a_key_but_in_brackets():
    assert [each for each in texts() if PRESSED.search(each[1])] == []
    assert all("[" not in advice_of_rule(rule) for rule in RULES)


def test_the_app_names_the_key_and_all_else_the_command_too():
    assert "stacks (key 9)" in advice_in_app(STALLED)
    assert "stacks (`jaxtop attach r1`, key 9)" in advice_outside(STALLED)
    assert "stacks (`jaxtop attach NAME`, key 9)" in advice_of_rule(RULES_BY_NAME["stalled"])


def test_a_check_names_the_run_or_the_recording():
    runs = Checkup.of(folded(well()), NOW).runs
    live = Checkup(NOW, runs, (STALLED,), {})
    recorded = replace(live, opens="jaxtop replay a.mcap")
    assert "stacks (`jaxtop attach train`, key 9)" in check.to_text(live)
    assert "`jaxtop attach r1`, key 9" in check.to_json(live)
    for form in (check.to_text, check.to_json):
        assert "`jaxtop replay a.mcap`, key 9" in form(recorded)


def test_advice_on_a_stall_speaks_of_no_others():
    """A run of one process stalls, too."""
    assert "others" not in advice_outside(STALLED)
