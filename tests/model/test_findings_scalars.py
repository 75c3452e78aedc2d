"""Findings about scalars by what agents have noted of each value: exact steps, rises, unchanged parts."""

from __future__ import annotations

import json
import math

from jaxtop import wire
from jaxtop.export.json import to_json
from jaxtop.model import keyframe
from jaxtop.model.finding import Severity
from tests.builders import agent_id, folded
from tests.staged.findings import Staged, reports

RISE = wire.Rise(838, 7.25, 845, 2.31, 2.62, 2.45, "grad_norm", 12)


def noted(*scalars: wire.Scalar, loss=2.0, seconds=8, on=(0, 1), processes=2) -> Staged:
    run = Staged(processes)
    run.train(4, reports(loss))
    for index in on:
        run.tell(index, wire.Scalars(int(run.at * 1000), scalars))
    run.train(seconds, reports(loss))
    return run


def bad(name="loss", step=838, finite=2.31, value=math.nan, count=5, **more) -> wire.Scalar:
    before = None if finite is None else step - 1
    return wire.Scalar(name, step + count, value, count, step, finite, before, **more)


def part(name, value=1.5, step=900, same=0, **more) -> wire.Scalar:
    return wire.Scalar(
        name, step, value, finite=value, nonfinite=0.0, same=same, same_step=step - same, **more
    )


def test_a_viewer_that_came_later_knows_the_exact_step():
    found = noted(bad(), loss=math.nan).the("bad_loss")
    assert found.text == "loss is NaN since step 838; it was 2.31 at step 837"
    assert found.severity is Severity.CRITICAL
    values = {each.name: each.value for each in found.evidence}
    assert values["first step that was not finite"] == 838
    assert (values["last finite value"], values["its step"]) == (2.31, 837)


def test_where_values_were_passed_over_the_step_is_about_right():
    found = noted(bad(is_exact=False), loss=math.nan).the("bad_loss")
    assert found.text == "loss is NaN since about step 838; it was 2.31 at step 837"


def test_a_loss_that_was_never_finite_says_so():
    found = noted(bad(step=0, finite=None), loss=math.nan).the("bad_loss")
    assert found.text == "loss is NaN since step 0, its first value"


def test_what_was_not_finite_before_the_loss_is_named():
    grads = (bad("grads", 836, nonfinite=9.0), bad("grads/out", 836, nonfinite=9.0), bad("lr", 837))
    found = noted(bad(), *grads, loss=math.nan)
    assert found.the("bad_loss").text.endswith("at step 837; grads/out since step 836")
    assert found.found("bad_value") == [], "it is a part of the same finding"
    assert "Value not finite" in found.the("bad_loss").consequences


def test_of_several_parts_the_whole_tree_is_named():
    grads = [bad(f"grads{name}", 836, nonfinite=9.0) for name in ("", "/out", "/embed")]
    assert noted(bad(), *grads, loss=math.nan).the("bad_loss").text.endswith("; grads since step 836")


def test_the_process_where_it_began_names_the_step():
    run = noted(bad(step=850), loss=math.nan, seconds=1)
    run.tell(1, wire.Scalars(int(run.at * 1000), (bad(step=838, finite=2.0),)))
    run.train(8, reports(math.nan))
    assert run.the("bad_loss").text == "loss is NaN since step 838; it was 2 at step 837"


def test_any_scalar_is_found():
    found = noted(bad("train/lr", finite=0.1), bad("ppl", 840)).the("bad_value")
    assert found.text == "train/lr is NaN since step 838; it was 0.1 at step 837 (1 more are not)"
    assert found.severity is Severity.WARNING


def test_elements_of_a_tree_are_counted_and_critical():
    found = noted(bad("params/out", finite=1.25, nonfinite=3072.0)).the("bad_value")
    assert found.severity is Severity.CRITICAL
    assert found.text == (
        "params/out has 3,072 values that are not finite, since step 838; it was 1.25 at step 837"
    )


def test_what_was_never_finite_or_is_so_once_is_a_note():
    for scalar in (bad("val/acc", 0, None), bad("lr", value=math.inf, count=1)):
        assert noted(scalar).the("bad_value").severity is Severity.INFO


def test_a_rise_says_what_was_usual_since_when_and_what_led():
    found = noted(wire.Scalar("loss", 850, 7.0, rise=RISE)).the("bad_loss")
    assert found.severity is Severity.WARNING
    assert found.text == "loss rose to 7.25 from its usual 2.31 to 2.62 at step 838, 12 steps after grad_norm"


