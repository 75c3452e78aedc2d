"""The report as one page of HTML, to send to a colleague: no scripts, nothing is loaded from elsewhere."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING

from jaxtop import __version__
from jaxtop.base import units
from jaxtop.base.names import legible
from jaxtop.features.ledger import text
from jaxtop.features.ledger.model import KINDS, WORDS
from jaxtop.wire.scalars import MOST_CURVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtop.features.ledger.model import JobLedger
    from jaxtop.model import Finding
    from jaxtop.model.series import Point

# Colours that colour-blind readers can distinguish, on white and on black; grey where nothing was done.
COLOURS = {
    "stepping": "#2a78b5",
    "evaluating": "#56b4e9",
    "saving": "#009e73",
    "restoring": "#7fbf7b",
    "compiling": "#e69f00",
    "cached": "#f0c866",
    "starting": "#b58b00",
    "input": "#cc79a7",
    "garbage": "#d55e00",
    "stalled": "#8c2d04",
    "lost": "#a50f15",
    "down": "#888888",
    "ending": "#aaaaaa",
    "other": "#bbbbbb",
}
COLUMNS, WIDTH, HEIGHT = 240, 960, 180
# The size of a plot of a scalar, and the points that make one.
PLOT, MIN_POINTS = (300, 90), 2
# Floats of four bytes differ by less than this part.
SMALLEST_SPAN = 1e-5
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { font-size: 1.1rem; } .note { opacity: .7; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; }
td, th { padding: .15rem .8rem .15rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { white-space: pre-wrap; }
.bar { display: inline-block; height: .7rem; border-radius: 2px; } .bar-cell { width: 40%; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .4rem; }
svg { width: 100%; height: auto; display: block; border-bottom: 1px solid #8886; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-variant-numeric: tabular-nums; }
.critical { color: #d03030; font-weight: 600; } .warning { color: #b07000; font-weight: 600; }
"""


def to_html(jobs: Sequence[JobLedger], now: float, findings: Sequence[Finding] = ()) -> str:
    """Return the page of these jobs, with the findings of their runs where these are known."""
    title = ", ".join(each.name for each in jobs)
    body = [part for job in jobs for part in _job(job, now)]
    if findings:
        body += ["<h2>Findings at the end</h2>", *_findings(findings)]
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_safe(title)}: what the time went to</title><style>{_STYLE}</style></head><body>",
            *body,
            f'<p class="note">jaxtop {_safe(__version__)}, {made}</p>',
            "</body></html>\n",
        )
    )


def _job(job: JobLedger, now: float) -> Iterable[str]:
    yield f"<h1>{_safe(job.name)}</h1>"
    yield f'<p class="verdict">{_safe(text.verdict(job))}</p>'
    yield from _over_time(job)
    yield from _kinds(job)
    yield from (f"<p>{_safe(line)}</p>" for line in text.steps(job))
    yield from _scalars(job)
    if len(job.attempts) > 1 or job.attempts[0].ending:
        yield "<h2>Attempts</h2>"
        yield from _lines(text.attempts(job))
    checkpoints = list(text.checkpoints(job, now))
    if checkpoints:
        yield "<h2>Checkpoints</h2>"
        yield from _lines(checkpoints)
    processes = list(text.processes(job))
    if processes:
        yield "<h2>Processes that spent more than the others on something else than steps</h2>"
        yield from _lines(processes)


def _lines(lines: Iterable[str]) -> Iterable[str]:
    yield f"<pre>{_safe(chr(10).join(each for each in lines if each))}</pre>"


