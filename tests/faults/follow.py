"""Runs a program with a fault, and follows it as a viewer does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtop import keys, runfiles
from jaxtop.cli import demo, processes
from jaxtop.model import RULES, Cluster
from jaxtop.model.findings.observer import findings
from jaxtop.sources import LiveSource, Seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtop.model.finding import Finding
    from jaxtop_agent.demo.faults import Fault

ROOT = Path(__file__).parents[2]
HOSTS, DEVICES = 2, 4
PROGRAMS = {"demo": "jaxtop_agent.demo.train", "plain": "tests.faults.plain", "rest": "tests.faults.rest"}
OF_FAULTS = ("demo", "plain")
STARTS_WITHIN = 180.0
# After the fault was found, so long until its cost is read.
SETTLES_IN = 10.0
# Findings that only say that something is slower accuse nobody.
SYMPTOMS = frozenset({"slower_than_before"})
# The factor by which a finding of before must have grown to be about the fault.
GROWN = 1.3
_STEP = re.compile(r"step +(\d+) .* ([\d.]+) ms/step")
_FAULT = re.compile(
    r"fault \w+ (begins|first costs something)(?: (\d+) bytes per device)? at \S+ \(([\d.]+)\)"
)


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
    wrong: list[str] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)
    step_ms: float | None = None
    load: float = 0.0
    seconds: float = 0.0
    # The number of rules at that time; a run says nothing about rules that came later.
    rules: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Output:
    """The lines of process 0, with the times of steps and of the fault."""

    def __init__(self, pipe: Any) -> None:
        self.steps: list[tuple[float, int, float]] = []  # when, the step, its milliseconds
        self.began: float | None = None
        self.costs: float | None = None
        self.bytes_per_device: float | None = None
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe: Any) -> None:
        with pipe:
            for line in pipe:
                text = line.decode(errors="replace")
                if found := _STEP.search(text):
                    self.steps.append((time.time(), int(found[1]), float(found[2])))
                elif found := _FAULT.search(text):
                    if found[1] == "begins":
                        self.began = float(found[3])
                        self.bytes_per_device = float(found[2]) if found[2] else None
                    self.costs = float(found[3])

    def step_ms(self, *, faulty: bool) -> float | None:
        """The mean time of a step before or since the fault; None if too few were reported."""
        began = self.began or float("inf")
        lines = [each for each in self.steps if (each[0] > began) == faulty]
        spans = [(now[1] - then[1], now[2]) for then, now in pairwise(lines)]
        steps = sum(count for count, _ in spans)
        return sum(count * ms for count, ms in spans) / steps if steps else None


class Follower:
    """A viewer without a screen that remembers when each finding was first reported."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._source: LiveSource | None = None
        self.cluster = Cluster()
        self.first: dict[tuple[str, str, str], tuple[float, Finding]] = {}
        self.last: dict[tuple[str, str, str], Finding] = {}
        # When a finding first cost far more than at first.
        self.grew: dict[tuple[str, str, str], float] = {}
        self._of_healthy: set[tuple[str, str, str]] = set()

    def look(self, seconds: float) -> None:
        """Follow the run for this long."""
        if self._source is None:
            found = [each for each in runfiles.find() if each.hello.pid in self._pids]
            if len(found) < len(self._pids):
                time.sleep(seconds)
                return
            self._source = LiveSource(
                [Seed(each.hello.agent, hello=each.hello) for each in found], keys.load()
            )
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for frame in self._source.poll(left):
                self.cluster.feed(frame)
        for each in findings(self.cluster):
            self.first.setdefault(each.key, (time.time(), each))
            self.last[each.key] = each
            before, now = self.first[each.key][1].cost, each.cost
            grown = (
                (before.bytes_per_device, now.bytes_per_device),
                (before.ms_per_step, now.ms_per_step),
            )
            if any(one and other and other > GROWN * one for one, other in grown):
                self.grew.setdefault(each.key, time.time())

    def begin(self) -> None:
        """Count the present findings as those of the healthy run."""
        self.first = {key: (at, self.last[key]) for key, (at, _) in self.first.items()}
        self._of_healthy = set(self.first)
        self.grew.clear()

    def before(self, finding: Finding) -> Finding | None:
        """Return what was reported of the same subject when the fault began; None if nothing was."""
        return self.first[finding.key][1] if finding.key in self._of_healthy else None

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


