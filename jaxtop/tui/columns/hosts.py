"""The columns of a host: its step, its figures, its resource use, and its last contact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from jaxtop.model import STEP_TIME, Host, HostView, State, launch_rate, pace_of, scaled
from jaxtop.model.liveness import BY_SEVERITY
from jaxtop.model.steps import past_of, step_of
from jaxtop.model.thresholds import IDLE
from jaxtop.tui import text
from jaxtop.tui.columns.figures import measured, past
from jaxtop.tui.draw.table import NOTHING, Column, Row, figure, ordinal, words
from jaxtop.tui.figures import FIGURES, joules, seconds, watts
from jaxtop.tui.palette import SIGN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from jaxtop.model import Figure
    from jaxtop.model.steps import StepView
    from jaxtop.tui.moment import Moment
    from jaxtop.tui.palette import Palette


class KnownSteps:
    """The cached steps of hosts. Each is computed once until the host changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Host, StepView | None]] = {}

    def of(self, host: Host) -> StepView | None:
        known = self._known.get(host.agent)
        if known is None or known[0] is not host:
            known = self._known[host.agent] = host, step_of(host)
        return known[1]


@dataclass(slots=True)
class HostRow:
    """One host at a moment."""

    view: HostView
    moment: Moment
    known_steps: KnownSteps

    @property
    def host(self) -> Host:
        return self.view.host

    @property
    def state(self) -> State:
        return self.view.state

    @property
    def run(self) -> str:
        if self.host.run is None and self.host.run_name is None:
            return text.NA
        return self.moment.run_names[self.moment.run_of(self.host)]

    @property
    def place(self) -> tuple[str, int] | None:
        """The run and the process index, which sort processes of all runs; None if the index is unknown."""
        index = self.host.process_index
        return None if index is None else (self.run, index)

    @property
    def now(self) -> Host:
        """The host with only its current figures."""
        return self.view.now

    @property
    def device_count(self) -> int | None:
        return len(self.host.hello.devices) if self.host.hello else None

    @property
    def used_bytes(self) -> int | None:
        """The memory used on all its devices together; None if it is unknown for any of them."""
        column = self.now.pulse.devices.used_bytes or (None,)
        known = [used for used in column if used is not None]
        return sum(known) if len(known) == len(column) else None

    @property
    def launches(self) -> float | None:
        return launch_rate(self.moment.cluster, self.now)

    @property
    def rhythm(self) -> StepView | None:
        """The step that it repeats; None if it is unknown or no longer current."""
        return self.known_steps.of(self.now)

    @property
    def steps(self) -> float | None:
        return pace_of(self.now)

    @property
    def step(self) -> int | None:
        return self.now.pulse.step.index if self.now.pulse.step else None

    @property
    def still(self) -> float | None:
        """The seconds since its last step ended, if that is far longer than usual; else None."""
        return past_of(self.now)

    @property
    def compiling(self) -> tuple[float, str] | None:
        """The longest running compilation: its seconds and its function; None if nothing is compiled."""
        pulse = self.now.pulse
        running = (((pulse.at_ms - each.since_ms) / 1000, each.function) for each in pulse.compiling)
        return max(running, default=None)

    @property
    def cores(self) -> int | None:
        """The number of available cores, in thousandths."""
        return self.now.pulse.host.cores_milli

    @property
    def agent_cpu(self) -> float | None:
        """The CPU use of the agent, in percent of one core."""
        return scaled(self.now.pulse.cost.cpu_ppm, 10_000)

    @property
    def age(self) -> float | None:
        return None if self.host.heard_at is None else self.moment.now - self.host.heard_at

    @property
    def jax(self) -> str | None:
        return self.host.hello.jax if self.host.hello else None


def state_column(state: Callable[[Row], State]) -> Column[Row]:
    """Return the column of states, with sign, name and colour. It sorts the most severe state first."""

    def read(row: Row) -> int:
        return state(row).severity

    def style(row: Row, palette: Palette) -> str:
        return palette.of_state(state(row))

    return replace(figure("state", "state", 13, read, _state, style=style), align="left")


def _state(severity: int) -> str:
    state = BY_SEVERITY[-1 - severity]
    return f"{text.STATE_SIGNS[state]} {state}"


