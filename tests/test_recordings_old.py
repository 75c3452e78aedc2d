"""Recordings that an earlier version made replay to the same JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jaxtop.cli import main

FOLDER = Path(__file__).parent / "data/recordings"
# Fields that were added since, and are derived from what the recordings have.
DERIVED_SINCE = {"uses_network", "current", "timed_ms"}
MOMENTS = [("run", "+10s"), ("run", "+40s"), ("box", "+40s")]


@pytest.mark.parametrize(("name", "at"), MOMENTS)
def test_a_moment_of_an_old_recording_is_the_same(name, at, capsys):
    files = sorted(map(str, FOLDER.glob(f"{name}*.mcap")))
    assert main(["replay", *files, "--at", at]) == 0
    shown = json.loads(capsys.readouterr().out)
    for later in ("findings", "verdict", "checked", "unchecked"):  # later rules may find more in it
        del shown[later]
    for each in shown["runs"]:  # later, from figures of the hosts
        del each["step"]
    for each in shown["programs"]:  # before, each program of a name had the launches of all of them
        each["launches"] = each.pop("function_launches")
    kept = json.loads((FOLDER / f"{name}-at-{at[1:]}.json").read_text())
    assert shown == with_later_fields(kept, shown)


def with_later_fields(kept: object, shown: object) -> object:
    """What was kept, with the fields that were added since: null or empty, since nobody recorded them.

    Sums of floats differ in their last digit: since Python 3.12 `sum` loses less.
    """
    if isinstance(kept, dict) and isinstance(shown, dict):
        later = {name: [] if shown[name] == [] else None for name in shown.keys() - kept.keys()}
        later |= {name: shown[name] for name in later.keys() & DERIVED_SINCE}
        return {name: with_later_fields(each, shown.get(name)) for name, each in kept.items()} | later
    if isinstance(kept, list) and isinstance(shown, list) and len(kept) == len(shown):
        return [with_later_fields(*each) for each in zip(kept, shown, strict=True)]
    return pytest.approx(kept, rel=1e-12) if isinstance(kept, float) else kept
