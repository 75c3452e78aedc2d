"""The hosts: what each process does, what it takes, and when it was last heard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from jaxtop.cluster import EMPTY_HOST, Host, HostView, State, launch_rate, scaled
from jaxtop.tui import text
from jaxtop.tui.moment import Moment, Selection
from jaxtop.tui.renderables.reading import OVER, PAST
from jaxtop.tui.renderables.table import NOTHING, Column, Row, figure, ordinal, words
from jaxtop.tui.screens.base import View
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.widget import Widget

    from jaxtop.tui.palette import Palette

_STATES = tuple(State)
_GRAVITY = {state: i for i, state in enumerate(_STATES)}


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host at a moment."""

    view: HostView
    moment: Moment

    @property
    def host(self) -> Host:
        return self.view.host

    @property
    def state(self) -> State:
        return self.moment.states[self.host.agent]

    @property
    def run(self) -> str:
        return self.host.run_name or self.host.run or text.NA

    @property
    def place(self) -> tuple[str, int] | None:
        """Its process among those of all runs."""
        index = self.host.process_index
        return None if index is None else (self.run, index)

    @property
    def present(self) -> Host:
        """The host with its figures; those of a process that is no more are no longer true."""
        return EMPTY_HOST if self.state in OVER else self.host

    @property
    def device_count(self) -> int | None:
        return len(self.host.hello.devices) if self.host.hello else None

    @property
    def used_bytes(self) -> int | None:
        """Of all its devices together; unknown if that of one is."""
        column = self.present.pulse.devices.used_bytes or (None,)
        known = [used for used in column if used is not None]
        return sum(known) if len(known) == len(column) else None

    @property
    def launches(self) -> float | None:
        return None if self.state in PAST else launch_rate(self.moment.cluster, self.host.agent)

    @property
    def steps(self) -> float | None:
        return self.host.steps.per_second if self.host.steps and self.state not in PAST else None

    @property
    def step(self) -> int | None:
        return self.host.pulse.step.index if self.host.pulse.step else None

    @property
    def compiling(self) -> tuple[float, str] | None:
        """The compilation that has been running longest: for how many seconds, and of what."""
        pulse = self.present.pulse
        running = (((pulse.at_ms - each.since_ms) / 1000, each.function) for each in pulse.compiling)
        return max(running, default=None)

    @property
    def cpu(self) -> float | None:
        """In shares of one core."""
        return scaled(self.present.pulse.host.process_cpu_permille, 1000)

    @property
    def machine_cpu(self) -> float | None:
        return scaled(self.present.pulse.host.machine_cpu_permille, 1000)

    @property
    def load(self) -> float | None:
        return scaled(self.present.pulse.host.load_centi, 100)

    @property
    def agent_cpu(self) -> float | None:
        """In percent of one core."""
        return scaled(self.present.pulse.cost.cpu_ppm, 10_000)

    @property
    def age(self) -> float | None:
        return None if self.host.heard_at is None else self.moment.now - self.host.heard_at

    @property
    def jax(self) -> str | None:
        return self.host.hello.jax if self.host.hello else None


def state_column(state: Callable[[Row], State]) -> Column[Row]:
    """A host's state: its sign, its word, its colour; the worst first."""

    def read(row: Row) -> int:
        return _GRAVITY[state(row)]

    def style(row: Row, palette: Palette) -> str:
        return palette.of_state(state(row))

    return replace(figure("state", "state", 13, read, _state, style=style), align="left")


def _state(gravity: int) -> str:
    state = _STATES[gravity]
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


RUN: Column[HostRow] = words("run", "run", 12, lambda row: row.run)
COLUMNS: tuple[Column[HostRow], ...] = (
    state_column(lambda row: row.state),
    Column("process", "proc", 4, "right", lambda row: row.place, lambda row: _index(row.place)),
    words("host", "host", 11, lambda row: row.host.hostname, flexible=True),
    figure("devices", "dev", 3, lambda row: row.device_count, text.number),
    figure("memory", "memory", 6, lambda row: row.used_bytes, text.size),
    figure("launches", "launch/s", 8, lambda row: row.launches, partial(text.number, digits=1)),
    figure("steps", "steps/s", 7, lambda row: row.steps, partial(text.number, digits=2)),
    figure("heard", "heard", 6, lambda row: row.age, text.age),
    figure("step", "step", 7, lambda row: row.step, text.number),
    figure("cpu", "cpu", 6, lambda row: row.cpu, text.share),
    _compiling(20),
    figure("rss", "rss", 6, lambda row: row.present.pulse.host.rss_bytes, text.size),
    figure("machine", "machine", 7, lambda row: row.machine_cpu, text.share),
    figure("load", "load", 6, lambda row: row.load, partial(text.number, digits=2)),
    figure("agent", "agent", 6, lambda row: row.agent_cpu, _percent),
    ordinal("pid", "pid", 7, lambda row: row.host.pid),
    figure("starts", "starts", 6, lambda row: row.view.incarnation, str, style=_is_restarted),
    words("jax", "jax", 8, lambda row: row.jax, flexible=True),
)
# State, process and host stay.
PINNED = 3


def columns_for(moment: Moment) -> tuple[Column[HostRow], ...]:
    """Where there are several runs, a host says which one it belongs to."""
    return COLUMNS if len(moment.runs) < 2 else (*COLUMNS[:PINNED], RUN, *COLUMNS[PINNED:])


def tone(row: HostRow, palette: Palette) -> str | None:
    """What is past is drawn back."""
    return palette.muted if row.state in PAST else None


def empty(moment: Moment) -> str:
    """Why there are no hosts."""
    if not moment.cluster.unmet:
        return "no hosts yet: waiting for a run"
    return f"no hosts yet: nothing has answered from {', '.join(moment.cluster.unmet)}"


class HostsView(View):
    """One line a host."""

    KEY: ClassVar[str] = "2"
    TITLE: ClassVar[str] = "Hosts"

    def __init__(self) -> None:
        super().__init__()
        self.table: Table[HostRow] = Table(
            COLUMNS, lambda row: row.host.agent, noun="host", pinned=PINNED, sort="process", tone=tone
        )

    def compose(self) -> ComposeResult:
        yield FilteredTable(self.table)

    def show(self, moment: Moment) -> None:
        super().show(moment)
        self.table.update_columns(columns_for(moment))
        self.table.update_rows([HostRow(view, moment) for view in moment.hosts], empty(moment))

    def select(self, selection: Selection) -> None:
        super().select(selection)
        self.table.select(selection.agent)

    @property
    def first_focus(self) -> Widget:
        return self.table

    def on_table_moved(self, message: Table.Moved) -> None:
        """The device selected before stays so while its host does."""
        message.stop()
        agent = message.row.host.agent
        if agent != self.selection.agent:
            self.selection = Selection(agent)
        self.post_message(View.Selected(self.selection))

    def on_table_chosen(self, message: Table.Chosen) -> None:
        """Its devices, from the first one on."""
        message.stop()
        host = message.row.host
        devices = host.hello.devices if host.hello else ()
        self.selection = Selection(host.agent, devices[0].id if devices else None)
        self.post_message(View.Drilled(self.selection, "3"))
