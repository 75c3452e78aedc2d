"""The switches above the mesh: its metric and arrangement, the mesh, axes, pages, and the marked group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.tui.draw.mesh.arranger import Arrangement
from jaxtop.tui.draw.mesh.axes import sizes_in_words
from jaxtop.tui.draw.switches import Switch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.tui.core.metrics import DeviceMetric
    from jaxtop.tui.draw.mesh.arranger import Arranger

# The space between two groups of switches.
_GROUP_GAP = 2
# The space around the text of a switch.
_TEXT_PADDING = 2


def with_metrics(
    groups: list[list[Switch]], metrics: Sequence[DeviceMetric], chosen: DeviceMetric, width: int
) -> list[list[Switch]]:
    """Return the groups after one of the metrics: the chosen one, and its neighbours that fit."""
    rest = sum(
        _GROUP_GAP + sum(len(each.key) + _TEXT_PADDING + len(each.texts[0]) for each in group)
        for group in groups
    )
    first = last = metrics.index(chosen)
    room = width - rest - _GROUP_GAP - len(f"m +{len(metrics)}") - _TEXT_PADDING

    def used() -> int:
        return sum(len(each.name) + _TEXT_PADDING for each in metrics[first : last + 1])

    while last + 1 < len(metrics) and used() + len(metrics[last + 1].name) + _TEXT_PADDING <= room:
        last += 1
    while first and used() + len(metrics[first - 1].name) + _TEXT_PADDING <= room:
        first -= 1
    shown = [
        Switch("", (each.name,), f"metric({metrics.index(each)})", each is chosen)
        for each in metrics[first : last + 1]
    ]
    hidden = len(metrics) - len(shown)
    more = [Switch("", (f"+{hidden}", ""), "metric")] if hidden else []
    return [[Switch("m", ("",), "metric"), *shown, *more], *groups]


def switches_of(arranger: Arranger) -> list[list[Switch]]:
    short = {Arrangement.HOST: "host", Arrangement.AXES: "axes", Arrangement.COORDINATES: "coords"}
    groups = [
        [
            Switch("Tab", ("",), "arrange"),
            *(
                Switch(
                    "",
                    (each.value, each.value, short[each]),
                    f"arrange('{each.value}')",
                    each is arranger.arrangement,
                    each in arranger.available,
                )
                for each in Arrangement
                if each is not Arrangement.COORDINATES or each in arranger.available
            ),
        ]
    ]
    at, count = arranger.choices
    if arranger.mesh is not None and arranger.arrangement is not Arrangement.COORDINATES:
        words = sizes_in_words(arranger.mesh.axes)
        place = f" ({at + 1} of {count})" if count > 1 else ""
        groups.append([Switch("o" if count > 1 else "", (f"mesh {words}{place}", f"{words}{place}"), "mesh")])
    grid = arranger.grid
    if grid is not None and len(grid.axes) > 1:
        rows, columns = grid.name(arranger.pair.rows), grid.name(arranger.pair.columns)
        axes = (f"{rows}, {columns}", "axes") if len(grid.axes) > 2 else ("swap axes", "swap")
        groups.append([Switch("a", (*axes, ""), "axes")])
    if grid is not None and arranger.pages > 1:
        indices = ", ".join(f"{name} {index}" for name, index in grid.on_page(arranger.pair, arranger.page))
        place = f"{arranger.page + 1} of {arranger.pages}"
        groups.append(
            [
                Switch("<", ("",), "page(-1)"),
                Switch(
                    "",
                    (
                        f"{indices} (page {place})",
                        f"{indices} ({place})",
                        f"{arranger.page + 1}/{arranger.pages}",
                    ),
                    "page(1)",
                ),
                Switch(">", ("",), "page(1)"),
            ]
        )
    if arranger.mesh is not None:
        group = arranger.group
        name = None if group is None else group[0].axes[group[1]][0]
        texts = (
            ("no group marked", "no group", "")
            if name is None
            else (f"marked: same {name} group", f"{name} group", "")
        )
        groups.append([Switch("x", texts, "group")])
    return groups
