"""Scalars that a script logs for TensorBoard or W&B: by the real writers, and in files that they wrote."""

from __future__ import annotations

import json
import math
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.proto.tensor_pb2 import TensorProto

from jaxtop.export.json import to_json
from jaxtop.model import reported_findings
from jaxtop_agent.logged.scalars import MOST_SCALARS, LoggedScalars
from jaxtop_agent.logged.tensorboard import scalars_in
from jaxtop_agent.logged.wandb import BLOCK, WandbFile
from tests.real.trackers import losses_found_at, needs_wandb
from tests.support import (
    PYTHON,
    environment,
    eventually,
    processes,
    run,
    script,
    until_a_run_is_found,
    viewer,
)

if TYPE_CHECKING:
    from jaxtop import wire

pytestmark = pytest.mark.newest


def latest(files: LoggedScalars) -> wire.Step:
    assert files.latest is not None
    return files.latest


def calls_of(files: LoggedScalars, *writers: SummaryWriter) -> int:
    """How many values were found so far; writers write on threads of their own."""
    for each in writers:
        each.flush()
    files.read_new()
    return 0 if (seen := files.latest) is None else seen.calls


def test_the_values_are_those_that_were_logged(tmp_path):
    files = LoggedScalars()
    with SummaryWriter(str(tmp_path)) as writer:
        files.read_new()
        assert files.latest is None
        for step in range(50):
            writer.add_scalar("train/loss", 1 / (step + 1), step)
            writer.add_scalar("lr", 1e-3, step)
        eventually(lambda: calls_of(files, writer) == 100)
        seen = latest(files)
        assert seen.index == 49
        assert seen.metrics == {"train/loss": pytest.approx(1 / 50), "lr": pytest.approx(1e-3)}
        writer.add_scalar("train/loss", math.nan, 50)
        eventually(lambda: calls_of(files, writer) == 101)
        assert math.isnan(latest(files).metrics["train/loss"]) and latest(files).index == 50


def test_what_is_no_scalar_is_passed_over(tmp_path):
    files = LoggedScalars()
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_histogram("weights", np.arange(1000.0), 1)
        writer.add_text("note", "x" * 200_000, 1)
        writer.add_scalar("loss", 2.5, 1)
        eventually(lambda: calls_of(files, writer) == 1)
    assert latest(files).metrics == {"loss": 2.5}


def test_files_of_several_folders_are_told_apart_and_a_closed_one_keeps_its_last_value(tmp_path):
    files = LoggedScalars()
    with SummaryWriter(str(tmp_path / "train")) as train, SummaryWriter(str(tmp_path / "eval")) as evaluation:
        train.add_scalar("loss", 1.0, 7)
        evaluation.add_scalar("loss", 2.0, 5)
        eventually(lambda: calls_of(files, train, evaluation) == 2)
        assert latest(files).metrics == {"train/loss": 1.0, "eval/loss": 2.0}
    files.read_new()
    assert latest(files).metrics == {"train/loss": 1.0, "eval/loss": 2.0}


def test_many_scalars_are_few_in_each_pulse_and_losses_are_among_them(tmp_path):
    files = LoggedScalars()
    with SummaryWriter(str(tmp_path)) as writer:
        for number in range(200):
            writer.add_scalar(f"weight/{number}", number, 1)
            if number == 30:
                writer.add_scalar("loss", 0.5, 1)
        eventually(lambda: calls_of(files, writer) == MOST_SCALARS)
    assert len(latest(files).metrics) == 16 and latest(files).metrics["loss"] == 0.5


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"dtype": 1, "float_val": [1.5]}, 1.5),
        ({"dtype": 1, "tensor_content": struct.pack("<f", 1.5)}, 1.5),
        ({"dtype": 2, "double_val": [1.5]}, 1.5),
        ({"dtype": 3, "int_val": [7]}, 7.0),
        ({"dtype": 9, "int64_val": [7]}, 7.0),
        ({"dtype": 1, "float_val": [1.5, 2.5]}, None),
        ({"dtype": 7, "string_val": [b"text"]}, None),
    ],
    ids=["float", "packed", "double", "int", "long", "vector", "text"],
)
def test_scalars_of_the_second_version_of_tensorboard_are_tensors(fields, value):
    each = Summary.Value(tag="loss", tensor=TensorProto(**fields))
    event = Event(step=3, wall_time=1.5e9, summary=Summary(value=[each])).SerializeToString()
    assert list(scalars_in(event)) == ([] if value is None else [("loss", 3, value, 1.5e9)])


@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "huge"])
def test_a_damaged_file_is_no_harm(tmp_path, damage):
    path = tmp_path / "events.out.tfevents.1.host"
    with SummaryWriter(str(tmp_path / "good")) as writer:
        writer.add_scalar("loss", 1.0, 1)
        (good,) = (tmp_path / "good").iterdir()
        whole = eventually(lambda: writer.flush() or (b"loss" in good.read_bytes() and good.read_bytes()))
        path.write_bytes({
            "cut": whole[:-3], "noise": whole[:12] + b"\xff" * (len(whole) - 12), "empty": b"",
            "huge": struct.pack("<QI", 1 << 62, 0) + whole,
        }[damage])  # fmt: skip
        files = LoggedScalars()
        with path.open("ab"):
            files.read_new()
            files.read_new()
    assert 1.0 in latest(files).metrics.values()


