"""The findings with cost, cause and next step; of a healthy run, its bound and the possible gain."""

from __future__ import annotations

import re
from math import isclose
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from jaxtop.base import units
from jaxtop.model import RULES_BY_NAME, step_of
from jaxtop.model.findings.advice import advice_in_app
from jaxtop.model.findings.sentences import costs
from jaxtop.tui.core import text
from jaxtop.tui.draw.bars import pair, thin_bar
from jaxtop.tui.draw.overview.anatomy import step_parts
from jaxtop.tui.draw.overview.panels import NAME, row_name
from jaxtop.tui.draw.panel import wrapped
from jaxtop.tui.draw.panes.finding import figure_of

if TYPE_CHECKING:
    from jaxtop.model import Finding
    from jaxtop.model.finding import Evidence, FindingCost
    from jaxtop.tui.core.moment import Moment
    from jaxtop.tui.draw.ink import Ink

# The longest bar of a cost, that of a finding that is not selected, and the evidence that is shown.
BAR, SHORT_BAR, EVIDENCE = 40, 8, 3
# The screen where a part of a step is explained, and its key.
_SHOWN_ON = {
    "compute": ("7", "Programs"),
    "communication": ("6", "Collectives"),
    "waiting": ("6", "Collectives"),
    "host gap": ("9", "Stacks"),
}
# A part is worth naming as a gain from this share on.
MIN_GAIN = 0.02


class Wording(NamedTuple):
    """A finding in words: what is wrong, and why."""

    wrong: str
    because: str


def worded(finding: Finding) -> Wording:
    """Return a finding as what is wrong and why: its line of the script, and its evidence.

    The sentence of a finding often ends with the line: it then stands in the reason only. Evidence that is
    what the finding costs stands in the sentence only.
    """
    wrong, source = finding.text, finding.subject.source
    because = []
    start, colon, end = wrong.rpartition(": ")
    if source and colon and end.startswith(source):
        wrong = start
        because.append(end)
    elif source and source not in wrong:
        because.append(source)
    because += [
        f"{each.name} {figure_of(each)}"
        for each in finding.evidence
        if each.value is not None and not _is_cost(each, finding.cost)
    ][:EVIDENCE]
    return Wording(text.printable(wrong), text.printable(" · ".join(because)))


def _is_cost(evidence: Evidence, cost: FindingCost) -> bool:
    """Whether an evidence has the same figure as the cost of its finding."""
    of_step = {"ratio": cost.share_of_step, "seconds": cost.ms_per_step and cost.ms_per_step / 1000}
    same, value = of_step.get(evidence.unit), evidence.value
    return same is not None and not isinstance(value, str) and value is not None and isclose(value, same)


def finding_lines(
    finding: Finding, now: float, ink: Ink, width: int, most: int, *, of: str = ""
) -> list[Text]:
    """Return a finding in at most `most` lines: what is wrong, what it costs, why, what to do.

    `of` is the name of its run among several of a family.
    """
    words, colour = worded(finding), ink.palette.severity_colour(finding.severity.rank)
    rule = RULES_BY_NAME[finding.rule]
    style = ink.style(colour, bold=True)
    since = f"since {text.time_of_day(finding.since)}" if width >= 70 and finding.is_dated else ""
    head = wrapped(
        f"{_of_run(of)}{rule.title}: {words.wrong}",
        width - 2 - (len(since) + 2) * bool(since),
        1 if most < 5 else 2,
    )
    lines = [Text.assemble((f"{finding.severity.sign} ", style), (head[0], style), no_wrap=True)]
    if since:
        lines[0].append(" " * max(1, width - lines[0].cell_len - len(since)) + since, ink.note)
    lines += [Text(f"  {each}", style, no_wrap=True) for each in head[1:]]
    cost = _cost(finding, now, ink, width)
    why = _titled("because", words.because, ink, width, 1)
    left = most - len(lines) - len(cost) - len(why)
    advice = text.printable(advice_in_app(finding))
    step = _titled("next step", advice, ink, width, max(1, min(2, left)))
    for each in (cost, why, step) if most >= 4 else (step, cost):
        lines += each
    if finding.consequences and len(lines) < most:
        lines += _titled("explains", ", ".join(finding.consequences), ink, width, 1)
    return lines[:most]


