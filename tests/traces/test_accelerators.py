"""`make accelerators DIR=…`: what the readers make of captured profiles and compiled texts."""

from __future__ import annotations

import shutil

import pytest

from tests.accelerators import __main__ as command
from tests.accelerators import captures, texts, theirs
from tests.made.hlo_texts import DATA
from tests.made.traces import PLATFORMS, Made, launches, tpu
from tests.made.xspace import plane, space


@pytest.fixture
def folder(tmp_path):
    for name, (_, make) in PLATFORMS.items():
        (tmp_path / f"{name}.xplane.pb").write_bytes(make(Made(launches(4, 5, late=1))))
    return tmp_path


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_profile_has_as_many_operations_as_its_raw_events(folder, name):
    row = captures.row(folder / f"{name}.xplane.pb", name)
    assert (row.programs, row.launches, row.runs) == (1, 5, 20)
    assert row.ours.operations == row.raw_operations
    assert (row.ours.collectives, row.unassigned) == (20, "0.00%")
    assert row.apart_us == 0


def test_operations_without_a_launch_are_missing_beside_the_raw_events(tmp_path):
    path = tmp_path / "lost.xplane.pb"
    _, make = PLATFORMS["rocm"]
    path.write_bytes(make(Made(launches(1, 8), lost=0.4, seed=5)))
    row = captures.row(path, "lost")
    assert (
        row.ours.operations < row.raw_operations and "nothing in the trace names the launch" in row.unassigned
    )


def test_every_file_has_a_row_or_a_reason(folder, monkeypatch, capsys):
    (folder / "cut.xplane.pb").write_bytes(tpu(Made(launches(2, 2)))[:-9])
    (folder / "empty.xplane.pb").write_bytes(space(plane("/host:CPU", {})))
    (folder / "notes.txt").write_text("not a program")
    text = next(DATA.glob("*.hlo"))
    shutil.copy(text, folder / "deeper.hlo")
    monkeypatch.setattr("sys.argv", ["accelerators", str(folder)])
    assert command.main() == 1
    printed = capsys.readouterr().out
    assert "5 profiles, 1 texts, 1 cannot be read\ncut.xplane.pb is no whole profile" in printed
    assert {line.split()[0] for line in printed.splitlines() if line} >= {
        "tpu.xplane.pb", "rocm.xplane.pb", "nvidia.xplane.pb", "empty.xplane.pb", "deeper.hlo",
    }  # fmt: skip


def test_a_text_has_its_collectives_with_groups():
    row = texts.row(DATA / "mapped-jax-0.10.2.hlo", "one")
    assert row.collectives == row.grouped > 0 and row.unread == 0 and row.kinds != "none"


def test_figures_of_xprof_are_the_sums_of_its_table():
    table = {
        "cols": [{"id": each} for each in ("category", "occurrences", "total_self_time")],
        "rows": [
            {"c": [{"v": each} for each in row]}
            for row in [
                ("loop fusion", 4.0, 100.0), ("all-reduce", 2.0, 50.0), ("all-gather-start", 2.0, 1.0),
                ("all-gather-done", 2.0, 9.0), ("while", 1.0, 3.0), ("IDLE", 0.0, 700.0),
            ]
        ],
    }  # fmt: skip
    assert theirs.summed(theirs.rows(table)) == theirs.Figures(
        10, pytest.approx(0.16), 4, pytest.approx(0.059)
    )
