"""Where the time of a program goes: a bar of its kinds of operations, and what bounds one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual.color import Color

from jaxtop.model.operations import COMMUNICATION, IDLE, UNKNOWN
from jaxtop.tui.core import text
from jaxtop.tui.draw.facts import fitted, heading, pairs
from jaxtop.tui.draw.stacked import lengths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxtop.model.operations import OperationView, ProgramTime
    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.ink import Ink

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
        entry.append(text.printable(f" {kind} {text.share(share)}"), Style())
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


def bar_line(time: ProgramTime, width: int, palette: Palette) -> Text:
    """Return the bar of a program with as much of its legend as fits behind it."""
    line = kinds_bar(time.kinds, max(LEAST_BAR, min(SHORT_BAR, width // 3)), palette)
    _append_fitting(line, kinds_legend(time.kinds, palette), width)
    return line


def _append_fitting(line: Text, entries: Iterable[Text], width: int) -> None:
    for entry in entries:
        if line.cell_len + 2 + entry.cell_len > width:
            return
        line.append("  ")
        line.append_text(entry)


def pane(time: ProgramTime, view: OperationView, ink: Ink, width: int, height: int) -> list[Text]:
    """Return the bar of the program with its legend, and the facts of the operation."""
    if width < 1 or height < 1:
        return []
    bar = kinds_bar(time.kinds, width, ink.palette)
    legend, *entries = kinds_legend(time.kinds, ink.palette)
    _append_fitting(legend, entries, width)
    title = heading(name_of(view), view.source or "", ink)
    return fitted([bar, legend, title, *_facts(view, ink), _rates(time, ink)], width, height)


def name_of(view: OperationView) -> str:
    """Return the name of an operation, or of the time that no listed operation has."""
    if view.op is not None:
        return text.printable(view.op)
    return "(idle)" if view.kind == IDLE else "(not listed)"


def _facts(view: OperationView, ink: Ink) -> list[Text]:
    facts = [("per launch", text.micros(view.time_us))]
    if view.runs is not None:
        facts.append(("in", f"{text.plain(view.runs)} run{'s' * (view.runs != 1)}"))
    lines = [pairs(facts, ink)]
    if view.flops is not None or view.bytes is not None:
        seconds = view.time_us / 1e6
        does = view.flops / seconds if view.flops and seconds else None
        moves = view.bytes / seconds if view.bytes and seconds else None
        lines.append(
            pairs(
                [
                    ("flops", text.amount(view.flops)),
                    ("bytes", text.size(view.bytes)),
                    ("does", text.operations(does)),
                    ("moves", text.bandwidth(moves)),
                ],
                ink,
            )
        )
    lines.append(Text(bound_in_words(view), no_wrap=True, end=""))
    return lines


def bound_in_words(view: OperationView) -> str:
    """Return what bounds an operation and by how much, or why that is unknown."""
    roof = view.roof
    if roof is None:
        if view.op is None:
            return "the time between operations" if view.kind == IDLE else "of these only the time is known"
        if view.flops is None or view.bytes is None:
            return "its bound is unknown: the compiler's text does not give its flops or bytes"
        if not view.flops:  # the rates of the device would not help
            return "its bound is unknown: XLA counts no flops for it"
        return "its bound is unknown: measure the device with `jaxtop probe`"
    if roof.bound == COMMUNICATION:
        return "communication-bound: see it on the collectives screen (Enter)"
    other = "memory" if roof.bound == "compute" else "compute"
    ratio = "" if roof.ratio is None else f", {text.plain(roof.ratio)} times the time of its {other}"
    reached = "" if roof.reached is None else f"; it reaches ~{text.share(roof.reached)} of that rate"
    return f"{roof.bound}-bound{ratio}{reached}"


def _rates(time: ProgramTime, ink: Ink) -> Text:
    rates = time.rates
    if rates.flops is None and rates.bytes is None:
        return Text()
    sources = " and ".join(dict.fromkeys(each for each in (rates.flops_source, rates.bytes_source) if each))
    line = pairs([("device", text.operations(rates.flops)), ("memory", text.bandwidth(rates.bytes))], ink)
    line.append(f"  {sources}", ink.muted)
    return line
