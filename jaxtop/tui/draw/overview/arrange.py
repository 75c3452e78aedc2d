"""The places of panels: in rows of one to three, or as lines where there is no room for frames."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.tui.draw.overview import hosts as of_hosts
from jaxtop.tui.draw.overview import machines as of_machines
from jaxtop.tui.draw.overview import memory as of_memory
from jaxtop.tui.draw.overview import mesh as of_mesh
from jaxtop.tui.draw.overview.anatomy import anatomy
from jaxtop.tui.draw.overview.history import compilations, compiled, events, happened
from jaxtop.tui.draw.overview.starting import start_stages, starting
from jaxtop.tui.draw.overview.steps import percentiles, steps, timespan
from jaxtop.tui.draw.overview.tables import collectives, growing, programs
from jaxtop.tui.draw.panel import FRAME_HEIGHT, beside, cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.text import Text

    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink
    from jaxtop.tui.draw.overview.panels import OverviewPanel

# The least width for two panels side by side; with fewer columns there is a list.
TWO_COLUMNS_WIDTH = 100
# The least width for three panels side by side.
THREE_COLUMNS_WIDTH = 170
# The least width for four panels side by side.
FOUR_COLUMNS_WIDTH = 230
FRAMED_HEIGHT = 20
# The share of the width of the left one of two panels.
LEFT = 0.54


class PanelPlace(NamedTuple):
    """Where a panel was drawn, and the screen that a click there opens."""

    x: int
    y: int
    width: int
    height: int
    screen: str


@dataclass
class Drawing:
    """The drawn panels and where they stand."""

    lines: list[Text] = field(default_factory=list)
    places: list[PanelPlace] = field(default_factory=list)

    def screen_at(self, x: int, y: int) -> str | None:
        """Return the screen of the panel at this place."""
        return next(
            (
                each.screen
                for each in self.places
                if each.x <= x < each.x + each.width and each.y <= y < each.y + each.height
            ),
            None,
        )


def panels_of(moment: Moment, ink: Ink, screens: frozenset[str]) -> dict[str, OverviewPanel]:
    """Return the panels that have something to say, by name, the most important first."""
    span = timespan(moment)
    step = steps(span, ink)
    parts = anatomy(moment, span, ink, screens)
    is_starting = step is None and parts is None
    news, made = happened(moment), compiled(moment)
    found = {
        "start": starting(start_stages(moment), ink) if is_starting else None,
        "anatomy": parts,
        "anatomy and step": parts
        and replace(
            parts, heading=replace(parts.heading, figures=f"{parts.heading.figures}  {percentiles(span)}")
        ),
        "step": step,
        "mesh": of_mesh.mesh(of_mesh.mesh_map(moment), ink),
        "memory": of_memory.memory(of_memory.memory_figures(moment), ink, plans="plan" in screens),
        "hosts": of_hosts.hosts(of_hosts.host_lines(moment), ink),
        "machines": of_machines.machines(of_machines.machine_lines(moment), ink),
        "events": events(news, (), ink),
        "all events": events(news, made, ink),
        "compiled": compilations(made, ink),
        "collectives": collectives(moment, ink),
        "growing": growing(moment, ink),
        "programs": programs(moment, ink),
    }
    return {name: each for name, each in found.items() if each is not None}


def draw(found: Mapping[str, OverviewPanel], ink: Ink, width: int, height: int) -> Drawing:
    """Return the panels for this size."""
    if width < TWO_COLUMNS_WIDTH or height < FRAMED_HEIGHT:
        return _listed(found, width, height)
    return _in_rows(_rows(found, width, height), ink, width, height)


# The rows of panels, the first ones the most important: before the first step; in two columns, in order of
# the room that they need; in three columns and in four. In each, the rows that fit are shown.
_STARTING = (("start", "machines"), ("mesh", "memory"), ("hosts", "all events"), ("programs",))
_TWO_A_ROW = (
    (
        ("anatomy",), ("step", "mesh"), ("memory", "machines"), ("hosts", "events"), ("compiled",),
        ("collectives", "programs"), ("growing",),
    ),
    (("anatomy",), ("step", "mesh"), ("memory", "machines"), ("hosts", "all events")),
    (("anatomy and step", "mesh"), ("memory", "machines"), ("hosts", "all events")),
)  # fmt: skip
# All of these must fit, or rows that need less room are tried.
_NEEDED = ({"hosts", "compiled"}, {"hosts"}, set[str]())
_THREE_A_ROW = (
    ("anatomy", "mesh"), ("step", "memory", "machines"), ("hosts", "events", "compiled"),
    ("collectives", "programs", "growing"),
)  # fmt: skip
_FOUR_A_ROW = (
    ("anatomy", "step", "mesh"), ("memory", "machines", "hosts", "events"),
    ("compiled", "collectives", "programs", "growing"),
)  # fmt: skip


def _rows(found: Mapping[str, OverviewPanel], width: int, height: int) -> list[list[OverviewPanel]]:
    """Return the rows for which there is room, without panels that have nothing to say."""
    if "start" in found:
        return _fitting(found, _STARTING, height)
    if width >= FOUR_COLUMNS_WIDTH:
        return _fitting(found, _FOUR_A_ROW, height)
    if width >= THREE_COLUMNS_WIDTH:
        return _fitting(found, _THREE_A_ROW, height)
    rows: list[list[OverviewPanel]] = []
    for names, needed in zip(_TWO_A_ROW, _NEEDED, strict=True):
        rows = _fitting(found, names, height)
        shown = [id(each) for row in rows for each in row]
        if all(id(found[name]) in shown for name in needed & found.keys()):
            break
    return rows


def _fitting(
    found: Mapping[str, OverviewPanel], rows: Sequence[Sequence[str]], height: int
) -> list[list[OverviewPanel]]:
    """Return the rows of which each panel has its least height."""
    fitting, left = [], height
    for names in rows:
        row = [found[name] for name in names if name in found]
        least = max((each.least + FRAME_HEIGHT for each in row), default=0)
        if least > left:
            break
        left -= least
        fitting += [row] * bool(row)
    return fitting


def _widths(row: Sequence[OverviewPanel], width: int) -> list[int]:
    """Return the widths of the panels of a row, so that borders of all rows stand in the same columns.

    In a row with fewer panels than columns, the first one that grows takes the others, or else the last.
    """
    columns = 4 if width >= FOUR_COLUMNS_WIDTH else 3 if width >= THREE_COLUMNS_WIDTH else 2
    if columns == 2:
        left = round(width * LEFT)
        sizes = [left, width - left]
    else:
        each = width // columns
        sizes = [*[each] * (columns - 1), width - each * (columns - 1)]
    wide = next((i for i, each in enumerate(row) if each.grows), len(row) - 1)
    more = columns - len(row)
    return [*sizes[:wide], sum(sizes[wide : wide + more + 1]), *sizes[wide + more + 1 :]]


def _in_rows(rows: list[list[OverviewPanel]], ink: Ink, width: int, height: int) -> Drawing:
    if not rows:
        return Drawing()
    wanted = [
        max(each.height(size) for each, size in zip(row, _widths(row, width), strict=True)) for row in rows
    ]
    least = [max(each.least for each in row) + FRAME_HEIGHT for row in rows]
    heights = _shared(wanted, least, [any(each.grows for each in row) for row in rows], height)
    lines: list[Text] = []
    places = []
    for row, tall in zip(rows, heights, strict=True):
        x = 0
        for each, size in zip(row, _widths(row, width), strict=True):
            places.append(PanelPlace(x, len(lines), size, tall, each.screen))
            x += size
        drawn = [each.draw(size, tall, ink) for each, size in zip(row, _widths(row, width), strict=True)]
        lines += beside(drawn)
    return Drawing(lines, places)


def _shared(wanted: list[int], least: list[int], grows: list[bool], height: int) -> list[int]:
    """Return the heights of the rows: together all lines; those that grow give first, and take the rest."""
    found = [max(low, most) for low, most in zip(least, wanted, strict=True)]
    over = sum(found) - height
    while over > 0:
        giving = [i for i in range(len(found)) if found[i] > least[i]]
        if not giving:
            break
        tallest = max(giving, key=lambda i: (found[i] - least[i]) * (2 if grows[i] else 1))
        found[tallest] -= 1
        over -= 1
    takers = [i for i, each in enumerate(grows) if each]
    for i in range(-over if takers else 0):
        found[takers[i % len(takers)]] += 1
    return found


# What a small terminal says, the most important first; the plots take what is left, in these bounds.
MIN_OF_PLOT, MAX_OF_PLOT = 4, 8
_LISTED = ("start", "anatomy", "step", "hosts", "memory", "mesh", "machines", "all events", "compiled")


def _listed(found: Mapping[str, OverviewPanel], width: int, height: int) -> Drawing:
    """Return the most important lines, without frames."""
    briefs = {name: list(found[name].brief(width)) for name in _LISTED if name in found}
    left = height - sum(map(len, briefs.values()))
    plots = [name for name in ("anatomy", "step") if name in found and found[name].grows]
    for i, name in enumerate(plots):
        extra = min(left // (len(plots) - i), MAX_OF_PLOT)
        if extra >= MIN_OF_PLOT:
            left -= extra
            before = [] if name == "anatomy" else briefs[name]  # its lines begin with the brief ones
            briefs[name] = [*before, *found[name].lines(width, len(briefs[name]) - len(before) + extra)]
    lines: list[Text] = []
    places = []
    for name, brief in briefs.items():
        drawn = [each.copy() for each in brief[: height - len(lines)]]
        for line in drawn:
            cut(line, width)
        places.append(PanelPlace(0, len(lines), width, len(drawn), found[name].screen))
        lines += drawn
    return Drawing(lines, places)
