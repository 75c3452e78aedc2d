"""Tests share builders through modules of their own: a test module imports no other test module."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
# What still does, with what it imports. The list may only become shorter.
LEFT = {
    "agent/test_window_operations.py: tests.agent.test_windows",
    "cli/test_config.py: tests.model.test_findings_time",
    "export/test_export_lint.py: tests.export.test_export_series",
    "features/captures/test_captures_live.py: tests.features.captures.test_captures_merged",
    "features/inject/test_inject_refused.py: tests.features.inject.test_inject",
    "features/metrics/test_otlp_collectors.py: tests.features.metrics.test_otlp",
    "features/planning/test_plan_moves.py: tests.features.planning.test_planning_memory",
    "features/web/test_web.py: tests.features.metrics.test_exporter_http",
    "features/web/test_web_chromium.py: tests.features.web.test_web",
    "live/test_first_steps_live.py: tests.live.test_stalls_live",
    "live/test_stalls_live.py: tests.agent.test_agent_failures",
    "live/test_steps_live.py: tests.model.test_names",
    "model/test_at_peak.py: tests.model.test_memory",
    "model/test_at_peak.py: tests.tui.test_tui_programs",
    "model/test_findings_crashes.py: tests.model.test_findings_liveness",
    "project/test_features.py: tests.recording.test_record_replay",
    "tui/test_preferences.py: tests.cli.test_config",
    "tui/test_tui_memory.py: tests.tui.test_tui_programs",
    "tui/test_tui_sizes.py: tests.tui.test_tui_table",
}


def test_no_module_imports_a_test_module():
    found = {name for path in TESTS.rglob("*.py") for name in _imports(path)}
    assert not found - LEFT, "move builders to a module that tests/README.md lists"
    assert not LEFT - found, "remove these from the list: they are gone"


def _imports(path: Path) -> list[str]:
    """Return the test modules that a file imports, each as `importer: imported`."""
    importer = path.relative_to(TESTS)
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            names = tuple(alias.name for alias in node.names)
        else:
            continue
        imported |= {name for name in names if name.startswith("tests.") and is_test(name)}
    return [f"{importer}: {name}" for name in imported]


def is_test(name: str) -> bool:
    """Return whether a name is that of a test module, and not of something in one."""
    return (
        name.rpartition(".")[2].startswith("test_")
        and (TESTS.parent / f"{name.replace('.', '/')}.py").exists()
    )
