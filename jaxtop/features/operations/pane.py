"""The facts of one operation, and what bounds it, below the bar of its program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.features.operations.kinds_bar import kinds_bar, kinds_legend
from jaxtop.features.operations.model import COMMUNICATION, IDLE
from jaxtop.features.operations.roofline import ridge_line, roofline
from jaxtop.tui.core import text
from jaxtop.tui.draw.panel import flowed, wrapped
from jaxtop.tui.draw.panes.facts import GAP, fitted, heading, pairs, side_by_side

if TYPE_CHECKING:
    from jaxtop.features.operations.model import OperationView, ProgramTime
    from jaxtop.tui.draw.ink import Ink

# The least width of the facts where the roofline is beside them.
FACTS = 54


def pane(time: ProgramTime, view: OperationView, ink: Ink, width: int, height: int) -> list[Text]:
    """Return the bar of the program with its legend, and the facts of the operation."""
    if width < 1 or height < 1:
        return []
    lines = [kinds_bar(time.kinds, width, ink), *flowed(kinds_legend(time.kinds, ink), width, 3)[:2]]
    left, beside = height - len(lines), max(FACTS, width * 2 // 5)
    drawn = roofline(time, view, ink, width - beside - GAP, left)
    of_view = _facts(view, ink, beside if drawn else width)
    facts = [heading(name_of(view), view.source or "", ink), *of_view, _rates(time, ink)]
    if drawn:
        return [*lines, *side_by_side([(beside, facts), (width - beside - GAP, drawn)], left)]
    drawn = roofline(time, view, ink, width, left - len(facts))
    if not drawn:
        facts[1:1] = ridge_line(time, view, ink, width)
    return [*lines, *fitted(facts, width, left), *drawn]


def name_of(view: OperationView) -> str:
    """Return the name of an operation, or of the time that no listed operation has."""
    if view.op is not None:
        return text.printable(view.op)
    return "(idle)" if view.kind == IDLE else "(not listed)"


def _facts(view: OperationView, ink: Ink, width: int) -> list[Text]:
    facts = [("per launch", units.micros(view.time_us))]
    if view.runs is not None:
        facts.append(("in", f"{units.plain(view.runs)} run{'s' * (view.runs != 1)}"))
    lines = [pairs(facts, ink)]
    if view.flops is not None or view.bytes is not None:
        seconds = view.time_us / 1e6
        does = view.flops / seconds if view.flops and seconds else None
        moves = view.bytes / seconds if view.bytes and seconds else None
        lines.append(
            pairs(
                [
                    ("flops", units.amount(view.flops)),
                    ("bytes", units.size(view.bytes)),
                    ("does", units.operations(does)),
                    ("moves", units.bandwidth(moves)),
                ],
                ink,
            )
        )
    lines += [Text(each, no_wrap=True, end="") for each in wrapped(bound_in_words(view), width, 2)]
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
    ratio = "" if roof.ratio is None else f", {units.plain(roof.ratio)} times the time of its {other}"
    reached = "" if roof.reached is None else f"; it reaches ~{units.share(roof.reached)} of that rate"
    return f"{roof.bound}-bound{ratio}{reached}"


def _rates(time: ProgramTime, ink: Ink) -> Text:
    rates = time.rates
    if rates.flops is None and rates.bytes is None:
        return Text()
    sources = " and ".join(dict.fromkeys(each for each in (rates.flops_source, rates.bytes_source) if each))
    line = pairs([("device", units.operations(rates.flops)), ("memory", units.bandwidth(rates.bytes))], ink)
    line.append(f"  {sources}", ink.note)
    return line
