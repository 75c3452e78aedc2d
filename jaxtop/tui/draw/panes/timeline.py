"""The last launches of a program over time, one strip per host, with the late host outlined."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text
from textual.color import Color

from jaxtop.base import units
from jaxtop.base.names import shorten
from jaxtop.model.collectives.timeline import NO_TIMELINE, Timeline, reporting_agents, timeline_of
from jaxtop.tui.core.metrics import LATE_SIGN
from jaxtop.tui.draw.bars import BarPart, cells, legend_entry
from jaxtop.tui.draw.panel import FRAME_HEIGHT, FRAME_WIDTH, Heading, cut, panel
from jaxtop.tui.draw.plot import ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from jaxtop.model.collectives import CollectiveView
    from jaxtop.model.collectives.timeline import Strip
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# What an eighth of a character shows. They are painted in this order, so a later one covers an earlier one.
LAUNCH, OTHER, WAIT, CHOSEN = range(4)
SIGNS = "─▒░█"
# What they are called, the longest first: the wait, the others, the rest.
MEANINGS = (("waits in it", "other collectives", "the rest of the launch"), ("waits", "others", "rest"))
# The least length of a collective, in eighths of a character: what is short must still be seen.
MIN_COLLECTIVE_EIGHTHS = 4
# A launch drawn in fewer characters would show no detail.
LAUNCH_WIDTH = 40
# The longest name of a host before a strip.
MAX_NAME_WIDTH = 16
# The width of the edges of a strip.
EDGES_WIDTH = 2
# The width of the shares after a strip.
SHARES_WIDTH = 12
# From this width on, the shares are beside the strips.
SHARES_BESIDE_WIDTH = 56
# From this height on, the strips have a frame.
FRAMES_HEIGHT = 10
# The lines of the legend and the axis.
SURROUNDING_LINES = 2
# The most lines of a strip.
MAX_STRIP_LINES = 6
# The width of a label of the axis.
LABEL_WIDTH = 14
# The share of their colour that other collectives have.
OTHERS = 0.5


@dataclass(frozen=True, eq=False)
class Chart:
    """The timeline and the inputs that it was computed from, so that it is computed once a window."""

    inputs: tuple[Any, ...] = ()
    timeline: Timeline = NO_TIMELINE
    # The number of hosts not included.
    hidden: int = 0


class LaunchesShown(NamedTuple):
    """What the strips show: the launches, the collective under the cursor, the hosts' names, the late one."""

    chart: Chart
    op: str
    names: tuple[str, ...]
    late: LateHost | None


class LateHost(NamedTuple):
    """The agent of the host that comes last, and what to say about it."""

    agent: str
    words: str


