"""The programs screen: launches, compilations, memory and differences of each compiled program."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType

from jaxtop.base import units
from jaxtop.base.feature import hooks
from jaxtop.model import Part
from jaxtop.model.naming.sentences import host_names
from jaxtop.tui.columns.figures import with_bar
from jaxtop.tui.core import text
from jaxtop.tui.core.moment import Moment, Selection
from jaxtop.tui.draw.bars import BarPart, bar_line, legend_entry
from jaxtop.tui.draw.panel import flowed
from jaxtop.tui.draw.panes.peak import peak_lines
from jaxtop.tui.draw.stacked_bar import colour_of
from jaxtop.tui.draw.table import Column, figure_column, ordinal_column, words_column
from jaxtop.tui.screens.base import ScreenPane
from jaxtop.tui.screens.tables import TablePane
from jaxtop.tui.widgets.detail import Words
from jaxtop.tui.widgets.filter import FilteredTable
from jaxtop.tui.widgets.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from textual.app import ComposeResult

    from jaxtop.model import ProgramView
    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.ink import Ink

DIFFERS, STORM, TOO_LARGE = "≠", "!", "▲"
FINGERPRINT = 8
# The least lines of the details.
MIN_ABOUT = 3
# More processes than this are shown as a number.
MAX_NAMED = 4


class ProgramRow(NamedTuple):
    """One program at a moment."""

    view: ProgramView
    moment: Moment

    @property
    def sign(self) -> str:
        if self.view.differs:
            return DIFFERS
        if self.view.is_recompiling:
            return STORM
        return TOO_LARGE if self.is_too_large else ""

    @property
    def is_too_large(self) -> bool:
        """Whether a launch may not fit. A running program fits: its last launch may still hold memory."""
        return (self.view.headroom_bytes or 0) < 0 and not self.view.function_per_second

    @property
    def name(self) -> str:
        name = self.view.program.name
        if self.view.differs:  # the hosts distinguish rows of one name
            hosts = [host for agent in self.view.agents if (host := self.moment.host(agent))]
            name = f"{host_names(hosts)}: {name}"
        return f"{self.sign} {name}" if self.sign else name

    @property
    def run(self) -> str:
        return self.moment.run_name(self.view.run)

    @property
    def fingerprint(self) -> str | None:
        found = self.view.program.fingerprint
        return found and found[:FINGERPRINT]

    @property
    def why(self) -> str | None:
        """Why the function was compiled again, in short."""
        cause = self.view.cause
        return None if cause is None else f"{cause.last.cause} {cause.last.argument}".strip()

    def processes_text(self, agents: tuple[str, ...]) -> str:
        if len(agents) > MAX_NAMED:
            return f"{len(agents)} processes"
        hosts = [self.moment.host(agent) for agent in agents]
        return ", ".join(self.moment.label(host) for host in hosts if host)


def _name_colour(row: ProgramRow, palette: Palette) -> str | None:
    return {DIFFERS: palette.bad, STORM: palette.warning, TOO_LARGE: palette.warning}.get(row.sign)


def _compiles_colour(row: ProgramRow, palette: Palette) -> str | None:
    return palette.warning if row.view.is_recompiling else None


def _headroom_colour(row: ProgramRow, palette: Palette) -> str | None:
    return palette.bad if row.is_too_large else None


def _hosts_colour(row: ProgramRow, palette: Palette) -> str | None:
    return palette.bad if row.view.differs else None


def _name() -> Column[ProgramRow]:
    named = words_column("program", "program", 24, lambda row: row.name, _name_colour, flexible=True)
    return replace(named, read=lambda row: row.view.program.name, form=None)


def _bounded(
    key: str, title: str, read: Callable[[ProgramRow], int | None], form: Callable[[float | None], str]
) -> Column[ProgramRow]:
    def write(row: ProgramRow) -> str:
        return units.bound(form(read(row)), at_least=row.view.program.flops_at_least)

    return replace(figure_column(key, title, 6, read, form), write=write, form=None)


def _share_of_free(row: ProgramRow) -> float | None:
    """Return what a launch adds as a share of what is free on the fullest device."""
    adds, free = row.view.adds_bytes, row.view.free_bytes
    return None if adds is None or free is None else adds / free if free > 0 else 1.0


COLUMNS: tuple[Column[ProgramRow], ...] = (
    _name(),
    figure_column("launches", "launches", 9, lambda row: row.view.launches, units.number),
    figure_column("needs", "needs", 6, lambda row: row.view.needs_bytes, units.size),
    with_bar(
        figure_column(
            "headroom", "headroom", 8, lambda row: row.view.headroom_bytes, units.size, style=_headroom_colour
        ),
        _share_of_free,
    ),
    figure_column(
        "compiles", "compiles", 8, lambda row: row.view.compiles, units.number, style=_compiles_colour
    ),
    figure_column(
        "rate", "launch/s", 8, lambda row: row.view.launches_per_second, partial(units.number, digits=1)
    ),
    figure_column("p50", "p50", 6, lambda row: row.view.p50_us, units.micros),
    figure_column("p99", "p99", 6, lambda row: row.view.p99_us, units.micros),
    _bounded("flops", "flops", lambda row: row.view.program.flops, units.amount),
    figure_column("compiled", "compile", 7, lambda row: row.view.compile_ms, units.duration),
    figure_column("arguments", "args", 6, lambda row: row.view.program.argument_bytes, units.size),
    figure_column("outputs", "outs", 6, lambda row: row.view.program.output_bytes, units.size),
    figure_column("temporaries", "temps", 6, lambda row: row.view.program.temp_bytes, units.size),
    _bounded("accessed", "bytes", lambda row: row.view.program.accessed_bytes, units.size),
    figure_column("hosts", "hosts", 5, lambda row: len(row.view.agents), units.number, style=_hosts_colour),
    figure_column("lost", "lost", 6, lambda row: row.view.lost_ms, units.duration),
    words_column("why", "why again", 18, lambda row: row.why, flexible=True),
    ordinal_column("devices", "dev", 5, lambda row: row.view.program.devices),
    words_column("fingerprint", "print", FINGERPRINT, lambda row: row.fingerprint),
    words_column("created", "compiled at", 16, lambda row: row.view.program.created, flexible=True),
)
RUN: Column[ProgramRow] = words_column("run", "run", 12, lambda row: row.run)


def columns_for(moment: Moment) -> tuple[Column[ProgramRow], ...]:
    return COLUMNS if len(moment.runs) < 2 else (*COLUMNS[:1], RUN, *COLUMNS[1:])


def empty(moment: Moment) -> str:
    if not moment.host_views:
        return "no programs yet: no process has reported"
    off = next((source for source in moment.not_on("programs") if source.startswith("off")), None)
    return f"no programs: {off}" if off else "no programs yet: no process has compiled any"


def needs_lines(row: ProgramRow, width: int, ink: Ink) -> list[Text]:
    """Return what a device must hold during a launch as a bar, up to what it could hold, with a legend."""
    view, program, needs = row.view, row.view.program, row.view.needs_bytes
    if not needs:
        return []
    reused = min(program.alias_bytes or 0, program.output_bytes or 0)
    sizes = {
        Part.PARAMETERS: ("arguments", "A", program.argument_bytes),
        Part.OPTIMIZER: ("results", "R", (program.output_bytes or 0) - reused),
        Part.TEMPORARIES: ("temporaries", "T", program.temp_bytes),
    }
    parts = [
        BarPart(size or 0, colour_of(part, ink.palette), sign) for part, (_, sign, size) in sizes.items()
    ]
    free = view.headroom_bytes
    entries = [
        legend_entry(part.sign, part.colour, name, units.size(size), ink)
        for part, (name, _, size) in zip(parts, sizes.values(), strict=True)
    ]
    if free is None:
        entries.append(Text("headroom unknown", ink.note))
    elif free < 0:
        entries.append(
            Text(
                f"{units.size(-free)} more than is free",
                ink.style(ink.palette.bad) if row.is_too_large else ink.note,
            )
        )
    else:
        entries.append(Text(f"then {units.size(free)} free", ink.note))
    end = needs + max(0, free or 0)
    return [bar_line(parts, end, width, ink), *flowed(entries, width, 3)]


def about(row: ProgramRow, ink: Ink, width: int = 100) -> Text:
    """Return the details of a program: what features say about it, its processes, notes on its figures."""
    view, program, palette = row.view, row.view.program, ink.palette
    lines = [Text(text.printable(f"{program.name}  fingerprint {row.fingerprint or units.NA}"), "bold")]
    if view.differs:
        lines.append(
            Text(
                f"{DIFFERS} compiled differently by {row.processes_text(view.differs)}, in its {view.unlike}",
                palette.bad,
            )
        )
    if view.is_recompiling:
        hint = "its arguments change shape, or jax.jit is called on it each time"
        if view.cause is not None:
            hint = view.cause.words
        lines.append(Text(text.printable(f"{STORM} recompiled repeatedly: {hint}"), palette.warning))
    elif view.cause is not None:
        lines.append(Text(text.printable(f"compiled again: {view.cause.words}")))
    if row.is_too_large:
        lines.append(Text(f"{TOO_LARGE} a launch may not fit into the fullest device", palette.bad))
    lines += needs_lines(row, width, ink)
    for lines_of in hooks("program_lines"):
        lines += lines_of(row.moment, view, width, ink)
    facts = [f"loaded by {row.processes_text(view.agents)}"]
    if view.lost_ms is not None:
        facts.append(f"compilations of this name took {units.duration(view.lost_ms)}")
    if program.created:
        facts.append(f"compiled at {program.created}")
    if view.adds_bytes is not None:
        adds = units.size(view.adds_bytes)
        facts.append(f"a launch needs {adds} besides its arguments (compiler estimate)")
    if view.free_bytes is not None:
        facts.append(f"{units.size(view.free_bytes)} free on the fullest device")
    if view.variants > 1:
        count = units.number(view.function_launches)
        facts.append(f"{view.variants} programs of this name: {count} launches together")
    lines.append(Text(text.printable(", ".join(facts)), palette.muted))
    if view.peak is not None:
        lines += peak_lines(view.peak, palette)
    return Text("\n").join(lines)


class ProgramsScreen(TablePane[Table[ProgramRow]]):
    """One line per program, with the details of the one under the cursor below."""

    DEFAULT_CSS = """
    ProgramsScreen #about { height: auto; min-height: 3; padding: 0 2; border-top: solid $panel; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "operations", "Operations"),
        Binding("B", "buffers", "Buffers"),
    ]

    def __init__(self) -> None:
        super().__init__(Table(COLUMNS, lambda row: row.view.key, noun="program", pinned=1, sort="needs"))
        self._about = Words(id="about")

    def compose(self) -> ComposeResult:
        yield FilteredTable(self.table)
        yield self._about

    def _prepare(self, moment: Moment) -> None:
        self.table.update_columns(columns_for(moment))
        rows = [ProgramRow(view, moment) for view in moment.program_views]
        self.table.update_rows(rows, empty(moment), at=moment.now)

    def _draw(self) -> None:
        row = self.table.row
        width, height = max(0, self.size.width - 4), self.size.height
        # Where there are many programs, they keep half of the lines.
        listed = len(self.table.shown) + 2
        self._about.styles.max_height = max(MIN_ABOUT, height - min(listed, height // 2))
        self._about.set_text(about(row, self.ink, width) if row else Text())

    def point_at(self, row: Hashable) -> None:
        """Put the cursor on the program of this name, on that of the selected host if there are several."""
        found = [view for view in self.moment.program_views if row in (view.function, view.program.name)]
        of_host = [view for view in found if view.differs and self.selection.agent in view.agents]
        self.table.select(next((view.key for view in (*of_host, *found)), None))

    def action_operations(self) -> None:
        """Show where the time of the program under the cursor goes."""
        if self.table.row is not None:
            name = self.table.row.view.program.name
            self.post_message(ScreenPane.Drilled(self.selection, "operations", row=name))

    def action_buffers(self) -> None:
        """Ask a process of the program under the cursor what holds memory at the peaks of its programs."""
        if self.table.row is not None:
            self.post_message(ScreenPane.Requested("peaks", self.table.row.view.agents))

    def _chosen(self, row: Any) -> None:
        """Open the first host that has a different program, else the first that has this one."""
        view = row.view
        self.post_message(ScreenPane.Drilled(Selection((view.differs or view.agents)[0]), "hosts"))
