"""Panels of large terminals: collectives, arrays that grow, programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rich.text import Text

from jaxtop.base import units
from jaxtop.base.names import shorten
from jaxtop.model import growers
from jaxtop.model.findings.sentences import line_of
from jaxtop.tui.draw.overview.panels import OverviewPanel, rows_of
from jaxtop.tui.draw.panel import Heading
from jaxtop.tui.draw.panes.collective import axes_in_words, straggler_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from jaxtop.model import ProgramView
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# The collectives, programs and arrays that the panels list at most.
MAX_LISTED = 12
_View = TypeVar("_View")


def collectives(moment: Moment, ink: Ink) -> OverviewPanel | None:
    """Return the collectives that devices wait in longest, one for each kind and axes."""
    longest = sorted(moment.collective_views, key=lambda view: -(view.wait_us or 0))
    views = _first_of_each(longest, lambda view: (view.kind, axes_in_words(view)))
    rows = [
        (
            Text(view.kind, ink.label),
            Text(axes_in_words(view), ink.label),
            units.micros(view.p50_us),
            units.micros(view.wait_us),
            straggler_in_words(view),
        )
        for view in views
    ]
    titles = ("", "axes", "p50", "wait", "comes last")
    return _table(Heading("Collectives", keys=(("6", "Collectives"),)), "collectives", titles, rows, ink)


def growing(moment: Moment, ink: Ink) -> OverviewPanel | None:
    """Return the arrays that keep growing."""
    rows = [
        (
            Text(shorten(each.name or "unnamed", 24), ink.label),
            f"+{units.size(each.bytes_per_minute)}/min",
            units.size(each.bytes_per_device),
            line_of(each.created),
        )
        for each in growers(moment.cluster)[:MAX_LISTED]
    ]
    heading = Heading("Growing arrays", keys=(("4", "Arrays"),))
    return _table(heading, "arrays", ("", "grows", "holds", "created at"), rows, ink)


def programs(moment: Moment, ink: Ink) -> OverviewPanel | None:
    """Return the programs that are launched most often, one for each function.

    Without allocators that count, no program has a headroom.
    """
    often = sorted(moment.program_views, key=lambda view: (-_rate(view), -(view.needs_bytes or 0)))
    views = _first_of_each(often, lambda view: view.function)
    has_headroom = any(view.headroom_bytes is not None for view in views)
    rows: list[tuple[Text | str, ...]] = [
        (
            Text(shorten(view.function, 20), ink.label),
            units.number(_rate(view), 1),
            units.size(view.needs_bytes),
            *([units.size(view.headroom_bytes)] if has_headroom else []),
            units.amount(view.program.flops),
        )
        for view in views
    ]
    titles = ("", "launch/s", "needs", *(["headroom"] if has_headroom else []), "flop")
    return _table(Heading("Programs", keys=(("7", "Programs"),)), "programs", titles, rows, ink)


def _table(
    heading: Heading, screen: str, titles: Sequence[str], rows: Sequence[Sequence[Text | str]], ink: Ink
) -> OverviewPanel | None:
    if not rows:
        return None
    return OverviewPanel(
        heading,
        screen,
        lambda _: len(rows) + 1,
        lambda width, height: rows_of([titles, *rows[: max(0, height - 1)]], ink, width),
        lambda _: [],
        least=2,
    )


def _first_of_each(views: Iterable[_View], key: Callable[[_View], Hashable]) -> list[_View]:
    found: dict[Hashable, _View] = {}
    for view in views:
        found.setdefault(key(view), view)
    return list(found.values())[:MAX_LISTED]


def _rate(view: ProgramView) -> float:
    return view.launches_per_second or view.function_per_second or 0.0