def chart(moment: Moment, view: CollectiveView, room: tuple[int, int], last: Chart) -> Chart:
    """Return the launches of as many hosts as fit, or `last` if its inputs are the same."""
    cluster, (width, height) = moment.cluster, room
    windows = cluster.windows
    inputs = view.key, room, id(windows), windows.changes, cluster.layout_changes, view.straggler
    if inputs == last.inputs:
        return last
    agents = reporting_agents(cluster, view)
    rows = _inside(height) - SURROUNDING_LINES
    chosen = chosen_hosts(moment, view, agents, max(1, rows - (len(agents) > rows)))
    met = [each.op for each in moment.collective_views if each.key[:3] == view.key[:3] and each.crosses_hosts]
    anchors = dict.fromkeys([view.op, *met] if view.crosses_hosts is not False else met)
    drawn = timeline_of(cluster, view, anchors, chosen, max(1, width // LAUNCH_WIDTH))
    return Chart(inputs, drawn, len(agents) - len(drawn.strips))


def chosen_hosts(moment: Moment, view: CollectiveView, agents: tuple[str, ...], most: int) -> tuple[str, ...]:
    """Return at most `most` of the agents, in their order.

    The straggler is chosen first, then the hosts of the slowest group, then the others.
    """
    owners = {device.id: device.agent for device in moment.device_views if device.run == view.run}
    slowest = view.groups[by_wait(view)[0]] if view.groups else ()
    wanted = [view.straggler.agent] if view.straggler is not None else []
    wanted += [owners[each] for each in slowest if each in owners]
    there = set(agents)
    first = dict.fromkeys(agent for agent in (*wanted, *agents) if agent in there)
    taken = set(list(first)[:most])
    return tuple(agent for agent in agents if agent in taken)


def by_wait(view: CollectiveView) -> list[int]:
    """Return the group numbers, the longest wait first; groups without waits come last, in order."""
    waits = view.waits_us
    longest = [max((waits.get(each, -1) for each in group), default=-1) for group in view.groups]
    return sorted(range(len(longest)), key=lambda number: -longest[number])


@lru_cache(maxsize=4)
def timeline(shown: LaunchesShown, ink: Ink, width: int, height: int) -> tuple[Text, ...]:
    """Return the strips with their legend and their scale, cached: windows come less often than paints."""
    line, hidden = shown.chart.timeline, shown.chart.hidden
    count, hosts = max(len(strip.blocks) for strip in line.strips), len(shown.names)
    name = "Last launch" if count == 1 else f"Last {count} launches"
    span = units.micros(line.end_us - line.start_us)
    figures = f"{span}, {hosts} of {hosts + hidden:,} hosts" if hidden else span
    inside = _inside(height)
    if inside == height:
        return tuple(_lines(shown, ink, (width, height), f"{name} {figures}"))
    aligned = f"aligned at the ends of {line.aligned_by}" if line.aligned_by else ""
    lines = _lines(shown, ink, (width - FRAME_WIDTH, inside))
    size = width, min(height, len(lines) + FRAME_HEIGHT)
    return tuple(panel(Heading(name, figures, aligned), lines, size, ink))


def _inside(height: int) -> int:
    return height - FRAME_HEIGHT if height >= FRAMES_HEIGHT else height


def _lines(shown: LaunchesShown, ink: Ink, size: tuple[int, int], title: str = "") -> list[Text]:
    (width, height), (chart_, op, names, late) = size, shown
    line = chart_.timeline
    label = min(MAX_NAME_WIDTH, max(map(len, names)))
    with_shares = width >= SHARES_BESIDE_WIDTH
    room = max(8, width - label - 1 - EDGES_WIDTH - SHARES_WIDTH * with_shares)
    more = [Text(f"+{chart_.hidden:,} more", ink.note)] if chart_.hidden else []
    parts = _parts(ink)
    lines = [_legend(op, parts, ink, title, (width, SHARES_WIDTH * with_shares))]
    rows, count = height - SURROUNDING_LINES - len(more), len(names)
    # Strips are apart where each has a line of its own besides the one between it and the next.
    gap = int(rows >= 2 * count + 1)
    thick = max(1, min(MAX_STRIP_LINES, (rows - gap * (count + 1)) // count))
    is_above_late = False
    for who, strip in zip(names, line.strips, strict=True):
        is_late = late is not None and strip.agent == late.agent
        if gap:
            words = late.words if late is not None and is_late else ""
            lines.append(_line_between(label + 1, room, words, ink, above=is_late, below=is_above_late))
        drawn = cells(_painted(strip, line, op, room), parts, ink, ink.palette.background)
        shares = f"{units.share(strip.collective_share):>6}{units.share(strip.exposed_share):>6}"
        colour = ink.style(ink.palette.warning, bold=True) if is_late else None
        lines += _strip((shorten(who, label).ljust(label), shares * with_shares), drawn, ink, thick, colour)
        is_above_late = is_late
    if gap:
        lines.append(_line_between(label + 1, room, "", ink, above=False, below=is_above_late))
    return [*lines[: height - 1 - len(more)], _axis(line, ink, label + 2, room), *more]


def _parts(ink: Ink) -> list[BarPart]:
    """Return how the kinds are drawn: as the parts of a step, with the other collectives dimmed."""
    step = ink.palette.step_part_colour
    communication = step("communication")
    others = ink.background.blend(Color.parse(communication), OTHERS).hex
    colours = step("compute"), others, step("waiting"), communication
    return [BarPart(0, colour, sign) for colour, sign in zip(colours, SIGNS, strict=True)]


def _legend(op: str, parts: Sequence[BarPart], ink: Ink, title: str, room: tuple[int, int]) -> Text:
    """Return the meanings that fit; the second of `room` is the width of the shares at the right."""
    line, end = Text.assemble((title, ink.figure), no_wrap=True), room[0] - room[1]
    room_of_names = end - line.cell_len
    names = next(
        (each for each in MEANINGS if sum(map(len, each)) + 5 * 4 + len(op) <= room_of_names), MEANINGS[-1]
    )
    meanings = dict(zip((CHOSEN, WAIT, OTHER, LAUNCH), (op, *names), strict=True))
    for kind, meaning in meanings.items():
        if line.cell_len + 5 + len(meaning) <= end:
            line.append("   " if line.cell_len else "")
            part = parts[kind]
            line.append_text(legend_entry(part.sign, part.colour, meaning, "", ink))
    if room[1]:
        line.append(" " * (end - line.cell_len))
        line.append("coll. exp.".rjust(room[1]), ink.note)
    return line


def _strip(words: tuple[str, str], drawn: Text, ink: Ink, thick: int, late: Style | None) -> list[Text]:
    """Return the lines of one host: words, its name and its shares, stand at the middle one."""
    name, shares = words
    edge = "│" if late else " "
    outer = Text.assemble(" " * (len(name) + 1), (edge, late or ""), drawn, (edge, late or ""), no_wrap=True)
    middle = Text.assemble((f"{name} ", late or ink.label), outer[len(name) + 1 :], (shares, ink.figure))
    above = (thick - 1) // 2
    return [*[outer] * above, middle, *[outer] * (thick - 1 - above)]


def _line_between(indent: int, room: int, words: str, ink: Ink, *, above: bool, below: bool) -> Text:
    """Return the line between two strips: the outline of the late one, where it is `above` or `below` it."""
    if not above and not below:
        return Text()
    style = ink.style(ink.palette.warning, bold=True)
    edge = Text(f"─ {words} " if words else "", style)
    cut(edge, room)
    edge.append("─" * (room - edge.cell_len))
    first, last = "╭╮" if above else "╰╯"
    return Text.assemble(" " * indent, (first, style), edge, (last, style), no_wrap=True)


def _axis(line: Timeline, ink: Ink, indent: int, room: int) -> Text:
    """Return the scale of time, with its unit at each mark."""
    span = max(1, line.end_us - line.start_us)
    drawn = Text(" " * indent + "└", ink.divider, no_wrap=True)
    for value in ticks(0, span, max(1, room // LABEL_WIDTH), binary=False):
        at, words = indent + int(value / span * room), units.micros(value) if value else "0"
        if value and at + len(words) < indent + room:
            drawn.append("─" * (at - drawn.cell_len) + "┴")
        if at + len(words) < indent + room:
            drawn.append(words, ink.note)
    return drawn.append("─" * (indent + room - drawn.cell_len))


def _painted(strip: Strip, line: Timeline, op: str, width: int) -> list[int | None]:
    """Return what each eighth of a character shows; None where no launch ran."""
    eighths = 8 * width
    kinds: list[int | None] = [None] * eighths
    scale = eighths / max(1, line.end_us - line.start_us)

    def paint(start_us: int, end_us: int, kind: int) -> None:
        first = min(eighths - MIN_COLLECTIVE_EIGHTHS, max(0, int((start_us - line.start_us) * scale)))
        last = min(eighths, max(first + MIN_COLLECTIVE_EIGHTHS, round((end_us - line.start_us) * scale)))
        kinds[first:last] = [kind] * (last - first)

    spans = [span for block in strip.blocks for span in block.spans]
    for block in strip.blocks:
        paint(block.start_us, block.end_us, LAUNCH)
    for span in spans:
        if span.op != op:
            paint(span.start_us, span.end_us, OTHER)
    for span in spans:
        if span.op == op and span.waited_us > span.start_us:
            paint(span.start_us, span.waited_us, WAIT)
    for span in spans:
        if span.op == op:
            paint(span.waited_us, span.end_us, CHOSEN)
    return kinds


def late_host(view: CollectiveView) -> LateHost | None:
    late = view.straggler
    if late is None:
        return None
    return LateHost(
        late.agent, f"{LATE_SIGN} {late.who} comes last, others wait {units.micros(late.late_us)}"
    )
