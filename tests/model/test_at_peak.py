"""What was alive when the peak of a device's allocator last rose, against sums by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jaxtop import wire
from jaxtop.export import to_document
from jaxtop.model import Cluster, at_peaks, keyframe
from jaxtop.model.arrays.at_peak import MAX_LISTED, UNCOUNTED, UNSEEN
from tests import builders
from tests.builders import agent_id, folded, frame
from tests.model.test_memory import census, group
from tests.staged import devices as staged_devices
from tests.stories import cluster_of, hello, link, tell
from tests.tui.test_tui_programs import seen

AGENT = "r1-0"
DEVICES = tuple(wire.Device(i, "gpu", "gpu", i) for i in range(4))
STATE, BATCH = group(100, "p['w']", "parameters"), group(30, "batch", "batch")


def pulse(at: float, *peaks: int | None, counted: float | None = None) -> tuple[float, str, wire.Message]:
    sample = wire.DeviceSample(used_bytes=(0,) * 4, peak_bytes=peaks)
    counted_ms = None if counted is None else int(counted * 1000)
    at_ms = int(at * 1000)
    return at, AGENT, wire.Pulse(at_ms, at_ms, "allocator", sample, counted_ms=counted_ms)


def counted(at: float, *groups: wire.ArrayGroup, serial: int = 7, number: int = 1, **more):
    return at, AGENT, replace(census(*groups, **more), at_ms=int(at * 1000), serial=serial, number=number)


def changed(at: float, number: int, *counts: tuple[int, int], groups=(), serial: int = 7):
    return at, AGENT, wire.ArraysChange(int(at * 1000), serial, number, counts, groups)


def watched(*story) -> Cluster:
    own = hello(0, devices=DEVICES, process_count=1)
    return cluster_of((10, AGENT, link("up")), (10, AGENT, own), *story)


def peaks(cluster: Cluster):
    return at_peaks(cluster, cluster.hosts[AGENT])


def names(peak) -> list[str | None]:
    return [each.name for each in peak.arrays]


def test_a_peak_that_was_there_before_anybody_watched_is_no_rise():
    (peak, *_) = peaks(watched(counted(9, STATE), pulse(10, *(500,) * 4), pulse(11, *(500,) * 4)))
    assert (peak.peak_bytes, peak.at_ms, peak.array_bytes, peak.why_not) == (500, None, None, UNSEEN)


def test_arrays_on_the_device_are_summed_and_the_rest_of_the_peak_is_other():
    on_the_second = group(7, "table", sharding=1)
    offloaded = group(1000, "moments", sharding=2)
    story = counted(10.5, STATE, BATCH, on_the_second, offloaded, counts=(1, 2, 3, 1))
    first, second, *_ = peaks(watched(pulse(10, *(400,) * 4), story, pulse(11, 500, 600, 400, None)))
    assert (first.peak_bytes, first.array_bytes, first.other_bytes) == (500, 160, 340)
    assert (second.array_bytes, second.other_bytes) == (181, 419)
    assert [(each.name, each.bytes, each.count) for each in second.arrays] == [
        ("p['w']", 100, 1), ("batch", 60, 2), ("table", 21, 3),
    ]  # fmt: skip
    assert (second.rest, second.rest_bytes) == (0, 0)


def test_each_device_has_its_own_last_rise():
    one = peaks(
        watched(pulse(10, 1, 1, 1, 1), counted(10.5, STATE), pulse(11, 2, 1, 1, 1), pulse(12, 2, 3, 1, 1))
    )
    assert [peak.at_ms for peak in one] == [11_000, 12_000, None, None]


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [(10.2, 11.2, ["batch"]), (10.9, 12.0, ["p['w']"]), (10.5, 11.6, ["p['w']"])],
)
def test_the_census_nearest_to_the_rise_counts(earlier, later, expected):
    gone = changed(later, 2, (0, 0), (1, 1), groups=((1, BATCH),))
    first, *_ = peaks(
        watched(pulse(10, 1), counted(earlier, STATE), pulse(11, 9), gone, changed(later + 1, 3, (1, 0)))
    )
    assert names(first) == expected
    assert first.census_ms == int((later if expected == ["batch"] else earlier) * 1000)


def test_a_census_without_a_change_is_known_by_the_time_of_the_pulse():
    first, *_ = peaks(watched(pulse(10, 1), counted(3, STATE), pulse(11, 9, counted=10.8)))
    assert first.census_ms == 10_800
    first, *_ = peaks(
        watched(pulse(10, 1), counted(3, STATE), pulse(11, 9, counted=9), pulse(12, 9, counted=11.5))
    )
    assert first.census_ms == 11_500


def test_without_a_census_the_arrays_are_unknown():
    (peak, *_) = peaks(watched(pulse(10, 1), pulse(11, 9)))
    assert (peak.at_ms, peak.array_bytes, peak.why_not) == (11_000, None, UNCOUNTED)


def test_a_peak_that_falls_belongs_to_a_new_backend():
    story = pulse(10, 1), counted(10.5, STATE), pulse(11, 9), pulse(12, 5)
    (peak, *_) = peaks(watched(*story))
    assert (peak.peak_bytes, peak.why_not) == (5, UNSEEN)


def test_an_age_counts_from_the_first_of_the_censuses_in_a_row_that_had_some():
    story = (
        pulse(10, 1),
        counted(20, STATE, BATCH),
        changed(30, 2, (1, 0)),
        changed(40, 3, (1, 5)),
        pulse(41, 9),
    )
    (peak, *_) = peaks(watched(*story))
    assert [(each.name, each.age_s, each.is_alive) for each in peak.arrays] == [
        ("batch", 0.0, True), ("p['w']", 20.0, True),
    ]  # fmt: skip


def test_arrays_that_went_and_came_again_are_no_longer_those():
    cluster = watched(pulse(10, 1), counted(20, STATE, BATCH), pulse(21, 9), changed(30, 2, (0, 0), (1, 0)))
    assert [each.is_alive for each in peaks(cluster)[0].arrays] == [False, False]
    tell(cluster, changed(40, 3, (0, 1)))
    assert [each.is_alive for each in peaks(cluster)[0].arrays] == [False, False]


def test_a_table_that_begins_anew_keeps_the_ages():
    cluster = watched(
        pulse(10, 1), counted(20, STATE, BATCH), counted(50, BATCH, STATE, serial=8), pulse(51, 9)
    )
    assert [(each.name, each.age_s, each.is_alive) for each in peaks(cluster)[0].arrays] == [
        ("p['w']", 30.0, True), ("batch", 30.0, True),
    ]  # fmt: skip


def test_of_a_process_that_exited_nothing_is_said_to_be_alive():
    cluster = watched(pulse(10, 1), counted(10.5, STATE), pulse(11, 9))
    tell(cluster, (12, AGENT, wire.Bye(12_000, "ended")))
    assert [each.is_alive for each in peaks(cluster)[0].arrays] == [None]


def test_what_is_listed_is_bounded_and_the_rest_is_counted():
    many = [group(size, f"a[{size}]") for size in range(1, 31)]
    (peak, *_) = peaks(watched(pulse(10, 1), counted(10.5, *many), pulse(11, 999)))
    assert [each.bytes for each in peak.arrays] == list(range(30, 30 - MAX_LISTED, -1))
    assert (peak.rest, peak.rest_bytes) == (18, sum(range(1, 19)))


def test_a_jump_in_time_keeps_all_of_it():
    story = (
        pulse(10, 1, 1, 1, 1),
        counted(20, STATE, BATCH, group(7, "table", sharding=1)),
        pulse(21, 9, 9, 9, 1),
        changed(30, 2, (1, 0)),
        pulse(31, 9, 10, 9, None),
    )
    cluster, again = watched(*story), Cluster()
    for each in keyframe.frames(cluster, 31):
        again.feed(each)
    assert again.hosts == cluster.hosts
    assert peaks(again) == peaks(cluster)
    later = pulse(40, 11, 10, 9, 1), changed(41, 3, (1, 1))
    tell(cluster, *later)
    tell(again, *later)
    assert peaks(again) == peaks(cluster)


def risen() -> list[wire.Frame]:
    """A staged run whose peaks rise while it is watched, beside those of a process where nothing rises."""
    frames = staged_devices.held()
    for index, more in ((0, staged_devices.GIB), (1, 0)):
        last = staged_devices.allocated(index)
        sample = replace(last.devices, peak_bytes=tuple(each + more for each in last.devices.peak_bytes))
        frames.append(frame(agent_id(index), replace(last, devices=sample), sequence=9))
    return frames


def test_the_document_has_it_with_the_arrays_once_for_devices_that_held_the_same():
    cluster = folded(risen())
    risen_host, other = to_document(cluster, builders.NOW)["hosts"][:2]
    first = risen_host["devices"][0]["memory"]
    assert first["at_peak"]["peak_bytes"] == first["peak_bytes"]
    assert first["at_peak"]["array_bytes"] + first["at_peak"]["other_bytes"] == first["peak_bytes"]
    (held,) = risen_host["at_peaks"]
    assert held["device_ids"] == [each["id"] for each in risen_host["devices"]]
    assert (
        sum(each["bytes"] for each in held["arrays"]) + held["rest_bytes"] == first["at_peak"]["array_bytes"]
    )
    assert other["devices"][0]["memory"]["at_peak"]["why_not"] == UNSEEN and other["at_peaks"] == []


def test_the_memory_screen_shows_it_for_the_device_under_the_cursor():
    shown = seen(*risen(), keys=("5", "B"))
    assert "the peak of device 0, 15.0G, last rose 0s ago: " in shown
    assert "in temporaries and fragments" in shown and "alive" in shown and "GROWING" not in shown
    assert "GROWING" in seen(*risen(), keys=("5", "B", "B"))
    shown = seen(*risen(), keys=("5", "B", "G"))
    assert UNSEEN in shown
    assert "no allocator counts its memory" in seen(*staged_devices.counted(), keys=("5", "B"))
