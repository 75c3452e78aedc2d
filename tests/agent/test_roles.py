"""What a process is for: as it says, or as its name and its script suggest."""

from __future__ import annotations

import multiprocessing.process
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from jaxtop.base import processes
from jaxtop.store import runfiles
from jaxtop_agent import jaxprivate
from jaxtop_agent.boot import children
from jaxtop_agent.boot.children import Family
from jaxtop_agent.core.settings import read
from jaxtop_agent.ledger.file import LedgerWriter
from jaxtop_agent.service import family_peers, roles
from jaxtop_agent.service.agent import Agent
from tests import builders

CHILD = Family("f1", "learner")


@pytest.mark.parametrize(
    ("name", "script", "role"),
    [
        ("actor-3", "learner.py", "actor"),
        ("Evaluator", "learner.py", "Evaluator"),
        ("SpawnProcess-1", "learner.py", "worker"),
        ("ForkServerPoolWorker-2", "learner.py", "worker"),
        ("Process-1:2", "learner.py", "worker"),
        ("MainProcess", "actor.py", "actor"),
        ("MainProcess", "actor_2.py", "actor"),
        ("MainProcess", "-c", "worker"),
        ("7", "learner.py", "worker"),
    ],
)
def test_a_role_is_guessed_from_the_name_of_the_process_or_its_script(monkeypatch, name, script, role):
    monkeypatch.setattr(multiprocessing.process.current_process(), "_name", name)
    monkeypatch.setattr(sys, "argv", [script])
    found = roles.of_process("", CHILD)
    assert (found["role"], found["is_role_guessed"], found["parent_pid"]) == (role, True, os.getppid())


@pytest.mark.parametrize(
    ("title", "role", "run"),
    [
        (b"ray::RolloutWorker.sample\0\0", "RolloutWorker", "learner"),
        (b"ray::Actor\0", "Actor", "learner"),
        (b"ray::evaluate\0", "evaluate", "learner"),
        (b"ray::IDLE\0", "default_worker", ""),
        (b"python\0ray::Actor\0", "default_worker", ""),
    ],
)
def test_a_worker_of_ray_is_what_its_title_says_and_of_the_run_of_the_first_process(
    monkeypatch, title, role, run
):
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    monkeypatch.setattr(sys, "argv", ["/lib/ray/_private/workers/default_worker.py"])
    monkeypatch.setattr(Path, "read_bytes", lambda _: title)
    assert (roles.of_process("", CHILD)["role"], roles.run_of_ray(CHILD)) == (role, run)
    monkeypatch.delitem(sys.modules, "ray")
    assert (roles.of_process("", CHILD)["role"], roles.run_of_ray(CHILD)) == ("default_worker", "")


@pytest.mark.parametrize(
    ("name", "number"),
    [("actor-3", 3), ("env 07", 7), ("7", 7), ("Evaluator", None), ("SpawnProcess-1", None)],
)
def test_its_number_is_that_of_the_name_that_the_script_gave_it(monkeypatch, name, number):
    monkeypatch.setattr(multiprocessing.process.current_process(), "_name", name)
    for said in ("", "explorer"):
        assert roles.of_process(said, CHILD)["role_number"] == number
    assert roles.of_process("", Family("f1"))["role_number"] is None


def test_who_says_where_its_figures_are_served_is_taken_for_an_engine():
    found = roles.of_process("", Family("f1"), serves=True)
    assert (found["role"], found["is_role_guessed"]) == ("engine", True)
    assert roles.of_process("router", Family("f1"), serves=True)["role"] == "router"


def test_what_is_said_is_no_guess_and_the_first_process_has_none():
    said = {"role": "learner", "parent_pid": None, "role_number": None}
    assert roles.of_process("learner", Family("f1")) == said
    first = {"role": None, "is_role_guessed": False, "parent_pid": None, "role_number": None}
    assert roles.of_process("", Family("f1")) == first


def test_the_argument_precedes_the_environment(monkeypatch):
    assert read().role == ""
    monkeypatch.setenv("JAXTOP_ROLE", " engine\n")
    assert (read().role, read(role="actor").role) == ("engine", "actor")


@pytest.mark.parametrize("role", ["learner", " a role\x1b[31m\n", "x" * 100])
def test_a_child_does_not_take_the_role_that_its_parent_has_from_the_environment(monkeypatch, role):
    inherited = {}
    monkeypatch.setenv("JAXTOP_ROLE", role)
    monkeypatch.setattr(jaxprivate, "has_backends", lambda: False)
    monkeypatch.setattr(children, "pass_on", inherited.update)
    parent = Agent(read())
    parent._pass_on()
    child = Agent(read(), family=Family(*inherited["family"]))
    assert parent.role and not child.role


def test_children_inherit_settings_which_the_script_does_not_see(monkeypatch):
    put = {}
    monkeypatch.setattr(os, "putenv", put.__setitem__)
    monkeypatch.setenv("PYTHONPATH", "own")
    before = {**os.environ}
    put.clear()
    children.pass_on({"name": "n", "bind": None, "family": CHILD})
    assert {**os.environ} == before
    folder, own = put["PYTHONPATH"].split(os.pathsep)
    assert own == "own" and os.path.exists(f"{folder}/sitecustomize.py")
    head, settings = put["JAXTOP_BOOT"].split("\n")
    assert head == "0:1:own"
    finder = SimpleNamespace(jaxtop_settings=settings)
    monkeypatch.setattr(sys, "meta_path", [finder])
    assert children.inherited() == ({"name": "n"}, CHILD) and sys.meta_path == []
    assert children.inherited() is None


def test_a_process_belongs_to_an_ancestor_with_an_agent(monkeypatch):
    place = processes.here()
    facts = {"pid": os.getppid(), "boot": place.boot, "pid_namespace": place.pid_namespace, "family": "f7"}
    found = [SimpleNamespace(hello=builders.hello(0, 1, **facts), is_stale=False)]
    monkeypatch.setattr(runfiles, "find", lambda: found)
    assert family_peers.adopted(Family("f1")) == Family("f7", "train")
    assert family_peers.adopted(CHILD) == CHILD
    found[0].is_stale = True
    assert family_peers.adopted(Family("f1")) == Family("f1")


@pytest.mark.parametrize(
    ("parent", "processes_of_run", "lineage"),
    [(None, 1, "job"), (7, 1, "job actor-1"), (7, 2, "job")],
    ids=["first", "worker", "of a run"],
)
def test_a_worker_is_no_attempt_at_the_job_of_its_parent(monkeypatch, parent, processes_of_run, lineage):
    monkeypatch.setattr(multiprocessing.process.current_process(), "_name", "actor-1")
    topology = SimpleNamespace(process_count=processes_of_run)
    identity = builders.hello(0, 1, parent_pid=parent)
    board = SimpleNamespace(identity=identity, sampler=SimpleNamespace(topology=topology))
    assert LedgerWriter(board, None, "job", is_requested=False).lineage == lineage
