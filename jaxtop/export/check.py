"""What is wrong with the runs of a cluster, as text, JSON and Markdown."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import msgspec

from jaxtop import __version__
from jaxtop.base.names import legible
from jaxtop.base.times import timestamp
from jaxtop.export.findings import as_value
from jaxtop.model import (
    RULES_BY_NAME,
    Role,
    Severity,
    family_of,
    names_of_runs,
    reported_findings,
    roles_of_runs,
    runs,
)
from jaxtop.model.findings.advice import advice_outside, command_of
from jaxtop.model.findings.coverage import HEALTHY, NOT_CHECKED, Coverage, coverage_of
from jaxtop.model.findings.sentences import costs
from jaxtop.model.stalls.crashes import ended_at, exit_status, has_known_end
from jaxtop.model.wall_time.step_parts import too_little_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jaxtop.model import Cluster, Finding, Run

SCHEMA = 1
WIDTH = 100
NO_FINDINGS, WARNINGS, CRITICAL = 0, 1, 2
_COLOURS = {Severity.CRITICAL: "31", Severity.WARNING: "33", Severity.INFO: "36"}
_STATUS = {Severity.CRITICAL: CRITICAL, Severity.WARNING: WARNINGS, Severity.INFO: NO_FINDINGS}
# Characters with a meaning in Markdown wherever they stand.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~#])")


@dataclass(frozen=True)
class Checkup:
    """The findings of all runs at one time, and the rules that could not be checked, with the reasons."""

    at: float
    runs: tuple[Run, ...]
    findings: tuple[Finding, ...]
    # By run and rule.
    unchecked: dict[tuple[str, str], str]
    # Why too little is measured to call the runs healthy; empty if enough is.
    too_little: str = ""
    names: Mapping[str, str] = field(default_factory=dict)  # of runs, by id
    roles: Mapping[str, Role] = field(default_factory=dict)
    coverage: Coverage = NOT_CHECKED
    # Warnings that were not seen for long enough to be reported, in words.
    pending: str = ""
    # The command that opens the app on the runs, if they are not live.
    opens: str = ""

    @classmethod
    def of(cls, cluster: Cluster, at: float) -> Checkup:
        unchecked, why = dict(cluster.findings.unchecked), too_little_of(cluster, at)
        found = tuple(reported_findings(cluster))
        names, roles = names_of_runs(cluster, at), roles_of_runs(cluster, at)
        all_runs = tuple(runs(cluster, at))
        pending = _pending(cluster)
        return cls(at, all_runs, found, unchecked, why, names, roles, coverage_of(cluster), pending)

    @property
    def status(self) -> int:
        """The exit status: it is that of the most severe finding."""
        return max((_STATUS[each.severity] for each in self.findings), default=NO_FINDINGS)

    @property
    def checked(self) -> list[str]:
        """The names of the rules that were checked in every run."""
        return list(self.coverage.checked)

    @property
    def ended(self) -> str:
        """When the runs ended and how; empty while one goes on."""
        if not self.runs or not all(run.has_ended for run in self.runs):
            return ""
        members = [view.host for run in self.runs for view in run.hosts]
        known = [host for host in members if has_known_end(host)]
        if not known:
            return "died at an unknown time, exit status n/a"
        return f"ended at {_time(max(map(ended_at, known)), self.at)}, exit status {exit_status(members)}"

    def name_of(self, run_id: str) -> str:
        """Return the name of a run that people use."""
        known = {run.id: run.name or run.id for run in self.runs} | dict(self.names)
        return known.get(run_id, run_id)

    def command_of(self, run_id: str) -> str:
        """Return the command that opens the app on a run, by its name where no other one has it."""
        names = [run.name for run in self.runs]
        name = next((run.name for run in self.runs if run.id == run_id), None)
        return command_of(name if name and names.count(name) == 1 else run_id)

    @property
    def title(self) -> str:
        """The names of the runs."""
        return ", ".join(sorted(self.name_of(run.id) for run in self.runs)) or "no run"

    @property
    def verdict(self) -> str:
        """How many findings there are of each severity, and how much was checked; with infos, healthy."""
        counts = {each: sum(found.severity is each for found in self.findings) for each in Severity}
        words = [_counted(count, severity) for severity, count in counts.items() if count]
        early = "ended too early" if self.ended else "too early"
        well = f"{early} to say: {self.pending}" if self.pending else HEALTHY
        verdict = ", ".join(words if self.status else [well, *words])
        return self.coverage.after(verdict, too_little=self.too_little)


def _pending(cluster: Cluster) -> str:
    """Return what may be wrong: warnings that rules have seen, but not for as long as they must hold."""
    found = [each for each in cluster.findings.ongoing.values() if not each.is_reported]
    serious = {
        _title(each.finding): max(0.0, each.last_at - each.finding.since)
        for each in found
        if each.finding.severity is not Severity.INFO
    }
    return ", ".join(f"{title} for {seconds:.0f} s" for title, seconds in serious.items())


def to_text(checkup: Checkup, *, coloured: bool = False, names_rules: bool = False) -> str:
    """Return one line on the whole, a block for each finding, and why the other rules were not checked.

    With `names_rules` each of those is named, and all reasons are listed.
    """
    lines = [legible("; ".join(filter(None, (f"{checkup.title}: {checkup.verdict}", checkup.ended))))]
    for each in checkup.findings:
        head = f"{each.severity.sign} {each.severity.value}"
        if coloured:
            head = f"\x1b[{_COLOURS[each.severity]}m{head}\x1b[0m"
        lines += ["", f"{head}  {_title(each)}: {legible(each.text)}"]
        lines += [f"    {name:<9} {legible(value)}" for name, value in _facts(checkup, each)]
    if unchecked := checkup.coverage.why_not(names_rules=names_rules):
        head, *reasons = unchecked
        lines += ["", head]
        for reason in reasons:
            lines += wrap(legible(reason), WIDTH, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(lines) + "\n"


def to_markdown(checkup: Checkup, *, names_rules: bool = False) -> str:
    """Return the same for a chat or the summary of a build."""
    ended = f"; {checkup.ended}" * bool(checkup.ended)
    lines = [f"**{_escaped(checkup.title)}: {checkup.verdict}**{_escaped(ended)}"]
    for each in checkup.findings:
        lines += [
            "",
            f"- {each.severity.sign} {each.severity.value} **{_title(each)}**: {_escaped(each.text)}",
        ]
        lines += [f"  - {name}: {_escaped(value)}" for name, value in _facts(checkup, each)]
    if unchecked := checkup.coverage.why_not(names_rules=names_rules):
        head, *reasons = unchecked
        lines += ["", f"- {head}", *(f"  - {_escaped(reason)}" for reason in reasons)]
    return "\n".join(lines) + "\n"


def to_json(checkup: Checkup) -> str:
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "jaxtop": __version__,
        "at": timestamp(checkup.at),
        "status": checkup.status,
        "verdict": checkup.verdict,
        "runs": [
            {
                "id": run.id,
                "name": run.name,
                "process_count": run.process_count,
                "family": family_of(run),
                "role": as_role(checkup.roles.get(run.id)),
                **_ended(run),
            }
            for run in checkup.runs
        ],
        "findings": [as_value(each, checkup.at, checkup.opens) for each in checkup.findings],
        **rules_document(checkup),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def as_role(role: Role | None) -> dict[str, Any] | None:
    """Return a role as it stands in JSON."""
    return role and {"name": role.name, "is_guess": role.is_guess}


def rules_document(checkup: Checkup) -> dict[str, Any]:
    """Return which rules were checked in every run, and why the others were not, as they stand in JSON."""
    return {
        "checked": checkup.checked,
        "unchecked": [
            {"run": run, "rule": rule, "reason": reason} for (run, rule), reason in checkup.unchecked.items()
        ],
    }


def _ended(run: Run) -> dict[str, Any]:
    """Return when a run ended, and the exit status of each process; None where it goes on or is unknown."""
    members = [view.host for view in run.hosts]
    statuses = [None if host.bye is None else host.bye.status for host in members]
    if not run.has_ended:
        return {"ended_at": None, "exit_statuses": None}
    known = [ended_at(host) for host in members if has_known_end(host)]
    return {"ended_at": timestamp(max(known)) if known else None, "exit_statuses": statuses}


def _facts(checkup: Checkup, finding: Finding) -> Iterator[tuple[str, str]]:
    if len(checkup.runs) > 1:
        yield "run", checkup.name_of(finding.run)
    if words := costs(finding.cost):
        yield "cost", words
    if finding.is_dated:
        yield "since", _since_text(finding.since, checkup.at)
    if finding.consequences:
        yield "explains", ", ".join(finding.consequences)
    yield "next step", advice_outside(finding, checkup.opens or checkup.command_of(finding.run))


def _since_text(since: float, now: float) -> str:
    """Return the local time, with the date where it was another day, and how long ago that was."""
    seconds = int(max(0.0, now - since))
    minutes, hours = seconds // 60, seconds // 3600
    ago = f"{seconds} s" if not minutes else f"{minutes} min" if hours < 2 else f"{hours} h"
    return f"{_time(since, now)}, {ago} ago"


def _time(at: float, now: float) -> str:
    then, today = time.localtime(at), time.localtime(now)
    form = "%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M:%S"
    return time.strftime(form, then)


def _title(finding: Finding) -> str:
    return RULES_BY_NAME[finding.rule].title


def _counted(count: int, severity: Severity) -> str:
    return f"{count} {severity.value}{'s' if count > 1 and severity is not Severity.CRITICAL else ''}"


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", legible(text))
