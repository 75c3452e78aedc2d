"""Recordings that an earlier version made replay to the same JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jaxtop.cli import main

FOLDER = Path(__file__).parent / "data/recordings"
MOMENTS = [("run", "+10s"), ("run", "+40s"), ("box", "+40s")]


@pytest.mark.parametrize(("name", "at"), MOMENTS)
def test_a_moment_of_an_old_recording_is_the_same(name, at, capsys):
    files = sorted(map(str, FOLDER.glob(f"{name}*.mcap")))
    assert main(["replay", *files, "--at", at]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads((FOLDER / f"{name}-at-{at[1:]}.json").read_text())
