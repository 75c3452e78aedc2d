"""Numbers that a script logs with MLflow or Trackio: by the real libraries, which behave as without us."""

from __future__ import annotations

import math
import sys
from types import ModuleType, SimpleNamespace

import pytest

from jaxtop import wire
from jaxtop_agent.core.board import LedgerState, SamplerState
from jaxtop_agent.hooks import trackers
from jaxtop_agent.hooks.trackers import MOST_NOTED, LoggedCall, TrackerCalls
from jaxtop_agent.logged.courses import Courses
from jaxtop_agent.logged.scalars import LoggedScalars
from jaxtop_agent.steps.progress import Progress
from tests.real.trackers import losses_found_at, needs_mlflow, needs_trackio, quiet
from tests.real.unharmed import PLAIN, Watch, outcome
from tests.support import PYTHON, processes, run, script, until_a_run_is_found

pytestmark = pytest.mark.newest

SEES = """
import math, sys
import numpy as np
from jaxtop_agent.hooks.trackers import TrackerCalls
from jaxtop_agent.logged.scalars import LoggedScalars

calls, seen = TrackerCalls(), []
scalars = LoggedScalars(seen.append, calls)
calls.install()

def values():
    scalars.read_new()
    found = {}
    for each in seen:
        found.setdefault(each.name, []).append((each.step, each.value))
    return found
"""

TO_MLFLOW = (
    SEES
    + """
import jax.numpy as jnp
import mlflow
from mlflow.entities import Metric

scalars.read_new()                     # the agent looks every two seconds, and after each compilation
mlflow.set_tracking_uri(sys.argv[1])
is_at_once = sys.argv[2] == "at once"
client = mlflow.MlflowClient()
with mlflow.start_run() as run:
    for i in range(12):
        mlflow.log_metric("train/loss", 1 / (i + 1), step=i, synchronous=is_at_once)
        mlflow.log_metrics({"norm": np.float32(i), "lr": jnp.float32(0.5)}, step=i, synchronous=is_at_once)
    client.log_metric(run.info.run_id, "own", 3, step=7, synchronous=is_at_once)
    client.log_batch(run.info.run_id, [Metric("many", float(i), 1_700_000_000_000 + i, i) for i in range(40)])
    mlflow.log_metric("no step", 2.5)
    mlflow.log_metric("nan", math.nan, step=3)
    mlflow.log_param("layers", 12)
    mlflow.set_tag("note", "text")
    mlflow.log_dict({"loss": 99.0}, "settings.json")
    mlflow.log_metric("system/cpu", 50.0, step=1)
    try:
        mlflow.log_metric("text", "not a number", step=1)
    except Exception as error:
        print(type(error).__name__)
    mlflow.flush_async_logging()

found = values()
logged = {name: [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, name)]
          for name in client.get_run(run.info.run_id).data.metrics if name != "system/cpu"}
for name in found.keys() | logged.keys():
    assert str(sorted(found[name])) == str(sorted(logged[name])), (name, found.get(name), logged.get(name))
assert {each.run for each in seen} == {run.info.run_id} and "text" not in found
print("as logged", len(seen))
"""
)


@pytest.mark.long
@needs_mlflow
@pytest.mark.parametrize("how", ["at once", "later"])
@pytest.mark.parametrize("store", ["sqlite:///runs.db", "file:runs"], ids=["database", "files"])
def test_what_mlflow_was_given_is_known_by_name_step_and_value(tmp_path, store, how):
    done = run(PYTHON, script(tmp_path, TO_MLFLOW), store, how, cwd=tmp_path, env=quiet(tmp_path))
    assert (done.returncode, done.stdout) == (0, "MlflowException\nas logged 79\n"), done.stderr


