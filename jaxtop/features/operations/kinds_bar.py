"""A bar of where the time of a program goes, by kind of operation, and its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual.color import Color

from jaxtop.base import units
from jaxtop.features.operations.model import IDLE, UNKNOWN
from jaxtop.features.operations.rates import times_by_rates
from jaxtop.tui.core import text
from jaxtop.tui.draw.bars import lengths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtop.features.operations.model import ProgramTime
    from jaxtop.model import ProgramView
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.core.palette import Palette

# The kinds that have a colour of their own, each with its letter in the bar; others share one letter.
LETTERS = {
    "matmul": "M", "convolution": "V", "collective": "C", "fusion": "F", "copy": "Y", "elementwise": "E",
    "reduce": "R", "gather or scatter": "G",
}  # fmt: skip
OTHER = "O"
# The bar of a line that also has words.
SHORT_BAR, LEAST_BAR = 30, 10


def kinds_bar(kinds: Mapping[str, float], width: int, palette: Palette) -> Text:
    """Draw the share of each kind."""
    line = Text(no_wrap=True, end="")
    shares = [*kinds.values()]
    for kind, length in zip(kinds, lengths(shares, sum(shares), width), strict=True):
        line.append(_letter(kind) * length, _style(kind, palette))
    return line


def kinds_legend(kinds: Mapping[str, float], palette: Palette) -> list[Text]:
    """Return one text per kind: its letter in its colour, its name and its share."""
    found = []
    for kind, share in kinds.items():
        entry = Text(_letter(kind), _style(kind, palette), no_wrap=True, end="")
        entry.append(text.printable(f" {kind} {units.share(share)}"), Style())
        found.append(entry)
    return found


def _letter(kind: str) -> str:
    return {IDLE: "·", UNKNOWN: "?"}.get(kind) or LETTERS.get(kind, OTHER)


def _style(kind: str, palette: Palette) -> Style:
    if kind in {IDLE, UNKNOWN}:
        return Style(color=palette.muted)
    if kind not in LETTERS:
        return Style(color=palette.foreground, bgcolor=palette.panel)
    back = palette.of_category(list(LETTERS).index(kind))
    return Style(color=Color.parse(back).get_contrast_text(1.0).hex, bgcolor=back)


def program_lines(moment: Moment, program: ProgramView, width: int, palette: Palette) -> list[Text]:
    """Return where the time of a program goes, for the Programs screen; nothing if no window showed it."""
    key = program.run, program.program.name, program.program.fingerprint
    times = times_by_rates(moment.cluster, moment.now, moment.probe)
    return [bar_line(each, width, palette) for each in times if each.key == key]


def bar_line(time: ProgramTime, width: int, palette: Palette) -> Text:
    """Return the bar of a program with as much of its legend as fits behind it."""
    line = kinds_bar(time.kinds, max(LEAST_BAR, min(SHORT_BAR, width // 3)), palette)
    append_fitting(line, kinds_legend(time.kinds, palette), width)
    return line


def append_fitting(line: Text, entries: Iterable[Text], width: int) -> None:
    """Append those entries, two columns apart, that fit into the width."""
    for entry in entries:
        if line.cell_len + 2 + entry.cell_len > width:
            return
        line.append("  ")
        line.append_text(entry)
