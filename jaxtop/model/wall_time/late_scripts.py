"""The processes of a run that are late by their scripts: the others wait for them in each step."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from jaxtop.model.host import changed_ms
from jaxtop.model.tuning import STRAGGLER, Number
from jaxtop.model.wall_time.gaps import ERRORS, LATE_SCRIPT_SHARE, standard_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtop.model.host import Host
    from jaxtop.model.wall_time.gaps import Gap

# The hosts of a synchronous run make the same number of steps a second, up to this part.
SAME_PACE = 0.15
# Where nothing shows whether devices compute meanwhile, it may be late from this share of a step on.
POSSIBLY_LATE_SHARE = 0.5
LATE_SCRIPT_MS = Number(
    "script_ms", 5.0, "late by its script from this many milliseconds a step on", STRAGGLER
)
# At least this part of the processes must be measured.
MEASURED_SHARE = 0.75
# Processes notice a change of the rhythm within this time, so until then their paces may differ.
SETTLED_MS = 15_000
# A process has not noticed the new rhythm yet if its median step differs by this factor from the median step
# of the first process to notice.
NEW_RHYTHM_RATIO = 1.3


def late_script_gaps(gaps: Sequence[Gap], processes: int, least_ms: float) -> list[Gap]:
    """Return the gaps of the few processes for whose scripts all others wait, the longest first.

    All make the same number of steps a second, so each step of all takes as long as these processes need.
    """

    def is_late(each: Gap, more: float) -> bool:
        # What pauses explain is theirs.
        return (
            each.is_steadily_in_script and min(each.share, more) >= LATE_SCRIPT_SHARE and each.ms >= least_ms
        )

    return sorted(_few(gaps, processes, is_late), key=lambda each: -each.share)


def perhaps_late(gaps: Sequence[Gap], processes: int) -> list[Gap]:
    """Return the gaps of the few processes that are in their scripts for most of a step, unlike the others.

    They are late unless their devices compute meanwhile, and nothing measures that.
    """
    found = _few(gaps, processes, lambda each, more: each.uncovered is None and more >= POSSIBLY_LATE_SHARE)
    return sorted(found, key=lambda each: -each.script)


def _few(gaps: Sequence[Gap], processes: int, is_late: Callable[[Gap, float], bool]) -> list[Gap]:
    """Return the gaps for which this holds, given how much more than usual a process is in its script.

    There are none if these processes are too many, or processes make their steps independently.
    """
    if processes < 2 or len(gaps) < MEASURED_SHARE * processes or are_apart(gaps):
        return []
    # Processes wait for a core unevenly: the least that one does is compared with the most of others.
    usual = median(sorted(each.most_script for each in gaps)[: (processes + 1) // 2])
    found = [
        each
        for each in gaps
        if each.script - usual >= ERRORS * standard_error(each, usual) and is_late(each, each.script - usual)
    ]
    return found if 2 * len(found) <= processes else []


def in_present_rhythm(hosts: Sequence[Host]) -> list[Host]:
    """Return the processes of a run without those that have not noticed yet that its rhythm has changed.

    Figures of the earlier rhythm cannot be compared with those of the present one.
    """
    timed = [each for each in hosts if each.pulse.rhythm is not None and each.pulse.rhythm.p50_us]
    newest = min(timed, key=_unchanged_for, default=None)
    if newest is None or _unchanged_for(newest) > SETTLED_MS:
        return list(hosts)
    usual = _median_us(newest)
    return [
        each
        for each in hosts
        if each not in timed or usual <= NEW_RHYTHM_RATIO * _median_us(each) <= NEW_RHYTHM_RATIO**2 * usual
    ]


def _unchanged_for(host: Host) -> int:
    return host.pulse.at_ms - changed_ms(host.pulse)


def _median_us(host: Host) -> int:
    return (host.pulse.rhythm.p50_us if host.pulse.rhythm is not None else None) or 0


def are_apart(gaps: Sequence[Gap]) -> bool:
    """Return whether processes make their steps independently of each other."""
    steps = [each.step_ms for each in gaps]
    has_settled = all(_unchanged_for(each.host) > SETTLED_MS for each in gaps)
    return has_settled and max(steps) > (1 + SAME_PACE) * min(steps)
