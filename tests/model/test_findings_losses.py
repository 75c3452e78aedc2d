"""A loss that is not finite or far above its own history is found; a noisy one, or a rare one, is not."""

from __future__ import annotations

import json
import math
import random
import time

import pytest

from jaxtop import wire
from jaxtop.export.json import to_json
from jaxtop.model import keyframe, reported_findings
from jaxtop.model.finding import Severity
from jaxtop.model.steps.losses import MAX_VALUES
from jaxtop.wire import LinkState, is_loss
from tests.builders import NOW, agent_id, folded
from tests.staged.findings import Staged, reports
from tests.support import PYTHON, environment, processes, script, until_a_run_is_found, viewer

NOISE = random.Random(3)


def noisy(seconds):
    """A loss as of a small model: it falls, and a tenth of it is noise."""
    return (2.0 + 3.0 * math.exp(-seconds / 60)) * (1 + NOISE.gauss(0, 0.1))


@pytest.mark.parametrize(
    ("value", "word"), [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "infinite")]
)
def test_a_loss_that_is_not_finite_is_critical_with_the_last_step_that_was(value, word):
    run = Staged()
    run.train(30, reports(2.31))
    run.train(3, reports(value))
    found = run.the("bad_loss")
    assert found.severity is Severity.CRITICAL and found.subject.process_index is None
    assert found.text == f"loss is {word} since about step 310; it was 2.31 before"
    assert "jax_debug_nans" in found.advice


def test_one_step_without_a_finite_loss_is_a_warning_and_ends():
    """Loss scaling skips such a step."""
    run = Staged()
    run.train(30, reports(2.0))
    run.train(4, lambda index, at, _step: reports(math.nan)(index, at, 310))
    assert run.the("bad_loss").severity is Severity.WARNING
    run.train(20, reports(2.0))
    assert run.found("bad_loss") == []


def test_a_loss_that_is_never_finite_says_so_and_a_process_alone_is_named():
    run = Staged()
    run.train(6, reports(math.nan, on=1))
    found = run.the("bad_loss")
    assert found.subject.process_index == 1
    assert found.text == "loss is NaN on host 1 since about step 10, the first one"


def test_it_is_shown_after_the_run_has_ended():
    run = Staged()
    run.train(30, reports(2.0))
    run.train(4, reports(math.nan))
    for index in range(2):
        run.tell(index, wire.Bye(int(run.at * 1000), "ended"))
    run.at += 30
    run.tell(None, wire.Link(LinkState.CONNECTING, "elsewhere:1"))
    assert run.the("bad_loss").severity is Severity.CRITICAL


def test_a_loss_far_above_its_history_is_a_warning_until_it_comes_down():
    run = Staged()
    run.train(120, reports(noisy))
    assert run.found("bad_loss") == []
    run.train(12, reports(lambda _s: 40 + NOISE.random()))
    found = run.the("bad_loss")
    assert found.severity is Severity.WARNING
    assert found.text.startswith("loss rose to 4") and " times its usual " in found.text
    run.train(20, reports(noisy))
    assert run.found("bad_loss") == []


@pytest.mark.parametrize(
    "loss",
    [
        noisy,
        lambda seconds: 5 * math.exp(-seconds / 100),
        lambda seconds: 3.0 if seconds % 40 else 30.0,  # one step now and then
        lambda seconds: 0.0 if seconds < 200 else 0.001,  # no scale
        lambda seconds: 1.0 + 0.35 * (seconds > 150),  # another mixture of data
        lambda seconds: math.sin(seconds / 7),  # around zero
    ],
)
def test_a_loss_that_varies_as_losses_do_is_not_found(loss):
    run = Staged()
    run.train(360, reports(loss))
    assert not [each for each in run.cluster.events if each.text.startswith("Bad loss")]


def test_of_slow_steps_two_must_be_high():
    def pulse(index, at, step):
        step = int(at - NOW) // 30
        return reports(50.0 if step >= 40 else 2.0)(index, at, step + 1)

    run = Staged()
    run.train(30 * 41 - 2, pulse, every=2)
    assert run.found("bad_loss") == []
    run.train(40, pulse, every=2)
    assert run.found("bad_loss")


def test_settings_of_a_loss_are_no_losses():
    assert is_loss("loss") and is_loss("train/Loss") and is_loss("aux_loss")
    assert not any(map(is_loss, ("loss_scale", "lr", "loss_weight", "accuracy")))


def test_a_script_that_reports_no_loss_cannot_be_judged():
    run = Staged()
    run.train(10, reports(None))
    assert "agent.step" in run.cluster.findings.unchecked["r1", "bad_loss"]


def test_a_keyframe_has_the_history_of_losses():
    run = Staged()
    run.train(100, reports(noisy))
    again = folded(keyframe.frames(run.cluster, run.at))
    losses = run.cluster.hosts[agent_id(0)].losses
    assert again.hosts[agent_id(0)].losses == losses and 12 < len(losses[0].values) <= MAX_VALUES
    assert all(map(math.isfinite, losses[0].values))


def test_a_document_with_such_a_loss_is_valid():
    run = Staged()
    run.train(10, reports(math.nan))
    shown = json.loads(to_json(run.cluster, run.at), parse_constant=pytest.fail)
    assert shown["hosts"][0]["step"]["metrics"] == {"loss": None}
    assert shown["findings"][0]["evidence"][0]["value"] == "NaN"


@pytest.mark.jax
@pytest.mark.newest
def test_a_loss_that_becomes_nan_is_found_in_a_real_process(tmp_path):
    path = script(
        tmp_path,
        """
        import time
        from jaxtop import agent
        agent.start(name="nan")
        import jax, jax.numpy as jnp
        step = jax.jit(lambda x: (x * 1.5, jnp.log(5.0 - x)))
        x = jnp.float32(1.0)
        for i in range(100000):
            x, loss = step(x)
            agent.step(i, loss=loss, lr=float("inf"))
            time.sleep(0.2)
        """,
    )
    with processes([PYTHON, path], env=environment(1)):
        until_a_run_is_found()
        with viewer("nan") as attached:
            attached.until(
                lambda: any(each.severity == "critical" for each in reported_findings(attached.cluster))
            )
            (finding,) = [each for each in reported_findings(attached.cluster) if each.severity == "critical"]
            shown = json.loads(to_json(attached.cluster, time.time()))
    assert finding.rule == "bad_loss" and "loss is NaN" in finding.text
    assert shown["hosts"][0]["step"]["metrics"] == {"loss": None, "lr": None}


def test_the_step_since_which_it_is_bad_stays_the_same():
    """The host that began last makes more reports in a row than the first."""
    run = Staged()
    run.train(30, reports(2.0))
    run.train(2, reports(math.nan, on=0))
    texts, spoilt = set(), reports(math.nan)
    for _ in range(8):
        run.train(1, spoilt)
        run.tell(1, spoilt(1, run.at + 0.3, round(run.at - NOW) * 10 + 3))
        texts |= {each.text for each in run.found("bad_loss")}
    assert texts and all("since about step 310" in text for text in texts)
