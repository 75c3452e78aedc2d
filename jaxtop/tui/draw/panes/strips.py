"""The last window as strips of time, one per host: launches, their collectives, and the waits."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.base.names import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.style import Style

    from jaxtop.model.collectives.timeline import Strip, Timeline
    from jaxtop.tui.draw.ink import Ink

# What a character of a strip shows; of several things in one character, the last one here wins.
BLANK, LAUNCH, OTHER, WAIT, CHOSEN = range(5)
GLYPHS = " ─▒░█"
# The widths of the host's name before a strip, and of the shares after it.
MOST_NAME, SHARES = 16, 12
# From this width on, the shares are beside the strip.
WIDE = 56


def strips(
    timeline: Timeline, op: str, ink: Ink, *, name: Callable[[str], str], hidden: int, width: int, height: int
) -> list[Text]:
    """Return a header and one line per host; `hidden` is the number of hosts not in the timeline."""
    if not timeline.strips:
        return []
    names = [name(strip.agent) for strip in timeline.strips]
    label = min(MOST_NAME, max(map(len, names)))
    with_shares = width >= WIDE
    room = max(8, width - label - 1 - (SHARES if with_shares else 0))
    lines = [_head(timeline, op, ink, label + 1 + room, width if with_shares else 0)]
    more = int(hidden > 0)
    shown = timeline.strips[: max(1, height - 1 - more)]
    for who, strip in zip(names, shown, strict=False):
        line = Text(f"{shorten(who, label):<{label}} ", ink.muted, no_wrap=True, end="")
        line.append_text(_strip(strip, timeline, op, ink, room))
        if with_shares:
            line.append(f"{units.share(strip.collective_share):>6}{units.share(strip.exposed_share):>6}")
        lines.append(line)
    left = hidden + len(timeline.strips) - len(shown)
    if left:
        lines.append(Text(f"+{left:,} more", ink.muted))
    return lines[:height]


def _head(timeline: Timeline, op: str, ink: Ink, width: int, whole: int) -> Text:
    line = Text(no_wrap=True, end="")
    count = max(len(strip.blocks) for strip in timeline.strips)
    span = units.micros(timeline.end_us - timeline.start_us)
    line.append(f"{'a launch' if count == 1 else f'{count} launches'} in {span}", ink.bold)
    for kind, meaning in ((WAIT, "wait"), (CHOSEN, op), (OTHER, "others"), (LAUNCH, "launch")):
        if line.cell_len + 4 + len(meaning) <= width:
            line.append("  ")
            line.append(GLYPHS[kind], _style(kind, ink))
            line.append(f" {meaning}", ink.muted)
    if timeline.aligned_by and line.cell_len + 20 + len(timeline.aligned_by) <= width:
        line.append(f"  aligned at the ends of {timeline.aligned_by}", ink.muted)
    if whole:
        line.append(" " * max(0, whole - SHARES - line.cell_len))
        line.append(" coll. exp.".rjust(SHARES), ink.muted)
    return line


def _strip(strip: Strip, timeline: Timeline, op: str, ink: Ink, width: int) -> Text:
    line = Text(no_wrap=True, end="")
    for kind, alike in groupby(picture(strip, timeline, op, width)):
        line.append(GLYPHS[kind] * len(list(alike)), _style(kind, ink))
    return line


def picture(strip: Strip, timeline: Timeline, op: str, width: int) -> Sequence[int]:
    """Return what each character shows; the most important of several things wins."""
    kinds = [BLANK] * width
    scale = width / max(1, timeline.end_us - timeline.start_us)

    def fill(start_us: int, end_us: int, kind: int) -> None:
        first = min(width - 1, max(0, int((start_us - timeline.start_us) * scale)))
        last = min(width, max(first + 1, round((end_us - timeline.start_us) * scale)))
        for x in range(first, last):
            kinds[x] = max(kinds[x], kind)

    for block in strip.blocks:
        fill(block.start_us, block.end_us, LAUNCH)
        for span in block.spans:
            if span.op != op:
                fill(span.start_us, span.end_us, OTHER)
                continue
            if span.waited_us > span.start_us:
                fill(span.start_us, span.waited_us, WAIT)
            fill(span.waited_us, span.end_us, CHOSEN)
    return kinds


def _style(kind: int, ink: Ink) -> Style:
    if kind == CHOSEN:
        return ink.accent
    if kind in (BLANK, LAUNCH):
        return ink.muted
    return ink.style(ink.palette.of_category(0 if kind == WAIT else 1))
