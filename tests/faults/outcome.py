"""What was seen of a fault in a run: which finding is right, when it came, and what it costs."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from jaxtop.model.findings.reducer import reported_findings
from jaxtop.model.wall_time.step_parts import run_parts
from tests.faults.processes import HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtop.model import Cluster
    from jaxtop.model.finding import Finding
    from jaxtop_agent.demo.faults import Fault
    from tests.faults.follower import Follower
    from tests.faults.processes import Output

# Findings that only say that something is slower accuse nobody.
SYMPTOMS = frozenset({"slower_than_before"})
# The part of a step whose share is the cost of a finding. What one process loses, the others wait for.
PARTS = {
    "straggler": "waiting",
    "uneven_work": "waiting",
    "input_bound": "host_gap",
    "launch_bound": "host_gap",
    "blocking_reads": "host_gap",
    "communication_bound": "communication",
}
OF_ONE = {"pauses": "waiting", "checkpoint_pauses": "waiting"}


@dataclass
class Outcome:
    """What was seen of one fault in one run. Times are seconds after the fault began, or began to cost."""

    fault: str
    program: str
    rule: str | None = None
    after_begin: float | None = None
    after_cost: float | None = None
    text: str = ""
    estimated: float | None = None
    true: float | None = None
    unit: str = ""
    # The part of a step that the finding names, its share in the panel, and in the finding.
    part: str = ""
    of_panel: float | None = None
    of_finding: float | None = None
    wrong: list[str] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)
    step_ms: float | None = None
    load: float = 0.0
    cores: int = os.cpu_count() or 1
    seconds: float = 0.0
    # The number of rules at that time; a run says nothing about rules that came later.
    rules: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return what is kept of the run: no sentences, which would not be those that jaxtop says later."""
        kept = asdict(self)
        del kept["text"]
        kept["wrong"] = [sentence.partition(":")[0] for sentence in self.wrong]
        return kept


# Findings about a fault, each with the time at which it was first reported.
Found = list[tuple[float, "Finding"]]


def findings_about(fault: type[Fault], follower: Follower, output: Output) -> Iterator[tuple[float, Finding]]:
    """The findings that are about the fault, each with the time at which it was first reported."""
    began = output.began or float("inf")
    for key, last in follower.last.items():
        at = follower.first[key][0]
        if key in follower.of_healthy:
            at = follower.grew.get(key, 0.0)  # it says the same of the healthy run, but less of it
        if at >= began - 1 and is_about(fault, last):
            yield at, last


def is_found(fault: type[Fault], found: Iterable[tuple[float, Finding]]) -> bool:
    """Whether the findings about a fault name all that it consists of."""
    listed = [each for _, each in found]
    return all(any(is_about(one, each) for each in listed) for one in fault.parts or (fault,))


def is_about(fault: type[Fault], finding: Finding) -> bool:
    """Whether a finding names the fault and its subject."""
    if fault.parts:
        return any(is_about(one, finding) for one in fault.parts)
    subject = finding.subject
    if finding.rule not in fault.rules:
        return False
    if not fault.everywhere and fault.is_of_one_process and subject.process_index not in (None, HOSTS - 1):
        return False
    if (
        not fault.everywhere
        and fault.is_of_one_process
        and not fault.subject
        and subject.process_index is None
    ):
        return False
    return all(text in getattr(subject, name) for name, text in fault.subject.items())


def judge(
    fault: type[Fault] | None, found: Found, follower: Follower, output: Output, outcome: Outcome
) -> None:
    """Fill in what was found, how soon, and what was accused wrongly."""
    outcome.step_ms = output.step_ms(faulty=False)
    right: set[tuple[str, str, str]] = set()
    if fault is not None:
        found = sorted(found, key=lambda each: each[0])
        right = {each.key for _, each in (*found, *findings_about(fault, follower, output))}
        if found:
            # Of several, the last one found says how long it took, and the one that costs time what it costs.
            at = next(at for i, (at, _) in enumerate(found) if is_found(fault, found[: i + 1]))
            finding = next((each for _, each in found if each.cost.ms_per_step is not None), found[0][1])
            outcome.rule, outcome.text = finding.rule, finding.text
            outcome.after_begin = round(max(0.0, at - output.began), 1)
            outcome.after_cost = round(max(0.0, at - output.costs), 1)
            _compare_costs(fault, (follower.before(finding), finding), output, outcome)
            if fault.lasts is None:  # else the panel shows the healthy run again
                now = time.time()
                follower.cluster.check(now)  # else a panel of up to two seconds later is compared
                for each in reported_findings(follower.cluster):
                    if each.key == finding.key:
                        compare_with_panel(follower.cluster, now, each, outcome)
        else:
            unchecked = follower.cluster.findings.unchecked.items()
            outcome.unchecked = {rule: why for (_, rule), why in unchecked if rule in fault.rules}
    if fault is not None and fault.lasts is not None:
        # It has ended, so what is still reported is wrong.
        right -= {each.key for each in reported_findings(follower.cluster) if each.key in right}
    outcome.wrong = [
        f"{each.rule} ({each.severity}): {each.text}"
        for key, (_, each) in follower.first.items()
        if key not in right and each.severity != "info" and each.rule not in SYMPTOMS
    ]


def compare_with_panel(cluster: Cluster, at: float, finding: Finding, outcome: Outcome) -> None:
    """Note the share of a step that a finding costs, and that of the part that it names in the panel."""
    part, shown = PARTS.get(finding.rule, ""), run_parts(cluster, at, finding.run)
    if shown is not None and finding.subject.agent in shown.late:
        part = part or OF_ONE.get(finding.rule, "")
    if shown is None or not part or finding.cost.share_of_step is None:
        return
    outcome.part, outcome.of_finding = part, round(finding.cost.share_of_step, 3)
    outcome.of_panel = round(getattr(shown.parts, part), 3)


def _compare_costs(
    fault: type[Fault], found: tuple[Finding | None, Finding], output: Output, outcome: Outcome
) -> None:
    """Compare what a finding costs, or how much more than before the fault, with what the run lost."""
    before, finding = found
    if output.bytes_per_device is not None:
        outcome.unit = "bytes"
        outcome.true, outcome.estimated = output.bytes_per_device, finding.cost.bytes_per_device
    elif fault.costs_time:
        healthy, since = output.step_ms(faulty=False), output.step_ms(faulty=True)
        outcome.unit = "ms"
        outcome.true = None if healthy is None or since is None else round(since - healthy, 1)
        outcome.estimated = finding.cost.ms_per_step
        if outcome.estimated is not None and before is not None:
            outcome.estimated -= before.cost.ms_per_step or 0.0
