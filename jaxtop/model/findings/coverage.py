"""The number of rules that were checked, and the reasons why others could not be."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.findings.reducer import MUTED
from jaxtop.model.findings.rules import RULES, RULES_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtop.model.state import ClusterState

# What a run without warnings is called.
HEALTHY = "healthy"
# While this rule is not checked, no run is called healthy.
VITAL = "stalled"
# The most reasons that are listed where rules are not named.
MAX_REASONS = 4


class Coverage(NamedTuple):
    """The rules that were checked in every run, and the titles of the others by reason, most titles first."""

    checked: tuple[str, ...] = ()
    unchecked: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    # Why it is not known whether a run is stalled; empty if it is.
    doubt: str = ""

    @property
    def in_short(self) -> str:
        """How many of all rules were checked."""
        count, every = len(self.checked), len(RULES)
        return f"all {every} rules checked" if count == every else f"{count} of {every} rules checked"

    @property
    def is_little(self) -> bool:
        """Whether most rules could not be checked."""
        return 2 * len(self.checked) < len(RULES)

    def after(self, verdict: str, joint: str = "; ", too_little: str = "") -> str:
        """Return a verdict on a run with how much was checked: where that is little, it is not healthy.

        `too_little` is why nothing can be said though rules were checked; empty if enough is measured.
        """
        notes = verdict.removeprefix(HEALTHY)
        if self.doubt and verdict != notes:
            return f"{self.doubt}{notes}{joint}{self.in_short}"
        if too_little and verdict != notes and not self.is_little:
            return f"{too_little}{notes}{joint}{self.in_short}"
        if verdict == notes or not self.is_little:
            return f"{verdict}{joint}{self.in_short}"
        if not self.checked:
            return f"not checked{notes}{joint}{self.in_short}"
        return f"nothing wrong in {self.in_short}{notes}"

    def why_not(self, *, names_rules: bool) -> list[str]:
        """How many rules could not be checked, then a line for each reason; may be empty.

        A line has how many rules the reason keeps from being checked, or with `names_rules` their titles.
        """
        if not self.unchecked:
            return []
        count = len(RULES) - len(self.checked)
        head = f"{count} {'rule' if count == 1 else 'rules'} could not be checked"
        if names_rules:
            return [f"{head}:", *(f"{why}: {', '.join(titles)}" for why, titles in self.unchecked.items())]
        every = [(len(titles), why) for why, titles in self.unchecked.items()]
        shown = every if len(every) == MAX_REASONS + 1 else every[:MAX_REASONS]
        lines = [f"{rules}: {why}" for rules, why in shown]
        if rest := every[len(shown) :]:
            lines.append(f"{sum(rules for rules, _ in rest)} for {len(rest)} other reasons")
        return [f"{head} (--rules names them):", *lines]


NOT_CHECKED = Coverage()


def coverage_of(state: ClusterState) -> Coverage:
    """Return the coverage of all runs; without a run and before the first check, nothing is checked."""
    is_checked = state.hosts and state.findings.checked_at
    return coverage_without(state.findings.unchecked) if is_checked else NOT_CHECKED


def coverage_without(unchecked: Mapping[tuple[str, str], str]) -> Coverage:
    """Return the coverage, from the reasons by run and rule."""
    titles: dict[str, dict[str, None]] = {}
    for (_, name), reason in unchecked.items():
        if name in RULES_BY_NAME:
            titles.setdefault(reason, {})[RULES_BY_NAME[name].title] = None
    missing = {rule for _, rule in unchecked}
    doubts = [reason for (_, name), reason in unchecked.items() if name == VITAL and reason != MUTED]
    by_frequency = sorted(titles.items(), key=lambda each: -len(each[1]))
    return Coverage(
        tuple(rule.name for rule in RULES if rule.name not in missing),
        {reason: tuple(found) for reason, found in by_frequency},
        doubts[0] if doubts else "",
    )
