"""A script with very many arrays: they are not counted, the viewer says why, and counting comes back."""

from __future__ import annotations

import sys

import pytest

from jaxtop.model import array_views
from jaxtop_agent.arrays import listing
from jaxtop_agent.arrays.walk import Walk
from jaxtop_agent.core.waiting import SLICE_S, WorkSlices
from tests.support import PYTHON, eventually, processes, script, viewer

MANY = 30_000
HOLDING = f"""
import os, time
import jax, numpy as np
from jaxtop import agent
from jaxtop_agent import jaxprivate

listed = []
inner = jaxprivate.live_arrays
jaxprivate.live_arrays = lambda: listed.append(1) or inner()
agent.start("crowd")
held = [jax.device_put(np.float32(i)) for i in range({MANY})]
listed.clear()
open("ready", "w").close()
while not os.path.exists("fewer"):
    time.sleep(0.05)
open("listed", "w").write(str(len(listed)))
del held[10:]
time.sleep(600)
"""


@pytest.mark.jax
@pytest.mark.newest
def test_too_many_arrays_are_neither_listed_nor_shown_until_they_are_fewer(tmp_path):
    """They are found to be too many by walking variables; and no sum of some of them is shown."""
    with processes([PYTHON, script(tmp_path, HOLDING)], cwd=tmp_path):
        eventually((tmp_path / "ready").exists)
        with viewer() as attached:
            host = attached.host
            attached.until(lambda: host(0).hello and host(0).hello.sources["arrays"].startswith("off"))
            attached.until(lambda: host(0).pulse.sampled_ms)
            assert "more than 25,000" in host(0).hello.sources["arrays"]
            assert not array_views(attached.cluster)
            assert host(0).pulse.counted_ms is None and not host(0).pulse.devices.used_bytes
            (tmp_path / "fewer").touch()
            attached.until(lambda: host(0).pulse.counted_ms)
            assert (tmp_path / "listed").read_text() == "0"
            attached.until(lambda: host(0).hello.sources["arrays"] == "on")
            names = {view.name for view in array_views(attached.cluster)}
            assert {f"held[{i}]" for i in range(10)} <= names


def test_arrays_that_no_variable_leads_to_are_listed_once(monkeypatch):
    """And again only when so many objects are gone that there can be few enough."""
    blocks = 1_000_000
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: blocks)
    looking = listing.ListingLimit()
    assert looking.may_be_listed(0)
    looking.listed(100_000, 0.02)
    assert looking.is_too_large and not looking.may_be_listed(0)
    blocks -= 70_000
    assert not looking.may_be_listed(0)
    blocks -= 20_000
    assert looking.may_be_listed(0)
    looking.listed(10_000, 0.002)
    assert not looking.is_too_large


def test_where_listing_takes_long_fewer_are_too_many(monkeypatch):
    """The fastest listing counts: others were disturbed."""
    blocks = 1_000_000
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: blocks)
    looking = listing.ListingLimit()
    looking.listed(20_000, 0.03)
    assert looking.is_too_large and "10,000" in looking.why_not
    for seconds in (0.008, 0.02):
        looking.listed(20_000, seconds)
        assert looking.is_too_large and "12,500" in looking.why_not
    blocks -= 20_000
    assert not looking.may_be_listed(11_000), "it would be on and off by turns"
    assert looking.may_be_listed(9_000)


def test_a_listing_that_was_slow_is_tried_again(monkeypatch):
    """Once: the machine may have been busy. One of far too many arrays is not."""
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: 1_000_000)
    slow, large = listing.ListingLimit(), listing.ListingLimit()
    for _ in range(4):
        slow.listed(20_000, 0.03)
    large.listed(100_000, 0.02)
    answers = [(slow.may_be_listed(20_000), large.may_be_listed(0)) for _ in range(listing.RETRY_AFTER)]
    assert answers == [(False, False)] * (listing.RETRY_AFTER - 1) + [(True, False)]
    slow.listed(20_000, 0.001)
    assert not slow.is_too_large


def test_a_walk_stops_when_it_has_found_too_many():
    class Array:
        aval = None

    held = {f"k{i}": [Array() for _ in range(300)] for i in range(50)}
    walk = Walk(Array, lambda _: None, bool, bool)
    found = walk.places([("held", lambda: held)], 1000)
    assert 1000 < len(found) < 2000


def test_long_work_leaves_most_of_the_time_to_the_script(monkeypatch):
    """Also where each pause is cut to the length of a slice: the rest comes when nothing is held any more."""
    now = rested = 0.0

    def rest(seconds: float) -> None:
        nonlocal now, rested
        now, rested = now + seconds, rested + seconds

    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("time.thread_time", lambda: now - rested)
    monkeypatch.setattr("time.sleep", rest)
    slices, worked = WorkSlices(), 0.0
    for turn in range(1000):
        now, worked = now + 0.0005, worked + 0.0005
        if slices.is_over:
            before = rested
            slices.rest(briefly=turn % 20 > 0)
            assert turn % 20 == 0 or rested - before < 1.01 * SLICE_S
    slices.rest()
    assert rested >= 3.9 * worked
