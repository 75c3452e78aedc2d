"""The type of findings: one problem of a run, its cost, its proof and the next step."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from jaxtop.model.shares import CheckedStep  # noqa: TC001 - msgspec reads the annotations
from jaxtop.wire.bounds import Measure, TimeS  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from jaxtop.model.host import Host


# The rule, the run, and what else tells two findings of a rule in a run apart.
FindingKey = tuple[str, str, str]


class Severity(StrEnum):
    """How serious a finding or an event is.

    What is critical stops the run or spoils its results, a warning costs something.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @classmethod
    def of(cls, said: str) -> Severity:
        """Return the severity that an agent stated; one that only newer agents know counts as the least."""
        return cls(said) if said in _SIGNS else cls.INFO

    @property
    def rank(self) -> int:
        """The order of severity: the larger, the worse."""
        return _RANKS[self]

    @property
    def sign(self) -> str:
        """The sign before what has this severity, so that it can be recognised without colour."""
        return _SIGNS[self]


_RANKS = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}
_SIGNS = {Severity.INFO: "·", Severity.WARNING: "△", Severity.CRITICAL: "▲"}


class Subject(NamedTuple):
    """What a finding is about; empty fields mean the whole run. `agent` is the process to look at first."""

    agent: str = ""
    process_index: int | None = None
    device_id: int | None = None
    array: str = ""
    program: str = ""
    collective: str = ""
    axis: str = ""
    source: str = ""  # a line of the script, as file:line

    @classmethod
    def of(cls, host: Host, **more: Any) -> Subject:
        """Return a process, and the part of it that the finding is about."""
        return cls(host.agent, host.process_index, **more)


class FindingCost(NamedTuple):
    """What a finding costs, in units that can be compared; None where unknown or not applicable."""

    ms_per_step: Measure | None = None
    share_of_step: Measure | None = None
    bytes_per_device: Measure | None = None
    minutes_until_full: Measure | None = None


class Evidence(NamedTuple):
    """A figure that a finding rests on: its name, value, base unit, source, and the time it was measured."""

    name: str
    value: Measure | str | None
    unit: str = ""
    source: str = ""
    at: TimeS | None = None


class Proof(NamedTuple):
    """Where a person sees it: a screen, the filter to set there, and the keys of a row and a column."""

    screen: str
    filter: str = ""
    row: str = ""
    column: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a run.

    `about` tells findings of one rule and run apart; it must stay the same while the cause is the same.
    `text` is one plain sentence with figures. `rule` and `run` are set by `Rule.findings`, `since` and
    `consequences` by the reducer. `is_dated` is False where it is unknown when it began: `since` is then the
    time at which it was found.
    """

    severity: Severity
    confidence: Measure
    text: str
    subject: Subject = field(default_factory=Subject)
    about: str = ""
    cost: FindingCost = field(default_factory=FindingCost)
    evidence: tuple[Evidence, ...] = ()
    proof: Proof = field(default_factory=lambda: Proof("hosts"))
    # Replace the advice of the rule, and the rules that it explains.
    advice: str = ""
    explains: tuple[str, ...] | None = None
    rule: str = ""
    run: str = ""
    since: TimeS = 0.0
    is_dated: bool = True
    # The titles of the rules whose findings this one explains.
    consequences: tuple[str, ...] = ()

    @property
    def key(self) -> FindingKey:
        """Its identity over time."""
        return self.rule, self.run, self.about

    @property
    def order(self) -> tuple[int, float, float, str]:
        """A sort key: the most severe first, then what costs most with most confidence, then the oldest."""
        share = self.cost.share_of_step or 0.0
        return -self.severity.rank, -share * self.confidence, self.since, self.rule

    @property
    def row(self) -> str | tuple[str, str, str]:
        """The row of its proof: of a collective with run and program, since others may have its name."""
        row = self.proof.row
        return (self.run, self.subject.program, row) if row and row == self.subject.collective else row


class Ongoing(NamedTuple):
    """A finding with the time at which its rule last held, and whether it was reported.

    `severe_at` is when it last had this severity: a lower one counts only after the rule's `stays_for`.
    """

    finding: Finding
    last_at: TimeS
    is_reported: bool
    severe_at: TimeS


class Findings(Struct, array_like=True):
    """The findings by key, the time of the last check, why rules could not be checked, and the step then.

    `step` is None before the first check, and in keyframes of older recordings.
    """

    ongoing: dict[FindingKey, Ongoing] = msgspec.field(default_factory=dict)
    checked_at: TimeS = 0.0
    # The reasons, by run and rule.
    unchecked: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)
    step: CheckedStep | None = None

    def copy(self) -> Findings:
        return Findings(self.ongoing.copy(), self.checked_at, self.unchecked.copy(), self.step)