# By W&B 0.31 offline: 130 times a loss, a norm, a text and a flag; at last a loss that is not a number.
RUN_FILE = Path(__file__).parent.parent / "data/logged/run-trial.wandb"


def test_a_file_of_weights_and_biases_has_the_values_that_were_logged():
    found = list(WandbFile(RUN_FILE).new_scalars())
    losses = {each.step: each.value for each in found if each.name == "train/loss"}
    assert math.isnan(losses.pop(130))
    assert losses == {step: 1 / (step + 1) for step in range(130)}
    assert {each.name for each in found} == {"train/loss", "nested.norm"}
    times = [each.at for each in found]
    assert times == sorted(times) and 0 < times[-1] - times[0] < 60


@pytest.mark.parametrize("size", [1, 6, 7, 4_000, BLOCK - 3, BLOCK + 7, 40_000])
def test_a_file_that_grows_is_read_as_one_that_is_there(tmp_path, size):
    whole, path = RUN_FILE.read_bytes(), tmp_path / "run.wandb"
    path.write_bytes(whole[:size])
    file = WandbFile(path)
    found = list(file.new_scalars())
    path.write_bytes(whole)
    assert [*map(str, (*found, *file.new_scalars()))] == [*map(str, WandbFile(RUN_FILE).new_scalars())]


LOGS_TO_WANDB = """
import sys, time
import wandb
from jaxtop_agent.logged.scalars import LoggedScalars

run = wandb.init(project="p", mode="offline", dir=sys.argv[1], settings=wandb.Settings(silent=True))
files = LoggedScalars()
for i in range(400):
    run.log({"loss": 1 / (i + 1), "norm": i})
end = time.monotonic() + 60
while files.latest is None and time.monotonic() < end:
    files.read_new()
    time.sleep(0.1)
seen = files.latest
assert seen is not None and seen.metrics["loss"] == 1 / (seen.index + 1), seen
assert seen.metrics["norm"] == seen.index > 20
print("as logged")
run.finish()
"""


@pytest.mark.long
@needs_wandb
def test_the_file_that_the_process_of_weights_and_biases_has_open_is_found(tmp_path):
    done = run(PYTHON, script(tmp_path, LOGS_TO_WANDB), tmp_path)
    assert (done.returncode, done.stdout) == (0, "as logged\n"), done.stderr


LOGS = """
import sys, time
import jax, jax.numpy as jnp
from tensorboardX import SummaryWriter
from jaxtop import agent

if __name__ == "__main__":
    agent.start(name="logs")
    step = jax.jit(lambda x: x * 1.01)
    x = jnp.ones(8)
    with SummaryWriter(sys.argv[1], flush_secs=1) as writer:
        for i in range(100_000):
            x = step(x)
            writer.add_scalar("loss", float("nan") if i > 50 else 1.0 + i, i)
            time.sleep(0.05)
"""


@pytest.mark.jax
def test_a_loss_that_only_tensorboard_is_told_is_found_bad(tmp_path):
    with processes([PYTHON, script(tmp_path, LOGS), tmp_path / "board"], env=environment(1)):
        until_a_run_is_found()
        with viewer("logs") as attached:
            attached.until(
                lambda: any(each.rule == "bad_loss" for each in reported_findings(attached.cluster))
            )
            pulse = attached.host(0).pulse
            shown = json.loads(to_json(attached.cluster, time.time()))["hosts"][0]["step"]
    assert pulse.step is None and pulse.logged.index > 50 and math.isnan(pulse.logged.metrics["loss"])
    assert shown["metrics"] == {"loss": None} and shown["index"] == pulse.logged.index


@pytest.mark.jax
def test_the_step_of_a_loss_that_was_bad_before_a_viewer_came_is_exact(tmp_path):
    with processes([PYTHON, script(tmp_path, LOGS), tmp_path / "board"], env=environment(1)):
        until_a_run_is_found()
        time.sleep(5)
        assert losses_found_at("step 51") == ["loss is NaN since step 51; it was 51 at step 50"]


RISES = """
import random, sys, time
import jax, jax.numpy as jnp
from tensorboardX import SummaryWriter
from jaxtop import agent

if __name__ == "__main__":
    agent.start(name="rises")
    step = jax.jit(lambda x: x * 1.01)
    x, dice = jnp.ones(8), random.Random(1)
    with SummaryWriter(sys.argv[1], flush_secs=1) as writer:
        for i in range(100_000):
            x = step(x)
            writer.add_scalar("train/loss", dice.gauss(2, 0.1) * (4 if i >= 300 else 1), i)
            writer.add_scalar("train/grad_norm", dice.lognormvariate(0, 0.3) * (20 if i >= 288 else 1), i)
            time.sleep(0.01 if i < 300 else 0.2)
"""


@pytest.mark.jax
def test_a_rise_of_a_loss_in_a_file_has_its_step_and_the_norm_that_led(tmp_path):
    with processes([PYTHON, script(tmp_path, RISES), tmp_path / "board"], env=environment(1)):
        until_a_run_is_found()
        with viewer("rises") as attached:
            attached.until(lambda: any("after" in each.text for each in reported_findings(attached.cluster)))
            (text,) = [each.text for each in reported_findings(attached.cluster) if each.rule == "bad_loss"]
    assert text.endswith(" at step 300, 12 steps after train/grad_norm")
    assert text.startswith("train/loss rose to ")
