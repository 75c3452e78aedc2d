"""Runs that halt in their first steps, before there is a rhythm, are reported; slow ones are not."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager, suppress
from subprocess import DEVNULL

import pytest

from jaxtop.model import newest_hosts, reported_findings
from jaxtop.model.finding import Severity
from jaxtop.model.stalls import case
from jaxtop.model.stalls.lulls import running_of
from jaxtop.sources import discovery
from tests.live.test_stalls_live import events_of
from tests.support import PYTHON, ROOT, environment, eventually, free_port, processes, viewer

pytestmark = [pytest.mark.jax, pytest.mark.newest, pytest.mark.timeout(300)]

PROGRAM = ROOT / "tests" / "programs" / "first_steps.py"
LINES = PROGRAM.read_text().splitlines()
HELD_IN = {"before": 'kind == "before"', "first": "IS_LAST and number", "fifth": "IS_LAST and number"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A wait is a halt after six seconds: what computes meanwhile takes all cores for so long."""
    monkeypatch.setattr(case, "WAITS_FOR", 6.0)


def is_there(*names):
    with suppress(discovery.NoTarget):
        return discovery.seeds(names)


@contextmanager
def running(*kinds, count=2):
    """A run of so many processes of each kind, and one viewer of all of them."""
    commands = []
    for kind in kinds:
        coordinator = f"127.0.0.1:{free_port()}"
        commands += [[PYTHON, PROGRAM, kind, coordinator, count, index] for index in range(count)]
    with ExitStack() as stack:
        stack.enter_context(processes(*commands, env=environment(1), stdout=DEVNULL, stderr=DEVNULL))
        eventually(lambda: is_there(*kinds))
        yield stack.enter_context(viewer(*kinds))


def of(attached, kind):
    """The hosts of a run, by their processes."""
    found = [host for host in newest_hosts(attached.cluster) if host.run_name == kind]
    return sorted(found, key=lambda host: host.process_index or 0)


def texts(attached, kind):
    agents = {host.agent for host in of(attached, kind)}
    return [event.text for event in events_of(attached, "stalled") if event.agent in agents]


def stalls(attached):
    return [each for each in reported_findings(attached.cluster) if each.rule == "stalled"]


def test_a_process_that_never_comes_to_a_step_is_named_before_there_is_a_rhythm():
    with running(*HELD_IN) as attached:
        attached.until(lambda: all(texts(attached, kind) for kind in HELD_IN))
        for kind, line in HELD_IN.items():
            (text,) = texts(attached, kind)
            number = next(i for i, each in enumerate(LINES, 1) if line in each)
            assert text.startswith("process 0 waits in jit_step (all-reduce); process 1 "), text
            assert f"first_steps.py:{number}" in text or f"first_steps.py:{number + 1}" in text, text
            assert [running_of(host) is not None for host in of(attached, kind)] == [True, False]


def test_a_process_for_which_several_wait_in_their_first_step_is_critical():
    with running("before", count=3) as attached:
        attached.until(lambda: stalls(attached))
        (event,), (finding,) = events_of(attached, "stalled"), stalls(attached)
        assert event.severity == "critical" and event.text.startswith("processes 0–1 wait in jit_step ")
        assert (finding.severity, finding.text) == (Severity.CRITICAL, event.text)


def test_while_one_process_compiles_and_the_others_wait_a_note_says_what_and_for_how_long():
    with running("alone") as attached:
        attached.until(lambda: stalls(attached))
        (note,) = stalls(attached)
        assert note.severity is Severity.INFO and not texts(attached, "alone")
        assert re.fullmatch(
            r"process 1 has been compiling evaluate for \d+ s, which took \d+ s before; process 0 waits",
            note.text,
        )
        assert "gc_pauses" not in {each.rule for each in reported_findings(attached.cluster)}


@pytest.mark.quiet  # a process that gets no core for long looks halted
def test_a_halt_inside_of_the_first_step_is_reported_and_a_launch_that_computes_is_not():
    """Nor is a long compilation in the first steps."""
    with running("within", "computing", "compiling") as attached:
        attached.until(lambda: texts(attached, "within"))
        attached.until(
            lambda: (
                [(running_of(host) or (0, 0))[1] > case.WAITS_FOR for host in of(attached, "computing")]
                == [True] * 2
            )
        )
        attached.until(lambda: any(host.launches.get("step", 0) > 5 for host in of(attached, "compiling")))
        assert texts(attached, "within")[0].endswith("halt")
        assert running_of(of(attached, "computing")[0]).function == "long"
        assert texts(attached, "computing") == texts(attached, "compiling") == []
