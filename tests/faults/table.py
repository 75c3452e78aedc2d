"""The table of results, for docs/findings.md."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from jaxtop_agent.demo.faults import FAULTS

RESULTS = Path(__file__).with_name("results.json")
HEALTHY = "healthy"
KEPT = 5  # runs of each fault in each program


def load(path: Path | None = None) -> list[dict[str, Any]]:
    path = path or RESULTS
    return json.loads(path.read_text()) if path.exists() else []


def add(outcome: dict[str, Any], path: Path) -> None:
    """Keep the outcome and the latest of its kind; healthy runs are all kept, since their hours add up."""
    alike, others = [], []
    for each in load(path):
        is_alike = all(each[key] == outcome[key] for key in ("fault", "program"))
        (alike if is_alike else others).append(each)
    alike.append(outcome)
    outcomes = [*others, *(alike if outcome["fault"] == HEALTHY else alike[-KEPT:])]
    order = {fault.name: i for i, fault in enumerate(FAULTS)}
    outcomes.sort(key=lambda each: (order.get(each["fault"], -1), each["program"]))
    path.write_text(json.dumps(outcomes, indent=1) + "\n")


def agrees(outcome: dict[str, Any]) -> bool:
    """Return whether the panel shows the part that a finding names as the finding does, up to a tenth."""
    return abs(outcome["of_panel"] - outcome["of_finding"]) <= 0.1 * outcome["of_finding"]


def results(path: Path | None = None) -> str:
    """Return what was measured, as Markdown: a summary and a row per fault."""
    outcomes = load(path)
    planted = [each for each in outcomes if each["fault"] != HEALTHY]
    head = "| fault | what is planted | found by | demo | plain | seconds | cost ÷ true | accused wrongly |"
    rows = [_row(fault, [each for each in planted if each["fault"] == fault.name]) for fault in FAULTS]
    return "\n".join(
        [*_summary(planted, outcomes), "", head, "|---|---|---|---|---|---|---|---|", *filter(None, rows)]
    )


def _summary(planted: list[dict[str, Any]], outcomes: list[dict[str, Any]]) -> list[str]:
    if not planted:
        return ["Nothing was measured yet."]
    found = [each for each in planted if each["rule"]]
    compared = [each for each in found if None not in (each["estimated"], each["true"])]
    within = [each for each in compared if 0.8 <= (_ratio(each) or 0.0) <= 1.2]
    loads = [each["load"] for each in outcomes]
    share = len(found) / len(planted)
    lines = [
        f"- Found with the right subject: {len(found)} of {len(planted)} planted faults ({share:.0%}).",
        f"- Seconds until a fault was reported, after it began to cost: {_spread(found)}.",
        f"- Cost within 20 % of the true one: in {len(within)} of the {len(compared)} runs with both.",
        f"- Runs with a wrong accusation: {sum(bool(each['wrong']) for each in planted)} of {len(planted)}.",
    ]
    shown = [each for each in found if None not in (each.get("of_panel"), each.get("of_finding"))]
    if shown:
        agree = sum(agrees(each) for each in shown)
        lines.append(
            "- The part of the step that a finding names differs from its cost by at most a tenth: in "
            f"{agree} of {len(shown)} runs."
        )
    healthy = [each for each in outcomes if each["fault"] == HEALTHY]
    if healthy:
        minutes = sum(each["seconds"] for each in healthy) / 60
        wrong = [text for each in healthy for text in each["wrong"]]
        critical = sum("(critical)" in text for text in wrong)
        warnings = len(wrong) - critical
        lines.append(
            f"- Healthy runs, {minutes:.0f} minutes: {critical} critical findings, {warnings} warnings."
        )
    cores = " or ".join(str(count) for count in sorted({each["cores"] for each in outcomes}))
    lines.append(
        f"- The machine had {cores} cores, which others used as well: a load of {min(loads)} to {max(loads)}."
    )
    most = max(each["rules"] for each in outcomes)
    earlier = sum(each["rules"] < most for each in planted)
    if earlier:
        lines.append(f"- {earlier} of the runs were made with fewer rules than the others ({most} rules).")
    return lines


def _row(fault: Any, outcomes: list[dict[str, Any]]) -> str:
    if not outcomes:
        return ""
    found = [each for each in outcomes if each["rule"]]
    rules = sorted({each["rule"] for each in found})
    ratios = [ratio for each in found if (ratio := _ratio(each)) is not None]
    wrong = sorted({text.partition(" ")[0] for each in outcomes for text in each["wrong"]})
    cells = [
        f"`{fault.name}`",
        fault.text,
        ", ".join(f"`{rule}`" for rule in rules) or f"not found (`{fault.rules[0]}`)",
        *(_share([each for each in outcomes if each["program"] == name]) for name in ("demo", "plain")),
        _spread(found),
        f"{median(ratios):.2f}" if ratios else "",
        ", ".join(f"`{rule}`" for rule in wrong),
    ]
    return "| " + " | ".join(cells) + " |"


def _share(outcomes: list[dict[str, Any]]) -> str:
    return f"{sum(bool(each['rule']) for each in outcomes)} of {len(outcomes)}" if outcomes else ""


def _spread(found: list[dict[str, Any]]) -> str:
    seconds = sorted(each["after_cost"] for each in found if each["after_cost"] is not None)
    if not seconds:
        return ""
    ninth = seconds[min(len(seconds) - 1, int(0.9 * len(seconds)))]
    return f"{median(seconds):.1f}" + (f", 90 % within {ninth:.1f}" if len(seconds) > 1 else "")


def _ratio(outcome: dict[str, Any]) -> float | None:
    estimated, true = outcome["estimated"], outcome["true"]
    return estimated / true if estimated is not None and true is not None and true > 0 else None
