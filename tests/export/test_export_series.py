"""Figures over time as text: all of them parse, and what nobody knows is left out."""

from __future__ import annotations

import csv
import json
import tracemalloc

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from jaxtop import wire
from jaxtop.base.names import legible
from jaxtop.export.series import COLUMNS, METRICS, SERIES
from jaxtop.model import Cluster
from tests.made import sessions as made_sessions
from tests.made.clusters import HOSTILE, cluster, everything
from tests.made.sessions import Made
from tests.stories import hello, link, pulse
from tests.support import disk_with_room_for

MADE = Made(hosts=3, devices=2, seconds=60, arrays=6)


def moments(made=MADE, step=1.0):
    """The cluster at every step, as a replay gives it."""
    now, at = Cluster(), made.start
    for frame in made_sessions.frames(made):
        while frame.at > at:
            yield at, now
            at += step
        now.feed(frame)


def table(form="csv", told=None):
    text = "".join(SERIES[form](moments() if told is None else told))
    if form == "csv":
        return list(csv.DictReader(text.splitlines(), strict=True))
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def samples(text):
    """The samples of each series, in the order of their times."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault((sample.name, tuple(sorted(sample.labels.items()))), []).append(sample)
    return found


def test_csv_and_json_have_the_same_rows():
    of_csv, of_json = table("csv"), table("json")
    assert list(of_csv[0]) == list(of_json[0]) == list(COLUMNS)
    assert len(of_csv) == len(of_json) > 60 * 3 * 20
    for one, other in zip(of_csv, of_json, strict=True):
        assert float(one.pop("value")) == other.pop("value")
        assert one == {name: "" if value is None else str(value) for name, value in other.items()}


def test_a_row_is_what_the_hosts_said_then():
    rows = table("json")
    used = [row for row in rows if row["metric"] == "device_memory_used_bytes" and row["device"] == 3]
    assert {row["process"] for row in used} == {1} and {row["name"] for row in used} == {"allocator"}
    assert used[0]["time"] == "2027-01-15T08:00:01.000Z" and used[0]["unit"] == "bytes"
    launches = [row["value"] for row in rows if row["metric"] == "launches" and row["process"] == 0]
    assert launches == sorted(launches) and launches[-1] > launches[0] > 0
    assert {row["metric"] for row in rows} > {"device_power_watts", "machine_cpu_ratio", "process_cpu_ratio"}
    assert {row["name"] for row in rows if row["metric"] == "arrays_bytes"} == {"parameters"}
    waits = [row for row in rows if row["metric"] == "collective_wait_seconds"]
    assert "jit_train_step all-reduce.3 data" in {row["name"] for row in waits}


def test_each_figure_of_the_machine_and_its_devices_has_rows():
    told = [(20.0, everything())]
    rows = table("json", told)
    seen = {row["metric"] for row in rows} | {row["metric"] for row in table("json")}
    assert seen == METRICS.keys()
    values = {row["metric"]: row["value"] for row in rows}
    assert (values["device_power_watts"], values["device_energy_joules"]) == (0.009, 7.5)
    assert sum(row["value"] for row in rows if row["metric"] == "device_slowed") == 2
    assert len(samples("".join(SERIES["openmetrics"](told)))) == len(rows)


def test_a_host_that_is_not_live_has_no_figures():
    """One is stopped for a while, another dies: then only the fact that they are not live is reported."""
    rows = table("json")
    for process, away in ((1, (20, 26)), (2, (50, 59))):
        of_it = [row for row in rows if row["process"] == process]
        dead = {row["time"] for row in of_it if row["metric"] == "host_live" and not row["value"]}
        assert len(dead) >= away[1] - away[0]
        assert {row["metric"] for row in of_it if row["time"] in dead} == {"host_live"}


def test_openmetrics_are_read_by_prometheus_with_their_times():
    found = samples("".join(SERIES["openmetrics"](moments())))
    of_json = table("json")
    assert sum(map(len, found.values())) == len(of_json)
    for told in found.values():
        times = [float(sample.timestamp) for sample in told]
        assert times == sorted(set(times)) and times[0] >= MADE.start
    labels = ("device", "0"), ("process_index", "0"), ("run", "load")
    power = found["jaxtop_device_power_watts", labels]
    assert [each.value for each in power] == [
        row["value"] for row in of_json if row["metric"] == "device_power_watts" and row["device"] == 0
    ]


def test_what_nobody_knows_has_no_row():
    said = Cluster()
    said.apply("r1-0", link("up"), 10.0)
    said.apply("r1-0", hello(0, devices=(wire.Device(0, "cpu", "cpu"),)), 10.0)
    said.apply("r1-0", pulse(at_ms=10_000), 10.0)
    for form in ("csv", "json"):
        rows = table(form, [(10.5, said)])
        assert [(row["metric"], float(row["value"])) for row in rows] == [("host_live", 1)]
    assert len(samples("".join(SERIES["openmetrics"]([(10.5, said)])))) == 1


@pytest.mark.parametrize("form", SERIES)
def test_hostile_names_and_figures_parse(form):
    odd = cluster(HOSTILE, HOSTILE, HOSTILE)
    odd.apply("r1-0", pulse(at_ms=19_500, step=wire.Step(8, 14, {HOSTILE: float("nan")})), 19.5)
    text = "".join(SERIES[form]([(20.0, odd)]))
    if form == "openmetrics":
        names = {dict(labels).get("metric") for _, labels in samples(text)}
    elif form == "csv":
        names = {row["name"] for row in csv.DictReader(text.splitlines(keepends=True), strict=True)}
    else:
        (loss,) = [each for each in table(form, [(20.0, odd)]) if each["metric"] == "step_metric"]
        assert loss["value"] is None
        names = {loss["name"]}
    lines = "\n".join(map(legible, HOSTILE.split("\n")))
    assert {"json": HOSTILE, "csv": legible(HOSTILE), "openmetrics": lines}[form] in names
    assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("form", SERIES)
def test_nothing_is_an_empty_table(form):
    text = "".join(SERIES[form]([]))
    assert text == {"csv": ",".join(COLUMNS) + "\n", "json": "", "openmetrics": "# EOF\n"}[form]


def test_a_full_disk_for_the_temporary_file_is_an_error_of_the_disk():
    *_, (_, last) = moments()
    with disk_with_room_for(0), pytest.raises(OSError, match="cannot be sorted in a temporary file"):
        table("openmetrics", ((float(i), last) for i in range(1000)))


@pytest.mark.parametrize("form", SERIES)
def test_a_long_session_is_not_kept_in_memory(form):
    """Ten times the moments take no more memory than one tenth of them."""

    def peak(count):
        every = [moment for moment, _ in zip(moments(), range(20), strict=False)]
        last = every[-1][1]
        tracemalloc.start()
        for _ in SERIES[form]((MADE.start + 20 + i / 1000, last) for i in range(count)):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(100) < peak(10) + (1 << 18)