TO_TRACKIO = (
    SEES
    + """
import json, os, sqlite3
from pathlib import Path
import trackio as wandb

scalars.read_new()
run = wandb.init(project="p", name="first", config={"layers": 12})
for i in range(30):
    wandb.log({"loss": 1 / (i + 1), "norm": np.float32(i)})
wandb.log({"loss": 0.5, "count": 3, "flag": True, "text": "words", "nested": {"loss": 9.0}}, step=40)
wandb.log({"loss": math.nan, "grown": math.inf, "list": [1, 2], "array": np.ones(3)})
wandb.log({"table": wandb.Table(columns=["a"], data=[[1.0]]), "shape": wandb.Histogram([1.0, 2.0])})
wandb.finish()

found = values()
(path,) = Path(os.environ["TRACKIO_DIR"]).glob("*.db")
rows = sqlite3.connect(path).execute("select step, metrics from metrics order by id").fetchall()
words = {"NaN": math.nan, "Infinity": math.inf}
logged = {}
for step, text in rows:
    for name, value in json.loads(text).items():
        value = words.get(value, value) if isinstance(value, str) else value
        if type(value) in (int, float):
            logged.setdefault(name, []).append((step, float(value)))
assert str(found) == str(logged), (found, logged)
assert set(found) == {"loss", "norm", "count", "grown"} and {each.run for each in seen} == {"first"}
print("as logged", len(seen), scalars.latest.index, file=sys.stderr)
"""
)


@pytest.mark.long
@needs_trackio
def test_what_trackio_was_given_is_known_by_name_step_and_value(tmp_path):
    done = run(PYTHON, script(tmp_path, TO_TRACKIO), cwd=tmp_path, env=quiet(tmp_path))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "as logged 64 41"), done.stderr


STEPS = """
import sys, time
import jax, jax.numpy as jnp
from jaxtop import agent

if __name__ == "__main__":
    agent.start(name="logs")
    {library}
    step = jax.jit(lambda x: x * 1.01)
    x = jnp.ones(8)
    for i in range(100_000):
        x = step(x)
        {log}
        time.sleep(0.02)
"""
MLFLOW = {
    "library": 'import mlflow; mlflow.set_tracking_uri("sqlite:///runs.db"); mlflow.start_run()',
    "log": 'mlflow.log_metric("loss", float("nan") if i > 50 else 1.0 + i, step=i)',
}
TRACKIO = {
    "library": 'import trackio; trackio.init(project="p")',
    "log": 'trackio.log({"loss": float("nan") if i > 50 else 1.0 + i})',
}


@pytest.mark.jax
@pytest.mark.parametrize(
    "library",
    [pytest.param(MLFLOW, marks=needs_mlflow), pytest.param(TRACKIO, marks=needs_trackio)],
    ids=["mlflow", "trackio"],
)
def test_the_step_of_a_bad_loss_is_exact_from_the_first_value_on(tmp_path, library):
    text = STEPS.replace("{library}", library["library"]).replace("{log}", library["log"])
    with processes([PYTHON, script(tmp_path, text)], cwd=tmp_path, env=quiet(tmp_path)):
        until_a_run_is_found()
        assert losses_found_at("step 51") == ["loss is NaN since step 51; it was 51 at step 50"]


UNHARMED = """
    {start}
    import inspect, sqlite3, sys, traceback
    import jax
    import mlflow
    from mlflow.entities import Metric

    add = jax.jit(lambda x: x + 1)
    for text, first in (("sqlite:///result.db", 1), ("file:runs", 2)):
        mlflow.set_tracking_uri(text)
        with mlflow.start_run() as run:
            for i in range(10):
                loss = add(jax.numpy.float32(i))
                returned = mlflow.log_metric("loss", loss, step=i, timestamp=1_700_000_000_000 + i)
                assert returned is None
            values = {"a": 1.5, "b": float("nan")}
            operations = mlflow.log_metrics(values, 9, False, timestamp=1_700_000_000_000)
            print(type(operations).__name__, operations.wait())
            mlflow.log_param("layers", 3)
            client = mlflow.MlflowClient()
            for bad in (lambda: mlflow.log_metric("loss", "word"), lambda: mlflow.log_metrics(3),
                        lambda: client.log_batch(run.info.run_id, [1]), lambda: client.log_metric(key="x"),
                        lambda: mlflow.log_metric("ä" * 900, 1)):
                try:
                    bad()
                except Exception as error:
                    lines = [each.strip() for each in traceback.format_exc().splitlines()]
                    ours = [number for number, line in enumerate(lines) if "jaxtop_agent" in line]
                    for number in reversed(ours):      # our frame: its place, its line, its marks
                        del lines[number:number + 3]
                    hidden = ("timestamp", run.info.run_id)
                    print([each for each in lines if not any(word in each for word in hidden)])
        if first == 1:
            with sqlite3.connect("result.db") as base:
                for table in ("metrics", "latest_metrics"):
                    what = f"select key, value, timestamp, step, is_nan from {table} order by 1, 4"
                    print(base.execute(what).fetchall())
                print(base.execute("select key, value from params").fetchall())
        else:
            from pathlib import Path
            folder = Path("runs", run.info.experiment_id, run.info.run_id)
            for each in sorted(folder.rglob("*")):
                if each.is_file() and each.parent.name in ("metrics", "params"):
                    print(each.name, each.read_bytes())
            print(sorted(each.name for each in folder.iterdir()))
    print(inspect.signature(mlflow.MlflowClient.log_metric))
    import os
    os.remove("result.db")
"""


