"""The devices screen: the mesh coordinates, memory and activity of each device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.model import DEVICE_FIGURES, FIGURES, MEMORY, Figure, MeshView, recent
from jaxtop.model.devices import errors, slowed
from jaxtop.model.figure_type import Level
from jaxtop.tui.columns.devices import DeviceRow, DeviceRowContext, empty, id_column
from jaxtop.tui.columns.figures import ReportedNames, figures_by_rank, measured, past, with_bar
from jaxtop.tui.columns.hosts import state_column
from jaxtop.tui.core.moment import EMPTY, Moment, Selection
from jaxtop.tui.core.palette import SIGN, Palette
from jaxtop.tui.core.text import writer
from jaxtop.tui.draw.panes.curves import Curve, facts_above_curves
from jaxtop.tui.draw.panes.device import detail
from jaxtop.tui.draw.table import NONE, Column, figure_column, ordinal_column, words_column
from jaxtop.tui.filters.figures import OF_DEVICES, axis_fields, understand
from jaxtop.tui.screens.device_subject import subject_of
from jaxtop.tui.screens.tables import DeviceTablePane
from jaxtop.tui.widgets.detail import Detail
from jaxtop.tui.widgets.filter import CONDITIONS, FilteredTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from textual.app import ComposeResult

    from jaxtop.model import Pulse


# The least lines of the pane.
MIN_PANE_LINES = 8
# The lines of the facts of the pane.
FACT_LINES = 8
# The lines around the rows of the table.
ROW_PADDING = 2
# The fewest rows that the table keeps.
MIN_TABLE_LINES = 4


class MeshAxes:
    """The axes of the largest mesh of each run, and the coordinates of each device on them."""

    def __init__(self, meshes: list[MeshView]) -> None:
        self.meshes = meshes
        self.sizes: dict[str, int] = {}
        self.coordinates: dict[tuple[str, str], dict[int, int]] = {}
        # The largest mesh of a run comes first; in reverse order it overwrites the others.
        for mesh in {mesh.run: mesh for mesh in reversed(meshes)}.values():
            stride = len(mesh.device_ids)
            for name, size in mesh.axes:
                stride //= size
                at = {each: i // stride % size for i, each in enumerate(mesh.device_ids)}
                self.coordinates[mesh.run, name] = at
                self.sizes[name] = max(size, self.sizes.get(name, 0))


_NOWHERE: dict[int, int] = {}


@dataclass(frozen=True)
class FigureRowContext(DeviceRowContext):
    """The data that all rows of one moment share."""

    axes: MeshAxes

    @cached_property
    def most(self) -> int:
        return max((device.used_bytes or 0 for device in self.moment.device_views), default=0)

    @cached_property
    def has_coords(self) -> bool:
        return any(
            device.coords is not None and device.platform != "gpu" for device in self.moment.device_views
        )


@dataclass(slots=True)
class FigureRow(DeviceRow):
    """One device and its coordinates in the mesh."""

    context: FigureRowContext

    def coordinate(self, axis: str) -> int | None:
        return self.context.axes.coordinates.get((self.device.run, axis), _NOWHERE).get(self.device.id)

    @property
    def fill(self) -> float | None:
        """The length of its bar: the share of the limit where limits are known, else of the largest use."""
        if self.context.has_limits:
            return self.device.used_share
        if self.device.used_bytes is None or not self.context.most:
            return None
        return self.device.used_bytes / self.context.most


def _coords(row: FigureRow) -> str:
    return units.NA if row.device.coords is None else ",".join(map(str, row.device.coords))


def _gauge_colour(row: FigureRow, palette: Palette) -> str | None:
    if row.fill is None or row.state.is_silent:
        return None
    reached = MEMORY.reached(row.device.pulse, row.device.position)
    return None if reached is None else palette.level_colour(reached.level)


def _axis(name: str, size: int) -> Column[FigureRow]:
    width = max(min(len(name), 10), len(str(size - 1)))
    return ordinal_column(f"axis {name}", name, width, lambda row: row.coordinate(name))


def _gauge(title: str) -> Column[FigureRow]:
    def fill(row: FigureRow) -> float | None:
        return row.fill

    column = figure_column("share", title, 4, fill, units.share, style=_gauge_colour)
    return replace(with_bar(column, fill), align="left")


def _history(figure: Figure) -> Column[FigureRow]:
    return past(
        figure,
        lambda row: row.device.read(figure),
        lambda row: (row.context.moment.cluster, row.device.agent, row.device.position),
        lambda row: row.state.is_silent,
    )


def _slowed() -> Column[FigureRow]:
    def read(row: FigureRow) -> tuple[int, tuple[str, ...]] | None:
        found = slowed(row.device.pulse, row.device.position)
        return None if found is None else (found[1], found[0])

    def write(row: FigureRow) -> str:
        found = read(row)
        if found is None:
            return units.NA
        level, words = found
        return NONE if not words else (SIGN if level is Level.BAD else "") + ", ".join(words)

    def style(row: FigureRow, palette: Palette) -> str | None:
        found = read(row)
        return None if found is None else palette.level_colour(Level(found[0]))

    return Column("slowed", "slowed by", 14, "left", read, write, style, largest_first=True)


def _errors() -> Column[FigureRow]:
    def read(row: FigureRow) -> tuple[int, int] | None:
        corrected, uncorrected, _ = errors(row.device.pulse, row.device.position)
        return None if corrected is None and uncorrected is None else (uncorrected or 0, corrected or 0)

    def write(row: FigureRow) -> str:
        corrected, uncorrected, level = errors(row.device.pulse, row.device.position)
        if corrected is None and uncorrected is None:
            return units.NA
        return f"{SIGN if level else ''}{units.amount(uncorrected)}/{units.amount(corrected)}"

    def style(row: FigureRow, palette: Palette) -> str | None:
        return palette.level_colour(errors(row.device.pulse, row.device.position)[2])

    # Uncorrected errors come first, because a single one is serious; corrected errors follow.
    return Column("ecc", "ecc u/c", 7, "right", read, write, style, largest_first=True)


_COORDS: Column[FigureRow] = Column("coords", "coords", 8, "left", lambda row: row.device.coords, _coords)
# The figures to show first and the figures to show later.
_FIRST = tuple(figure for figure in figures_by_rank(DEVICE_FIGURES) if figure.rank == 1)
_LATER = tuple(
    figure for figure in figures_by_rank(DEVICE_FIGURES) if figure.rank > 1 and figure is not MEMORY
)
FOLLOWED: dict[str | None, Figure] = {
    **{figure.name: figure for figure in (*_FIRST, *_LATER)},
    **dict.fromkeys(("memory", "share"), MEMORY),
}


def _where(row: FigureRow) -> tuple[Pulse, int]:
    return row.device.pulse, row.device.position


def _figures(reported: Collection[str], among: Iterable[Figure]) -> Iterator[Column[FigureRow]]:
    return (measured(figure, _where) for figure in among if figure.name in reported)


def columns_for(
    context: FigureRowContext, reported: Collection[str] = (), followed: str | None = None
) -> tuple[Column[FigureRow], ...]:
    """Return the columns, with one for each axis of the mesh and one for each reported figure.

    The history column shows the followed figure if there is one, else utilisation, else memory.
    """
    usual = FIGURES["utilization"] if "utilization" in reported else MEMORY
    axes = [_axis(name, size) for name, size in context.axes.sizes.items()]
    first = list(_figures(reported, _FIRST))
    memory = [
        # Users know the column, which they may choose or sort by, as "memory".
        *(replace(column, key="memory") for column in _figures((MEMORY.name,), (MEMORY,))),
        _gauge("of limit" if context.has_limits else "of largest"),
    ]
    return (
        id_column(),
        words_column("host", "host", 12, lambda row: row.device.hostname, flexible=True),
        *((words_column("run", "run", 12, lambda row: row.run),) if len(context.moment.runs) > 1 else ()),
        ordinal_column("process", "proc", 4, lambda row: row.device.process_index),
        # Hardware figures come before the axes, so that they are visible on narrow terminals too.
        *((*memory, *first, *axes) if first else (*axes, *memory)),
        state_column(lambda row: row.state),
        _history(FOLLOWED.get(followed, usual)),
        *((_slowed(),) if "slowed" in reported else ()),
        *_figures(reported, _LATER),
        *((_errors(),) if not {"ecc_corrected", "ecc_uncorrected"}.isdisjoint(reported) else ()),
        *(
            figure_column(name, name, 6, read, units.size)
            for name, read in (
                ("peak", lambda row: row.device.peak_bytes),
                ("limit", lambda row: row.device.limit_bytes),
            )
            if f"{name}_bytes" in reported
        ),
        words_column("source", "source", 9, lambda row: row.device.memory_source),
        ordinal_column("local", "local", 5, lambda row: row.device.local_id),
        *((_COORDS,) if context.has_coords else ()),
        words_column("kind", "kind", 12, lambda row: row.device.kind, flexible=True),
    )


class DevicesScreen(DeviceTablePane[FigureRow]):
    """One line per device, with the details and curves of the one under the cursor where rows leave room."""

    FOLLOWED = FOLLOWED
    DEFAULT_CSS = """
    DevicesScreen #device-pane { padding: 0 2; border-top: solid $panel; display: none; }
    """

    def __init__(self) -> None:
        super().__init__(columns_for(FigureRowContext(EMPTY, MeshAxes([]))), self._understand)
        self._axes = MeshAxes([])
        self._reported = ReportedNames()
        self._pane = Detail(id="device-pane")

    def compose(self) -> ComposeResult:
        yield FilteredTable(self.table, CONDITIONS.format("temperature>=80 & data=3 | memory>60G"))
        yield self._pane

    def _understand(self, typed: str) -> Callable[[FigureRow], bool] | None:
        return understand(
            typed, {**axis_fields(self._axes.sizes, FigureRow.coordinate), **OF_DEVICES}, self.table.columns
        )

    def _prepare(self, moment: Moment) -> None:
        if self._axes.meshes != moment.mesh_views:
            self._axes = MeshAxes(moment.mesh_views)
        context = FigureRowContext(moment, self._axes)
        self.table.update_columns(columns_for(context, self._reported.see(moment), self._followed))
        rows = [FigureRow(device, context) for device in moment.device_views]
        self.table.update_rows(rows, empty(moment), at=moment.now)

    def _draw(self) -> None:
        room = self.size.height - ROW_PADDING - max(MIN_TABLE_LINES, len(self.moment.device_views))
        row = self.table.row
        subject = None if row is None else subject_of(self.moment, row.device, self._axes.meshes)
        self._pane.display = room >= MIN_PANE_LINES and subject is not None
        if row is None or subject is None or not self._pane.display:
            return
        self._pane.styles.height = room
        facts, shown = partial(detail, subject, self.ink), self._curves(row)
        self._pane.show(facts_above_curves(facts, FACT_LINES, shown, self.ink))

    def _curves(self, row: FigureRow) -> list[Curve]:
        """Return the figure that the table is sorted by, and the most important others that are known."""
        device, cluster = row.device, self.moment.cluster
        first = FOLLOWED.get(self._followed)
        figures = dict.fromkeys([*([first] if first else []), *_FIRST, MEMORY])
        return [
            Curve(
                figure.title, partial(recent, cluster, device.agent, figure, device.position), writer(figure)
            )
            for figure in figures
            if device.read(figure) is not None
        ]

    def select(self, selection: Selection) -> None:
        super().select(selection)
        self._redraw()
