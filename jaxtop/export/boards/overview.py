"""The board of whole runs."""

from __future__ import annotations

from jaxtop.export.boards.panels import (
    COUNT,
    DRIVER,
    PEAK,
    PER_SECOND,
    RUN,
    STACK,
    TABLE,
    TIME,
    TOKENS,
    WINDOWS,
    WRONG,
    Board,
    Panel,
    by_run,
    lines,
    series,
    stat,
    table,
)
from jaxtop.model import Unit

_STATE = "jaxtop_host_state"
_LIVE = series("host_state", f'{_STATE}="live"')


def _of_findings(severity: str) -> str:
    found = series("findings", f'severity="{severity}"')
    return f"sum({found}) or vector(0)"


OVERVIEW = Board(
    "overview",
    "jaxtop: overview",
    (RUN,),
    (
        (
            "Now",
            (
                stat("Runs", f"count({series('run')})"),
                stat("Live processes", f"sum({_LIVE})"),
                stat("Other processes", f"sum({series('host_state')}) - sum({_LIVE})"),
                stat("Devices", f"count({series('device')})"),
                stat("Critical findings", _of_findings("critical")),
                stat("Warnings", _of_findings("warning")),
                Panel(
                    "Findings",
                    TIME,
                    ((f"1000 * {series('findings_since_seconds')}", ""),),
                    TABLE,
                    "What is wrong, and since when. `jaxtop check` says what it costs, and what to do next.",
                    WRONG,
                    width=12,
                ),
                table("Runs", series("run")),
            ),
        ),
        (
            "Progress",
            (
                lines("Steps a second", PER_SECOND, by_run("avg", "step_rate")),
                lines(
                    "Step time",
                    Unit.SECONDS,
                    by_run("max", "step_p50_seconds", "median"),
                    by_run("max", "step_p99_seconds", "99 %"),
                ),
                lines(
                    "What the script reports",
                    COUNT,
                    (f"avg by (run, metric) ({series('step_metric')})", "{{run}} {{metric}}"),
                    needs="a script that calls `agent.step`",
                ),
                lines(
                    "Tokens a second",
                    COUNT,
                    by_run("sum", "tokens_per_second"),
                    needs=TOKENS,
                ),
                lines(
                    "Operations a second, of the peak",
                    Unit.SHARE,
                    by_run("avg", "step_utilization_ratio"),
                    needs=PEAK,
                ),
                lines(
                    "Idle",
                    Unit.SHARE,
                    by_run("avg", "step_idle_ratio"),
                    needs=WINDOWS,
                ),
            ),
        ),
        (
            "Devices",
            (
                lines(
                    "Memory of the fullest device",
                    Unit.BYTES,
                    by_run("max", "device_memory_used_bytes"),
                ),
                lines(
                    "Utilisation",
                    Unit.SHARE,
                    by_run("avg", "device_utilization_ratio", "mean"),
                    by_run("min", "device_utilization_ratio", "least"),
                    needs=DRIVER,
                ),
                lines(
                    "Power",
                    Unit.WATTS,
                    by_run("sum", "device_power_watts"),
                    needs=DRIVER,
                ),
            ),
        ),
        (
            "Over time",
            (
                Panel(
                    "Findings",
                    COUNT,
                    (
                        (
                            f"sum by (run, rule, severity) ({series('findings')})",
                            "{{severity}} {{rule}} {{run}}",
                        ),
                    ),
                    STACK,
                    needs=WRONG,
                ),
                Panel(
                    "Processes by state",
                    COUNT,
                    ((f"sum by ({_STATE}) ({series('host_state')}) > 0", f"{{{{{_STATE}}}}}"),),
                    STACK,
                ),
                lines("Rules that could not be checked", COUNT, (series("rules_unchecked"), "{{run}}")),
            ),
        ),
    ),
)
