"""Shardings of every kind: which slice each device holds, and what it takes, as JAX itself says."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from jaxtop.model import array_views, slices
from tests.support import PYTHON, ROOT, environment, eventually, processes, viewer

pytestmark = pytest.mark.jax


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What JAX says of the arrays of programs/shardings.py, by name, and what a viewer sees of them."""
    home = tmp_path_factory.mktemp("home")
    variables = {
        **{name: value for name, value in environment(8).items() if not name.startswith("XDG_")},
        "HOME": str(home),
        "STEER": str(home),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in list(variables):
            patch.setenv(name, variables[name])
        for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
            patch.delenv(name, raising=False)
        with processes([PYTHON, ROOT / "tests" / "programs" / "shardings.py"], env=variables) as (process,):
            eventually(lambda: (home / "shardings.json").exists() or process.poll())
            with viewer() as attached:
                told = json.loads((home / "shardings.json").read_text())
                held = bytes_held(told)
                with suppress(AssertionError):  # the tests say what differs
                    attached.until(lambda: attached.host(0).pulse.devices.used_bytes == held)
                views = array_views(attached.cluster)
                used = attached.host(0).pulse.devices.used_bytes
    print("without:", {"by the compiler", "unreduced"} - told.keys() or "nothing")
    return told, {view.name: view for view in views}, views, used


def bytes_held(told):
    """What each device holds of the whole arrays, as JAX says."""
    ids = sorted({int(device) for facts in told.values() for device in facts["spans"]})
    return tuple(
        sum(facts["bytes_per_device"] for facts in told.values() if str(device) in facts["spans"])
        for device in ids
    )


def test_every_sharding_says_which_slice_each_device_holds(seen):
    told, by_name, _, _ = seen
    for name, facts in told.items():
        view = by_name[f"held[{name!r}]"]
        spans = {int(device): tuple(map(tuple, spans)) for device, spans in facts["spans"].items()}
        assert slices(view) == spans, name


def test_every_sharding_takes_what_its_pieces_take(seen):
    """The physical size, where it is not that of shape and type."""
    told, by_name, _, _ = seen
    for name, facts in told.items():
        view = by_name[f"held[{name!r}]"]
        assert (view.bytes_per_device, len(view.device_ids)) == (facts["bytes_per_device"], facts["devices"])


def test_pieces_that_the_script_has_looked_at_are_not_counted_twice(seen):
    """They are listed, without bytes of their own; what the devices hold is what the whole arrays take."""
    told, _, views, used = seen
    pieces = [view for view in views if view.name is None]
    assert pieces and all(view.bytes_per_device == 0 for view in pieces), pieces
    assert used == bytes_held(told)