def _cost(finding: Finding, now: float, ink: Ink, width: int) -> list[Text]:
    share, facts = finding.cost.share_of_step, _beyond_sentence(finding, now)
    if not facts:
        return []
    line = row_name("  costs", ink, NAME + 2)
    while len(facts) > 1 and line.cell_len + len(", ".join(facts)) > width:
        facts.pop()
    words = ", ".join(facts)
    if share is not None:
        colour = ink.palette.severity_colour(finding.severity.rank)
        room = min(BAR, width - line.cell_len - len(words) - 2)
        if room >= SHORT_BAR:
            line.append_text(thin_bar(share, room, colour, ink)).append("  ")
    return [line.append(words, ink.figure)]


def _beyond_sentence(finding: Finding, now: float) -> list[str]:
    """Return what a finding costs: where its sentence says the share of a step, what follows from that."""
    cost, sentence = finding.cost, finding.text
    share, ms = cost.share_of_step, cost.ms_per_step
    if share is None or not _says(sentence, f"{share:.0%}"):
        return [costs(cost)] * bool(costs(cost))
    is_said = ms is None or _says(sentence, units.ms(ms))
    rest = costs(cost._replace(ms_per_step=None if is_said else ms, share_of_step=None))
    lost = share * (now - finding.since)
    return [
        *([rest] * bool(rest)),
        f"up to {sped_up(share)} as fast without it",
        *([f"~{units.age(lost)} lost so far"] * (lost >= 1)),
    ]


def _says(sentence: str, figure: str) -> bool:
    return re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", sentence) is not None


def sped_up(share: float) -> str:
    """Return how many times as fast a step would be without this share of it."""
    times = 1 / max(0.01, 1 - share)
    return f"{times:.{2 if times < 9.995 else 0}f}×"


def _titled(name: str, words: str, ink: Ink, width: int, most: int) -> list[Text]:
    """Return words under a name, whose further lines begin where the first one does."""
    if not words:
        return []
    title = row_name(f"  {name}", ink, NAME + 2)
    style = ink.style(ink.palette.foreground)
    first, *others = wrapped(words, width - title.cell_len, most)
    indent = " " * title.cell_len
    return [Text.assemble(title, (first, style)), *(Text(indent + each, style) for each in others)]


def _of_run(name: str) -> str:
    return text.printable(f"{name}: ") if name else ""


def finding_line(finding: Finding, ink: Ink, width: int, *, of: str = "") -> Text:
    """Return a finding that is not selected, in one line; `of` is the name of its run, as above."""
    share, words = finding.cost.share_of_step, costs(finding.cost)
    colour = ink.palette.severity_colour(finding.severity.rank)
    cost = Text(no_wrap=True)
    if share is not None and width >= 60:
        cost.append_text(thin_bar(share, SHORT_BAR, colour, ink))
        cost.append(f" {units.share(share):>4}", ink.figure)
    elif words and width >= 90:
        cost.append(words, ink.figure)
    room = width - 2 - (cost.cell_len + 2) * bool(cost)
    title = f"{_of_run(of)}{RULES_BY_NAME[finding.rule].title}"
    sentence = wrapped(f"{title}: {worded(finding).wrong}", room, 1)[0]
    line = Text.assemble((f"{finding.severity.sign} ", pair(ink, colour)), (sentence, pair(ink, colour)))
    if cost:
        line.append(" " * max(2, width - line.cell_len - cost.cell_len)).append_text(cost)
    return line


def bound_lines(moment: Moment, ink: Ink, width: int) -> list[Text]:
    """Return what bounds a run without findings, what could be gained at most, and where to look next."""
    found = moment.checked_step.parts
    parts = [each for each in step_parts(found, moment) if each.name != "unknown"]
    if not parts:
        return []
    largest = max(parts, key=lambda each: each.share)
    lines = [
        *_titled(
            "bound by",
            f"{largest.words}: {units.share(largest.share)} of the step{_peak(moment)}",
            ink,
            width,
            1,
        )
    ]
    gains = [each for each in parts if each.name != "compute" and each.share >= MIN_GAIN]
    if gains:
        gain = max(gains, key=lambda each: each.share)
        key, screen = _SHOWN_ON[gain.name]
        words = (
            f"without {gain.words} a step would be {sped_up(gain.share)} as fast, at most: "
            f"{key} {screen} shows it"
        )
    else:
        key, screen = _SHOWN_ON[largest.name]
        words = f"a faster program: {key} {screen} shows where its time goes"
    return lines + _titled("next step", words, ink, width, 2)


def _peak(moment: Moment) -> str:
    """Return the utilisation of the devices' peak, if it is known."""
    found = [step for view in moment.stepping if (step := step_of(view.current)) is not None]
    known = [each.utilization for each in found if each.utilization is not None]
    return f", ~{units.share(max(known))} of the devices' peak" if known else ""
