"""The parts of a board: panels with queries, in rows, below choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop.export.metrics import sample_name
from jaxtop.model import Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jaxtop.model import Figure

LINES, STACK, STAT, TABLE, STATES = "lines", "stack", "stat", "table", "states"
COUNT, PER_SECOND, TIME = Unit.NUMBER, "per_second", "time"
# What a run must have for a figure that not every run has.
DRIVER = "the driver of a GPU or TPU"
PRESSURE, QUOTA = "a kernel with pressure stall information", "a container with a limit of CPU"
ALLOCATOR, PEAK = "an allocator that counts, which CPUs lack", "devices whose peak rate is known"
TOKENS, WINDOWS = "a script that reports `tokens`", "windows of the profiler, while somebody watches"
WRONG = "a run in which something is wrong"
_NEEDS = {
    "cpu_pressure": PRESSURE, "memory_pressure": PRESSURE, "io_pressure": PRESSURE, "held_back": QUOTA,
    "peak_bytes": ALLOCATOR, "limit_bytes": ALLOCATOR, "utilization_of_peak": PEAK,
    "tokens_per_second": TOKENS, "idle": WINDOWS, "joules_per_step": DRIVER, "joules_per_token": DRIVER,
}  # fmt: skip
_WIDTH = 8


class Panel(NamedTuple):
    """A part of a board: queries with their legends. `needs` says what a run must have for these figures."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = LINES
    help: str = ""
    needs: str = ""
    width: int = _WIDTH


class BoardVariable(NamedTuple):
    """A choice above a board: what a query of Grafana returns, or one of these values, each with its name."""

    name: str
    label: str
    query: str = ""
    options: tuple[tuple[str, str], ...] = ()


class Dashboard(NamedTuple):
    """A dashboard: its choices, and its panels in rows with titles."""

    name: str
    title: str
    variables: tuple[BoardVariable, ...]
    rows: Mapping[str, tuple[Panel, ...]]


def series(metric: str, *matchers: str) -> str:
    """Return the series of a metric in the chosen runs; a metric that does not exist raises `KeyError`."""
    matching = ",".join(('run=~"$run"', *matchers))
    return f"{sample_name(metric)}{{{matching}}}"


def process_series(metric: str) -> str:
    return series(metric, 'process_index=~"$process"')


def device_series(metric: str) -> str:
    return series(metric, 'process_index=~"$process"', 'device=~"$device"')


RUN = BoardVariable("run", "Run", "label_values(jaxtop_run_info, run)")
PROCESS = BoardVariable("process", "Process", f"label_values({series('host')}, process_index)")
# How a board adds up what it shows.
AS = BoardVariable("as", "Show", options=(("max", "most"), ("avg", "mean"), ("min", "least"), ("sum", "sum")))


def panel(title: str, unit: str, *queries: tuple[str, str], **more: Any) -> Panel:
    """Return a panel with these queries; `more` has the other fields of a panel."""
    return Panel(title, unit, queries, **more)


def stat(title: str, query: str) -> Panel:
    return Panel(title, COUNT, ((query, ""),), STAT, width=4)


def table(title: str, query: str, unit: str = COUNT, **more: Any) -> Panel:
    return Panel(title, unit, ((query, ""),), TABLE, **{"width": 12, **more})


def grouped(metric: str, legend: str) -> tuple[str, str]:
    """Return a query of what is chosen above the board, and its legend."""
    return f"$as by ($by) ({metric})", legend


def run_query(how: str, metric: str, of_what: str = "") -> tuple[str, str]:
    """Return a query with one value for each run, and its legend; `how` says how a run adds them up."""
    return f"{how} by (run) ({series(metric)})", f"{{{{run}}}} {of_what}".rstrip()


def figure_panels(
    figures: Iterable[Figure], matching: Callable[[str], str], legend: str
) -> tuple[Panel, ...]:
    """Return a panel for each figure that has a metric: a new figure has one by itself."""
    return tuple(_figure_panel(each, matching(each.metric), legend) for each in figures if each.metric)


def _figure_panel(each: Figure, metric: str, legend: str) -> Panel:
    title, unit = each.title[0].upper() + each.title[1:], str(each.unit)
    if each.is_counter:
        metric, title = f"rate({metric}[$__rate_interval])", f"{title} a second"
        unit = Unit.WATTS if unit == Unit.JOULES else PER_SECOND
    needs = DRIVER if each.source == "driver" else _NEEDS.get(each.name, "")
    return panel(title, unit, grouped(metric, legend), help=each.help, needs=needs)
