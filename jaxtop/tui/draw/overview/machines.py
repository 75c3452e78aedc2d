"""Input and machines: what the main threads do, how busy cores and networks are, and what waits for disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtop.base import units
from jaxtop.model import FIGURES
from jaxtop.model.figure_type import Level
from jaxtop.model.steps.script import main_thread
from jaxtop.tui.draw.bars import thin_bar
from jaxtop.tui.draw.overview.panels import NAME, OverviewPanel, row_name
from jaxtop.tui.draw.panel import Heading, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from jaxtop.model import Host
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# Activities of main threads below this share are left out.
MIN_ACTIVITY_SHARE = 0.01
# What is shown of the machines where it is known: a share of what is there.
_SHARES = ("machine_cpu", "memory_used_bytes", "io_pressure", "held_back")
_NAMES = {
    "machine_cpu": "CPU",
    "memory_used_bytes": "RAM",
    "io_pressure": "disk wait",
    "held_back": "held back",
}
# Of these, those that are shown only when they are not zero.
_IF_ANY = {"io_pressure", "held_back"}
_TRAFFIC = (
    ("network", "received_bytes_per_second", "sent_bytes_per_second", "in", "out"),
    ("disks", "disk_read_bytes_per_second", "disk_written_bytes_per_second", "read", "written"),
)
# The shortest bar.
MIN_BAR = 6
# The longest bar.
MAX_BAR = 24
# The width of a share behind its bar.
SHARE_WIDTH = 5
# The space before a note.
NOTE_GAP = 2


class MachineLine(NamedTuple):
    """A line of the panel: a name, a share for its bar (None: no bar), a figure, and a note.

    The facts of the note begin with what stands between them; without room the last ones leave first.
    """

    name: str
    share: float | None
    figure: str
    facts: Sequence[str] = ()
    level: Level = Level.FINE


def machine_lines(moment: Moment) -> list[MachineLine]:
    """Return what is known of input, main threads and machines: of each figure the highest."""
    hosts = [view.current for view in moment.host_views if not view.state.is_silent]
    return [*_gap(moment), *_script(hosts), *_shares(hosts, len(hosts) > 1), *_traffic(hosts, len(hosts) > 1)]


def _gap(moment: Moment) -> Iterator[MachineLine]:
    found = moment.checked_step.parts
    if found is not None:
        gap = found.parts.host_gap
        note = "devices wait for the script" if gap >= 0.005 else "no wait for input"
        yield MachineLine("host gap", gap, units.share(gap), (note,))


def _script(hosts: Sequence[Host]) -> Iterator[MachineLine]:
    """Yield the share of the samples in the script, of the process with most, and its first line."""
    found = [(each, host) for host in hosts if (each := main_thread(host)) is not None]
    if not found:
        return
    most, host = max(found, key=lambda each: each[0].script)
    others = [f"{words} {units.share(share)}" for words, share in most.besides if share >= MIN_ACTIVITY_SHARE]
    first, *more = others or ["nothing else"]
    facts = [most.line, f" · {first}"] if most.line else [first]
    if len(hosts) > 1:
        facts.insert(1, f" on {host.number}")
    yield MachineLine(
        "script", most.script, units.share(most.script), [*facts, *(f", {each}" for each in more)]
    )


def _shares(hosts: Sequence[Host], is_one_of_many: bool) -> Iterator[MachineLine]:
    for name in _SHARES:
        figure = FIGURES[name]
        known = [(value, host) for host in hosts if (value := figure.share(host.pulse)) is not None]
        if not known:
            continue
        share, host = max(known, key=lambda each: each[0])
        if name in _IF_ANY and share < 0.005:
            continue
        note = {
            "machine_cpu": _cores(host),
            "memory_used_bytes": f"of {units.size(host.pulse.host.memory_total_bytes)}",
        }.get(name, "")
        reached = figure.reached(host.pulse)
        level = Level.FINE if reached is None else reached.level
        who = f"{' ' * bool(note)}on {host.number}" if is_one_of_many else ""
        facts = [each for each in (note, who) if each]
        yield MachineLine(_NAMES[name], share, units.share(share), facts, level)


def _cores(host: Host) -> str:
    cores = host.pulse.host.cores_milli
    return "" if not cores else f"of {units.plain(cores / 1000)} cores"


def _traffic(hosts: Sequence[Host], is_one_of_many: bool) -> Iterator[MachineLine]:
    for name, to, back, into, out in _TRAFFIC:
        found = []
        for host in hosts:
            rates = FIGURES[to].read(host.pulse, 0), FIGURES[back].read(host.pulse, 0)
            if any(each is not None for each in rates):
                found.append((sum(each or 0.0 for each in rates), rates, host))
        if found:
            _, rates, host = max(found, key=lambda each: each[0])
            words = f"{units.bandwidth(rates[0])} {into}  {units.bandwidth(rates[1])} {out}"
            yield MachineLine(name, None, words, (f"on {host.number}",) if is_one_of_many else ())


def machines(found: Sequence[MachineLine], ink: Ink) -> OverviewPanel | None:
    """Return the panel; None while nothing is known."""
    if not found:
        return None
    return OverviewPanel(
        Heading("Input and machines", keys=(("3", "Hosts"),)),
        "hosts",
        lambda _: len(found),
        lambda width, height: _lines(found[:height], ink, width),
        lambda width: _lines([each for each in found if each.name in ("host gap", "script")], ink, width),
        least=min(5, len(found)),
    )


def _lines(found: Sequence[MachineLine], ink: Ink, width: int) -> list[Text]:
    """Return the lines, whose bars leave room for whole notes."""
    most = width - NAME - SHARE_WIDTH - NOTE_GAP
    notes = [len(_noted(each.facts, most - MIN_BAR)) for each in found if each.share is not None]
    bar = max(MIN_BAR, min(MAX_BAR, width // 3, most - max(notes, default=0)))
    return [_line(each, ink, width, bar) for each in found]


def _noted(facts: Sequence[str], room: int) -> str:
    """Return as many of these facts as there is room for; of the first one, whole words at least."""
    note = "".join(facts[:1])
    if len(note) > room:
        return wrapped(note, room, 1)[0] if room > 0 else ""
    for each in facts[1:]:
        if len(note) + len(each) > room:
            break
        note += each
    return note


def _line(each: MachineLine, ink: Ink, width: int, bar: int) -> Text:
    line = row_name(each.name, ink)
    styles = (ink.figure, ink.style(ink.palette.warning, bold=True), ink.style(ink.palette.bad, bold=True))
    if each.share is not None:
        colour = ink.palette.step_part_colour("host gap") if each.name == "host gap" else ink.palette.trend
        line.append_text(thin_bar(each.share, bar, colour, ink))
        line.append(f" {each.figure:>4}", styles[each.level])
    else:
        line.append(each.figure, styles[each.level])
    if note := _noted(each.facts, width - line.cell_len - NOTE_GAP):
        line.append(" " * NOTE_GAP + note, ink.note)
    return line
