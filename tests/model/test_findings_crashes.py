"""A script that ends with an exception is told from one that is done: by the agent, the rule and `check`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import reported_findings
from jaxtop.model.finding import Severity
from jaxtop.model.stalls.crashes import NOTICED_WITHIN, WAITS_FOR
from jaxtop.wire import LinkState
from tests.model.test_findings_liveness import TRAINS, link, only, stalls
from tests.staged.findings import Staged, trains
from tests.support import environment, eventually, jax_run, jaxtop_here, script, until_a_run_is_found, viewer

PLACE = wire.Place("train.py", 51, "main")
BAD = wire.Uncaught("ValueError", "batch 7 is empty", PLACE)
OF_JAX = wire.Uncaught(
    "JaxRuntimeError", "Gloo: connection closed by peer", wire.Place("train.py", 60, "main")
)


def ends(staged, index, error=None):
    staged.tell(index, wire.Bye(int(staged.at * 1000), "ended", error))


def crashes_after(seconds=20, processes=3):
    staged = Staged(processes)
    staged.train(seconds)
    ends(staged, 1, BAD)
    staged.train(2, only(0, *range(2, processes)))
    return staged


# The rule


def test_a_process_that_ended_with_an_exception_is_critical_at_once():
    staged = crashes_after()
    found = staged.the("crashed")
    assert found.severity is Severity.CRITICAL and found.since == staged.at - 2
    assert found.text == "host 1 ended with ValueError at train.py:51 main: batch 7 is empty"
    assert found.subject.process_index == 1 and found.subject.source == "train.py:51"
    assert [each.value for each in found.evidence] == ["ValueError", BAD.message, "train.py:51 main", 1, 0]
    (event,) = (each for each in staged.cluster.events if each.kind == "ended")
    assert (event.severity, event.text.partition(" ended ")[2]) == (
        "critical",
        "with ValueError at train.py:51 main: batch 7 is empty",
    )
    staged.train(60, only(0, 2))
    assert [each.rule for each in reported_findings(staged.cluster)] == [
        "crashed"
    ]  # and no "ended early" beside it


def test_where_all_processes_end_with_an_exception_one_finding_names_them():
    staged = crashes_after()
    staged.train(1, only(0, 2))
    ends(staged, 0, BAD)
    ends(staged, 2, BAD)
    staged.at += 3600
    staged.tell(None, wire.Link(LinkState.CONNECTING, "elsewhere:1"))
    (found,) = reported_findings(staged.cluster)
    assert found.text == "hosts 0–2 ended with ValueError at train.py:51 main: batch 7 is empty"
    assert found.subject.process_index == 1


def test_those_that_failed_after_the_first_come_second():
    staged = crashes_after()
    staged.train(2, only(0, 2))
    ends(staged, 0, OF_JAX)
    ends(staged, 2, OF_JAX)
    text = staged.the("crashed").text
    assert (
        text
        == "host 1 ended with ValueError at train.py:51 main: batch 7 is empty, then hosts 0, 2 with another"
    )


def test_processes_that_die_after_an_exception_are_its_consequence():
    staged = crashes_after()
    staged.train(30, only(0, 2))
    link(staged, 0, "closed")
    link(staged, 2, "closed")
    (found,) = reported_findings(staged.cluster)
    assert (found.rule, found.consequences) == ("crashed", ("Host lost",))


@pytest.mark.parametrize("order", ["died first", "failed first"])
def test_an_exception_of_jax_about_a_lost_process_is_a_consequence_of_the_loss(order):
    """Its peers may fail before the loss is noticed."""
    staged = Staged(3)
    staged.train(20)
    if order == "died first":
        link(staged, 1, "closed")
        staged.train(30, only(0, 2))
    ends(staged, 0, OF_JAX)
    ends(staged, 2, OF_JAX)
    if order == "failed first":
        staged.at += NOTICED_WITHIN / 2
        link(staged, 1, "closed")
    (found,) = reported_findings(staged.cluster)
    assert (found.rule, found.consequences) == ("host_lost", ("Crashed",))
    assert found.severity is Severity.CRITICAL and found.text == "host 1 has died"


@pytest.mark.parametrize(("error", "later"), [(BAD, 5), (OF_JAX, WAITS_FOR + 60)], ids=["own", "much later"])
def test_an_exception_that_a_loss_does_not_explain_is_a_finding_of_its_own(error, later):
    staged = Staged(3)
    staged.train(20)
    link(staged, 1, "unreachable")
    staged.train(later, only(0, 2), every=5)
    ends(staged, 0, error)
    staged.train(2, only(2))
    rules = {each.rule: each.severity for each in reported_findings(staged.cluster)}
    assert rules == {"crashed": Severity.CRITICAL, "host_lost": Severity.WARNING}


def test_an_exception_explains_the_stall_of_the_others():
    staged = crashes_after()
    stalls(staged, 12, silent=(1,))
    (found,) = reported_findings(staged.cluster)
    assert (found.rule, found.consequences) == ("crashed", ("Stalled",))


def test_a_process_that_was_started_again_has_not_crashed():
    staged = crashes_after()
    again = replace(hello_of(staged, 1), agent="again", started_ms=int(staged.at * 1000) + 1)
    staged.cluster.apply("again", again, staged.at)
    staged.train(4, lambda index, at, step: trains(index, at, step) if index != 1 else None)
    assert staged.found("crashed") == []


def hello_of(staged, index):
    (hello,) = (each.hello for each in staged.cluster.hosts.values() if each.process_index == index)
    return hello


def test_old_and_long_messages_are_shown():
    staged = Staged(2)
    staged.train(20)
    long = wire.Uncaught("ValueError", "many words " * 60, wire.Place("x" * 200 + ".py", 5, "f" * 300))
    ends(staged, 0, long)
    staged.train(2, only(1))
    assert len(staged.the("crashed").text) <= 130
    bare = Staged(2)
    bare.train(20)
    ends(bare, 0, wire.Uncaught("ValueError"))
    bare.train(2, only(1))
    assert bare.the("crashed").text == "host 0 ended with ValueError"


# The agent

SAYS = """
import atexit, sys
from jaxtop_agent.stalls.uncaught_exception import uncaught
def say():
    error = uncaught()
    print(error and (error.type, error.message, error.place and (error.place.line, error.place.function)))
