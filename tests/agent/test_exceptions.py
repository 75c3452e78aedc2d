"""Exceptions of JAX's runtime that the script catches: seen, reported, and otherwise as without us."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest

from jaxtop import wire
from jaxtop_agent.hooks.exceptions import RaisedException
from jaxtop_agent.stalls.caught_exceptions import SETTLED_MS, CaughtExceptions
from tests.support import PYTHON, environment, run, script

NO_ROOM = "RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes."


def raised(message=NO_ROOM, at_ms=0, thread=1, code=None, function=""):
    return RaisedException(at_ms, thread, message, code, 7, function)


def caught(*found, own=()):
    return CaughtExceptions(SimpleNamespace(latest=deque(found)), lambda: frozenset(own))


def texts(events):
    return [each.text for each in events]


def test_what_was_raised_is_an_event_once_the_process_has_gone_on():
    code = (lambda: None).__code__
    found = caught(raised(at_ms=1000, code=code))
    assert found.events(until_ms=999) == []
    (event,) = found.events(until_ms=1000)
    where = "test_exceptions.py:7 <lambda>"
    assert event == wire.Event(
        1000, "warning", "exception", f"went on after JaxRuntimeError at {where}: {NO_ROOM}"
    )
    assert found.events(until_ms=10**15) == [] and SETTLED_MS >= 500


def test_one_that_repeats_is_reported_the_first_the_tenth_and_the_hundredth_time():
    found = caught(*(raised() for _ in range(150)), raised("INTERNAL: another"))
    said = texts(found.events(until_ms=0))
    assert [" for the " in text for text in said] == [False, True, True, False]
    assert "for the 10th time" in said[1] and "for the 100th time" in said[2]


def test_the_agents_own_threads_do_not_count():
    assert caught(raised(thread=5), own=(5,)).events(until_ms=0) == []


def test_the_one_that_ended_the_script_was_not_caught():
    found = caught(raised("INTERNAL: first"), raised(function="step"))
    error = wire.Uncaught("JaxRuntimeError", NO_ROOM)
    assert found.explain(error) == wire.Uncaught("JaxRuntimeError", NO_ROOM, function="step")
    assert texts(found.events(until_ms=0)) == ["went on after JaxRuntimeError: INTERNAL: first"]
    assert found.explain(wire.Uncaught("ValueError", "x")) == wire.Uncaught("ValueError", "x")


def test_of_a_script_with_ever_new_lines_a_bounded_number_is_reported():
    found = caught(*(raised(f"KIND{i}: x") for i in range(1000)))
    assert len(found.events(until_ms=0)) == 100


def test_without_the_hook_there_are_no_events():
    assert CaughtExceptions(None, frozenset).events() == []


REAL = """
import pickle, sys, traceback
import jax, jax.numpy as jnp
kind = jax.errors.JaxRuntimeError
before = vars(kind).get("__init__")
def fail(count=1 << 40):
    return jnp.zeros((count,)).block_until_ready()
def attributes():
    try:
        fail()
    except kind as error:
        copy = pickle.loads(pickle.dumps(error))
        lines = traceback.format_exception(error)
        facts = {name: value for name, value in vars(error).items() if name != "__notes__"}
        return str(error), error.args, facts, str(copy), copy.args, lines
plain = attributes()
from jaxtop_agent.hooks.exceptions import RuntimeExceptions
raised = RuntimeExceptions(lambda: "named")
assert raised.install() == "on"
assert attributes() == plain
found = [each for each in raised.latest if each.code is not None]
print(found[0].message == plain[0], found[0].code.co_name, found[0].line, found[0].function)
jnp.ones(8).sum().block_until_ready()
count = len(raised.latest)
raised.uninstall()
fail_again = attributes()
assert fail_again == plain and len(raised.latest) == count
print(vars(kind).get("__init__") is before)
"""


@pytest.mark.jax
def test_the_hook_sees_a_real_exception_and_changes_nothing_about_it(tmp_path):
    path = script(tmp_path, REAL)
    done = run(PYTHON, path, env=environment(1))
    assert done.returncode == 0, done.stderr
    line = 1 + REAL.strip("\n").splitlines().index("    return jnp.zeros((count,)).block_until_ready()")
    first, second = done.stdout.splitlines()
    assert first in (f"True fail {line + 1} named", f"True fail {line} named") and second == "True"


UNCHANGED = """
import copy, pickle
import jax, jax.numpy as jnp
kind = jax.errors.JaxRuntimeError
class Base(RuntimeError):
    def __init__(self, *args):
        self.base_args = args
        super().__init__(*args)
class Mine(kind, Base):
    pass
class Called(kind, Base):
    def __init__(self, *args):
        kind.__init__(self, *args)
def facts(error):
    return type(error), error.args, str(error), vars(error), isinstance(error, kind)
def attributes():
    error = kind("INTERNAL: x")
    error.note = 5
    mine, called = Mine("INTERNAL: x"), Called("INTERNAL: x")
    copies = [make(each) for each in (error, mine, called) for make in (copy.copy, copy.deepcopy)]
    texts = [pickle.dumps(each, protocol) for each in (error, mine) for protocol in range(6)]
    copies += map(pickle.loads, texts)
    inits = kind.__init__, Mine.__init__, Called.__init__, super(kind, Mine).__init__
    assert issubclass(Mine, kind) and not isinstance(Base("x"), kind)
    return [*map(facts, (error, mine, called, *copies)), texts, inits]
plain = attributes()
assert %(version)r not in jax.__version__ or "base_args" in str(plain)
from jaxtop_agent.hooks.exceptions import RuntimeExceptions
raised = RuntimeExceptions(lambda: "")
raised.install()
assert attributes() == plain
raised.latest.clear()
try:
    jnp.zeros((1 << 40,)).block_until_ready()
except kind as error:
    made = len(raised.latest)
    for again in range(6):
        pickle.loads(pickle.dumps(error, again))
        pickle._loads(pickle.dumps(error, again))
    copy.copy(error), copy.deepcopy(error)
    print(made, len(raised.latest))
raised.uninstall()
assert attributes() == plain
"""


@pytest.mark.jax
def test_subclasses_copies_and_pickles_are_as_without_the_hook_and_copies_are_not_reported(tmp_path):
    path = script(tmp_path, UNCHANGED % {"version": "0.8."})
    done = run(PYTHON, path, env=environment(1))
    assert (done.stdout, done.returncode) == ("1 1\n", 0), done.stderr


QUIET = """
import jax, jax.numpy as jnp
from jaxtop_agent.hooks.exceptions import RuntimeExceptions
raised = RuntimeExceptions(lambda: "")
raised.install()
jax.block_until_ready(jax.jit(lambda x: (x @ x).sum())(jnp.ones((8, 8))))
for wrong in (lambda: jnp.ones(3) + jnp.ones(4), lambda: jax.jit(lambda x: 1 if x else 2)(1.0)):
    try:
        wrong()
    except Exception:
        pass
print([each.message for each in raised.latest])
"""


@pytest.mark.jax
def test_a_healthy_script_raises_nothing(tmp_path):
    """Neither what JAX raises while it looks for platforms, nor errors of tracing, which are no runtime's."""
    env = {name: value for name, value in environment(1).items() if name != "JAX_PLATFORMS"}
    done = run(PYTHON, script(tmp_path, QUIET), env=env)
    assert done.stdout == "[]\n", done.stdout + done.stderr