def _compiling(width: int) -> Column[HostRow]:
    def read(row: HostRow) -> tuple[float, str] | None:
        return row.compiling

    def write(running: tuple[float, str] | None) -> str:
        return NOTHING if running is None else f"{text.age(running[0])} {running[1]}"

    def style(row: HostRow, palette: Palette) -> str | None:
        return palette.warning if row.compiling else None

    column = figure("compiling", "compiling", width, read, write, style=style)
    return replace(column, align="left", flexible=True)


def _percent(value: float | None) -> str:
    return text.NA if value is None else f"{value:.2f}%"


def _is_restarted(row: HostRow, palette: Palette) -> str:
    return palette.warning if row.view.incarnation > 1 else palette.muted


def _index(place: tuple[str, int] | None) -> str:
    return text.NA if place is None else str(place[1])


def _of_step(
    key: str,
    title: str,
    width: int,
    form: Callable[[float | None], str],
    read: Callable[[StepView], float | None],
) -> Column[HostRow]:
    """Return a column of a figure of the step."""

    def value(row: HostRow) -> float | None:
        return None if row.rhythm is None else read(row.rhythm)

    return figure(key, title, width, value, form)


def _idle(value: float | None) -> str:
    return (SIGN if value is not None and value >= IDLE.reach else "") + text.share(value)


def _idle_colour(row: HostRow, palette: Palette) -> str | None:
    idle = None if row.rhythm is None else row.rhythm.idle
    return None if idle is None or idle < IDLE.reach else palette.of_level(IDLE.level)


def _of_before(row: HostRow, palette: Palette) -> str | None:
    """Return the muted colour where no steps complete: the step times are then not current."""
    return None if row.still is None else palette.muted


def _estimated(value: float | None) -> str:
    return text.NA if value is None else f"~{text.share(value)}"


def _operations(value: float | None) -> str:
    return text.NA if value is None else f"{text.amount(value)}F/s"


def _of_operations(
    key: str,
    title: str,
    width: int,
    form: Callable[[float | None], str],
    read: Callable[[StepView], float | None],
) -> Column[HostRow]:
    """Return a column of a figure that depends on the step's flops. It is a lower bound if they are."""

    def write(row: HostRow) -> str:
        step = row.rhythm
        if step is None or not step.flops_at_least:
            return form(None if step is None else read(step))
        return text.bound(form(read(step)).lstrip("~"), at_least=True)

    return replace(_of_step(key, title, width, form, read), write=write, form=None)


# The columns after the step times. Each is shown if any of the first `ASKED` hosts reports its figure.
_OF_STEP = (
    _of_operations("utilization", "of peak", 7, _estimated, lambda step: step.utilization),
    replace(_of_step("idle", "idle", 5, _idle, lambda step: step.idle), style=_idle_colour),
    _of_operations("flops", "flop/s", 8, _operations, lambda step: step.flops_per_second),
    _of_step("tokens", "tokens/s", 8, text.amount, lambda step: step.tokens_per_second),
    _of_step("watts", "power", 6, watts, lambda step: step.watts),
    _of_step("joules", "J a step", 8, joules, lambda step: step.joules_per_step),
    _of_step("joules_token", "J a token", 9, joules, lambda step: step.joules_per_token),
)
_TIMES = tuple(
    replace(each, style=_of_before)
    for each in (
        _of_step("p50", "p50", 6, seconds, lambda step: step.p50_s),
        _of_step("p99", "p99", 6, seconds, lambda step: step.p99_s),
    )
)
# The number of hosts to check for a figure of the step. We assume that all hosts report the same figures.
ASKED = 16


def steps_told(rows: Iterable[HostRow]) -> frozenset[str]:
    """Return the keys of the columns of the step that have a value."""
    asked = list(islice(rows, ASKED))
    return frozenset(
        column.key for column in (*_TIMES, *_OF_STEP) if any(column.read(row) is not None for row in asked)
    )


def _of_machine(name: str, width: int, form: Callable[[float | None], str] | None = None) -> Column[HostRow]:
    return measured(FIGURES[name], width, lambda row: (row.now.pulse, 0), form)


