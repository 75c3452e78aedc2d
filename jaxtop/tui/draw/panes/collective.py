"""The facts of one collective: its cost, its straggler, the wait of each member, and its last launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.tui.core import text
from jaxtop.tui.core.metrics import LATE_SIGN
from jaxtop.tui.core.slices import sign_of
from jaxtop.tui.draw.panes.facts import GAP, fitted, heading, pairs, side_by_side
from jaxtop.tui.draw.panes.timeline import Chart, LaunchesShown, by_wait, late_host, timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model.collectives import CollectiveView
    from jaxtop.tui.draw.ink import Ink

# From this width on, the waits of the groups are beside the other facts.
SIDE_BY_SIDE_WIDTH = 100
FACTS_WIDTH = 54
# From this height on, the pane shows more facts.
TALL_PANE_LINES = 21
# The lines of the facts in such a pane.
TALL_FACT_LINES = 9
# The lines of the facts in a lower pane.
LOW_FACT_LINES = 5
# Up to this height, some facts share a line.
SHARED_LINES_HEIGHT = 6
# With fewer lines for groups, their title is omitted.
ROOM_FOR_TITLE = 4
# How the reasons of the partitioner are shown, where their names do not say it.
ADDED = {"reduction": "sum of parts"}
# Members of larger groups are listed by wait.
MAX_MEMBERS = 64


@dataclass(frozen=True)
class CollectiveSubject:
    """A collective and the last launches of its program."""

    view: CollectiveView
    # The one whose launches are drawn: the first of those that share a row.
    drawn: CollectiveView
    chart: Callable[[int, int], Chart]
    name: Callable[[str], str]
    # The reason why there are no times, if there are none.
    untimed: str = ""
    # What its bus bandwidth is compared with.
    bandwidth_note: str = ""
    # The seconds since its last window.
    ago: float | None = None
    # The word for several processes of its run.
    nouns: str = "processes"


def pane(subject: CollectiveSubject, ink: Ink, width: int, height: int) -> list[Text]:
    """Return the last launches over time, and the facts below them."""
    if width < 1 or height < 1:
        return []
    facts = _all_facts(
        subject,
        ink,
        width,
        TALL_FACT_LINES if height >= TALL_PANE_LINES else min(LOW_FACT_LINES, height // 2),
    )
    room = height - len(facts)
    shown = subject.chart(width, room)
    drawn: list[Text] = []
    if shown.timeline.strips and room > 1:
        names = tuple(subject.name(strip.agent) for strip in shown.timeline.strips)
        launches = LaunchesShown(shown, subject.drawn.op, names, late_host(subject.view))
        drawn += timeline(launches, ink, width, room)
    elif subject.untimed:
        drawn.append(Text(subject.untimed, ink.note))
    return [*drawn, *fitted(facts, width, height - len(drawn))]


def _all_facts(subject: CollectiveSubject, ink: Ink, width: int, height: int) -> list[Text]:
    facts = _facts(subject, ink, height)
    if width < SIDE_BY_SIDE_WIDTH:
        return [*facts, *_groups(subject.view, ink, width, height - len(facts))]
    rest = width - FACTS_WIDTH - GAP
    return side_by_side([(FACTS_WIDTH, facts), (rest, _groups(subject.view, ink, rest, height))], height)


def _facts(subject: CollectiveSubject, ink: Ink, height: int) -> list[Text]:
    view = subject.view
    busbw = pairs([("bus bandwidth", units.bandwidth(view.busbw_bytes_per_s))], ink)
    busbw.append(f"  estimated, {subject.bandwidth_note or 'as in nccl-tests'}", ink.note)
    lines = [heading(view.op, view.program, ink), _verdict(subject, ink), _times(view, ink)]
    if height > SHARED_LINES_HEIGHT:
        lines += [busbw, _place(view, subject.nouns, ink), *_origin(view, ink)]
    else:
        lines[0].append("  ")
        lines[0].append_text(busbw)
    return lines[:height]


def _place(view: CollectiveView, nouns: str, ink: Ink) -> Text:
    crosses = {None: "", True: f"across {nouns}", False: f"inside {nouns}"}[view.crosses_hosts]
    if view.crosses_hosts and view.uses_network is False:
        crosses += ", over fast links"
    return pairs([("", view.shape or units.NA), ("over", axes_in_words(view)), ("", crosses)], ink)


def _origin(view: CollectiveView, ink: Ink) -> list[Text]:
    """Return the line of the script, and the operand that made the partitioner add the collective."""
    listed = view.listed
    if listed is None:
        return []
    lines = []
    if listed.line:
        within = [("in", listed.name_stack)] if listed.name_stack else []
        lines.append(pairs([("", listed.line), *within], ink))
    if listed.added:
        how = ADDED.get(listed.added, listed.added)
        lines.append(Text(text.printable(f"{how}, added by the partitioner"), ink.style()))
        has = f" is {listed.has}" if listed.has else ""
        if listed.operand:
            lines.append(Text(text.printable(f"{listed.operand}{has}"), ink.style()))
        if listed.wants:
            lines.append(pairs([("wanted", listed.wants)], ink))
    return lines


def axes_in_words(view: CollectiveView) -> str:
    """Return the axes of a collective, with "part of" if its groups cover only parts of these."""
    if view.axes is None:
        return units.NA
    named = "+".join(view.axes) or "one device"
    return named if view.is_whole_axes or not view.axes else f"part of {named}"


def straggler_in_words(view: CollectiveView) -> str:
    """Return the straggler, "none", or why there is no verdict."""
    if view.straggler is not None:
        return f"{LATE_SIGN} {view.straggler.who} {units.share(view.straggler.share)}"
    if not view.samples:
        return units.NA
    if not view.is_judged:
        return "shared CPU"
    return "none" if view.is_enough else "too few samples"


def _verdict(subject: CollectiveSubject, ink: Ink) -> Text:
    if subject.view.is_current:
        return _late(subject.view, ink)
    return Text(f"of {units.age(subject.ago)} ago, outdated (c: window now)", ink.note)


def _late(view: CollectiveView, ink: Ink) -> Text:
    late = view.straggler
    if late is not None:
        others = f", others wait {units.micros(late.late_us)}"
        words = f"{LATE_SIGN} {late.who} comes last in {units.share(late.share)}{others}"
        return Text(words, ink.style(ink.palette.warning, bold=True), no_wrap=True, end="")
    if not view.samples:
        return Text("not timed yet", ink.note)
    if view.timed_by is not None:
        return Text(f"timed by {view.timed_by}: {view.samples:,} of its kind, size and group", ink.note)
    if not view.is_judged:
        return Text(f"no straggler: devices share a host's CPU ({view.samples:,} samples)", ink.note)
    if not view.is_enough:
        return Text(f"too few samples to name a straggler: {view.samples:,}", ink.note)
    return Text(f"no straggler in {view.samples:,} samples", ink.style())


def _times(view: CollectiveView, ink: Ink) -> Text:
    times = {"wait": view.wait_us, "transfer": view.transfer_us, "p50": view.p50_us, "p99": view.p99_us}
    drawn = pairs([(name, units.micros(microseconds)) for name, microseconds in times.items()], ink)
    return drawn if view.is_current else Text(drawn.plain, ink.note)


def _groups(view: CollectiveView, ink: Ink, width: int, room: int) -> list[Text]:
    if not view.groups:
        return [Text("devices unknown", ink.note)] if room > 0 else []
    ordered = by_wait(view)
    lines = []
    if room >= ROOM_FOR_TITLE:
        what = "waits in its group" if len(view.groups) == 1 else f"waits in {len(view.groups):,} groups"
        lines.append(Text(f"{what} of {view.group_size or 0:,}, by device", ink.note))
    left = max(0, room - len(lines))
    more = len(ordered) > left > 1
    shown = ordered[: left - more]
    if len(shown) > 1:  # the others are in order of their signs: sorted by wait, they would move all the time
        shown = [shown[0], *sorted(shown[1:])]
    for number in shown:
        line = Text(no_wrap=True, end="")
        line.append(f"{sign_of(number, len(view.groups))} ", ink.figure)
        line.append_text(_members(view, view.groups[number], ink, width - line.cell_len))
        lines.append(line)
    if more:
        lines.append(Text(f"+{len(ordered) - len(shown):,} more groups", ink.note))
    return lines


def _members(view: CollectiveView, group: Sequence[int], ink: Ink, width: int) -> Text:
    """Return the members in order; if not all fit, those with the least wait first: others wait for them."""
    late, waits = view.straggler, view.waits_us

    def word(device_id: int) -> str:
        mark = LATE_SIGN if late is not None and late.device_id == device_id else ""
        return f"{device_id}{mark} {units.micros(waits.get(device_id))}"

    listed = list(group)
    if len(listed) > MAX_MEMBERS or sum(len(word(each)) + 2 for each in listed) > width + 2:
        listed.sort(key=lambda each: waits.get(each, 1 << 62))
    line = Text(no_wrap=True, end="")
    for i, device_id in enumerate(listed):
        more = f"  +{len(listed) - i}"
        label = word(device_id)
        is_last = i == len(listed) - 1
        if line.cell_len + 2 + len(label) + (0 if is_last else len(more)) > width and i:
            line.append(more, ink.note)
            break
        name, _, wait = label.partition(" ")
        line.append("  " if i else "")
        line.append(f"{name} ", ink.note)
        is_late = late is not None and late.device_id == device_id
        line.append(wait, ink.style(ink.palette.warning, bold=True) if is_late else ink.style())
    return line
