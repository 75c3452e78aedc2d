"""The line of switches above the mesh. Each responds to its key and to a click."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.style import Style
from rich.text import Text

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
                line.append(" ")
                continue
            if switch.active:
                line.append(f" {label} ", ink.chosen + press)
            else:
                line.append(
                    f" {label} ", (ink.style(ink.foreground) if switch.available else ink.note) + press
                )
    return line
