"""What each device's memory is taken by, held against sums by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.model import Part, device_views, growers, memory_total, memory_views
from tests.stories import cluster_of, hello, link, pulse, tell

KIB = 1024
MESH = wire.Mesh((("data", 4),), ((0, 4),))
SHARDINGS = (
    wire.Sharding("named", "P('data',)", 0, (), "device"),
    wire.Sharding("single", "", None, ((1, 1),), "device"),
    wire.Sharding("named", "P('data',)", 0, (), "pinned_host"),
    wire.Sharding("named", "P('data',)", 0, (), "unpinned_host"),
    wire.Sharding("single", "", None, ((2, 1),), "device"),
)


def group(size: int, name: str | None = None, role: str | None = None, sharding: int = 0, **more):
    return wire.ArrayGroup((size,), "uint8", sharding, size * 4, size, name, "train", role, **more)


def census(*groups: wire.ArrayGroup, counts: tuple[int, ...] | None = None, **more) -> wire.Arrays:
    counts = (1,) * len(groups) if counts is None else counts
    return wire.Arrays(
        1000, serial=7, meshes=(MESH,), shardings=SHARDINGS, groups=groups, counts=counts, **more
    )


def machine(census: wire.Arrays, platform: str = "gpu", source: str = "allocator", simulated=None, **figures):
    """A process with four devices, and what it said of them."""
    own = tuple(wire.Device(i, platform, platform, i) for i in range(4))
    sample = wire.DeviceSample(**{name: (value,) * 4 for name, value in figures.items()})
    limited = {"simulated_limit_bytes": simulated}
    return cluster_of(
        (10, "r1-0", link("up")),
        (10, "r1-0", hello(0, devices=own, platform=platform, process_count=1, **limited)),
        (10, "r1-0", census),
        (10, "r1-0", pulse(at_ms=1000, devices=sample, memory_source=source, launches={"step": 1})),
    )


def parts(cluster, device: int = 0) -> dict[str, int | None]:
    view = memory_views(cluster, device_views(cluster, 10))[device]
    return {str(part): view.bytes_of(part) for part in Part}


STATE = census(
    group(100, "p['w']", "parameters"),
    group(200, "o.mu['w']", "optimizer"),
    group(30, "g['w']", "gradients"),
    group(8, "batch", "batch"),
    group(5, "table"),
    group(2),
    counts=(1, 2, 1, 1, 3, 4),
)


def test_live_arrays_are_counted_by_what_they_are():
    found = parts(machine(STATE, used_bytes=1000))
    assert found["parameters"] == 100
    assert found["optimizer"] == 2 * 200
    assert (found["gradients"], found["batch"]) == (30, 8)
    assert (found["other named"], found["unnamed"]) == (3 * 5, 4 * 2)


def test_what_the_allocator_counts_beyond_arrays_is_shown_as_such():
    found = parts(machine(STATE, used_bytes=1000, limit_bytes=5000))
    explained = 100 + 400 + 30 + 8 + 15 + 8
    assert found["unexplained"] == 1000 - explained
    assert found["free"] == 5000 - 1000
    assert sum(size or 0 for size in found.values()) == 5000


def test_temporaries_of_programs_are_a_part_of_that_and_not_added_twice():
    cluster = machine(STATE, used_bytes=1000, limit_bytes=5000)
    told = (
        wire.Program("jit_step", "f1", temp_bytes=300),
        wire.Program("jit_idle", "f2", temp_bytes=999),
    )
    tell(cluster, (10, "r1-0", wire.Programs(1000, told)))
    sample = cluster.hosts["r1-0"].pulse.devices
    tell(
        cluster,
        (11, "r1-0", pulse(at_ms=2000, devices=sample, memory_source="allocator", launches={"step": 9})),
    )
    found = parts(cluster)
    assert (found["temporaries"], found["unexplained"]) == (300, 1000 - 561 - 300)
    assert sum(size or 0 for size in found.values()) == 5000


def test_temporaries_are_at_most_what_arrays_leave_unexplained():
    cluster = machine(census(group(900, "p")), used_bytes=1000)
    tell(cluster, (10, "r1-0", wire.Programs(1000, (wire.Program("jit_step", "f1", temp_bytes=300),))))
    tell(cluster, (11, "r1-0", replace(cluster.hosts["r1-0"].pulse, at_ms=2000, launches={"step": 9})))
    found = parts(cluster)
    assert (found["temporaries"], found["unexplained"]) == (100, 0)


def test_arrays_that_came_since_the_pulse_leave_nothing_unexplained():
    assert parts(machine(census(group(1200, "p")), used_bytes=1000))["unexplained"] == 0


def test_free_memory_in_small_pieces_is_reserved():
    figures = {"used_bytes": 1000, "limit_bytes": 5000, "reserved_bytes": 50}
    cluster = machine(STATE, **figures, pool_bytes=4000, largest_free_bytes=2500)
    found = parts(cluster)
    assert found["reserved"] == 50 + (4000 - 1000 - 2500)
    assert found["free"] == 5000 - 1000 - 550
    assert memory_views(cluster, device_views(cluster, 10))[0].largest_free_bytes == 2500


def test_without_a_limit_what_is_free_is_unknown():
    assert parts(machine(STATE, used_bytes=1000))["free"] is None


def test_without_an_allocator_only_arrays_are_known():
    found = parts(machine(STATE, "cpu", "arrays", used_bytes=561))
    assert found["parameters"] == 100
    assert [found[name] for name in ("temporaries", "unexplained", "reserved", "free")] == [None] * 4


def test_a_simulated_limit_is_marked_as_such_and_its_free_memory_is_known():
    cluster = machine(STATE, "cpu", "arrays", simulated=1000, used_bytes=561, limit_bytes=1000)
    found = parts(cluster)
    assert (found["parameters"], found["temporaries"], found["free"]) == (100, None, 1000 - 561)
    [view, *_] = device_views(cluster, 10)
    assert (view.limit_source, view.memory_source) == ("simulated", "arrays")


def test_an_allocator_that_counts_has_its_own_limit():
    cluster = machine(STATE, simulated=1000, used_bytes=1000, limit_bytes=5000)
    assert device_views(cluster, 10)[0].limit_source == "allocator"
    assert device_views(machine(STATE, used_bytes=1000), 10)[0].limit_source is None


def test_arrays_that_are_not_counted_are_no_part_that_is_known():
    cluster = machine(wire.Arrays(1000), used_bytes=10 * KIB, limit_bytes=100 * KIB, reserved_bytes=0)
    tell(cluster, (11, "r1-0", replace(cluster.hosts["r1-0"].hello, sources={"arrays": "off: too many"})))
    known = {name: size for name, size in parts(cluster).items() if size is not None}
    assert known == {"reserved": 0, "free": 90 * KIB}


def test_a_device_of_which_nothing_is_known_has_no_parts():
    assert set(parts(machine(STATE, "gpu", "allocator")).values()) == {None}


def test_arrays_are_where_their_sharding_puts_them():
    cluster = machine(census(group(100, "a", sharding=1), group(7, "b")), used_bytes=1000)
    assert [parts(cluster, i)["other named"] for i in range(4)] == [7, 107, 7, 7]


def test_arrays_in_the_memory_of_the_host_are_not_the_devices():
    offloaded = census(group(100, "a", sharding=2), group(50, "b", sharding=3), group(7, "c"))
    assert parts(machine(offloaded, used_bytes=1000))["other named"] == 7
    assert parts(machine(offloaded, "cpu", "arrays", used_bytes=57))["other named"] == 57


def test_a_sum_of_smaller_groups_counts_once():
    tail = census(group(640, groups=80), counts=(200,))
    assert parts(machine(tail, used_bytes=1000))["unnamed"] == 640


def test_the_cluster_is_the_sum_of_its_devices():
    cluster = machine(STATE, used_bytes=1000, limit_bytes=5000)
    found = memory_total(memory_views(cluster, device_views(cluster, 10)))
    assert sum(found) == 4 * 5000 and found[0] == 400
    assert sum(memory_total([])) == 0


def test_only_what_changed_is_derived_again():
    cluster = machine(STATE, used_bytes=1000, limit_bytes=5000)
    before = memory_views(cluster, device_views(cluster, 10))
    after = memory_views(cluster, device_views(cluster, 10))
    assert all(a is b for a, b in zip(before, after, strict=True))
    plan = cluster.derived.last("plan of arrays", "r1-0")
    assert plan is not None
    change = wire.ArraysChange(2000, serial=7, number=1, counts=((5, 10),))
    tell(cluster, (11, "r1-0", change))
    view = memory_views(cluster, device_views(cluster, 11))[0]
    assert view.bytes_of(Part.UNNAMED) == 20 and cluster.derived.last("plan of arrays", "r1-0") is plan


class TestGrowers:
    def growing(
        self,
        *groups: wire.ArrayGroup,
        counts: list[tuple[int, ...]],
        every: float = 10,
        set_back: int | None = None,
    ):
        """So many of each group, from census to census; before one of them the host's clock is set back."""
        cluster = machine(census(*groups, counts=counts[0]), "cpu", "arrays", used_bytes=1)
        for number, now in enumerate(counts[1:], start=1):
            lost_ms = 25_000 if set_back is not None and number >= set_back else 0
            at_ms = 1000 + int(number * every * 1000) - lost_ms
            change = wire.ArraysChange(at_ms, 7, number, tuple(enumerate(now)))
            tell(cluster, (10 + number * every, "r1-0", change))
        return growers(cluster)

    def test_growing_arrays_are_reported_with_their_rate(self):
        cache = group(64 * KIB, "cache", created="train.py:88 log")
        (grower,) = self.growing(cache, counts=[(1,), (6,), (11,), (16,), (21,), (26,), (31,)])
        assert (grower.name, grower.bytes_per_device) == ("cache", 31 * 64 * KIB)
        assert grower.bytes_per_minute == pytest.approx(30 * 64 * KIB)

    def test_growth_is_reported_also_after_the_clock_of_the_host_was_set_back(self):
        counts = [(i,) for i in range(1, 60, 5)]
        (grower,) = self.growing(group(64 * KIB, "cache"), counts=counts, set_back=4)
        assert grower.bytes_per_minute == pytest.approx(30 * 64 * KIB)

    def test_a_list_that_grows_is_one(self):
        logs = [group(64 * KIB, f"logs[{i}]['loss']") for i in range(4)]
        counts = [(1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 0), (1, 1, 1, 1)]
        (grower,) = self.growing(*logs, counts=counts)
        assert grower.name == "logs[*]['loss']" and grower.bytes_per_device == 4 * 64 * KIB

    def test_lists_on_different_devices_grow_as_the_one_that_grows_most(self):
        """As much is missing on a device, not as much as on all devices together."""
        logs = [group(64 * KIB, f"logs[{i}]", sharding=sharding) for i, sharding in enumerate((1, 4))]
        (grower,) = self.growing(*logs, counts=[(1, 1), (2, 2), (3, 3), (5, 4)])
        assert (grower.name, grower.bytes_per_device) == ("logs[*]", 5 * 64 * KIB)

    def test_what_has_no_name_is_known_by_the_line_that_made_it(self):
        unnamed = [group(64 * KIB, created=f"train.py:{line} log") for line in (88, 99)]
        found = self.growing(*unnamed, counts=[(1, 1), (2, 3), (3, 5), (4, 7)])
        assert [(grower.name, grower.created) for grower in found] == [
            (None, "train.py:99 log"),
            (None, "train.py:88 log"),
        ]

    def test_what_is_set_up_once_does_not_grow(self):
        assert self.growing(group(64 * KIB, "params"), counts=[(0,), (40,), (40,), (40,), (40,)]) == []

    def test_what_comes_and_goes_does_not_grow(self):
        assert self.growing(group(64 * KIB, "batch"), counts=[(1,), (2,), (3,), (1,), (2,), (5,)]) == []

    def test_little_and_brief_growth_is_none(self):
        assert self.growing(group(16, "step"), counts=[(1,), (2,), (3,), (4,)]) == []
        assert self.growing(group(64 * KIB, "start"), counts=[(1,), (2,), (3,), (4,)], every=2) == []

    def test_of_several_processes_it_is_reported_once(self):
        cache, story = group(64 * KIB, "cache"), []
        for index in (0, 1):
            agent = f"r1-{index}"
            story += [(10, agent, hello(index)), (10, agent, census(cache))]
            for number in range(1, 5):
                change = wire.ArraysChange(
                    1000 + number * 10_000, 7, number, ((0, 1 + number * (index + 1)),)
                )
                story.append((10 + number * 10, agent, change))
        (grower,) = growers(cluster_of(*story))
        assert grower.bytes_per_device == 9 * 64 * KIB
