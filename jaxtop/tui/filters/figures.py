"""The filter fields of hosts and devices: all figures that have columns, with the units they accept."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from jaxtop.model import Figure, Scope, Unit
from jaxtop.model.devices import slowed
from jaxtop.model.figures import figures_of
from jaxtop.tui.filters import expressions
from jaxtop.tui.filters.expressions import Field, number, quantity, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jaxtop.tui.columns.devices import DeviceRow
    from jaxtop.tui.columns.host_row import HostRow
    from jaxtop.tui.draw.table import Column

T = TypeVar("T")

percent = quantity({"": 0.01, "%": 0.01})
seconds = quantity({"": 1, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600})
_hertz = quantity({"": 1, "m": 1e6, "mhz": 1e6, "g": 1e9, "ghz": 1e9})
_watts = quantity({"": 1, "w": 1, "kw": 1e3})
_operations = quantity({"": 1, "g": 1e9, "t": 1e12, "p": 1e15})
# For figures other than bytes, k is 1,000.
count = quantity({"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12})
_ASKED = {
    Unit.BYTES: number,  # in powers of 1,024
    Unit.BYTES_PER_SECOND: number,
    Unit.NUMBER: count,
    Unit.LOSS: count,
    Unit.JOULES: count,
    Unit.TOKENS_PER_SECOND: count,
    Unit.FLOPS: _operations,
    Unit.FLOPS_PER_SECOND: _operations,
    Unit.SHARE: percent,
    Unit.SECONDS: seconds,
    Unit.HERTZ: _hertz,
    Unit.WATTS: _watts,
    Unit.DEGREES: quantity({"": 1, "c": 1, "°c": 1}),
}


def _figure_fields(
    scope: Scope, read: Callable[[Figure], Callable[[T], float | None]]
) -> dict[str, Field[T]]:
    return {
        name: Field(read(figure), _ASKED[figure.unit])
        for figure in figures_of(scope)
        for name in figure.filters
    }


OF_HOSTS: dict[str, Field[HostRow]] = {
    **_figure_fields(Scope.HOST, lambda figure: lambda row: figure.read(row.current.pulse, 0)),
    **_figure_fields(Scope.STEP, lambda figure: lambda row: row.derived(figure)),
    **_figure_fields(Scope.SCRIPT, lambda figure: lambda row: row.derived(figure)),
    "state": Field(lambda row: str(row.state), words),
    "host": Field(lambda row: row.host.hostname, words),
    "run": Field(lambda row: row.run, words),
    "role": Field(lambda row: row.role, words),
    "process": Field(lambda row: row.host.process_index, count),
    "devices": Field(lambda row: row.device_count, count),
    "memory": Field(lambda row: row.used_bytes, number),
    "launches": Field(lambda row: row.launches, count),
    "still": Field(lambda row: row.still, seconds),
    "heard": Field(lambda row: row.age, seconds),
    **dict.fromkeys(("index", "at_step"), Field(lambda row: row.step, count)),
    "compiling": Field(lambda row: row.compiling and row.compiling[1], words),
    "agent": Field(lambda row: row.agent_cpu, quantity({"": 1, "%": 1})),
    "pid": Field(lambda row: row.host.pid, count),
    "starts": Field(lambda row: row.view.incarnation, count),
    "jax": Field(lambda row: row.jax, words),
}


def _slowed(row: DeviceRow) -> str | None:
    found = slowed(row.device.pulse, row.device.position)
    return None if found is None else ", ".join(found[0]) or "nothing"


OF_DEVICES: dict[str, Field[DeviceRow]] = {
    **_figure_fields(Scope.DEVICE, lambda figure: lambda row: row.device.read(figure)),
    "id": Field(lambda row: row.device.id, count),
    "local": Field(lambda row: row.device.local_id, count),
    "process": Field(lambda row: row.device.process_index, count),
    "host": Field(lambda row: row.device.hostname, words),
    "run": Field(lambda row: row.run, words),
    "state": Field(lambda row: str(row.device.state), words),
    "kind": Field(lambda row: row.device.kind, words),
    "source": Field(lambda row: row.device.memory_source, words),
    "share": Field(lambda row: row.device.used_share, percent),
    "limit": Field(lambda row: row.device.limit_bytes, number),
    "slowed": Field(_slowed, words),
}


def axis_fields(names: Iterable[str], coordinate: Callable[[T, str], int | None]) -> dict[str, Field[T]]:
    """Return a field for the coordinate on each axis. The prefix `axis_` avoids the names of figures."""

    def field(name: str) -> Field[T]:
        return Field(lambda row: coordinate(row, name), count)

    return {spelling: field(name) for name in names for spelling in (name.lower(), f"axis_{name.lower()}")}


def understand(
    typed: str, fields: Mapping[str, Field[T]], columns: Sequence[Column[T]]
) -> Callable[[T], bool] | None:
    """Return a test of rows, or None if the filter has words only. Words are searched in these columns.

    Raises:
        Wrong: The filter is invalid.
    """
    if not expressions.has_conditions(typed):
        return None
    searched = [column for column in columns if column.searched]
    return expressions.understand(
        typed, fields, lambda row: " ".join([column.write(row) for column in searched]).lower()
    )
