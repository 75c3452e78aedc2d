"""The switches above the mesh: its arrangement, the mesh, axes, pages, and the marked group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.tui.draw.mesh.arranger import Arrangement
from jaxtop.tui.draw.mesh.axes import sizes_in_words
from jaxtop.tui.draw.switches import Switch

if TYPE_CHECKING:
    from jaxtop.tui.draw.mesh.arranger import Arranger


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
        on = ", ".join(f"{name} {index}" for name, index in grid.on_page(arranger.pair, arranger.page))
        place = f"{arranger.page + 1} of {arranger.pages}"
        groups.append(
            [
                Switch("<", ("",), "page(-1)"),
                Switch(
                    "",
                    (f"{on} (page {place})", f"{on} ({place})", f"{arranger.page + 1}/{arranger.pages}"),
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
