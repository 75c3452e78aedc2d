"""The board of processes and their machines."""

from __future__ import annotations

from jaxtop.features.metrics.boards.panels import (
    AS,
    COUNT,
    PER_SECOND,
    PROCESS,
    RUN,
    STACK,
    STATES,
    BoardVariable,
    Dashboard,
    figure_panels,
    grouped,
    panel,
    process_series,
    table,
)
from jaxtop.model import Scope, Unit
from jaxtop.model.figures import figures_of

_BY = BoardVariable(
    "by",
    "Of each",
    options=(("run,process_index,hostname", "process"), ("run,hostname", "machine"), ("run", "run")),
)
_LEGEND = "{{run}} {{process_index}} {{hostname}}"

HOSTS = Dashboard(
    "host",
    "jaxtop: hosts",
    (RUN, PROCESS, _BY, AS),
    {
        "States": (
            panel(
                "States",
                COUNT,
                (f"{process_series('host_state')} == 1", f"{_LEGEND} {{{{jaxtop_host_state}}}}"),
                kind=STATES,
                help="The state of each process over time.",
                width=12,
            ),
            table("Processes", process_series("host")),
        ),
        "Steps": (
            panel("Steps so far", COUNT, grouped(process_series("steps"), _LEGEND)),
            *figure_panels(figures_of(Scope.STEP), process_series, _LEGEND),
        ),
        "Processes and machines": (
            *figure_panels(figures_of(Scope.HOST), process_series, _LEGEND),
            panel(
                "Busiest threads, in cores",
                Unit.SHARE,
                (
                    f"topk(10, max by (run, process_index, thread) ({process_series('thread_cpu_ratio')}))",
                    "{{run}} {{process_index}} {{thread}}",
                ),
            ),
            panel(
                "Launches a second",
                PER_SECOND,
                (
                    (
                        "topk(10, sum by (run, function) "
                        f"(rate({process_series('launches')}[$__rate_interval])))"
                    ),
                    "{{run}} {{function}}",
                ),
            ),
            panel(
                "CPU of the agent, in cores", Unit.SHARE, grouped(process_series("agent_cpu_ratio"), _LEGEND)
            ),
            panel(
                "What the time was spent on",
                Unit.SHARE,
                (
                    f"avg by (run, kind) (rate({process_series('spent_seconds')}[$__rate_interval]))",
                    "{{run}} {{kind}}",
                ),
                kind=STACK,
                help="The share of the time of the processes, mean over them. `jaxtop report` has the sums.",
            ),
        ),
    },
)