def _over_time(job: JobLedger) -> Iterable[str]:
    parts = job.over_time(COLUMNS)
    most = max((sum(each.values()) for each in parts), default=0.0)
    if not most:
        return
    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="What the time went to, over time">'
    step = WIDTH / COLUMNS
    for kind in reversed(KINDS):
        # Each area is drawn down to the axis and covers part of the one before it, so that no gaps show.
        upto = KINDS[: KINDS.index(kind) + 1]
        heights = [sum(max(0.0, part.get(each, 0.0)) for each in upto) * HEIGHT / most for part in parts]
        if any(part.get(kind, 0.0) > 0 for part in parts):
            corners = [f"0,{HEIGHT}"]
            for i, height in enumerate(heights):
                y = f"{HEIGHT - height:.1f}"
                corners += [f"{i * step:.1f},{y}", f"{(i + 1) * step:.1f},{y}"]
            corners.append(f"{WIDTH},{HEIGHT}")
            yield f'<polygon fill="{COLOURS[kind]}" points="{" ".join(corners)}"/>'
    for each in job.attempts[1:]:
        x = (each.started - job.started) / (job.until - job.started) * WIDTH
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}"'
        yield f'<line {ends} stroke="currentColor" stroke-dasharray="4 3"/>'
    yield "</svg>"
    lasted = units.age(job.until - job.started)
    yield f'<p class="note">{_time(job.started)} to {_time(job.until)}: {lasted}</p>'


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _kinds(job: JobLedger) -> Iterable[str]:
    yield "<table>"
    yield _row("th", "spent on", "device time", "share", "")
    for kind, seconds in text.by_size(job):
        share, colour = seconds / job.total, COLOURS[kind]
        key = f'<span class="key" style="background:{colour}"></span>'
        bar = f'<span class="bar" style="width:{share:.2%};background:{colour}"></span>'
        yield _row("td", key + WORDS[kind], text.device_time(seconds, job.total), f"{share:.1%}", bar)
    yield _row("td", "in all", text.device_time(job.total), "", "")
    yield "</table>"


def _scalars(job: JobLedger) -> Iterable[str]:
    """Yield a small plot of each scalar that has more than one value, over the same time."""
    drawn = {name: points for name, points in job.scalars.items() if len(points) >= MIN_POINTS}
    if not drawn:
        return
    since = min(points[0][0] for points in drawn.values())
    until = max(points[-1][0] for points in drawn.values())
    yield '<h2>What the script reports</h2><div class="plots">'
    for name, points in drawn.items():
        yield _plot(name, points, since, until)
    only = f"; a process keeps {MOST_CURVES} scalars at most, losses first" * (
        len(job.scalars) == MOST_CURVES
    )
    yield f'</div><p class="note">Each plot: {_time(since)} to {_time(until)}{only}</p>'


def _plot(name: str, points: Sequence[Point], since: float, until: float) -> str:
    known = [value for _, value in points if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = high - low if high - low > SMALLEST_SPAN * abs(high) else 0.0
    lines: list[list[str]] = [[]]
    for at, value in points:
        if value is None:  # not finite: the line has a gap
            lines.append([])
            continue
        y = (high - value) / span * (PLOT[1] - 2) + 1 if span else PLOT[1] / 2
        lines[-1].append(f"{(at - since) / (until - since) * PLOT[0]:.1f},{y:.1f}")
    drawn = "".join(
        f'<polyline fill="none" stroke="{COLOURS["stepping"]}" stroke-width="1.5" points="{" ".join(line)}"/>'
        for line in lines
        if line
    )
    last = points[-1][1]
    words = "not finite" if last is None else units.loss(last)
    reach = f", means from {units.loss(low)} to {units.loss(high)}" if known else ""
    return (
        f'<figure><svg viewBox="0 0 {PLOT[0]} {PLOT[1]}" role="img" aria-label="{_safe(name)} over time">'
        f"{drawn}</svg><figcaption>{_safe(name)} <b>{words}</b>{reach}</figcaption></figure>"
    )


def _row(cell: str, name: str, first: str, second: str, bar: str) -> str:
    numbers = "".join(f'<{cell} class="number">{each}</{cell}>' for each in (first, second))
    return f'<tr><{cell}>{name}</{cell}>{numbers}<{cell} class="bar-cell">{bar}</{cell}></tr>'


def _findings(findings: Sequence[Finding]) -> Iterable[str]:
    yield "<table>"
    for each in findings:
        severity = str(each.severity.value)
        yield f'<tr><td class="{severity}">{severity}</td><td>{_safe(each.text)}</td></tr>'
    yield "</table>"


def _safe(words: str) -> str:
    """Return text of others without control characters, for HTML."""
    return "\n".join(escape(legible(line)) for line in words.split("\n"))
