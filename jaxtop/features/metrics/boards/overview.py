"""The board of whole runs."""

from __future__ import annotations

from jaxtop.features.metrics.boards.panels import (
    COUNT,
    DRIVER,
    PEAK,
    PER_SECOND,
    RUN,
    STACK,
    TIME,
    TOKENS,
    WINDOWS,
    WRONG,
    Dashboard,
    panel,
    run_query,
    series,
    stat,
    table,
)
from jaxtop.model import Unit

_STATE = "jaxtop_host_state"
_LIVE = series("host_state", f'{_STATE}="live"')


def _findings_query(severity: str) -> str:
    found = series("findings", f'severity="{severity}"')
    return f"sum({found}) or vector(0)"


OVERVIEW = Dashboard(
    "overview",
    "jaxtop: overview",
    (RUN,),
    {
        "Now": (
            stat("Runs", f"count({series('run')})"),
            stat("Live processes", f"sum({_LIVE})"),
            stat("Other processes", f"sum({series('host_state')}) - sum({_LIVE})"),
            stat("Devices", f"count({series('device')})"),
            stat("Critical findings", _findings_query("critical")),
            stat("Warnings", _findings_query("warning")),
            table(
                "Findings",
                f"1000 * {series('findings_since_seconds')}",
                unit=TIME,
                help="What is wrong, and since when. `jaxtop check` says what it costs, and what to do next.",
                needs=WRONG,
            ),
            table("Runs", series("run")),
        ),
        "Progress": (
            panel("Steps a second", PER_SECOND, run_query("avg", "step_rate")),
            panel(
                "Step time",
                Unit.SECONDS,
                run_query("max", "step_p50_seconds", "median"),
                run_query("max", "step_p99_seconds", "99 %"),
            ),
            panel(
                "What the script reports",
                COUNT,
                (f"avg by (run, metric) ({series('step_metric')})", "{{run}} {{metric}}"),
                needs="a script that calls `agent.step`",
            ),
            panel("Tokens a second", COUNT, run_query("sum", "tokens_per_second"), needs=TOKENS),
            panel(
                "Operations a second, of the peak",
                Unit.SHARE,
                run_query("avg", "step_utilization_ratio"),
                needs=PEAK,
            ),
            panel("Idle", Unit.SHARE, run_query("avg", "step_idle_ratio"), needs=WINDOWS),
            panel(
                "Goodput",
                Unit.SHARE,
                run_query("max", "goodput_ratio"),
                help="The share of the device time of the run, since it started, that went to steps.",
            ),
        ),
        "Devices": (
            panel("Memory of the fullest device", Unit.BYTES, run_query("max", "device_memory_used_bytes")),
            panel(
                "Utilisation",
                Unit.SHARE,
                run_query("avg", "device_utilization_ratio", "mean"),
                run_query("min", "device_utilization_ratio", "least"),
                needs=DRIVER,
            ),
            panel("Power", Unit.WATTS, run_query("sum", "device_power_watts"), needs=DRIVER),
        ),
        "Over time": (
            panel(
                "Findings",
                COUNT,
                (f"sum by (run, rule, severity) ({series('findings')})", "{{severity}} {{rule}} {{run}}"),
                kind=STACK,
                needs=WRONG,
            ),
            panel(
                "Processes by state",
                COUNT,
                (f"sum by ({_STATE}) ({series('host_state')}) > 0", f"{{{{{_STATE}}}}}"),
                kind=STACK,
            ),
            panel("Rules that could not be checked", COUNT, (series("rules_unchecked"), "{{run}}")),
        ),
    },
)
