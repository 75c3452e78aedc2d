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


def _of_program(metric: str, *matchers: str) -> str:
    return series(metric, 'program=~"$program"', *matchers)


def _of_each(
    title: str, unit: str, metric: str, *matchers: str, worst: str = "max", needs: str = WINDOWS
) -> Panel:
    query = f"{worst} by (run, program, op, axes) ({_of_program(metric, *matchers)})"
    return panel(title, unit, (query, "{{run}} {{program}} {{op}} {{axes}}"), needs=needs)


def _most(metric: str, *matchers: str, of_what: str = "") -> tuple[str, str]:
    """Return a query with one value for each program, and its legend."""
    query = f"max by (run, program) ({_of_program(metric, *matchers)})"
    return query, f"{{{{run}}}} {{{{program}}}} {of_what}".rstrip()


COLLECTIVES = Dashboard(
    "collective",
    "jaxtop: collectives",
    (RUN, _PROGRAM),
    {
        "Who is late": (
            table(
                "Stragglers",
                _of_program("collective_straggler_ratio"),
                unit=Unit.SHARE,
                help="Which process or device comes last, and in which share of the measured instances.",
                needs="a process or device that is late",
                width=24,
            ),
            _of_each("Longest wait in a group", Unit.SECONDS, "collective_wait_seconds"),
            panel(
                "Devices that wait longest",
                Unit.SECONDS,
                (
                    f"topk(10, max by (run, process_index, device) ({series('device_wait_seconds')}))",
                    "{{run}} {{process_index}} {{device}}",
                ),
                needs=WINDOWS,
            ),
            _of_each("Instances that were measured", COUNT, "collective_samples"),
        ),
        "What they cost": (
            _of_each("Duration, median", Unit.SECONDS, "collective_seconds", 'quantile="0.5"'),
            _of_each("Duration, 99 %", Unit.SECONDS, "collective_seconds", 'quantile="0.99"'),
            _of_each("Transfer", Unit.SECONDS, "collective_transfer_seconds"),
            _of_each("Bus bandwidth", Unit.BYTES_PER_SECOND, "collective_bus_bytes_per_second", worst="min"),
            _of_each("Bytes", Unit.BYTES, "collective_bytes", needs=""),
            _of_each("How often", PER_SECOND, "collective_rate", needs=""),
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