def test_the_norm_that_led_is_a_part_of_the_finding_about_the_loss():
    norm = wire.Scalar("grad_norm", 850, 35.0, rise=wire.Rise(826, 35.0, 840, 0.8, 3.1, 1.5))
    run = noted(wire.Scalar("loss", 850, 7.0, rise=RISE), norm)
    assert run.the("bad_loss").consequences == ("Norm rose",) and run.found("norm_rose") == []
    alone = noted(norm).the("norm_rose")
    assert alone.severity is Severity.INFO
    assert alone.text == "grad_norm rose to 35 from its usual 0.8 to 3.1 at step 826"


def test_a_higher_share_makes_a_rise_of_the_loss_ordinary():
    from jaxtop.model.tuning import Tuning

    run = Staged()
    run.cluster.tuning = Tuning(numbers={("bad_loss", "share"): 3.0})
    run.train(4, reports(2.0))
    run.tell(0, wire.Scalars(1, (wire.Scalar("loss", 850, 7.0, rise=RISE),)))
    run.train(8, reports(2.0))
    assert run.found("bad_loss") == []


def test_a_rise_that_ended_is_no_finding_any_more():
    run = noted(wire.Scalar("loss", 850, 7.0, rise=RISE))
    assert run.found("bad_loss")
    for index in range(2):
        run.tell(index, wire.Scalars(int(run.at * 1000), ()))
    run.train(20, reports(2.0))
    assert run.found("bad_loss") == []


def test_a_part_whose_norm_stays_exactly_the_same_is_a_note():
    parts = (part("params", 3.0), part("params/embed", 1.5, same=600), part("params/out", 2.5))
    found = noted(*parts).the("unchanged")
    assert found.severity is Severity.INFO
    assert found.text == "the norm of params/embed has been exactly 1.5 for 600 steps, since step 300"


def test_a_whole_tree_that_stays_the_same_is_a_warning():
    parts = [part(name, same=600) for name in ("params", "params/embed", "params/out")]
    found = noted(*parts).the("unchanged")
    assert (found.severity, found.about) == (Severity.WARNING, "params")


def test_parts_that_change_or_have_not_been_followed_for_long_are_none():
    assert noted(part("params"), part("params/embed", same=150)).found("unchanged") == []


def test_rules_about_values_that_are_not_reported_are_not_checked():
    unchecked = noted().cluster.findings.unchecked
    assert "agent.norms" in unchecked["r1", "unchanged"] and "agent.norms" in unchecked["r1", "norm_rose"]
    assert ("r1", "bad_value") not in unchecked
    assert "no values" in noted(loss=None).cluster.findings.unchecked["r1", "bad_value"]
    assert ("r1", "norm_rose") not in noted(part("params")).cluster.findings.unchecked


def test_a_value_that_is_not_finite_now_leaves_its_rule_unchecked_until_its_step_is_known():
    run = Staged(2)
    run.train(8, reports(math.nan, name="aux"))
    assert "has not arrived yet" in run.cluster.findings.unchecked["r1", "bad_value"]
    run.tell(0, wire.Scalars(int(run.at * 1000), (bad("aux"),)))
    run.train(8, reports(math.nan, name="aux"))
    assert ("r1", "bad_value") not in run.cluster.findings.unchecked
    assert "aux is NaN since step 838" in run.the("bad_value").text


def test_long_names_and_huge_numbers_leave_findings_short_and_valid():
    name = "model/decoder/" + "block/" * 14 + "grad_norm"
    rise = wire.Rise(10**7, 1e300, 10**7, 1e-300, 1e299, 1e280, name, 10**4)
    run = noted(wire.Scalar("loss" + name, 9, 1e300, rise=rise), bad(name, finite=1e300))
    texts = [each.text for rule in ("bad_loss", "bad_value") for each in run.found(rule)]
    assert len(texts) == 2 and all(len(text) <= 160 for text in texts)
    assert folded(keyframe.frames(run.cluster, run.at)).findings == run.cluster.findings


def test_a_keyframe_and_the_json_have_the_scalars():
    run = noted(bad(), wire.Scalar("aux_loss", 850, 7.0, rise=RISE), loss=math.nan)
    again = folded(keyframe.frames(run.cluster, run.at)).hosts[agent_id(0)].scalars
    assert str(again) == str(run.cluster.hosts[agent_id(0)].scalars)
    shown = json.loads(to_json(run.cluster, run.at))["hosts"][0]["scalars"]
    assert [each["name"] for each in shown] == ["loss", "aux_loss"]
    assert (shown[0]["bad_step"], shown[0]["value"], shown[0]["finite_step"]) == (838, None, 837)
    assert shown[1]["rise"]["usual"] == [2.31, 2.62] and shown[1]["rise"]["led_steps"] == 12