atexit.register(say)
class Odd(Exception):
    __str__ = __repr__ = lambda self: 1 / 0
    args = property(lambda self: print("code of the script ran"))
def work(what):
    match what:
        case "raise": raise ValueError("two\\nlines")
        case "object": raise Odd([1])
        case "secret": raise ValueError("https://me:s3cret@host/x failed")
        case "bytes": raise OSError(5, "x" * 900 + "\\udc80", "file")
        case "library": import json; json.loads("{")
        case "exit": sys.exit(3)
        case "interrupt": raise KeyboardInterrupt
        case "caught":
            try:
                raise ValueError
            except ValueError:
                pass
        case "shown":
            try:
                raise ValueError("of a test")
            except ValueError as error:
                sys.last_value, sys.last_traceback = error, error.__traceback__
        case "named": raise ValueError("api_key='s3cret', token: 4711 in 3 tokens")
def main():
    work(sys.argv[1])
main()
"""
IN_WORK = 13  # the line of the first case


def python(*words: object, typed: str | None = None) -> subprocess.CompletedProcess[str]:
    words = map(str, (sys.executable, *words))
    return subprocess.run([*words], input=typed, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("raise", ("ValueError", "two", (IN_WORK, "work"))),
        ("object", ("Odd", "", (IN_WORK + 1, "work"))),
        ("secret", ("ValueError", "https://…@host/x failed", (IN_WORK + 2, "work"))),
        ("bytes", ("OSError", "x" * 8, (IN_WORK + 3, "work"))),
        ("named", ("ValueError", "api_key=…, token: … in 3 tokens", (IN_WORK + 17, "work"))),
        ("library", ("JSONDecodeError", "Expecting property name enclosed in", (IN_WORK + 4, "work"))),
        ("exit", None),
        ("interrupt", None),
        ("caught", None),
        ("shown", None),
    ],
)
def test_the_agent_knows_the_exception_that_ended_the_script(tmp_path, what, said):
    """And nothing of the script runs for it: neither `__str__` nor `__repr__`."""
    done = python(script(tmp_path, SAYS), what)
    found = eval(done.stdout)
    if said is None:
        assert found is None
    else:
        assert (found[0], found[2]) == (said[0], said[2]) and found[1].startswith(said[1])
        assert len(found[1]) <= 300 and found[1].isprintable()


@pytest.mark.parametrize(
    ("what", "status"), [("raise", 1), ("interrupt", 130), ("exit", None), ("caught", None)]
)
def test_the_exit_status_is_known_only_where_python_reveals_it(tmp_path, what, status):
    text = SAYS.replace("import uncaught", "import exit_status").replace("    error = uncaught()\n", "")
    text = text.replace(
        SAYS[SAYS.index("    print(error") : SAYS.index("atexit.register")], "    print(exit_status())\n"
    )
    done = python(script(tmp_path, text), what)
    assert done.stdout == f"{status}\n"
    shown = 128 - done.returncode if done.returncode < 0 else done.returncode  # a signal, as shells show it
    assert status in (None, shown)


def test_an_error_at_a_prompt_ends_nothing(tmp_path):
    path = script(tmp_path, SAYS.replace("\nmain()", "\n"))
    done = python("-i", path, typed="raise ValueError('typed')\n")
    assert "typed" in done.stderr and done.stdout.splitlines()[-1] == "None"


@pytest.mark.jax
@pytest.mark.newest
def test_a_real_run_of_which_one_process_raises_is_reported_live_and_from_its_black_box(tmp_path):
    path = script(tmp_path, TRAINS.format(name="crashes", count="count", fails="index == 1 and i == 60"))
    line = 1 + next(i for i, text in enumerate(path.read_text().splitlines()) if "planted" in text)
    text = f"process 1 ended with RuntimeError at script.py:{line} <module>: planted"
    box = tmp_path / "boxes"
    env = environment(2, JAXTOP_RECORD=str(box))
    with jax_run(path, 2, 2, env=env, stderr=subprocess.DEVNULL):
        until_a_run_is_found()
        with viewer("crashes") as attached:

            def found():
                return {each.rule: each for each in reported_findings(attached.cluster)}

            attached.until(lambda: "crashed" in found())
            assert found()["crashed"].text == text

        def is_on_the_box():  # the box is written by a thread of its own, after the viewer has the message
            done = jaxtop_here("check", box)
            return done.returncode == 2 and text in done.stdout

        eventually(is_on_the_box)
