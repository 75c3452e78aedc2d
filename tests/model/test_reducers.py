"""Only the reducers of `model/cluster.py` write the state, each its own slices; views read it."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

import jaxtop
from jaxtop.model import Cluster, cluster, keyframe
from jaxtop.model.cluster import REDUCERS, Reducer
from jaxtop.model.state import ClusterState
from tests import builders
from tests.made.sessions import Made, frames
from tests.stories import hello, link, pulse, tell

PACKAGE = Path(jaxtop.__file__).parent
MADE = Made(hosts=3, devices=2, seconds=90, has_trouble=True)
# The modules of the reducers, and the parts of theirs that they call.
WRITERS = {
    "model/cluster.py", "model/keyframe.py", "model/fold.py", "model/programs/program_updates.py",
    "model/naming/nouns.py",
    "model/arrays/changes.py", "model/collectives/joining.py",
    "model/stalls/reports.py", "model/exited_runs.py", "model/findings/reducer.py", "model/wall_time/past.py",
}  # fmt: skip
SLICES = {each.name for each in fields(ClusterState)} - {"derived"}  # a memo is no state
STATES = {"state", "cluster", "_cluster", "self"}
CHANGES = {"append", "clear", "extend", "insert", "pop", "popleft", "remove", "setdefault", "update"}


def written(tree: ast.AST) -> set[str]:
    """The slices of a state that code assigns, deletes or changes in place."""
    found = set[str]()
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            targets = [node.func.value] if node.func.attr in CHANGES else []
        found |= {name for each in targets if (name := slice_of(each)) is not None}
    return found


def slice_of(target: ast.expr) -> str | None:
    """The slice in `state.slice`, `moment.cluster.slice[…]` and `state.slice.table[…]`."""
    name = None
    while isinstance(target, ast.Attribute | ast.Subscript):
        if isinstance(target, ast.Attribute):
            owner = target.value
            said = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if target.attr in SLICES and said in STATES:
                name = target.attr if said != "self" else None
        target = target.value
    return name


def test_code_that_writes_is_found():
    lines = (
        "state.hosts[a] = 1",
        "moment.cluster.events.append(e)",
        "del cluster.stalls[r]",
        "state.windows.n += 1",
    )
    assert written(ast.parse("\n".join(lines))) == {"hosts", "events", "stalls", "windows"}
    assert not written(ast.parse("hosts = state.hosts\nself.events.append(1)\nview.hosts[0] = 1"))


def test_nothing_but_the_reducers_writes_the_state():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in WRITERS and (slices := written(ast.parse(path.read_text()))):
            found[name] = slices
    assert not found


def test_reducers_have_one_signature():
    for each in REDUCERS:
        names = [name.removeprefix("_") for name in each.reduce.__code__.co_varnames[:4]]
        assert names == ["state", "agent", "message", "at"] and each.reduce.__name__ == "reduce"


class Watched:
    """The reducers, each watched: it may write only its own slices."""

    def __init__(self) -> None:
        self.wrote = {each.reduce.__module__: set[str]() for each in REDUCERS}

    def __iter__(self):
        return iter([each._replace(reduce=self.watch(each)) for each in REDUCERS])

    def watch(self, reducer: Reducer):
        def reduce(state, agent, message, at):
            before = state.frozen()
            events = reducer.reduce(state, agent, message, at)
            wrote = {name for name in SLICES if getattr(state, name) != getattr(before, name)}
            assert wrote <= reducer.writes, f"{reducer.reduce.__module__} wrote {wrote - reducer.writes}"
            self.wrote[reducer.reduce.__module__] |= wrote
            return events

        return reduce


def test_each_reducer_writes_only_its_slices(monkeypatch):
    watched, state = Watched(), Cluster()
    monkeypatch.setattr(cluster, "REDUCERS", watched)
    made = frames(MADE)
    for each in made:
        state.feed(each)
    again = builders.folded(keyframe.frames(state, made[-1].at, has_windows=True))
    for each in builders.training():
        again.feed(each)
    tell(again, (1e9, "old", hello(0)), (1e9, "old", link("closed")))
    tell(again, (1e9 + 1, "new", hello(0, started_ms=2)), (1e9 + 700, "new", pulse(at_ms=1)))
    silent = [name for name, wrote in watched.wrote.items() if not wrote]
    assert not silent, "the session shows nothing of these"


def test_a_reducer_that_writes_what_is_not_its_own_is_found(monkeypatch):
    def greedy(state, _agent, _message, at):
        state.last_sweep = at
        return []

    monkeypatch.setattr(cluster, "REDUCERS", (Reducer(greedy, frozenset({"hosts"})),))
    monkeypatch.setattr("tests.model.test_reducers.REDUCERS", cluster.REDUCERS)
    monkeypatch.setattr(cluster, "REDUCERS", Watched())
    state = Cluster()
    with pytest.raises(AssertionError, match="last_sweep"):
        state.feed(builders.well()[0])
