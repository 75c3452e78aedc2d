"""The board of collectives, and of the programs that they are in."""

from __future__ import annotations

from jaxtop.features.metrics.boards.panels import (
    COUNT,
    PER_SECOND,
    RUN,
    WINDOWS,
    BoardVariable,
    Dashboard,
    Panel,
    panel,
    series,
    table,
)
from jaxtop.model import Unit

_PROGRAM = BoardVariable("program", "Program", f"label_values({series('program_flops')}, program)")


def _program_series(metric: str, *matchers: str) -> str:
    return series(metric, 'program=~"$program"', *matchers)


def _collective_panel(
    title: str, unit: str, metric: str, *matchers: str, worst: str = "max", needs: str = WINDOWS
) -> Panel:
    query = f"{worst} by (run, program, op, axes) ({_program_series(metric, *matchers)})"
    return panel(title, unit, (query, "{{run}} {{program}} {{op}} {{axes}}"), needs=needs)


def _most(metric: str, *matchers: str, of_what: str = "") -> tuple[str, str]:
    """Return a query with one value for each program, and its legend."""
    query = f"max by (run, program) ({_program_series(metric, *matchers)})"
    return query, f"{{{{run}}}} {{{{program}}}} {of_what}".rstrip()


COLLECTIVES = Dashboard(
    "collective",
    "jaxtop: collectives",
    (RUN, _PROGRAM),
    {
        "Who is late": (
            table(
                "Stragglers",
                _program_series("collective_straggler_ratio"),
                unit=Unit.SHARE,
                help="Which process or device comes last, and in which share of the measured instances.",
                needs="a process or device that is late",
                width=24,
            ),
            _collective_panel("Longest wait in a group", Unit.SECONDS, "collective_wait_seconds"),
            panel(
                "Devices that wait longest",
                Unit.SECONDS,
                (
                    f"topk(10, max by (run, process_index, device) ({series('device_wait_seconds')}))",
                    "{{run}} {{process_index}} {{device}}",
                ),
                needs=WINDOWS,
            ),
            _collective_panel("Instances that were measured", COUNT, "collective_samples"),
        ),
        "What they cost": (
            _collective_panel("Duration, median", Unit.SECONDS, "collective_seconds", 'quantile="0.5"'),
            _collective_panel("Duration, 99 %", Unit.SECONDS, "collective_seconds", 'quantile="0.99"'),
            _collective_panel("Transfer", Unit.SECONDS, "collective_transfer_seconds"),
            _collective_panel(
                "Bus bandwidth", Unit.BYTES_PER_SECOND, "collective_bus_bytes_per_second", worst="min"
            ),
            _collective_panel("Bytes", Unit.BYTES, "collective_bytes", needs=""),
            _collective_panel("How often", PER_SECOND, "collective_rate", needs=""),
        ),
        "Programs": (
            panel(
                "Share of a launch",
                Unit.SHARE,
                _most("program_collective_ratio", of_what="in collectives"),
                _most("program_exposed_ratio", of_what="in collectives alone"),
                needs=WINDOWS,
            ),
            panel("Operations of a launch", Unit.FLOPS, _most("program_flops")),
            panel("Temporary memory", Unit.BYTES, _most("program_memory_bytes", 'kind="temp"')),
            panel("Compilations", COUNT, _most("compiles")),
            panel("Processes with another program of this name", COUNT, _most("program_differs")),
        ),
    },
)
