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
                lines("Steps a second", PER_SECOND, (f"avg by (run) ({series('step_rate')})", "{{run}}")),
                lines(
                    "Step time",
                    Unit.SECONDS,
                    (f"max by (run) ({series('step_p50_seconds')})", "{{run}} median"),
                    (f"max by (run) ({series('step_p99_seconds')})", "{{run}} 99 %"),
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
                    (f"sum by (run) ({series('tokens_per_second')})", "{{run}}"),
                    needs=TOKENS,
                ),
                lines(
                    "Operations a second, of the peak",
                    Unit.SHARE,
                    (f"avg by (run) ({series('step_utilization_ratio')})", "{{run}}"),
                    needs=PEAK,
                ),
                lines(
                    "Idle",
                    Unit.SHARE,
                    (f"avg by (run) ({series('step_idle_ratio')})", "{{run}}"),
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
                    (f"max by (run) ({series('device_memory_used_bytes')})", "{{run}}"),
                ),
                lines(
                    "Utilisation",
                    Unit.SHARE,
                    (f"avg by (run) ({series('device_utilization_ratio')})", "{{run}} mean"),
                    (f"min by (run) ({series('device_utilization_ratio')})", "{{run}} least"),
                    needs=DRIVER,
                ),
                lines(
                    "Power",
                    Unit.WATTS,
                    (f"sum by (run) ({series('device_power_watts')})", "{{run}}"),
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
