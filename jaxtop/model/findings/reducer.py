"""Checks the rules from time to time, and decides which findings are reported.

A finding is reported once its rule has held for a while, and ends once it has not held for a while. So a
figure that wavers around a threshold makes no finding that comes and goes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from jaxtop import wire
from jaxtop.model.collectives.present import old_windows
from jaxtop.model.finding import Ongoing, Severity
from jaxtop.model.findings.rule import RunFacts, Unmeasured
from jaxtop.model.findings.rules import RULES, RULES_BY_NAME
from jaxtop.model.host import run_of
from jaxtop.model.hosts import runs
from jaxtop.model.liveness import has_exited, is_of_present_steps
from jaxtop.model.naming.families import main_run
from jaxtop.model.shares import CheckedStep
from jaxtop.model.state import LoggedEvent
from jaxtop.model.steps.views import wall_time_of_run
from jaxtop.model.wall_time.lateness import reporting
from jaxtop.model.wall_time.step_parts import run_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from jaxtop.model.finding import Finding
    from jaxtop.model.findings.rule import Rule
    from jaxtop.model.keyframe import Message
    from jaxtop.model.state import ClusterState

# The rules are checked this often, in seconds of the frames' own time: live and replay yield the same.
CHECK_EVERY = 2.0
# With more hosts than this for each of these seconds they are checked more rarely, in proportion.
HOSTS_A_SECOND = 256
# A cause costs at least this part of what its consequence costs.
EXPLAINS_FROM = 0.25
# While a rule cannot be checked, its findings stay for this long. Those that cost time do not outlast a
# change of the step's rhythm.
UNCHECKED_STAYS = 120.0
# After a connection changed they are checked sooner: a lost process must be seen at once.
SOONEST_CHECK = 0.5
# The reason why a rule is not checked that the user muted.
MUTED = "muted in config.toml"
# If nobody watched or recorded a run, the files of the machine say only how it ended.
ONLY_ITS_END = "how it ended is all that is known by its name; of a recorded run: jaxtop check RECORDING"
# If no process of a run has told a viewer anything and none answers, only their states are known.
NO_FIGURES = "no figures could be read: no process answers"
# A rule that fails must not end the view; the reason is shown with the rules that could not be checked.
_FAILED = "jaxtop failed to check it"


def reduce(state: ClusterState, _agent: str, message: Message, at: float) -> list[LoggedEvent]:
    """Check all rules if that is due, and return the findings that began or ended as events."""
    passed = at - state.findings.checked_at
    is_due = not 0 <= passed < check_every(state)
    if isinstance(message, wire.Link | wire.Bye):
        # After the end of the last process, no message leads to another check.
        is_due |= passed >= SOONEST_CHECK or all(map(has_exited, state.hosts.values()))
    return check(state, at) if is_due else []


def check_every(state: ClusterState) -> float:
    """Return the seconds between two checks."""
    return max(CHECK_EVERY, len(state.hosts) / HOSTS_A_SECOND)


def check(state: ClusterState, at: float) -> list[LoggedEvent]:
    """Check all rules, whether or not it is due, and return the findings that began or ended as events."""
    state.findings.checked_at = at + 0.0  # a new object: samples of past steps are taken again
    state.findings.unchecked = {}
    all_runs = {run.id: RunFacts(state, run, at) for run in runs(state, at)}
    events = [event for facts in all_runs.values() for event in _check_run(facts, all_runs, at)]
    state.findings.step = _step(state, at)
    return [*events, *_drop(state, at)]


def checked_step(state: ClusterState, now: float) -> CheckedStep:
    """Return the step as the last check of the rules had it; before the first check, as it is now."""
    return state.findings.step or _step(state, now)


def _step(state: ClusterState, now: float) -> CheckedStep:
    run = main_run(state, now)
    hosts = [] if run is None else [view.current for view in reporting(run)]
    return CheckedStep(run_parts(state, now, None if run is None else run.id), wall_time_of_run(hosts))


def reported_findings(state: ClusterState) -> list[Finding]:
    """Return the reported findings of all runs, the most important first; consequences are left out."""
    reported = [
        each.finding
        for each in state.findings.ongoing.values()
        if each.is_reported and each.finding.rule in RULES_BY_NAME
    ]
    causes = [each for each in reported if not any(_explains(cause, each) for cause in reported)]
    return sorted((_with_consequences(each, reported) for each in causes), key=lambda each: each.order)


def _explains(cause: Finding, other: Finding) -> bool:
    """Return whether a finding is the cause of another: not if it costs only a small part of that."""
    rules = RULES_BY_NAME[cause.rule].explains if cause.explains is None else cause.explains
    if cause.run != other.run or other.rule not in rules:
        return False
    share, whole = cause.cost.share_of_step, other.cost.share_of_step
    return share is None or whole is None or share >= EXPLAINS_FROM * whole


def _with_consequences(cause: Finding, reported: list[Finding]) -> Finding:
    titles = {RULES_BY_NAME[each.rule].title for each in reported if _explains(cause, each)}
    return replace(cause, consequences=tuple(sorted(titles))) if titles else cause


def _check_run(facts: RunFacts, all_runs: Collection[str], at: float) -> Iterator[LoggedEvent]:
    state, run = facts.cluster, facts.run
    is_only_its_end_known = run.has_ended and all(view.host.pulse_at is None for view in run.hosts)
    has_no_figures = all(view.host.pulse_at is None and view.state.is_silent for view in run.hosts)
    # While no host of a run changes, nor its state, and no verdict ends, its rules are not checked again.
    inputs = state.stalls.get(run.id), old_windows(state, at), *run.hosts
    version = state.derived.of("checked run", run.id, all_runs, inputs, object)
    for rule in RULES:
        if state.tuning.is_muted(rule.name, facts.run.id, facts.run.name):
            _mute(state, facts.run.id, rule.name)
            continue
        if (is_only_its_end_known or has_no_figures) and not rule.applies_after_exit:
            state.findings.unchecked[run.id, rule.name] = (
                ONLY_ITS_END if is_only_its_end_known else NO_FIGURES
            )
            continue
        holds_for = state.tuning.holds_for(rule.name, rule.holds_for)
        for finding in _checked(rule, facts, version, all_runs, at):
            before = state.findings.ongoing.get(finding.key)
            since = before.finding.since if before is not None else finding.since or at
            was_reported = before is not None and before.is_reported
            is_reported = was_reported or at - since >= holds_for
            severity, severe_at = _severity(finding, before, rule, at)
            dated = replace(finding, since=since, severity=severity)
            state.findings.ongoing[finding.key] = Ongoing(dated, at, is_reported, severe_at)
            # A note makes no event; one that becomes a warning does.
            rank = before.finding.severity.rank if before is not None and was_reported else 0
            if is_reported and rank < severity.rank and rule.makes_event(finding):
                yield _event(dated, at, f"{rule.title}: {finding.text}", severity)


def _severity(finding: Finding, before: Ongoing | None, rule: Rule, at: float) -> tuple[Severity, float]:
    """Return the severity, and when it was last found: it falls only after a while, so it does not waver."""
    if before is not None and at - before.severe_at < rule.stays_for:
        kept = before.finding.severity
        if kept.rank > finding.severity.rank:
            return kept, before.severe_at
    return finding.severity, at


def _mute(state: ClusterState, run: str, rule: str) -> None:
    """Note that a rule is muted, and drop its findings, which a recording may have."""
    state.findings.unchecked[run, rule] = MUTED
    for key in [key for key in state.findings.ongoing if key[:2] == (rule, run)]:
        del state.findings.ongoing[key]


class _RuleResult(NamedTuple):
    """What a rule found, why it could not be checked, and for which time; None if the time did not matter."""

    found: list[Finding]
    why: str
    at: float | None


def _checked(
    rule: Rule, facts: RunFacts, version: object, all_runs: Collection[str], at: float
) -> list[Finding]:
    """Return what a rule finds in a run, and note why if it cannot be checked, or not completely."""
    of = partial(facts.cluster.derived.of, member=facts.run.id, members=all_runs)  # by name and inputs

    def check() -> _RuleResult:
        found: list[Finding] = []
        why = ""
        try:
            for finding in rule.findings(facts):  # what was found before an error counts
                found.append(finding)  # noqa: PERF402
        except Unmeasured as missing:
            why = str(missing)
        except Exception:  # noqa: BLE001 - a fault of one rule must not hide the others
            why = _FAILED
        return _RuleResult(found, why, at if facts.has_read_time else None)

    def derive() -> _RuleResult:
        if rule.inputs is None:
            return check()
        return of(f"rule {rule.name}", inputs=rule.inputs(facts), derive=check)

    checked = of(f"checked {rule.name}", inputs=(version,), derive=derive)
    if checked.at is not None and checked.at != at:
        checked = check()
    if checked.why:
        facts.cluster.findings.unchecked[facts.run.id, rule.name] = checked.why
    return checked.found


def _drop(state: ClusterState, at: float) -> list[LoggedEvent]:
    """Drop the findings that no longer hold, and return the end of each reported one."""
    events = []
    for key, each in list(state.findings.ongoing.items()):
        rule = RULES_BY_NAME.get(each.finding.rule)
        if rule is None:  # a recording of another version has it
            del state.findings.ongoing[key]
        elif each.last_at < at and at - each.last_at >= _stays_for(state, each, rule):
            del state.findings.ongoing[key]
            if each.is_reported and rule.makes_event(each.finding) and each.finding.severity.rank:
                text = (
                    f"{rule.title} ended after {each.last_at - each.finding.since:.0f} s: {each.finding.text}"
                )
                events.append(_event(each.finding, at, text, Severity.INFO))
    return events


def _stays_for(state: ClusterState, each: Ongoing, rule: Rule) -> float:
    """Return for how long a finding stays without its rule holding."""
    if (each.finding.run, rule.name) in state.findings.unchecked and _is_of_present(state, each):
        return UNCHECKED_STAYS
    return rule.stays_for if each.is_reported else 2 * check_every(state)


def _is_of_present(state: ClusterState, each: Ongoing) -> bool:
    """Return whether a finding about the time of steps has held in their present rhythm; others have."""
    cost = each.finding.cost
    if cost.ms_per_step is None and cost.share_of_step is None:
        return True
    return all(
        is_of_present_steps(host, each.last_at)
        for host in state.hosts.values()
        if run_of(host) == each.finding.run
    )


def _event(finding: Finding, at: float, text: str, severity: Severity) -> LoggedEvent:
    return LoggedEvent(at, severity.value, "finding", finding.subject.agent, text, finding.key)
