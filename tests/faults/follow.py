"""Runs a program with a fault, and follows it as a viewer does."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from jaxtop.cli import demo
from jaxtop.cli.machine import processes
from jaxtop.model import RULES
from tests.faults.follower import Follower
from tests.faults.outcome import Found, Outcome, findings_about, is_found, judge
from tests.faults.processes import HOSTS, Output, start
from tests.faults.table import HEALTHY

if TYPE_CHECKING:
    from jaxtop_agent.demo.faults import Fault
    from tests.faults.processes import Process

STARTS_WITHIN = 180.0
# After the fault was found, so long until its cost is read.
SETTLES_IN = 10.0
# After a fault ended by itself, so long until nothing may say that it lasts.
ENDS_IN = 20.0


def run(fault: type[Fault] | None, program: str, limit: float, after: float | None = None) -> Outcome:
    """Run a program with a fault until this is found, or `limit` seconds after it began; without: healthy."""
    outcome = Outcome(fault.name if fault else HEALTHY, program, rules=len(RULES))
    started = time.monotonic()
    words = demo.fault_words(fault.name if fault else None, after)
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(start(program, index, words, port))
            for port in [processes.free_port()]
            for index in range(HOSTS)
        ]
        output = Output(hosts[0].stdout)
        follower = Follower([host.pid for host in hosts])
        stack.callback(follower.close)
        found = _follow(fault, follower, output, hosts, limit)
        outcome.load = round(os.getloadavg()[0], 1)
        judge(fault, found, follower, output, outcome)
        outcome.seconds = round(time.monotonic() - started, 1)
    return outcome


def _follow(
    fault: type[Fault] | None,
    follower: Follower,
    output: Output,
    hosts: list[Process],
    limit: float,
) -> Found:
    """Look until it is time to judge; return the findings about the fault as they last named it."""
    found: Found = []
    started, found_at, has_begun = time.time(), None, False
    while True:
        follower.look(0.25)
        now = time.time()
        if output.began is not None and not has_begun:
            has_begun = True
            follower.begin(output.began)
        begin = (output.steps[0][0] if output.steps else None) if fault is None else output.began
        if begin is None:
            if now - started > STARTS_WITHIN or hosts[0].poll() is not None:
                raise RuntimeError(f"the run did not start: {hosts[0].last_words()}")
            continue
        if fault is not None and is_found(fault, about := [*findings_about(fault, follower, output)]):
            found, found_at = about, found_at or now
        if fault is not None and fault.lasts is not None and now - begin < fault.lasts + ENDS_IN:
            continue
        if now - begin > limit or (found_at is not None and now - found_at > SETTLES_IN):
            return found