def run(fault: type[Fault] | None, program: str, limit: float, after: float | None = None) -> Outcome:
    """Run a program with a fault until this is found, or `limit` seconds after it began; without: healthy."""
    outcome = Outcome(fault.name if fault else "healthy", program, rules=len(RULES))
    started = time.monotonic()
    words = demo.fault_words(fault.name if fault else None, after)
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(_process(program, index, words, port))
            for port in [processes.free_port()]
            for index in range(HOSTS)
        ]
        output = Output(hosts[0].stdout)
        follower = Follower([host.pid for host in hosts])
        stack.callback(follower.close)
        _follow(fault, follower, output, hosts, limit)
        outcome.load = round(os.getloadavg()[0], 1)
        _judge(fault, follower, output, outcome)
        outcome.seconds = round(time.monotonic() - started, 1)
    return outcome


def _follow(
    fault: type[Fault] | None,
    follower: Follower,
    output: Output,
    hosts: list[_Process],
    limit: float,
) -> None:
    started, found_at, has_begun = time.time(), None, False
    while True:
        follower.look(0.25)
        now = time.time()
        if output.began is not None and not has_begun:
            has_begun = True
            follower.begin()
        begin = (output.steps[0][0] if output.steps else None) if fault is None else output.began
        if begin is None:
            if now - started > STARTS_WITHIN or hosts[0].poll() is not None:
                raise RuntimeError(f"the run did not start: {hosts[0].last_words()}")
            continue
        if fault is not None and found_at is None and any(_right(fault, follower, output)):
            found_at = now
        if now - begin > limit or (found_at is not None and now - found_at > SETTLES_IN):
            return


def _right(fault: type[Fault], follower: Follower, output: Output) -> Iterator[tuple[float, Finding]]:
    """The findings that are about the fault, each with the time at which it was first reported."""
    began = output.began or float("inf")
    for key, last in follower.last.items():
        at = follower.first[key][0]
        if at < began - 1:
            at = follower.grew.get(key, 0.0)  # it says the same of the healthy run, but less of it
        if at >= began - 1 and is_about(fault, last):
            yield at, last


def is_about(fault: type[Fault], finding: Finding) -> bool:
    """Whether a finding names the fault and its subject."""
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


def _judge(fault: type[Fault] | None, follower: Follower, output: Output, outcome: Outcome) -> None:
    outcome.step_ms = output.step_ms(faulty=False)
    right: set[tuple[str, str, str]] = set()
    if fault is not None:
        found = sorted(_right(fault, follower, output), key=lambda each: each[0])
        right = {each.key for _, each in found}
        if found:
            at, finding = found[0]
            outcome.rule, outcome.text = finding.rule, finding.text
            outcome.after_begin = round(max(0.0, at - output.began), 1)
            outcome.after_cost = round(max(0.0, at - output.costs), 1)
            _compare_costs(fault, (follower.before(finding), finding), output, outcome)
        else:
            unchecked = follower.cluster.findings.unchecked.items()
            outcome.unchecked = {rule: why for (_, rule), why in unchecked if rule in fault.rules}
    outcome.wrong = [
        f"{each.rule} ({each.severity}): {each.text}"
        for key, (_, each) in follower.first.items()
        if key not in right and each.severity != "info" and each.rule not in SYMPTOMS
    ]


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


class _Process(subprocess.Popen[bytes]):
    """One process of a run, which ends with the block."""

    def __init__(self, words: list[str], output: int, errors: Any) -> None:
        self.printed = errors
        super().__init__(
            words,
            env={**processes.on_cpu(DEVICES), "PYTHONPATH": f"{ROOT}:{ROOT / 'agent'}"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            preexec_fn=_die_with_the_bench,
        )

    def last_words(self) -> str:
        return processes.last_words(self.printed)

    def __exit__(self, *_: object) -> None:
        self.send_signal(signal.SIGCONT)
        self.kill()
        self.wait()
        self.printed.close()


def _die_with_the_bench() -> None:
    processes.die_with_parent(signal.SIGKILL)


def _process(program: str, index: int, words: list[str], port: int) -> _Process:
    place = [
        "--process",
        index,
        "--processes",
        HOSTS,
        "--coordinator",
        f"127.0.0.1:{port}",
        "--devices",
        DEVICES,
    ]
    command = [sys.executable, "-m", PROGRAMS[program], *map(str, place), *words]
    output = subprocess.DEVNULL if index else subprocess.PIPE
    return _Process(command, output, tempfile.TemporaryFile("w+"))
