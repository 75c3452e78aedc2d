"""The board of collectives, and of the programs that they are in."""

from __future__ import annotations

from jaxtop.export.boards.panels import (
    COUNT,
    PER_SECOND,
    RUN,
    TABLE,
    WINDOWS,
    Board,
    Panel,
    Variable,
    lines,
    series,
)
from jaxtop.model import Unit

_PROGRAM = Variable("program", "Program", f"label_values({series('program_flops')}, program)")


def _of_program(metric: str, *matchers: str) -> str:
    return series(metric, 'program=~"$program"', *matchers)


def _of_each(
    title: str, unit: str, metric: str, *matchers: str, worst: str = "max", needs: str = WINDOWS
) -> Panel:
    query = f"{worst} by (run, program, op, axes) ({_of_program(metric, *matchers)})"
    return lines(title, unit, (query, "{{run}} {{program}} {{op}} {{axes}}"), needs=needs)


def _of_programs(title: str, unit: str, metric: str, *matchers: str) -> Panel:
    query = f"max by (run, program) ({_of_program(metric, *matchers)})"
    return lines(title, unit, (query, "{{run}} {{program}}"))


COLLECTIVES = Board(
    "collective",
    "jaxtop: collectives",
    (RUN, _PROGRAM),
    (
        (
            "Who is late",
            (
                Panel(
                    "Stragglers",
                    Unit.SHARE,
                    ((_of_program("collective_straggler_ratio"), ""),),
                    TABLE,
                    "Which process or device comes last, and in which share of the measured instances.",
                    "a process or device that is late",
                    width=24,
                ),
                _of_each("Longest wait in a group", Unit.SECONDS, "collective_wait_seconds"),
                lines(
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
        ),
        (
            "What they cost",
            (
                _of_each("Duration, median", Unit.SECONDS, "collective_seconds", 'quantile="0.5"'),
                _of_each("Duration, 99 %", Unit.SECONDS, "collective_seconds", 'quantile="0.99"'),
                _of_each("Transfer", Unit.SECONDS, "collective_transfer_seconds"),
                _of_each(
                    "Bus bandwidth", Unit.BYTES_PER_SECOND, "collective_bus_bytes_per_second", worst="min"
                ),
                _of_each("Bytes", Unit.BYTES, "collective_bytes", needs=""),
                _of_each("How often", PER_SECOND, "collective_rate", needs=""),
            ),
        ),
        (
            "Programs",
            (
                lines(
                    "Share of a launch",
                    Unit.SHARE,
                    (
                        f"max by (run, program) ({_of_program('program_collective_ratio')})",
                        "{{run}} {{program}} in collectives",
                    ),
                    (
                        f"max by (run, program) ({_of_program('program_exposed_ratio')})",
                        "{{run}} {{program}} in collectives alone",
                    ),
                    needs=WINDOWS,
                ),
                _of_programs("Operations of a launch", Unit.FLOPS, "program_flops"),
                _of_programs("Temporary memory", Unit.BYTES, "program_memory_bytes", 'kind="temp"'),
                _of_programs("Compilations", COUNT, "compiles"),
                _of_programs("Processes with another program of this name", COUNT, "program_differs"),
            ),
        ),
    ),
)
