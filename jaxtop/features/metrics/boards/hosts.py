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
    grouped,
    of_figures,
    of_process,
    panel,
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
                (f"{of_process('host_state')} == 1", f"{_LEGEND} {{{{jaxtop_host_state}}}}"),
                kind=STATES,
                help="The state of each process over time.",
                width=12,
            ),
            table("Processes", of_process("host")),
        ),
        "Steps": (
            panel("Steps so far", COUNT, grouped(of_process("steps"), _LEGEND)),
            *of_figures(figures_of(Scope.STEP), of_process, _LEGEND),
        ),
        "Processes and machines": (
            *of_figures(figures_of(Scope.HOST), of_process, _LEGEND),
            panel(
                "Busiest threads, in cores",
                Unit.SHARE,
                (
                    f"topk(10, max by (run, process_index, thread) ({of_process('thread_cpu_ratio')}))",
                    "{{run}} {{process_index}} {{thread}}",
                ),
            ),
            panel(
                "Launches a second",
                PER_SECOND,
                (
                    f"topk(10, sum by (run, function) (rate({of_process('launches')}[$__rate_interval])))",
                    "{{run}} {{function}}",
                ),
            ),
            panel("CPU of the agent, in cores", Unit.SHARE, grouped(of_process("agent_cpu_ratio"), _LEGEND)),
            panel(
                "What the time was spent on",
                Unit.SHARE,
                (
                    f"avg by (run, kind) (rate({of_process('spent_seconds')}[$__rate_interval]))",
                    "{{run}} {{kind}}",
                ),
                kind=STACK,
                help="The share of the time of the processes, mean over them. `jaxtop report` has the sums.",
            ),
        ),
    },
)
