"""The page of the ledger: the verdict, what the time went to as it passed, and the sums beside it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text

from jaxtop.base import units
from jaxtop.features.ledger import text as words
from jaxtop.features.ledger.model import KINDS, WORDS
from jaxtop.model.wall_time.time_spent import PRODUCTIVE
from jaxtop.tui.draw.bars import columns, legend_entry, thin_bar

if TYPE_CHECKING:
    from jaxtop.features.ledger.model import JobLedger
    from jaxtop.tui.core.palette import Palette
    from jaxtop.tui.draw.ink import Ink

# Without colours each kind has its letter; what nothing was done in has a sign.
SIGNS = dict(zip(KINDS, "#vSRCcbIGx!_e.", strict=True))
_CATEGORIES = {
    "starting": 1,
    "evaluating": 2,
    "garbage": 6,
    "compiling": 5,
    "cached": 5,
    "saving": 3,
    "restoring": 7,
}
# The share of the height that the plot takes.
PLOT = 0.35
# The fewest lines of the plot.
MIN_PLOT = 3
# The most lines of the plot.
MAX_PLOT = 12
# From this width on, attempts and checkpoints stand beside the sums.
SIDE_BY_SIDE_WIDTH = 110
# The width of the sums.
SUMS_WIDTH = 64
NAME, BAR = 24, 16


def colour_of(kind: str, palette: Palette) -> str:
    """Return the colour of a kind: that of a step's part where it is one, grey where nothing was done."""
    if kind == PRODUCTIVE:
        return palette.step_part_colour("compute")
    if kind == "input":
        return palette.step_part_colour("input")
    if kind in _CATEGORIES:
        return palette.category_colour(_CATEGORIES[kind])
    return palette.muted if kind in ("lost", "stalled") else palette.divider


def page(jobs: list[JobLedger], now: float, ink: Ink, size: tuple[int, int]) -> list[Text]:
    """Return the lines of the page; the ledger of the first job is drawn, of others the verdict."""
    width, height = size
    job, others = jobs[0], jobs[1:]
    lines = [Text(words.verdict(job), ink.figure, no_wrap=True)]
    lines += [Text(words.verdict(each), ink.label, no_wrap=True) for each in others]
    rows = max(MIN_PLOT, min(MAX_PLOT, round(PLOT * height)))
    if height >= MIN_PLOT + len(KINDS) // 2:
        lines += [Text(), *_over_time(job, width, rows, ink), Text()]
    sums = _sums(job, ink)
    beside = [Text(line, ink.label, no_wrap=True) for line in _more(job, now)]
    if width >= SIDE_BY_SIDE_WIDTH:
        lines += _side_by_side(sums, beside)
    else:
        lines += [*sums, *beside]
    return [_cut(line, width) for line in lines[:height]]


def _over_time(job: JobLedger, width: int, height: int, ink: Ink) -> list[Text]:
    parts = job.over_time(width)
    most = max((sum(each.values()) for each in parts), default=0.0)
    if not most:
        return []
    stacks = [[max(0.0, part.get(kind, 0.0)) * height / most for kind in KINDS] for part in parts]
    colours = [colour_of(kind, ink.palette) for kind in KINDS]
    lines = columns(stacks, colours, "".join(SIGNS.values()), height, ink)
    clock = "%H:%M:%S" if job.until - job.started < 86_400 else "%m-%d %H:%M"
    first, last = (time.strftime(clock, time.localtime(at)) for at in (job.started, job.until))
    room = max(0, width - len(first) - len(last))
    axis = f"{first}{units.age(job.until - job.started).center(room, '─')}{last}"
    return [*lines, Text(axis, ink.note, no_wrap=True)]


def _sums(job: JobLedger, ink: Ink) -> list[Text]:
    found = []
    for kind, seconds in words.by_size(job):
        share = seconds / job.total
        line = legend_entry(SIGNS[kind], colour_of(kind, ink.palette), WORDS[kind].ljust(NAME), "", ink)
        line.append(f"{words.device_time(seconds, job.total):>10}", ink.figure).append(
            f" {share:6.1%}  ", ink.label
        )
        line.append_text(thin_bar(share, BAR, colour_of(kind, ink.palette), ink))
        found.append(line)
    total = Text(f"  {'in all'.ljust(NAME)}", ink.label, no_wrap=True)
    return [*found, total.append(f"{words.device_time(job.total):>10}", ink.figure)]


def _more(job: JobLedger, now: float) -> list[str]:
    """Return attempts, checkpoints and the processes that are worse than others, as in the report."""
    found = [*words.steps(job), *words.queue(job), *words.attempts(job)]
    found += [*words.checkpoints(job, now), *words.processes(job)]
    return found[1:] if found and not found[0] else found


def _side_by_side(left: list[Text], right: list[Text]) -> list[Text]:
    found = []
    for i in range(max(len(left), len(right))):
        line = left[i].copy() if i < len(left) else Text(no_wrap=True)
        line.pad_right(max(0, SUMS_WIDTH - line.cell_len))
        found.append(line.append_text(right[i]) if i < len(right) else line)
    return found


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line
