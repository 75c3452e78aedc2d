"""Curves of recent values side by side, each with its name and its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.tui.draw.panes.facts import GAP, joined, side_by_side
from jaxtop.tui.draw.sparkline import NO_DOTS, area

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.tui.draw.ink import Ink

    Draw = Callable[[int, int], Text]

# The least height of a curve with its title.
MIN_HEIGHT = 4
# The least width of a curve.
MIN_WIDTH = 32
# Curves from this number of values on are not wider.
MAX_VALUES = 600


@dataclass(frozen=True)
class Curve:
    """The recent values of a figure; `values` is called with how many of them are drawn, if any are."""

    name: str
    values: Callable[[int], Sequence[float | None]]
    write: Callable[[float | None], str]


def curves(shown: Sequence[Curve], ink: Ink, width: int, height: int) -> list[Text]:
    """Return as many curves as fit side by side; none if there is too little room."""
    if height < MIN_HEIGHT or not shown:
        return []
    count = max(1, min(len(shown), (width + GAP) // (MIN_WIDTH + GAP)))
    room = (width - GAP * (count - 1)) // count
    return side_by_side([(room, _curve(each, ink, room, height)) for each in shown[:count]], height)


def facts_above_curves(facts: Draw, fact_lines: int, shown: Sequence[Curve], ink: Ink) -> Draw:
    """Return what draws the lines of facts and curves below them; the facts alone if no curve fits."""

    def draw(width: int, height: int) -> Text:
        drawn = curves(shown, ink, width, height - fact_lines)
        if not drawn:
            return facts(width, height)
        above = facts(width, fact_lines - 1)
        blank = fact_lines - above.plain.count("\n") - 1
        return joined([above, *[Text()] * blank, *drawn])

    return draw


def _curve(curve: Curve, ink: Ink, width: int, height: int) -> list[Text]:
    values = curve.values(min(MAX_VALUES, 2 * width))
    known = [value for value in values if value is not None]
    title = Text(f"{curve.name}  ", ink.figure, no_wrap=True, end="")
    if not known:
        title.append("nothing known", ink.note)
        return [title]
    ends = dict.fromkeys((curve.write(min(known)), curve.write(max(known))))
    title.append(curve.write(known[-1]))
    title.append(f"  {' to '.join(ends)}", ink.note)
    return [title, *shaded(values, ink, width, height - 1)]


def shaded(values: Sequence[float | None], ink: Ink, width: int, height: int) -> list[Text]:
    """Return the newest values as an area: the higher, the brighter.

    Above it are spaces: a braille character without dots takes three bytes, sent each second.
    """
    lines = (line.replace(NO_DOTS, " ") for line in area(values, width, height).lines)
    return [Text(line, ink.by_height(1 - i / height)) for i, line in enumerate(lines)]
