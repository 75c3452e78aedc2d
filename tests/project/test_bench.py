"""The bench keeps up with what it measures: it takes hold of parts that no other test names like that."""

from __future__ import annotations

import json

import pytest

from tests.bench.rows import ROWS
from tests.support import PYTHON, SOAK, run

SOON_DONE = ("launch_hook",)

pytestmark = pytest.mark.jax


@pytest.mark.newest
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rows", [[row.name] for row in ROWS] if SOAK else [SOON_DONE], ids=" ".join)
def test_a_short_run_of_each_row_has_its_figures(tmp_path, rows):
    written = tmp_path / "figures.json"
    done = run(PYTHON, "-m", "tests.bench", "--quick", "--json", written, *rows)
    assert not done.returncode, done.stdout + done.stderr
    told = json.loads(written.read_text())["rows"]
    assert {each["name"] for each in told if each["figures"]} == {*rows}
