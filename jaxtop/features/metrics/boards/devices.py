"""The board of devices."""

from __future__ import annotations

from jaxtop.features.metrics.boards.panels import (
    AS,
    COUNT,
    DRIVER,
    PROCESS,
    RUN,
    STACK,
    WINDOWS,
    BoardVariable,
    Dashboard,
    device_series,
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
    options=(
        ("run,process_index,device", "device"),
        ("run,process_index,hostname", "process"),
        ("run", "run"),
    ),
)
_DEVICE = BoardVariable("device", "Device", f"label_values({process_series('device')}, device)")
_LEGEND = "{{run}} {{process_index}} {{hostname}} {{device}}"

DEVICES = Dashboard(
    "device",
    "jaxtop: devices",
    (RUN, PROCESS, _DEVICE, _BY, AS),
    {
        "Memory": (
            panel(
                "Memory by what takes it",
                Unit.BYTES,
                (f"sum by (run, part) ({device_series('device_memory_part_bytes')})", "{{run}} {{part}}"),
                kind=STACK,
                width=12,
            ),
            table("Devices", device_series("device")),
        ),
        "Figures": (
            *figure_panels(figures_of(Scope.DEVICE), device_series, _LEGEND),
            panel(
                "Wait in the collectives of a launch",
                Unit.SECONDS,
                grouped(device_series("device_wait_seconds"), _LEGEND),
                needs=WINDOWS,
            ),
            panel(
                "Slower than they could be",
                COUNT,
                (f"sum by (run, reason) ({device_series('device_slowed')})", "{{run}} {{reason}}"),
                needs=DRIVER,
            ),
        ),
    },
)
