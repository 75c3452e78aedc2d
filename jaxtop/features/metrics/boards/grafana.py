"""Boards as the JSON that Grafana imports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jaxtop.features.metrics.boards.panels import LINES, PER_SECOND, STACK, STAT, STATES, TABLE, TIME
from jaxtop.model import Unit

if TYPE_CHECKING:
    from jaxtop.features.metrics.boards.panels import BoardVariable, Dashboard, Panel

# Of Grafana 10. Later versions convert it when they read it.
SCHEMA = 39
_COLUMNS, _HEIGHT, _STAT_HEIGHT = 24, 8, 4
_TAGS = ["jaxtop"]
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_TYPES = {LINES: "timeseries", STACK: "timeseries", STAT: "stat", TABLE: "table", STATES: "state-timeline"}
_UNITS: dict[str, str] = {
    Unit.BYTES: "bytes", Unit.BYTES_PER_SECOND: "binBps", Unit.SHARE: "percentunit", Unit.WATTS: "watt",
    Unit.JOULES: "joule", Unit.DEGREES: "celsius", Unit.HERTZ: "hertz", Unit.SECONDS: "s",
    Unit.FLOPS_PER_SECOND: "flops", PER_SECOND: "cps", TIME: "dateTimeAsIso",
}  # fmt: skip
# Labels of Prometheus's own, which say nothing about a run.
_OWN_LABELS = ("Time", "__name__", "instance", "job")


def dashboard(board: Dashboard) -> str:
    """Return the JSON of a board; its data source is chosen above it."""
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    found = {
        "uid": f"jaxtop-{board.name}",
        "title": board.title,
        "tags": _TAGS,
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [
            {"type": "dashboards", "title": "jaxtop", "tags": _TAGS, "includeVars": True, "keepTime": True}
        ],
        "templating": {"list": [source, *map(_variable, board.variables)]},
        "panels": _panels(board),
    }
    return json.dumps(found, indent=2) + "\n"


def _variable(each: BoardVariable) -> dict[str, Any]:
    if each.options:
        options = [
            {"text": name, "value": value, "selected": i == 0} for i, (value, name) in enumerate(each.options)
        ]
        # A comma within a value is escaped.
        query = ", ".join(f"{name} : {value}".replace(",", r"\,") for value, name in each.options)
        return {"name": each.name, "label": each.label, "type": "custom", "query": query, "options": options,
                "current": options[0]}  # fmt: skip
    return {
        "name": each.name,
        "label": each.label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": each.query, "refId": each.name},
        "refresh": 2,
        "sort": 3,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panels(board: Dashboard) -> list[dict[str, Any]]:
    """Return the rows with their panels, each at its place in the grid."""
    found: list[dict[str, Any]] = []
    y = 0
    for title, panels in board.rows.items():
        row = {"type": "row", "title": title, "gridPos": _place(0, y, _COLUMNS, 1), "panels": []}
        found.append({"id": len(found) + 1, **row})
        x, y, height = 0, y + 1, 0
        for each in panels:
            if x + each.width > _COLUMNS:
                x, y, height = 0, y + height, 0
            its_height = _STAT_HEIGHT if each.kind == STAT else _HEIGHT
            found.append(
                {"id": len(found) + 1, "gridPos": _place(x, y, each.width, its_height), **_panel(each)}
            )
            x, height = x + each.width, max(height, its_height)
        y += height
    return found


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(each: Panel) -> dict[str, Any]:
    is_now = each.kind in (STAT, TABLE)
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if each.kind == STACK else {}
    found: dict[str, Any] = {
        "type": _TYPES[each.kind],
        "title": each.title,
        "description": " ".join(filter(None, (each.help, each.needs and f"Needs {each.needs}."))),
        "datasource": _SOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": _SOURCE,
                "expr": query,
                "legendFormat": legend,
                "instant": is_now,
                "range": not is_now,
                **({"format": "table"} if each.kind == TABLE else {}),
            }
            for i, (query, legend) in enumerate(each.queries)
        ],
        "fieldConfig": {
            "defaults": {"unit": _UNITS.get(each.unit, "short"), "custom": custom},
            "overrides": [],
        },
    }
    if each.kind in {LINES, STACK}:
        found["options"] = {"tooltip": {"mode": "multi", "sort": "desc"}, "legend": {"displayMode": "list"}}
    if each.kind == TABLE:
        hidden = {"excludeByName": dict.fromkeys(_OWN_LABELS, True)}
        found["transformations"] = [{"id": "organize", "options": hidden}]
    return found
