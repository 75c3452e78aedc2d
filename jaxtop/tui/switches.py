"""The line of switches above the mesh. Each responds to its key and to a click."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.style import Style
from rich.text import Text

from jaxtop.tui.arranger import Arrangement, Arranger
from jaxtop.tui.draw.detail import axes_in_words
from jaxtop.tui.draw.legend import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import App
    from textual.widget import Widget

    from jaxtop.tui.draw.ink import Ink


class Switch(NamedTuple):
    """A switch: its key, its texts (longest first), and its action."""

    key: str
    texts: tuple[str, ...]
    action: str
    active: bool = False
    available: bool = True


def pressed_by(style: Style) -> str | None:
    return style.meta.get("press")


async def run_pressed(event: events.Click, target: Widget | App[Any]) -> None:
    """Run the action of the switch that was clicked, if any."""
    action = pressed_by(event.style)
    if action is not None:
        event.stop()
        await target.run_action(action)


def switches(groups: Sequence[Sequence[Switch]], ink: Ink, width: int) -> Text:
    """Return the line of switches in separated groups, with shorter texts where there is less room."""
    longest = max((len(switch.texts) for group in groups for switch in group), default=1)
    brevities = [0] * len(groups)
    line = _switch_line(groups, ink, brevities)
    # First shorten each group once, from the right. If that is not enough, shorten further from the left.
    steps = [(1, group) for group in reversed(range(len(groups)))]
    steps += [(brevity, group) for brevity in range(2, longest) for group in range(len(groups))]
    for brevity, group in steps:
        if line.cell_len <= width:
            break
        brevities[group] = brevity
        line = _switch_line(groups, ink, brevities)
    line.truncate(width, overflow="ellipsis")
    return printable(line)


def _switch_line(groups: Sequence[Sequence[Switch]], ink: Ink, brevities: Sequence[int]) -> Text:
    line = Text(" ", no_wrap=True, end="")
    for group, brevity in zip(groups, brevities, strict=True):
        if line.cell_len > 1:
            line.append("  ")
        for switch in group:
            label = switch.texts[min(brevity, len(switch.texts) - 1)]
            press = Style(meta={"press": switch.action})
            if switch.key:
                line.append(switch.key, ink.accent + press)
            if not label:
                continue
            if switch.active:
                line.append(f" {label} ", ink.chosen + press)
            else:
                line.append(
                    f" {label} ", (ink.style(ink.foreground) if switch.available else ink.muted) + press
                )
    return line


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
        words = axes_in_words(arranger.mesh.axes)
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
