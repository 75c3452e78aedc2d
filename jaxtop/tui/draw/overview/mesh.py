"""The mesh of the overview: a cell per device with its figure, axes as rulers, and the late rows marked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.base import units
from jaxtop.base.names import shorten
from jaxtop.tui.core.metrics import METRICS, wait_metric
from jaxtop.tui.core.palette import STEPS
from jaxtop.tui.core.text import LATE
from jaxtop.tui.draw.ink import HALVES
from jaxtop.tui.draw.legend import ramp
from jaxtop.tui.draw.mesh.axes import sizes_in_words
from jaxtop.tui.draw.overview.panels import OverviewPanel, row_name
from jaxtop.tui.draw.panel import Heading
from jaxtop.tui.draw.reading import CellCode, MetricReading, Scale, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model import MeshView
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# The width of a cell with its figure.
WITH_FIGURE = 7
# The widths of a cell without its figure.
WIDTHS = (7, 3, 2)
# The fewest lines of the panel.
MIN_LINES = 5
# The most lines of the panel.
MAX_LINES = 24
# The widest cell.
MAX_CELL_WIDTH = 24
# The lines of the highest cell.
MAX_CELL_LINES = 6


class MeshCell(NamedTuple):
    """A device: the code of its cell, and its figure."""

    code: int
    figure: str


_NO_DEVICE = MeshCell(CellCode.EMPTY, "")


@dataclass(frozen=True)
class MeshMap:
    """The devices as rows of cells."""

    what: str
    axes: tuple[tuple[str, int], ...]
    rows: tuple[tuple[MeshCell, ...], ...]
    scale: Scale
    ends: tuple[str, str]

    @property
    def late(self) -> set[int]:
        """The rows whose devices are all marked: the others wait for them."""
        return {
            i for i, row in enumerate(self.rows) if row and all(each.code == CellCode.MARKED for each in row)
        }

    @property
    def columns(self) -> int:
        """The devices of the longest row."""
        return max(map(len, self.rows), default=0)


def mesh_map(moment: Moment) -> MeshMap | None:
    """Return the first mesh by its first axis, coloured by waits, or by memory where nothing waits."""
    view = next((each for each in moment.mesh_views if each.axes), None)
    if view is None:
        return None
    waits = any(moment.waits_by_device.values())
    metric = wait_metric(moment) if waits else METRICS[0]
    reading = read(moment.device_views, metric)
    cells = {
        (device.run, device.id): _cell_of(reading, i, is_share=waits)
        for i, device in enumerate(moment.device_views)
    }
    relative = "" if reading.scale is not Scale.OPEN else ", relative"
    return MeshMap(
        ("waiting" if waits else metric.name) + relative,
        view.axes,
        tuple(tuple(cells.get((view.run, each), _NO_DEVICE) for each in row) for row in _rows(view)),
        reading.scale,
        ("0%", f"100%: {metric.write(reading.end)}") if waits else ("0", metric.write(reading.end)),
    )


def _cell_of(reading: MetricReading, i: int, *, is_share: bool) -> MeshCell:
    share, value = reading.share(i), reading.metric.write(reading.values[i])
    return MeshCell(reading.codes[i], units.share(share) if is_share and share is not None else value)


def _rows(view: MeshView) -> Iterator[Sequence[int]]:
    """Yield the devices of each index of the first axis; of a single axis, in a square."""
    count = len(view.device_ids)
    rows = view.axes[0][1] if len(view.axes) > 1 else max(1, round(count**0.5))
    each = max(1, -(-count // max(1, rows)))
    return (view.device_ids[i : i + each] for i in range(0, count, each))


def mesh(found: MeshMap | None, ink: Ink) -> OverviewPanel | None:
    """Return the panel; None while no mesh is known."""
    if found is None:
        return None
    return OverviewPanel(
        Heading("Mesh", f"{sizes_in_words(found.axes)}  {found.what}", keys=(("2", "Mesh"),)),
        "mesh",
        lambda width: _plan(found, width, min(MAX_LINES, 3 * len(found.rows) + 2)).height,
        partial(_lines, found, ink),
        lambda width: [_brief(found, ink, width)],
        least=min(len(found.rows) + 1, MIN_LINES),
    )


@dataclass(frozen=True)
class _CellPlan:
    """How the cells are drawn: their width, the lines of each, and whether two rows share a line."""

    cell: int
    tall: int
    label: int
    height: int
    # The lines of the scale and the ruler.
    around: int
    is_halved: bool = False


def _plan(found: MeshMap, width: int, most: int) -> _CellPlan:
    rows, columns = len(found.rows), found.columns
    label = min(max(len(_label(found, i)) for i in (0, max(0, rows - 1))) + 1, max(3, width // 3))
    room = width - label - len(f" {LATE}") * bool(found.late)
    cell = next((each for each in WIDTHS if each * columns <= room), 1)
    around = min(max(0, most - rows), 2 if cell >= WIDTHS[1] else 1)  # the scale, and the ruler
    if rows > most:
        return _CellPlan(1, 1, label, min(most, -(-rows // 2) + 1), 1, is_halved=True)
    cell = min(room // max(1, columns), MAX_CELL_WIDTH) if cell == WITH_FIGURE else cell
    tall = min(MAX_CELL_LINES, (most - around) // max(1, rows)) if cell >= WITH_FIGURE else 1
    return _CellPlan(cell, tall, label, tall * rows + around, around)


def _label(found: MeshMap, row: int) -> str:
    name = found.axes[0][0] if len(found.axes) > 1 else ""
    return f"{name} {row}" if name else str(row)


def _lines(found: MeshMap, ink: Ink, width: int, height: int) -> list[Text]:
    plan = _plan(found, width, height)
    scaled = ink.on(found.scale)
    lines = [] if plan.around < 2 else [_ruler(found, ink, plan)]
    if plan.is_halved:
        lines += _halved(found, scaled, ink, (width, height - 1), plan.label)
    else:
        for i, row in enumerate(found.rows):
            for part in range(plan.tall):
                is_middle = part == (plan.tall - 1) // 2
                words = shorten(_label(found, i), plan.label - 1) if is_middle else ""
                line = Text(f"{words:<{plan.label}}", ink.label, no_wrap=True)
                for each in row:
                    _cell(line, scaled, each, plan.cell, is_middle=is_middle)
                if is_middle and i in found.late:
                    line.append(f" {LATE}", ink.style(ink.palette.warning, bold=True))
                lines.append(line)
    return [*lines, _scale(found, scaled, ink)] if plan.around else lines


def _ruler(found: MeshMap, ink: Ink, plan: _CellPlan) -> Text:
    """Return the names and indices of the other axes, above the columns."""
    line = Text(" " * plan.label, no_wrap=True)
    axes = found.axes[1:] if len(found.axes) > 1 else found.axes
    name = "·".join(each for each, _ in axes)
    columns = found.columns
    with_name = len(f"{name} {columns - 1}") < plan.cell
    for i in range(columns):
        words = f"{name} {i}" if with_name else str(i)
        line.append(f"{words[: plan.cell - 1]:<{plan.cell}}", ink.note)
    if not with_name:
        line = Text.assemble(
            (f"{shorten(name + '→', plan.label - 1):<{plan.label}}", ink.note), line[plan.label :]
        )
    return line


def _cell(line: Text, ink: Ink, each: MeshCell, cell: int, *, is_middle: bool) -> None:
    """Append a cell: its figure on its colour, or on that of a warning; a narrow one has no figure."""
    width, is_late = max(1, cell - 1), each.code == CellCode.MARKED
    glyph, style = ink.whole(each.code)
    has_figure = cell >= WITH_FIGURE and len(each.figure) + 2 <= width
    if is_late and has_figure and not ink.plain:
        ground, glyph = ink.colour(each.code), " "
        style = ink.style(ground.get_contrast_text(1.0), ground, bold=True)
    elif each.code < STEPS and not ink.plain:
        ground, glyph = ink.ramp(each.code), " "
        style = ink.style(ground.get_contrast_text(1.0), ground)
    if has_figure and is_middle:
        line.append(f"! {each.figure}".center(width) if is_late else each.figure.center(width), style)
    else:
        line.append(glyph * width, style)
    if cell > 1:
        line.append(" ")


def _halved(found: MeshMap, scaled: Ink, ink: Ink, room: tuple[int, int], label: int) -> list[Text]:
    """Return two rows in each line, one device a half block; rows beyond the last line are counted."""
    (width, most), lines = room, list[Text]()
    for i in range(0, len(found.rows), 2):
        if len(lines) == most - 1 and i + 2 < len(found.rows):
            lines.append(Text(f"{len(found.rows) - i} more rows: press 2", ink.note))
            break
        upper = found.rows[i]
        lower = found.rows[i + 1] if i + 1 < len(found.rows) else (_NO_DEVICE,) * len(upper)
        line = Text(f"{shorten(_label(found, i), label - 1):<{label}}", ink.label)
        for above, below in list(zip(upper, lower, strict=False))[: width - label]:
            line.append(*scaled.halves(above.code * HALVES + below.code))
        lines.append(line)
    return lines


def _scale(found: MeshMap, scaled: Ink, ink: Ink) -> Text:
    """Return the scale of the colours."""
    low, high = found.ends
    line = Text.assemble((f"{low} ", ink.note), no_wrap=True)
    line.append_text(ramp(scaled))
    line.append(f" {high}", ink.note)
    if found.late:
        line.append("   ! the late one", ink.style(ink.palette.warning))
    return line


def _brief(found: MeshMap, ink: Ink, width: int) -> Text:
    line = Text.assemble(row_name("mesh", ink), (sizes_in_words(found.axes), ink.figure))
    late = sorted(found.late)
    if late:
        words = ", ".join(_label(found, i) for i in late[:3]) + (" …" if len(late) > 3 else "")
        line.append(f"  {LATE}: {words}", ink.style(ink.palette.warning))
        return line
    line.append(f"  {found.what} ", ink.label)
    for each in [each for row in found.rows for each in row][: max(0, width - line.cell_len)]:
        line.append(*ink.on(found.scale).whole(each.code))
    return line
