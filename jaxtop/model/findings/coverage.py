"""How many rules were checked, and why the others could not be."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from jaxtop.model.findings.rules import RULES, RULES_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

# The reasons that are spelled out.
MOST_REASONS = 3


class Coverage(NamedTuple):
    """The rules that were checked in every run, and the titles of the others by reason, most titles first."""

    checked: tuple[str, ...] = ()
    unchecked: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    @property
    def _counts(self) -> str:
        checked = f"{len(self.checked)} {'rule' if len(self.checked) == 1 else 'rules'} checked"
        others = len(RULES) - len(self.checked)
        return f"{checked}, {others} could not be" if self.unchecked else checked

    @property
    def in_short(self) -> str:
        """How many of all rules were checked."""
        count = f"{len(self.checked)} of " if self.unchecked else ""
        return f"{count}{len(RULES)} rules checked"

    @property
    def is_little(self) -> bool:
        """Whether most rules could not be checked."""
        return 2 * len(self.checked) < len(RULES)

    @property
    def in_words(self) -> str:
        """The counts and the most frequent reasons, with the rules."""
        reasons = [f"{reason} ({', '.join(titles)})" for reason, titles in self.unchecked.items()]
        if len(reasons) > MOST_REASONS:
            reasons[MOST_REASONS:] = [f"{len(reasons) - MOST_REASONS} more reasons in --json"]
        return ": ".join([self._counts, *(["; ".join(reasons)] if reasons else [])])


NOT_CHECKED = Coverage()


def coverage(unchecked: Mapping[tuple[str, str], str]) -> Coverage:
    """Return the coverage, from the reasons by run and rule."""
    titles: dict[str, dict[str, None]] = {}
    for (_, name), reason in unchecked.items():
        if name in RULES_BY_NAME:
            titles.setdefault(reason, {})[RULES_BY_NAME[name].title] = None
    missing = {rule for _, rule in unchecked}
    by_frequency = sorted(titles.items(), key=lambda each: -len(each[1]))
    return Coverage(
        tuple(rule.name for rule in RULES if rule.name not in missing),
        {reason: tuple(found) for reason, found in by_frequency},
    )
