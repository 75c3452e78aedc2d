"""Operations of programs that libraries wrote: shares, kinds, lines and flops beside those of the program."""

from __future__ import annotations

import time

import pytest

from jaxtop.cli.live.broadcast import request_to
from jaxtop.features.operations.model import IDLE, UNKNOWN, DeviceRates, program_time
from jaxtop.model import program_views
from jaxtop.store import runfiles
from tests.support import PYTHON, ROOT, SOAK, environment, eventually, processes, viewer

pytestmark = pytest.mark.jax

SCRIPT = ROOT / "tests" / "programs" / "layers.py"
# How many products of (64, SIDE) by (SIDE, SIDE), or of the same cost, each has, where that is known by hand.
ONE = 2 * 64 * 96 * 96
PRODUCTS = {"scanned": 9, "equinox_grads": 8, "spread": 1 / 4}
# Programs whose loops, branches or library calls leave the sum unknown.
BOUNDS = {"until_small", "one_of_two", "solved"}
NAMES = {
    "flax_step", "equinox_grads", "haiku_attention", "scanned", "until_small", "one_of_two", "solved",
    "ordered", "spread", "noise",
}  # fmt: skip
KINDS = {
    "flax_step": {"matmul", "convolution"}, "haiku_attention": {"matmul"}, "scanned": {"matmul"},
    "until_small": {"matmul"}, "solved": {"library call"}, "ordered": {"sort"},
    "spread": {"matmul", "collective"}, "noise": {"fft"},
}  # fmt: skip


def is_read(attached):
    """Whether all programs are compiled and read."""
    host = next(iter(attached.cluster.hosts.values()), None)
    if host is None or host.hello is None or host.hello.sources.get("programs") != "on":
        return False
    return {each.function for each in program_views(attached.cluster, 0)} >= NAMES


def times(attached):
    """Where the time of each program goes, after one more window."""
    (agent,) = (host.agent for host in attached.cluster.hosts.values())
    before = attached.host(0).window
    attached.source.request(agent, request_to("window", [agent], time.time()), lambda _: None)
    attached.until(lambda: attached.host(0).window is not before)
    attached.until(lambda: attached.host(0).operations or attached.host(0).window.note)
    views = {each.function: each for each in program_views(attached.cluster, 0)}
    found = {
        name: program_time(attached.cluster, view, lambda _: DeviceRates()) for name, view in views.items()
    }
    return views, {name: each for name, each in found.items() if each is not None and name in NAMES}


@pytest.mark.skipif(not SOAK, reason="compiles for half a minute on a busy machine: make soak runs it")
def test_programs_of_libraries(home):
    with processes([PYTHON, SCRIPT], env=environment(4, STEER=str(home))) as (running,):
        eventually(runfiles.find)
        seen, views = {}, {}
        with viewer() as attached:
            attached.until(lambda: is_read(attached))
            for _ in range(12):  # some windows hold no whole launch
                views, found = times(attached)
                seen |= found
                if seen.keys() >= NAMES:
                    break
        (home / "stop").touch()
        assert running.wait() == 0
    assert len(seen) >= 8, seen.keys()
    for name, program in seen.items():
        operations = program.operations
        assert sum(each.time_share for each in operations) == pytest.approx(1), name
        assert program.kinds.get(UNKNOWN, 0) == 0, name
        assert set(program.kinds) >= KINDS.get(name, set()), (name, program.kinds)
        listed = [each for each in operations if each.op is not None]
        assert {each.source.split(":")[0] for each in listed if each.source} <= {"layers.py"}, name
        computing = [each for each in listed if each.kind != "copy"]  # the compiler adds copies of its own
        placed = sum(each.time_share for each in computing if each.source)
        assert placed >= sum(each.time_share for each in computing) / 2, name
        if program.rest == 0 and name not in BOUNDS:
            counted = sum(each.flops for each in listed)
            assert counted == pytest.approx(views[name].program.flops, rel=0.001), name
        if name in PRODUCTS:
            products = sum(each.flops for each in listed if each.kind == "matmul")
            assert products == pytest.approx(PRODUCTS[name] * ONE, rel=0.05), name
        assert all(each.time_us >= 0 for each in operations if each.kind == IDLE)
