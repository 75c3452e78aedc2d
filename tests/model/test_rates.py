"""How the launches of a function are split over the programs compiled for it."""

from __future__ import annotations

import pytest

from jaxtop import wire
from jaxtop.model import program_views
from jaxtop.model.collectives import axis_traffic, collective_views
from jaxtop.model.programs.rates import launch_rates_of
from tests import stories

MESH = wire.Mesh((("data", 2),), wire.pack_ids((0, 1)))


def inventory(fingerprint, size):
    """A program that reduces so many bytes over both devices."""
    reduction = wire.Collective("all-reduce.1", "all-reduce", "f32[]", size, 0)
    both = wire.ReplicaGroups((2,), wire.pack_runs((0, 1)))
    return wire.Inventory(1, "jit_step", fingerprint, 2, wire.pack_ids((0, 1)), (both,), (reduction,))


def window(*fingerprints, at_ms=20):
    """Launches of these programs, in which their reduction took a millisecond."""
    names = tuple(dict.fromkeys(fingerprints))
    launches = tuple(
        wire.Launch(names.index(each), 100 * at_ms + i, i * 2000, 1500) for i, each in enumerate(fingerprints)
    )
    timed = tuple(wire.Round(i, 0, 0, i * 2000, (1000, 900)) for i in range(len(launches)))
    listed = tuple(("jit_step", each) for each in names)
    return wire.Window(at_ms, 100_000, 1, listed, ("all-reduce.1",), launches, timed)


def run(sizes, *windows, loaded=3):
    """A process that loaded `step` so many times, some with these bytes, and launches it twice a second."""
    listed = tuple(wire.Program("jit_step", f"f{i}", 2, 2) for i in range(loaded))
    devices = tuple(wire.Device(i, "cpu", "cpu", i) for i in range(2))
    said = (
        stories.hello(0, process_count=1, platform="cpu", devices=devices),
        stories.census(wire.ArrayGroup((8,), "float32", 0, 32, 16), mesh=MESH),
        wire.Programs(1, listed, seen_ms=(5,) * loaded),
        *(inventory(f"f{i}", size) for i, size in enumerate(sizes)),
        stories.pulse(at_ms=1_000, launches={"step": 10}),
        stories.pulse(at_ms=11_000, launches={"step": 30}),
        *windows,
    )
    return stories.cluster_of(*((10.0, "r1-0", each) for each in said))


def found(cluster):
    return {each.program.fingerprint: each.launches_per_second for each in program_views(cluster, 0)}


def traffic(cluster):
    (along,) = (each for each in axis_traffic(collective_views(cluster, 0)) if each.axes == ("data",))
    return along.bytes_per_second, along.at_least


def test_the_variant_that_windows_saw_has_all_launches():
    cluster = run((100, 100, 400), window("f2", "f2"))
    assert found(cluster) == {"f0": 0, "f1": 0, "f2": 2}
    assert {each.function_per_second for each in program_views(cluster, 0)} == {2}
    assert traffic(cluster) == (800, False)


def test_two_variants_have_their_shares():
    cluster = run((100, 100, 400), window("f2", "f0", "f2", "f2"))
    assert found(cluster) == {"f0": 0.5, "f1": 0, "f2": 1.5}
    assert traffic(cluster) == (0.5 * 100 + 1.5 * 400, False)


def test_newer_windows_count_more():
    cluster = run((1, 1, 1), window("f0", "f0"), window("f2", "f2", "f2", at_ms=30))
    assert found(cluster) == {"f0": 0.5, "f1": 0, "f2": 1.5}


@pytest.mark.parametrize("told", [(), (window("f0", at_ms=4),), (window(None, None),)])
def test_what_nobody_can_split_has_no_rate_and_its_sum_is_a_lower_bound(told):
    """No window; one from before the last variant was compiled; one that does not tell which it was."""
    cluster = run((100, 200, 400), *told)
    assert found(cluster) == {"f0": None, "f1": None, "f2": None}
    assert {each.per_second for each in collective_views(cluster, 0) if each.fingerprint} == {None}
    assert traffic(cluster) == (200, True)


def test_variants_with_equal_traffic_need_not_be_distinguished():
    """And what was measured in one of them has its axes and bytes."""
    cluster = run((100, 100, 100), window(None, None))
    assert traffic(cluster) == (200, False)
    (measured,) = (each for each in collective_views(cluster, 0) if each.samples)
    assert (measured.fingerprint, measured.axes, measured.bytes, measured.per_second) == (
        None,
        ("data",),
        100,
        2,
    )


def test_a_variant_without_collectives_may_be_the_one_that_is_launched():
    assert traffic(run((100, 100), loaded=3)) == (None, False)


def test_a_single_program_has_its_functions_rate():
    cluster = run((100,), loaded=1)
    assert found(cluster) == {"f0": 2} and traffic(cluster) == (200, False)


def test_programs_without_fingerprints_cannot_be_told_apart():
    (host,) = run((), loaded=1).hosts.values()
    listed = tuple(wire.Program("jit_step", None, created=each) for each in ("a", "b"))
    found = launch_rates_of(host.but(programs=wire.Programs(1, listed, seen_ms=(1, 2))))
    assert (found.of_program, found.unsplit["jit_step"]) == ({}, (2.0, 2))


def test_rows_of_programs_of_one_name_are_dropped_once_these_are_distinguished():
    """Windows taken before all programs were read do not say which one they saw."""
    later = [window("f2", at_ms=30 + i) for i in range(3)]
    views = collective_views(run((100, 100, 400), window(None, None), *later), 0)
    assert {each.fingerprint for each in views} == {"f0", "f1", "f2"}
    assert {each.fingerprint for each in views if each.samples} == {"f2"}
