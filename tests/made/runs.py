"""Stories of whole runs with collectives, from what was made up of their windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop import wire
from tests import stories
from tests.made import windows as made_windows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtop.model import Cluster
    from tests.made.windows import Made


def beginning(made: Made) -> list[tuple[float, str, wire.Message]]:
    """What the hosts of a run say before any window."""
    total = made.hosts * made.devices
    mesh = wire.Mesh((("data", made.hosts), ("model", made.devices)), ((0, total),))
    found: list[tuple[float, str, wire.Message]] = []
    for i in range(made.hosts):
        devices = tuple(wire.Device(i * made.devices + j, "cpu", "cpu", j) for j in range(made.devices))
        said = (
            stories.hello(i, process_count=made.hosts, platform="cpu", devices=devices),
            stories.census(wire.ArrayGroup((8, 4), "float32", 0, 128, 64), mesh=mesh),
            wire.Programs(1, (made_windows.program(made),)),
            stories.pulse(at_ms=1_000, launches={"train_step": 10}),
            stories.pulse(at_ms=11_000, launches={"train_step": 20}),
            made_windows.inventory(made, i),
        )
        found += [(10.0, f"r1-{i}", each) for each in said]
    return found


def windows_of(
    made: Made, windows: Iterable[int], launches: int = 5
) -> list[tuple[float, str, wire.Message]]:
    """The windows with these numbers, as each host tells them."""
    return [
        (10.0 + number / 100, f"r1-{i}", made_windows.window(made, i, number, launches))
        for number in windows
        for i in range(made.hosts)
    ]


def run_of(made: Made, windows: int) -> Cluster:
    """What a viewer knows after so many windows."""
    return stories.cluster_of(*beginning(made), *windows_of(made, range(windows)))
