"""A bar of where the time of a program goes, by kind of operation, and its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtop.base import units
from jaxtop.features.operations.model import IDLE, UNKNOWN
from jaxtop.features.operations.rates import times_by_rates
from jaxtop.tui.core import text
from jaxtop.tui.draw.bars import BarPart, legend_entry
from jaxtop.tui.draw.bars import bar_line as draw_bar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.text import Text

    from jaxtop.features.operations.model import ProgramTime
    from jaxtop.model import ProgramView
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.ink import Ink

# The kinds that have a colour of their own, each with its letter in the bar; others share one letter.
LETTERS = {
    "matmul": "M", "convolution": "V", "collective": "C", "fusion": "F", "copy": "Y", "elementwise": "E",
    "reduce": "R", "gather or scatter": "G",
}  # fmt: skip
OTHER = "O"
# The bar of a line that also has words.
SHORT_BAR, MIN_BAR = 30, 10


def kinds_bar(kinds: Mapping[str, float], width: int, ink: Ink) -> Text:
    """Draw the share of each kind; idle time is the rest."""
    parts = [
        BarPart(share, colour_of(kind, ink.palette), letter_of(kind))
        for kind, share in kinds.items()
        if kind != IDLE
    ]
    return draw_bar(parts, sum(kinds.values()), width, ink)


def kinds_legend(kinds: Mapping[str, float], ink: Ink) -> list[Text]:
    """Return one text per kind: its colour, or its letter without colours, its name and its share."""
    return [
        legend_entry(
            letter_of(kind), colour_of(kind, ink.palette), text.printable(kind), units.share(share), ink
        )
        for kind, share in kinds.items()
    ]


def letter_of(kind: str) -> str:
    return {IDLE: "·", UNKNOWN: "?"}.get(kind) or LETTERS.get(kind, OTHER)


def colour_of(kind: str, palette: Palette) -> str:
    if kind == IDLE:
        return palette.track
    return palette.category_colour(list(LETTERS).index(kind)) if kind in LETTERS else palette.muted


def program_lines(moment: Moment, program: ProgramView, width: int, ink: Ink) -> list[Text]:
    """Return where the time of a program goes, for the Programs screen; nothing if no window showed it."""
    key = program.run, program.program.name, program.program.fingerprint
    times = times_by_rates(moment.cluster, moment.now, moment.probe)
    return [bar_line(each, width, ink) for each in times if each.key == key]


def bar_line(time: ProgramTime, width: int, ink: Ink) -> Text:
    """Return the bar of a program with as much of its legend as fits behind it."""
    line = kinds_bar(time.kinds, max(MIN_BAR, min(SHORT_BAR, width // 3)), ink)
    append_fitting(line, kinds_legend(time.kinds, ink), width)
    return line


def append_fitting(line: Text, entries: Iterable[Text], width: int) -> None:
    """Append those entries, two columns apart, that fit into the width."""
    for entry in entries:
        if line.cell_len + 2 + entry.cell_len > width:
            return
        line.append("  ")
        line.append_text(entry)