@pytest.mark.jax
@needs_mlflow
def test_mlflow_writes_returns_and_raises_the_same_with_the_agent(tmp_path):
    with Watch() as watch:
        found = {
            way: outcome(tmp_path, UNHARMED, way, watch=None if way == PLAIN else watch, env=quiet(tmp_path))
            for way in (PLAIN, "run", "hot")
        }
    assert found[PLAIN].status == 0, found[PLAIN].stderr
    assert "MlflowException" in found[PLAIN].stdout and "RunOperations" in found[PLAIN].stdout
    stdouts = {way: each.stdout for way, each in found.items()}
    assert stdouts["run"] == stdouts[PLAIN] and stdouts["hot"] == stdouts[PLAIN]


# What wraps and what is read of it


class Client:
    """As the class of MLflow that logs, with its arguments; its store may fail."""

    def __init__(self) -> None:
        self.taken: list[object] = []

    def log_metric(self, run_id, key, value, *_, step=None):
        """Log."""
        if key == "bad":
            raise KeyError(key)
        self.taken.append((run_id, key, value, step))
        return self.taken

    def log_batch(self, run_id, metrics=()):
        self.taken.append([run_id, *metrics])
        return len(self.taken)


CLIENT = ("__init__", "log_metric", "log_batch")


@pytest.fixture
def library(monkeypatch):
    """A module in the place of MLflow's."""
    name = trackers.METHODS[0].module
    module = ModuleType(name)
    module.__spec__ = SimpleNamespace(_initializing=True)
    owner = type("TrackingServiceClient", (), {name: vars(Client)[name] for name in CLIENT})
    vars(module)["TrackingServiceClient"] = owner
    monkeypatch.setitem(sys.modules, name, module)
    return module


@pytest.fixture
def calls(library):
    """The hook, once the module is whole."""
    library.__spec__._initializing = False
    made = TrackerCalls()
    made.install()
    return made


def test_a_library_is_wrapped_once_it_is_whole_and_restored_at_the_end(library):
    owner = library.TrackingServiceClient
    plain = dict(vars(owner))
    calls = TrackerCalls()
    calls.install()
    assert dict(vars(owner)) == plain
    library.__spec__._initializing = False
    calls.wrap_new()
    calls.wrap_new()
    ours = vars(owner)["log_metric"]
    assert ours is not plain["log_metric"] and ours.__wrapped__ is plain["log_metric"]
    assert (ours.__name__, ours.__doc__) == ("log_metric", "Log.")
    client = owner()
    assert client.log_metric("r", "loss", 1.5, step=3) is client.taken
    assert calls.take_calls() == ([LoggedCall("mlflow", "r", "loss", 3, 1.5)], False)
    calls.uninstall()
    assert dict(vars(owner)) == plain
    ours(client, "r", "loss", 1.5)  # somebody may hold it
    assert calls.take_calls() == ([], False)


