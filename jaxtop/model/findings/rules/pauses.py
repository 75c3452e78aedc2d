"""Pauses between steps: the script stops now and then, or saves its state."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from jaxtop.model.finding import Finding, Severity
from jaxtop.model.findings.gap_findings import (
    EXPLAINS,
    SOURCE,
    as_note,
    finding_of,
    measured_gaps,
    place_of,
    queue_clause,
    worst_of,
)
from jaxtop.model.findings.rule import Rule
from jaxtop.model.tuning import Number
from jaxtop.model.wall_time.gaps import PAUSE_SHARE, pause_of
from jaxtop.wire import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.findings.rule import RunFacts
    from jaxtop.model.wall_time.gaps import Gap
    from jaxtop.wire import ActiveLine

LONG_PAUSE_SHARE = Number("warning_share", 0.25, "a warning from this share of the time on")
# Pauses after fewer steps on average are not counted in steps.
MIN_STEPS = 2
_SAVING = re.compile(r"sav|checkpoint|ckpt|orbax|fsync|dump|pickle|serializ", re.IGNORECASE)


def _pausing(facts: RunFacts, *, saves: bool) -> list[Gap]:
    """Return the gaps of hosts that pause repeatedly at a line, with the share of the time in pauses."""
    gaps = []
    least = facts.number(PAUSE_SHARE)
    for each in measured_gaps(facts):
        line, pause = each.line(SCRIPT), pause_of(each, least)
        if line is not None and pause is not None and _saves(line[0]) is saves:
            gaps.append(replace(each, share=pause.share))
    return gaps


def _saves(line: ActiveLine) -> bool:
    return _SAVING.search(line.place.function) is not None or _SAVING.search(line.place.file) is not None


def _pauses(facts: RunFacts) -> Iterator[Finding]:
    gaps = _pausing(facts, saves=False)
    if gaps:
        worst, line = worst_of(gaps, SCRIPT)
        text = (
            f"{facts.acting(gaps, 'pauses', 'pause')} {_how_often(worst)}, {worst.share:.0%} of the time: "
            f"{place_of(line)}{queue_clause(worst)}"
        )
        finding = finding_of(facts, gaps, worst, line, severity=Severity.WARNING, text=text)
        yield as_note(facts, finding)  # a process that works for the main run may wait for room in its queue


def _how_often(gap: Gap) -> str:
    pause = pause_of(gap, 0.0)
    assert pause is not None
    if pause.every_steps < MIN_STEPS:
        return "between some steps"
    return f"for {pause.lasts_s:.2g} s every {pause.every_steps:.0f} steps"


def _checkpoint_pauses(facts: RunFacts) -> Iterator[Finding]:
    gaps = _pausing(facts, saves=True)
    if gaps:
        worst, line = worst_of(gaps, SCRIPT)
        share = f"{worst.share:.0%} of the time"
        text = f"{facts.acting(gaps, 'saves', 'save')} state for {share}: {place_of(line)}"
        is_much = worst.share >= facts.number(LONG_PAUSE_SHARE)
        severity = Severity.WARNING if is_much else Severity.INFO
        yield finding_of(facts, gaps, worst, line, severity=severity, text=text)


RULES = (
    Rule(
        name="pauses",
        title="Pauses",
        threshold="10 % of the time is spent in the script in three pauses between steps within a minute, "
        "or two within 20 s",
        details=(
            "A pause is three times as long as a step, and 250 ms longer.",
            "A note in servers (by role), and in what the main run of a family has started.",
        ),
        rationale="The median step looks well, yet the run is slower: the time is lost between steps.",
        source=SOURCE,
        advice="Look at that line: a buffer that runs empty, a validation in Python, a log that is flushed.",
        check=_pauses,
        holds_for=2.0,
        stays_for=20.0,
        explains=EXPLAINS,
        numbers=(PAUSE_SHARE,),
    ),
    Rule(
        name="checkpoint_pauses",
        title="Checkpoint pauses",
        threshold="pauses at a line that saves take 10 % of the time; a warning from 25 % on",
        rationale="While the script saves its state, the devices are idle.",
        source=SOURCE,
        advice="Save asynchronously (orbax AsyncCheckpointer), less often, or to a faster disk.",
        check=_checkpoint_pauses,
        holds_for=2.0,
        stays_for=30.0,
        explains=EXPLAINS,
        numbers=(PAUSE_SHARE, LONG_PAUSE_SHARE),
    ),
)
