"""Memory of the fullest device: who holds it, what the next launch adds, what grows, would fewer do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.base.names import shorten
from jaxtop.model import growers, memory_views
from jaxtop.model.arrays.memory import Part, distinct_bytes
from jaxtop.model.host import SIMULATED
from jaxtop.tui.draw.bars import BarPart, bar_line
from jaxtop.tui.draw.overview.panels import OverviewPanel, row_name
from jaxtop.tui.draw.panel import Heading
from jaxtop.tui.draw.stacked_bar import LETTERS, legend, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtop.model import Grower, MemoryView, ProgramView
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# Memory is nearly full from this share of its limit on, with what the next launch adds.
NEARLY_FULL = 0.9
# The width for which the least height is found.
TYPICAL = 60
# The width of the shortest bar.
MIN_BAR = 6
# The sign of what the next launch adds.
ADDED = "▒"


@dataclass(frozen=True)
class MemoryFigures:
    """What the panel says: the memory of the fullest device, and what changes it."""

    view: MemoryView
    fullest: str
    next_launch: ProgramView | None
    grows: Grower | None
    # The bytes of all arrays of the run, each counted once however many devices hold it.
    distinct_bytes: int
    devices: int
    is_counted: bool = True

    @property
    def adds(self) -> int | None:
        """What the next launch of the step adds on each device."""
        return None if self.next_launch is None else self.next_launch.adds_bytes

    @property
    def free_after(self) -> int | None:
        """What is left on the fullest device while that launch runs; None without a limit."""
        return None if self.next_launch is None else self.next_launch.headroom_bytes


def memory_figures(moment: Moment) -> MemoryFigures | None:
    """Return what is known of the memory; None if no device reports any."""
    holder = next(iter(moment.fullest), None)
    held = memory_views(moment.cluster, [holder]) if holder else []
    if holder is None or not held:
        return None
    host = moment.cluster.hosts[holder.agent]
    return MemoryFigures(
        held[0],
        moment.label_of(holder),
        moment.heaviest_launch,
        next(iter(growers(moment.cluster)), None),
        distinct_bytes(moment.cluster, host),
        sum(device.run == holder.run for device in moment.device_views),
        not host.is_off("arrays"),
    )


def memory(found: MemoryFigures | None, ink: Ink, *, plans: bool) -> OverviewPanel | None:
    """Return the panel; None where nothing is known."""
    if found is None or found.view.device.used_bytes is None:
        return None
    keys = (("5", "Memory"), *((("W", "Plan"),) if plans else ()))
    return OverviewPanel(
        Heading("Memory", f"{used(found)} on {found.fullest}", keys=keys),
        "memory",
        lambda width: len(_all_lines(found, ink, width)),
        lambda width, height: _all_lines(found, ink, width)[:height],
        partial(_brief, found, ink),
        least=min(5, len(_all_lines(found, ink, TYPICAL))),
    )


def used(found: MemoryFigures) -> str:
    """Return what is in use, of the limit if there is one."""
    device = found.view.device
    limit = device.limit_bytes
    simulated = " (simulated)" if device.limit_source == SIMULATED else ""
    of = f" of {units.size(limit)}{simulated}" if limit else ", no limit known"
    return f"{units.size(device.used_bytes)}{of}"


def _all_lines(found: MemoryFigures, ink: Ink, width: int) -> list[Text]:
    return [_bar(found, ink, width), *_legend(found, ink, width), *_facts(found, ink, width)]


def _brief(found: MemoryFigures, ink: Ink, width: int) -> Sequence[Text]:
    name = row_name("memory", ink)
    figures = Text.assemble((f"  {used(found)}", ink.figure), (f" on {found.fullest}", ink.note))
    room = width - name.cell_len - figures.cell_len
    bar = _bar(found, ink, room, with_share=False) if room >= MIN_BAR else Text(no_wrap=True)
    facts = [Text.assemble((f"{what} ", ink.note), words) for what, words in _facts_of(found, ink, width)]
    return [
        Text.assemble(name, bar, figures),
        *(Text.assemble(row_name("", ink), each) for each in _legend(found, ink, width - name.cell_len)[:1]),
        Text.assemble(row_name("", ink), Text("  ").join(facts)),
    ]


def _bar(found: MemoryFigures, ink: Ink, width: int, *, with_share: bool = True) -> Text:
    view, adds = found.view, found.adds or 0
    limit, in_use = view.device.limit_bytes, view.device.used_bytes or 0
    parts = parts_of(view.bytes, ink.palette)
    end = limit or (in_use + adds) or 1
    if not any(view.bytes):
        parts.append(BarPart(in_use, ink.palette.muted, LETTERS[Part.UNNAMED]))
    parts.append(BarPart(adds, ink.palette.label, ADDED, ADDED))
    share = f"{units.share(in_use / limit)} " if limit and with_share else ""
    colour = (
        ink.palette.warning if limit and (in_use + adds) / limit >= NEARLY_FULL else ink.palette.foreground
    )
    return Text.assemble((share, ink.style(colour, bold=True)), bar_line(parts, end, width - len(share), ink))


def _legend(found: MemoryFigures, ink: Ink, width: int) -> list[Text]:
    """Return the parts of the bar; what is free is the rest of it."""
    return legend([*found.view.bytes[:-1], 0], width, ink)


def _facts(found: MemoryFigures, ink: Ink, width: int) -> list[Text]:
    """Return headroom, growth, and whether fewer devices would do."""
    return [Text.assemble(row_name(name, ink), words) for name, words in _facts_of(found, ink, width)]


def _facts_of(found: MemoryFigures, ink: Ink, width: int) -> Iterator[tuple[str, Text]]:
    if found.adds is not None and found.next_launch is not None:
        free = found.free_after
        words = Text.assemble(
            (f"{ADDED} ", ink.label),
            (f"+{units.size(found.adds)}", ink.figure),
            (f" {found.next_launch.function}", ink.note),
        )
        if free is not None and free < 0:
            words.append(f", {units.size(-free)} more than is free", ink.style(ink.palette.bad, bold=True))
        elif free is not None:
            words.append(", then free ", ink.label).append(units.size(free), ink.figure)
        yield "launch", words
    if found.grows is not None:
        grows = found.grows
        who = shorten(grows.name or grows.created or "unnamed arrays", max(8, width - 24))
        speed = f"+{units.size(grows.bytes_per_minute)}/min "
        yield "grows", Text.assemble((speed, ink.style(ink.palette.warning, bold=True)), (who, ink.label))
    elif found.is_counted:
        yield "grows", Text("no array", ink.note)
    if fewer := fewer_devices(found):
        yield "fewer", Text.assemble((fewer, ink.label))


def fewer_devices(found: MemoryFigures) -> str:
    """Return on how many devices the arrays and the next launch need to be, at least; empty if unknown.

    It is a lower bound: arrays that are replicated, and temporaries, need not become smaller.
    """
    limit = found.view.device.limit_bytes
    if not found.distinct_bytes or found.devices < 2:
        return ""
    if not limit:
        return f"unknown: {units.size(found.distinct_bytes)} of arrays in all, no limit known"
    room = limit - (found.adds or 0)
    if room <= 0:
        return ""
    least = max(1, ceil(found.distinct_bytes / room))
    if least >= found.devices:
        return f"all {found.devices} are needed for {units.size(found.distinct_bytes)} of arrays"
    return f"{least} of {found.devices} devices or more for {units.size(found.distinct_bytes)} of arrays"
