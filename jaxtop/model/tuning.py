"""Changes that a user made to the rules of findings: their numbers, and the muted rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# The rule whose findings name late processes: code below the rules has its numbers, and screens its findings.
STRAGGLER = "straggler"
# The number that every rule has: the seconds for which it must hold before it is reported.
HOLDS_FOR = "holds_for"


class Number(NamedTuple):
    """A number of a rule that a user may change: its name, its default and what it means.

    `rule` is the name of the rule, for numbers that code below the rules reads.
    """

    name: str
    default: float
    meaning: str
    rule: str = ""


class Mute(NamedTuple):
    """A rule that is not checked in a run, named by its name or id; or, without one, in no run."""

    rule: str
    run: str = ""


@dataclass(frozen=True)
class Tuning:
    """The changed numbers by rule and name, and the muted rules."""

    numbers: Mapping[tuple[str, str], float] = field(default_factory=lambda: MappingProxyType({}))
    mutes: frozenset[Mute] = frozenset()

    def value(self, rule: str, number: Number) -> float:
        return self.numbers.get((rule, number.name), number.default)

    def value_of(self, number: Number) -> float:
        """Return a number that knows its rule."""
        return self.value(number.rule, number)

    def holds_for(self, rule: str, default: float) -> float:
        return self.numbers.get((rule, HOLDS_FOR), default)

    def is_muted(self, rule: str, run_id: str, run_name: str | None) -> bool:
        return bool(self.mutes) and not self.mutes.isdisjoint(
            (Mute(rule), Mute(rule, run_id), Mute(rule, run_name or ""))
        )


AS_DECLARED = Tuning()
