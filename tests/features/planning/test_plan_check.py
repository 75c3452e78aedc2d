"""`jaxtop plan --check`: predicted beside measured, as text and as JSON, without the runs themselves."""

from __future__ import annotations

import json

import pytest

from jaxtop.features.planning import demo_check as plan_check
from jaxtop.features.planning.model.plan import Candidate, Interval, StepTime, Tensor, Today

MESHES = ((("data", 2), ("model", 4)), (("data", 8), ("model", 1)))


def run_on(axes, step_ms, *more):
    """What a run on a mesh is: a weight of 4 MiB that `model` divides, and a step."""
    model = dict(axes)["model"]
    devices = tuple(range(8))
    size = 4 << 20
    parts = (), ("model",)
    weight = Tensor(
        "state['w']", "parameters", (1024, 1024), "float32", parts, size, size // model, 1, devices
    )
    step = StepTime(step_ms, step_ms, 0.0, 0.0)
    return Today("r1", axes, devices, 8, "cpu", "cpu", (weight, *more), step=step, shared_cores=2)


@pytest.fixture
def runs(monkeypatch):
    """Two runs; the second one holds an array that the first one does not."""
    other = Tensor("metrics", None, (4,), "float32", ((), ()), 16, 16, device_ids=tuple(range(8)))
    found = [run_on(MESHES[0], 100.0), run_on(MESHES[1], 80.0, other)]
    monkeypatch.setattr(plan_check, "_today_on", lambda *_: found.pop(0))


@pytest.mark.usefixtures("runs")
def test_predicted_stands_beside_measured_for_each_mesh(capsys):
    assert plan_check.main(MESHES, list, as_json=False) == 0
    out, err = capsys.readouterr()
    assert [line.split()[:5] for line in out.splitlines() if "state" in line] == [
        ["data=2,model=4", "(today)", "state", "1.0", "MiB"],
        ["data=8,model=1", "state", "4.0", "MiB", "4.0"],
    ]
    assert "State bytes exact on 2 of 2 meshes" in out
    assert "running the demo on data=8,model=1, 2 of 2" in err


@pytest.mark.usefixtures("runs")
def test_the_comparison_is_also_json(capsys):
    plan_check.main(MESHES, list, as_json=True)
    first, second = json.loads(capsys.readouterr().out)["checks"]
    assert (first["mesh"], first["today"], second["today"]) == ({"data": 2, "model": 4}, True, False)
    assert second["state_bytes_per_device"] == {"predicted": 4 << 20, "measured": 4 << 20}
    assert second["memory_bytes_per_device"] == {"predicted": None, "measured": None}
    assert second["step_ms"]["measured"] == 80.0


def test_memory_outside_its_interval_and_bytes_that_differ_are_said():
    def candidate(state, memory):
        return Candidate(MESHES[0], False, None, state, memory, None, {}, (), ())

    check = plan_check.Check(
        MESHES[0], False, candidate(8, Interval(10, 20)), candidate(9, Interval(30, 30)), None, None, (8, 9)
    )
    text = "\n".join(plan_check._table_lines([check]))
    assert "-1 bytes" in text and "outside" in text and "n/a" in text
    assert "State bytes exact on 0 of 1 meshes, memory inside on 0 of 1." in text
