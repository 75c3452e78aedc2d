"""The plan bench: its table, and one program on two meshes from end to end."""

from __future__ import annotations

import json
from math import prod

import pytest

from tests.plans import evaluate, measure, table
from tests.plans.cases import CASES, CASES_BY_NAME, DEVICES
from tests.support import UNOPTIMIZED


def row(today, mesh, predicted, true, program="mlp_data"):
    names = ("state", "memory", "step")
    true = {**dict(zip(names, true, strict=True)), "spread": [0, 0], "others": 0.0, "cores": 2}
    axes = [{"data": size} for size in (today, mesh)]
    return {"program": program, "today": axes[0], "mesh": axes[1], "predicted": predicted, "true": true}


def test_each_program_has_six_meshes_of_at_most_eight_devices():
    assert len(CASES) == 8
    for case in CASES:
        sizes = [prod(size for _, size in axes) for axes in case.meshes]
        assert len({*case.meshes}) == 6 and max(sizes) == DEVICES


def test_a_run_replaces_an_earlier_one_that_was_more_disturbed(tmp_path):
    file = tmp_path / table.TRUTH
    runs = [{"program": "x", "mesh": {"data": 2}, "others": others} for others in (0.5, 0.1, 0.3)]
    assert [table.add(run, file) for run in runs] == [True, True, False]
    assert table.load(file) == [runs[1]]


def test_the_table_says_what_is_exact_inside_and_best_against_the_baselines(tmp_path):
    file = tmp_path / "results.json"
    fast, slow = (100, 1000, 10.0), (200, 2000, 20.0)
    right = {"state": 100, "memory": [900, 1300], "step": [9.0, 13.0]}
    table.write(
        [
            row(8, 8, {"state": 200, "memory": [2000, 2000], "step": [20.0, 20.0]}, slow),
            row(8, 4, right, fast),
            row(4, 8, {"state": 150, "memory": [100, 200], "step": [8.0, 8.0]}, slow),
            row(4, 4, right, fast),
        ],
        file,
    )
    text = table.results(file)
    assert "- State bytes equal to what the run holds: 3 of 4 (75%)." in text
    assert "    - not: mlp_data from data=4 to data=8: 150 of 200" in text
    assert "- Memory inside its interval: 1 of 2 (50%)" in text
    assert "is the planner's first in 1 of 2 (50%), among its first two in 2 of 2 (100%)" in text
    assert "- Choosing as today: best in 1 of 2; a step takes 50% longer" in text
    assert "- Choosing all data: best in 0 of 2; a step takes 100% longer" in text
    assert text.splitlines()[-1].split("|")[1:5] == [
        " MLP, data parallel ", " 2 ", " 3 of 4 (75%) ", " 1 of 2 (50%) ",
    ]  # fmt: skip


def test_wider_models_have_a_table_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "WIDER_RESULTS", tmp_path / "wider.json")
    assert "half as wide" not in table.page()
    table.write([row(8, 8, {"state": 1}, (1, 1, 1.0))], table.WIDER_RESULTS)
    assert "half as wide" in table.page()


@pytest.mark.jax
@pytest.mark.newest
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("home")
def test_the_state_of_a_real_run_on_another_mesh_is_predicted_to_the_byte(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", UNOPTIMIZED)
    meshes = ((("data", 2), ("fsdp", 2)), (("data", 1), ("fsdp", 4)))
    case = CASES_BY_NAME["mlp_fsdp"]._replace(meshes=meshes)
    for axes in meshes:
        table.add(
            measure.measure(case.name, axes, tmp_path, 0, windows=0, words=["--paused"]),
            tmp_path / table.TRUTH,
        )
    rows = evaluate.evaluate(tmp_path, [case])
    assert [each["predicted"]["state"] for each in rows] == [each["true"]["state"] for each in rows]
    assert len(rows) == 4
    assert len({each["true"]["state"] for each in rows}) == 2
    assert all(
        low <= each["true"]["memory"] <= high for each in rows for low, high in [each["predicted"]["memory"]]
    )
    json.dumps(rows)