# In column order: first the columns that are always shown, then those that need a reported figure.
_CPU, _RSS, _MACHINE, _LOAD = (
    replace(_of_machine(name, width), key=key, title=key)
    for name, key, width in (
        ("process_cpu_cores", "cpu", 6),
        ("rss_bytes", "rss", 6),
        ("machine_cpu", "machine", 7),
        ("load", "load", 6),
    )
)
_LATER = {
    "memory_used_bytes": 6,
    "cpu_pressure": 8,
    "memory_pressure": 8,
    "io_pressure": 7,
    "held_back": 5,
    "received_bytes_per_second": 8,
    "sent_bytes_per_second": 8,
    "disk_read_bytes_per_second": 8,
    "disk_written_bytes_per_second": 8,
    "process_read_bytes_per_second": 8,
    "process_written_bytes_per_second": 8,
}
# The figures that the history column can show, by the key of the column that the table is sorted by.
FOLLOWED: dict[str | None, Figure] = {
    "cpu": FIGURES["process_cpu_cores"],
    "rss": FIGURES["rss_bytes"],
    "machine": FIGURES["machine_cpu"],
    "load": FIGURES["load"],
    **{name: FIGURES[name] for name in _LATER},
    **dict.fromkeys(("p50", "p99"), STEP_TIME),
    "steps": FIGURES["steps_per_second"],
}


def _cores(cores: int | None) -> str:
    return text.NA if cores is None else f"{cores / 1000:g}"


def _whose(row: HostRow) -> str | None:
    if row.cores is None:
        return None
    return "container" if row.now.pulse.host.is_container else "machine"


def _history(of: Figure) -> Column[HostRow]:
    return past(
        of,
        lambda row: of.read(row.now.pulse, 0),
        lambda row: (row.moment.cluster, row.host.agent, 0),
        lambda row, palette: None if row.state.is_past else palette.ramp[2],
    )


RUN: Column[HostRow] = words("run", "run", 12, lambda row: row.run)
# State, process and host stay visible while scrolling.
PINNED = 3


def columns_for(
    moment: Moment, reported: Collection[str] = (), told: Collection[str] = (), followed: str | None = None
) -> tuple[Column[HostRow], ...]:
    """Return the columns of hosts, with those figures of the step and the machine that are reported.

    If there are several runs, a column shows the run of each host.
    """
    if followed not in FOLLOWED:
        followed = "p50" if STEP_TIME.name in reported else "cpu"
    has_times = any(each.key in told for each in _TIMES)
    history = _history(FOLLOWED[followed])
    return (
        state_column(lambda row: row.state),
        Column("process", "proc", 4, "right", lambda row: row.place, lambda row: _index(row.place)),
        words("host", "host", 11, lambda row: row.host.hostname, flexible=True),
        *((RUN,) if len(moment.runs) > 1 else ()),
        figure("devices", "dev", 3, lambda row: row.device_count, text.number),
        figure("memory", "memory", 6, lambda row: row.used_bytes, text.size),
        figure("launches", "launch/s", 8, lambda row: row.launches, partial(text.number, digits=1)),
        figure("steps", "steps/s", 7, lambda row: row.steps, partial(text.number, digits=2)),
        *(each for each in _TIMES if each.key in told),
        *((history,) if has_times else ()),
        *(each for each in _OF_STEP if each.key in told),
        figure("heard", "heard", 6, lambda row: row.age, text.age),
        figure("index", "at step", 7, lambda row: row.step, text.number),
        _CPU,
        _compiling(20),
        *(() if has_times else (history,)),
        _RSS,
        _MACHINE,
        _LOAD,
        *(_of_machine(name, width) for name, width in _LATER.items() if name in reported),
        *(
            (figure("cores", "cores", 5, lambda row: row.cores, _cores), words("of", "of a", 9, _whose))
            if any(view.host.pulse.host.cores_milli is not None for view in moment.hosts[:ASKED])
            else ()
        ),
        figure("agent", "agent", 6, lambda row: row.agent_cpu, _percent),
        ordinal("pid", "pid", 7, lambda row: row.host.pid),
        figure("starts", "starts", 6, lambda row: row.view.incarnation, str, style=_is_restarted),
        words("jax", "jax", 8, lambda row: row.jax, flexible=True),
    )