def test_the_last_run_has_its_largest_step_and_a_forked_child_has_none(library, calls):
    client = library.TrackingServiceClient()
    assert calls.last("mlflow") is None and calls.last("trackio") is None
    for run_id, step in (("one", 9), ("two", 3), ("two", None)):
        client.log_metric(run_id, "loss", 1.0, step=step)
    assert calls.last("mlflow") == (client, "two", 3)
    original = calls.original("mlflow", "log_batch")
    assert original is not None and original(client, "two", [1]) == 4
    calls.forget()
    assert calls.last("mlflow") is None and calls.take_calls() == ([], False)


def test_what_another_library_has_put_over_ours_stays(library, calls):
    owner = library.TrackingServiceClient
    ours = vars(owner)["log_metric"]

    def theirs(self, *given, **named):
        return ours(self, *given, **named)

    owner.log_metric = theirs
    calls.uninstall()
    assert vars(owner)["log_metric"] is theirs and owner().log_metric("r", "loss", 1.0)


class Sore:
    """A metric whose every attribute fails."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    "value",
    [None, "text", [1.0], {"a": 1}, 10**400, object(), Sore(), b"x"],
    ids=lambda each: type(each).__name__,
)
def test_what_is_no_number_is_left_out_and_no_harm(library, calls, value):
    client = library.TrackingServiceClient()
    assert client.log_metric("r", "x", value) is client.taken
    assert client.log_batch("r", [value]) == 2
    assert client.log_metric("r", "loss", 1.0, step=10**30) and client.log_metric("r", 3, 1.0, step=[])
    with pytest.raises(KeyError, match="bad"):
        client.log_metric("r", "bad", 1.0)
    with pytest.raises(TypeError):
        client.log_metric()
    assert calls.take_calls() == ([], False)


def test_the_noted_values_are_bounded_and_a_gap_is_known(library, calls):
    client = library.TrackingServiceClient()
    seen: list = []
    scalars = LoggedScalars(seen.append, calls)
    for i in range(MOST_NOTED + 10):
        client.log_metric("r", "loss", float(i), step=i)
    scalars.read_new()
    assert (len(seen), seen[0].step, seen[0].has_gap, seen[1].has_gap) == (MOST_NOTED, 10, True, False)
    client.log_metric("r", "loss", 1.0, step=99)
    scalars.read_new()
    assert not seen[-1].has_gap


def scalars_in(sent):
    """Return what was sent last of scalars that are notable."""
    return next(each for each in reversed(sent) if isinstance(each, wire.Scalars)).scalars


def test_runs_one_after_the_other_start_anew_and_runs_in_turns_are_told_apart(library, calls):
    sent: list = []
    client = library.TrackingServiceClient()
    board = SimpleNamespace(
        send=lambda each, **_: sent.append(each), sampler=SamplerState(), ledger=LedgerState()
    )
    courses = Courses(board, Progress(), calls)
    for run_id in ("one", "two", "three"):
        for step in range(5):
            client.log_metric(run_id, "loss", math.nan if step > 2 and run_id != "two" else 1.0, step=step)
    courses.look()
    (loss,) = scalars_in(sent)
    assert (loss.name, loss.bad, loss.bad_step) == ("loss", 2, 3)
    for step in range(5, 8):
        for run_id in ("two", "three"):
            client.log_metric(run_id, "loss", math.inf if run_id == "two" else 1.0, step=step)
    courses.look()
    assert "two/loss" in {each.name for each in scalars_in(sent)}
    assert board.ledger.logged.metrics["three/loss"] == 1.0


def test_a_file_that_is_read_later_does_not_undo_what_a_tracker_was_given():
    sent: list = []
    board = SimpleNamespace(
        send=lambda each, **_: sent.append(each), sampler=SamplerState(), ledger=LedgerState()
    )
    courses = Courses(board, Progress())
    from jaxtop_agent.logged.scalars import FILE, LoggedValue

    for step in range(10):
        courses._note_logged(LoggedValue("loss", step, math.nan if step > 5 else 1.0, "mlflow", "r"))
    for step in range(4):
        courses._note_logged(LoggedValue("loss", step, 1.0, FILE))
    courses._send()
    assert [(each.name, each.bad_step) for each in scalars_in(sent)] == [("loss", 6)]
